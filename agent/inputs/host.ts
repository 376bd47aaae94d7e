// This host as facts: links, addresses, routes, rules, sysctls, our sets, chains, table and record. In: lib clients. Out: HostFacts.
// A domain is read as a whole when something woke it; the others keep the objects they had, so that nothing derived from
// them is made again.

import type { Netlink } from "../../lib/netlink/index.ts";
import type { Nft } from "../../lib/nftables/index.ts";
import { normalizeTable } from "../../lib/nftables/pure.ts";
import type { Ipset, Iptables } from "../../lib/node-iptables/index.ts";
import type { IpSet } from "../../lib/node-iptables/pure.ts";
import { inTurns } from "../../lib/turns/index.ts";
import { announcedToken } from "../model/announced.ts";
import {
  type Domain,
  type HostFacts,
  type IntentRecord,
  type NetworkFacts,
  NO_REFERENCE,
  type ReferenceFacts,
  type Rival,
  type SetFacts,
} from "../model/facts.ts";
import type { NorthboundFacts } from "../model/northbound.ts";
import { onLink } from "../model/on-link.ts";
import { isOurChain, isOurSet, LEAK_TABLE } from "../model/owner.ts";
import { holding, shardsOf } from "../model/shards.ts";
import { readSysctls } from "./sysctls.ts";

export interface HostReaders {
  readonly netlink: Pick<Netlink, "read">;
  readonly iptables: Pick<Iptables, "save">;
  readonly ipset: Pick<Ipset, "save">;
  readonly nft: Pick<Nft, "listTable">;
  readonly readRecord: () => Promise<IntentRecord>;
  /** The link by which pods come in: looked at whether it has addresses or not. */
  readonly managementPort: string;
  /** Who else answers for addresses of this host, and which of those neighbours were told otherwise about. */
  readonly rivals: { read(): readonly Rival[]; takeDoubted(): ReadonlySet<string> };
  /** Missing where what OVN-Kubernetes has is left alone, and not looked at. */
  readonly readReference?: () => Promise<ReferenceFacts>;
  /** `anew`: also what the database does not tell of by itself. */
  readonly readNorthbound: (anew: boolean) => Promise<NorthboundFacts>;
}

export const DOMAINS: readonly Domain[] = [
  "network",
  "sysctls",
  "iptables",
  "sets",
  "nft",
  "record",
  "northbound",
  "rivals",
];

export interface HostInput {
  /** Facts now, with these domains read anew; all of them the first time. Throws ToolError, ParseError. */
  read(dirty: ReadonlySet<Domain>): Promise<HostFacts>;
  /** Begins to read what of these tools tell, for the next read() that wants it. `expected`: what keeps its objects if it is there. */
  begin(domains: readonly Domain[], expected: HostFacts): void;
  /** Something may have changed there since a reading began: it is not taken. */
  doubt(domains: Iterable<Domain>): void;
  /** Facts now, all of them read anew, for somebody who asks: what read() knows stays what it was. Throws as read() does. */
  look(): Promise<HostFacts>;
  /** Facts as they were last read or assumed. */
  known(): HostFacts | undefined;
  /** Takes over what a backend's writes have made of the facts. */
  assume(facts: HostFacts): void;
}

export function createHostInput(readers: HostReaders): HostInput {
  let facts: HostFacts | undefined;
  const listings = listingsOf(readers);
  const begun = new Map<Domain, Promise<unknown>>();
  return {
    read: async (dirty) => {
      const known = facts;
      const wants = (domain: Domain) => known === undefined || dirty.has(domain);
      const early = new Map(begun);
      begun.clear();
      const listed = <D extends keyof Listings>(domain: D) =>
        wants(domain)
          ? ((early.get(domain) as ReturnType<Listings[D]> | undefined) ?? listings[domain](known))
          : known?.[domain];
      const [network, iptables, sets, nft, reference, record, northbound] = await Promise.all([
        listed("network"),
        listed("iptables"),
        listed("sets"),
        listed("nft"),
        wants("nft") || wants("reference") ? (readers.readReference?.() ?? NO_REFERENCE) : known?.reference,
        wants("record") ? readers.readRecord() : known?.record,
        // Kept current by the server; when the record is in doubt too, everything is.
        wants("northbound") ? readers.readNorthbound(wants("record")) : known?.northbound,
      ]);
      const next = { network, iptables, sets, nft, reference, record, northbound } as Pick<
        HostFacts,
        "network" | "iptables" | "sets" | "nft" | "reference" | "record" | "northbound"
      >;
      // Links come and go with their sysctls, so both are read together.
      const sysctls =
        known === undefined || wants("sysctls") || wants("network")
          ? readSysctls(readers.managementPort, next.network, next.record, known?.sysctls)
          : known.sysctls;
      const announced =
        known === undefined
          ? announcedBefore(next.record, next.network)
          : stillAnnounced(known, next.network, readers.rivals.takeDoubted());
      // Known without asking anybody.
      const rivals = readers.rivals.read();
      facts = Object.freeze({ ...next, sysctls, announced, rivals });
      return facts;
    },
    begin: (domains, expected) => {
      for (const domain of domains) {
        if (!isListed(domain)) continue;
        const reading = listings[domain](expected);
        // Whoever takes it is told; nobody may ever.
        reading.catch(() => {});
        begun.set(domain, reading);
      }
    },
    doubt: (domains) => {
      for (const domain of domains) begun.delete(domain);
    },
    look: async () => {
      const [network, iptables, sets, nft, record, northbound] = await Promise.all([
        listings.network(),
        listings.iptables(),
        listings.sets(facts),
        listings.nft(),
        readers.readRecord(),
        readers.readNorthbound(false),
      ]);
      return Object.freeze({
        network,
        iptables,
        sets,
        nft,
        record,
        northbound,
        sysctls: readSysctls(readers.managementPort, network, record, undefined),
        rivals: readers.rivals.read(),
        // Nothing on a packet's way: what was announced is known from the rounds alone.
        reference: facts?.reference ?? NO_REFERENCE,
        announced: facts?.announced ?? new Set<string>(),
      });
    },
    known: () => facts,
    assume: (assumed) => {
      facts = assumed;
    },
  };
}

/** Domains that tools print: what takes time, and may be begun before it is asked for. */
function listingsOf({ netlink, iptables, ipset, nft }: HostReaders) {
  return {
    network: () => netlink.read(),
    iptables: async () => {
      const [four, six] = await Promise.all([iptables.save(4, isOurChain), iptables.save(6, isOurChain)]);
      return { 4: four, 6: six };
    },
    sets: async (expected?: HostFacts) => inTurns(setFacts(await ipset.save(isOurSet), expected?.sets)),
    nft: async () => normalizeTable((await nft.listTable("inet", LEAK_TABLE)) ?? ""),
  } satisfies Partial<{ [D in Domain]: (expected?: HostFacts) => Promise<HostFacts[D]> }>;
}

type Listings = ReturnType<typeof listingsOf>;

function isListed(domain: Domain): domain is keyof Listings {
  return domain === "network" || domain === "iptables" || domain === "sets" || domain === "nft";
}

/** A set that holds what we thought it holds keeps its object: nothing has to be compared with it again. In pieces. */
function* setFacts(
  sets: ReadonlyMap<string, IpSet>,
  known: ReadonlyMap<string, SetFacts> | undefined,
): Generator<undefined, ReadonlyMap<string, SetFacts>> {
  const facts = new Map<string, SetFacts>();
  for (const [name, { type, options, members }] of sets) {
    const before = known?.get(name);
    const same =
      before?.type === type && before.options === options && (yield* holding(before.members, members));
    facts.set(name, same ? before : { type, options, members: yield* shardsOf(members) });
  }
  return facts;
}

/** What an earlier process of ours announced: addresses it recorded, where they still are. */
function announcedBefore(record: IntentRecord, network: NetworkFacts): ReadonlySet<string> {
  const recorded = new Set(record.addresses.map(onLink));
  return new Set(
    [...presentTokens(network)].filter((token) => recorded.has(token.slice(0, token.lastIndexOf(" ")))),
  );
}

/**
 * A link that went down or lost the address makes the neighbours' knowledge doubtful, and so does somebody else who says that
 * he has it: it is announced again.
 */
function stillAnnounced(
  known: HostFacts,
  network: NetworkFacts,
  doubted: ReadonlySet<string>,
): ReadonlySet<string> {
  if (known.network === network && doubted.size === 0) return known.announced;
  const present = presentTokens(network);
  const still = [...known.announced].filter(
    (token) => present.has(token) && !doubted.has(token.slice(0, token.lastIndexOf(" "))),
  );
  return still.length === known.announced.size ? known.announced : new Set(still);
}

function presentTokens(network: NetworkFacts): ReadonlySet<string> {
  const links = new Map(network.links.map((link) => [link.name, link]));
  return new Set(
    network.addresses.flatMap(({ address, link: name }) => {
      const link = links.get(name);
      return link?.running ? [announcedToken(address, name, link.mac)] : [];
    }),
  );
}

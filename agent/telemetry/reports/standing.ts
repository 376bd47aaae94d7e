// How things stand with each EgressIP on this node: what it gives of it, what keeps it from that, who else claims it.
// In: a Round, and how they stood before it. Out: Standings, which events are the differences of. Pure.
import type { Round } from "../../loop.ts";
import { isSingle } from "../../model/destination.ts";
import type { Address } from "../../model/ip.ts";
import { byCodeUnit } from "../../model/names.ts";
import type { EgressIP } from "../../model/objects.ts";
import { onLink } from "../../model/on-link.ts";
import { rivalProblems } from "../../model/rivals.ts";

export interface Standing {
  readonly egressIP: EgressIP;
  /** Addresses that this node gives, or last gave and is still to give, with their links. */
  readonly given: ReadonlyMap<Address, string>;
  /** Who else has one of them; sorted. Of what was said before this process began nothing is known: undefined. */
  readonly conflicts: readonly string[] | undefined;
  /** What else keeps one of them from working; sorted. */
  readonly troubles: readonly string[] | undefined;
}

/** By `standingKey`. */
export type Standings = ReadonlyMap<string, Standing>;

export type Looked = Pick<Round, "objects" | "snapshot" | "plan" | "outcome">;

/** One that is made again under its name is another one. */
const standingKey = ({ name, uid }: EgressIP): string => `${name} ${uid}`;

/**
 * How things stood when this process began, as far as the host tells: what the record says was given, and so is what OVN gives,
 * of which nothing is recorded here. A first round says only what differs from that: after a restart nothing, where all is well.
 */
export function found({ snapshot, plan }: Pick<Looked, "snapshot" | "plan">): Standings {
  const recorded = new Map(snapshot.host.record.addresses.map(({ address, link }) => [address, link]));
  const byHost = new Set(plan.addresses.hold.map(({ address }) => address));
  for (const { address, link } of snapshot.held) if (!byHost.has(address)) recorded.set(address, link);
  const holders = holdersIn(snapshot);
  const standings = new Map<string, Standing>();
  for (const egressIP of snapshot.egressIPs) {
    const given = new Map<Address, string>();
    for (const address of egressIP.requested) {
      const link = recorded.get(address);
      // Two may ask for it: it is that one's which has it now.
      if (link !== undefined && (holders.get(address) ?? egressIP) === egressIP) given.set(address, link);
    }
    if (given.size > 0 || isHere(egressIP, snapshot.settings.node))
      standings.set(standingKey(egressIP), { egressIP, given, conflicts: undefined, troubles: undefined });
  }
  return standings;
}

/** Of those that are assigned to this node, and of those that it gave before; of one that is deleted, nothing. */
export function standingsOf(looked: Looked, before: Standings): Standings {
  const { snapshot, outcome } = looked;
  const links = new Map(snapshot.held.map(({ address, link }) => [address, link]));
  const holders = holdersIn(snapshot);
  const there = new Set(outcome.facts.network.addresses.filter(isSingle).map(onLink));
  const anywhere = new Set(outcome.facts.network.addresses.filter(isSingle).map(({ address }) => address));
  const byHost = new Set(looked.plan.addresses.hold.map(({ address }) => address));
  // What a round could not do is in its failures, and tried again: neither given nor gone before that.
  const isDone = outcome.failures.length === 0;
  const isGiven = (address: Address, link: string) =>
    isDone && (!byHost.has(address) || there.has(onLink({ address, link })));
  const textsOf = saidOf(looked);
  const standings = new Map<string, Standing>();
  for (const egressIP of snapshot.egressIPs) {
    const key = standingKey(egressIP);
    const last = before.get(key)?.given;
    const own = egressIP.assignments.filter(({ node }) => node === snapshot.settings.node);
    if (own.length === 0 && (last === undefined || last.size === 0)) continue;
    const given = new Map<Address, string>();
    for (const { address } of own) {
      const link = holders.get(address) === egressIP ? links.get(address) : undefined;
      const known = last?.get(address);
      if (link !== undefined && (known !== undefined || isGiven(address, link))) given.set(address, link);
      else if (known !== undefined) given.set(address, known);
    }
    const isGone = (address: Address) =>
      isDone && !(anywhere.has(address) && (holders.get(address) ?? egressIP) === egressIP);
    for (const [address, link] of last ?? [])
      if (!own.some((one) => one.address === address) && !isGone(address)) given.set(address, link);
    const { conflicts, troubles } = textsOf(
      egressIP.name,
      own.map(({ address }) => address),
    );
    standings.set(key, { egressIP, given, conflicts, troubles });
  }
  return standings;
}

function holdersIn({ held }: Looked["snapshot"]): ReadonlyMap<Address, EgressIP> {
  return new Map(held.map(({ address, egressIP }) => [address, egressIP]));
}

const isHere = ({ assignments }: EgressIP, own: string): boolean =>
  assignments.some(({ node }) => node === own);

/** What the snapshot says of addresses that are assigned to this node: the same texts as in `list` and `status`. */
function saidOf({ snapshot }: Looked) {
  const contested = new Set<string>();
  for (const { egressIP, address, reason, contested: isContested } of snapshot.unready)
    if (isContested) contested.add(`${egressIP.name} ${address}: ${reason}`);
  for (const { object, text } of rivalProblems(snapshot.held, snapshot.host.rivals))
    contested.add(`${object.slice("EgressIP/".length)} ${text}`);
  const texts = new Map<string, string[]>();
  for (const { object, text } of snapshot.problems) {
    if (!object.startsWith("EgressIP/")) continue;
    const name = object.slice("EgressIP/".length);
    texts.set(name, [...(texts.get(name) ?? []), text]);
  }
  return (name: string, addresses: readonly Address[]) => {
    const own = (texts.get(name) ?? []).filter((text) =>
      addresses.some((address) => text.startsWith(`${address}: `)),
    );
    const isConflict = (text: string) => contested.has(`${name} ${text}`);
    return {
      conflicts: own.filter(isConflict).sort(byCodeUnit),
      troubles: own.filter((text) => !isConflict(text)).sort(byCodeUnit),
    };
  };
}

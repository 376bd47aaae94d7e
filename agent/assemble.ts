// Puts the real parts together: lib clients into inputs, backends and the loop. The only place that knows them all.
import { writeFile } from "node:fs/promises";
import { createConntrack } from "../lib/conntrack/index.ts";
import { follow, run } from "../lib/exec/index.ts";
import { createListener, createProber, createSender } from "../lib/frames/index.ts";
import { createNetlink } from "../lib/netlink/index.ts";
import { createNft } from "../lib/nftables/index.ts";
import {
  createIpset,
  createIptables,
  detectBackend,
  type Backend as IptablesBackend,
} from "../lib/node-iptables/index.ts";
import { connectNorthbound, type Northbound } from "./assemble-northbound.ts";
import type { Config } from "./config.ts";
import { createHostInput, type HostInput } from "./inputs/host.ts";
import { createLook } from "./inputs/look.ts";
import { openRecord } from "./inputs/record.ts";
import { readReference } from "./inputs/reference.ts";
import { createRivals, type RivalParts, type Rivals } from "./inputs/rivals.ts";
import { isOurChain } from "./model/owner.ts";
import type { Seen } from "./model/seen.ts";
import { sizeOf } from "./model/shards.ts";
import { createAnnouncer } from "./sync/announcer.ts";
import type { AnyBackend } from "./sync/backend.ts";
import { createBackends } from "./sync/backends.ts";
import { createGaining, type GainingReports } from "./sync/gaining.ts";
import { retireLeftovers } from "./sync/leftovers.ts";
import type { CounterSources } from "./telemetry/counters.ts";

export interface Host {
  readonly input: HostInput;
  readonly backends: readonly AnyBackend[];
  readonly iptablesBackend: IptablesBackend;
  /** Rules of other agents stand in both iptables backends: some of them are not where their owner thinks. */
  readonly mixed: boolean;
  /** Tools whose listings carry counters. */
  readonly counting: CounterSources;
  /** The host as it is at the moment of asking. */
  look(): Promise<Seen>;
  /** Whether our sets have as many entries as we think: nobody tells when one is flushed. */
  setsIntact(): Promise<boolean>;
  /** Takes away what an earlier start left in the other iptables backend: it acts as well (known-faults BL-60). */
  retireLeftovers(): Promise<boolean>;
  /** OVN's northbound database: the connection, and how it is; undefined where none was given. */
  readonly northbound: Pick<Northbound, "session" | "told" | "followed" | "others">;
  /** Who else answers for addresses of this host: heard once something is watched. */
  readonly rivals: Rivals;
  close(): Promise<void>;
}

export interface HostOptions {
  /** False: nothing will be written, so nothing is locked either. */
  readonly writes: boolean;
  readonly announceFailed?: (error: unknown) => void;
  /** What came of asking whether an address that is gained is still answered for by somebody else. */
  readonly gaining?: GainingReports;
  readonly rivals?: Pick<RivalParts, "onChange" | "onProbeFailed" | "onListenerEnded">;
  /** What OVN-Kubernetes has in the kernel is looked at, as with --adopt. */
  readonly looksAtReference?: boolean;
  /** Something of the northbound database is another, or its connection is. */
  readonly northboundChanged?: () => void;
}

/** Connects to this host's tools. Throws ToolError when they are not there. */
export async function openHost(
  config: Pick<Config, "stateDirectory" | "iptablesBackend" | "northbound" | "settings">,
  options: HostOptions,
): Promise<Host> {
  const detected =
    config.iptablesBackend === "auto"
      ? await detectBackend(run, (chain) => isOurChain("", chain))
      : { backend: config.iptablesBackend, mixed: false };
  const iptables = createIptables(run, detected.backend);
  const ipset = createIpset(run);
  const netlink = createNetlink(run);
  const nft = createNft(run);
  const record = openRecord(config.stateDirectory);
  const northbound = connectNorthbound(config, {
    writes: options.writes,
    onChange: options.northboundChanged ?? (() => {}),
  });
  const announcer = createAnnouncer(
    createSender(run),
    options.announceFailed ?? (() => {}),
    ({ address, link }) =>
      (input.known()?.record.addresses ?? []).some(
        (entry) => entry.address === address && entry.link === link,
      ),
  );
  const prober = createProber(run);
  const unheard = { onChange: () => {}, onProbeFailed: () => {}, onListenerEnded: () => {} };
  const rivals = createRivals({
    ...(options.rivals ?? unheard),
    listen: (on) => createListener(follow, on),
    prober,
    now: () => performance.now(),
  });
  const input = createHostInput({
    netlink,
    iptables,
    ipset,
    nft,
    ...(options.looksAtReference || config.settings.adopt ? { readReference: () => readReference(nft) } : {}),
    readRecord: record.read,
    managementPort: config.settings.managementPort,
    readNorthbound: northbound.read,
    rivals,
  });
  const backends = createBackends({
    iptables,
    ipset,
    netlink,
    nft,
    conntrack: createConntrack(run),
    announcer,
    gaining: createGaining(prober, options.gaining ?? { answered: () => {}, failed: () => {} }),
    northbound: northbound.tools,
    writeRecord: record.write,
    writeSysctl: (path, value) => writeFile(`/proc/sys/${path}`, `${value}\n`),
  });
  return {
    input,
    backends,
    iptablesBackend: detected.backend,
    mixed: detected.mixed,
    counting: { iptables, nft },
    look: createLook({
      look: input.look,
      neighbours: netlink.neighbours,
      hooks: nft.listHooks,
      iptablesBackend: detected.backend,
    }),
    setsIntact: async () => {
      const sizes = await ipset.sizes();
      return [...(input.known()?.sets ?? [])].every(
        ([name, { members }]) => sizes.get(name) === sizeOf(members),
      );
    },
    retireLeftovers: () =>
      retireLeftovers(createIptables(run, detected.backend === "nft" ? "legacy" : "nft")),
    northbound,
    rivals,
    close: async () => {
      announcer.close();
      rivals.close();
      await northbound.close();
    },
  };
}

// What is on this host, read from it and nothing else: the raw material for the Snapshot and for every diff. Pure types.
// The same shape is printed by `egressip-agent facts` and read by `plan --host-facts`.

import type { Link, LinkAddress, Route, Rule } from "../../lib/netlink/pure.ts";
import type { Ruleset } from "../../lib/node-iptables/pure.ts";
import type { Address, Family } from "./ip.ts";
import type { NorthboundFacts } from "./northbound.ts";
import type { Shards } from "./shards.ts";

/** One ipset of ours: header and members. Members are sharded since there is one per pod. */
export interface SetFacts {
  readonly type: string;
  readonly options: string;
  /** Member to extension text, `skbmark 0x10000000/0x7ff00000` or "". */
  readonly members: Shards<string>;
}

/** What we noted before doing it, from the state file: without it nobody could tell our addresses from the node's. */
export interface IntentRecord {
  readonly addresses: readonly { readonly link: string; readonly address: string }[];
  /** Sysctl path to the value it had before we set ours. */
  readonly sysctls: Readonly<Record<string, string>>;
  /** What the annotation k8s.ovn.org/secondary-host-egress-ips of this node has to say, sorted; missing for nothing. */
  readonly secondaryHostEgressIPs?: readonly string[];
  /** What the Node object says there besides, and we took out: not somebody else's for that; missing for nothing. */
  readonly withdrawnEgressIPs?: readonly string[];
}

export interface NetworkFacts {
  readonly links: readonly Link[];
  readonly addresses: readonly LinkAddress[];
  readonly routes: readonly Route[];
  readonly rules: readonly Rule[];
}

/** Somebody else who answers for an address that this host has on a link. */
export interface Rival {
  readonly address: string;
  readonly link: string;
  readonly mac: string;
}

/** What leaves by this link leaves with this address. */
export interface Translation {
  readonly family: Family;
  readonly link: string;
  readonly address: Address;
}

/** What OVN-Kubernetes has for egress IPs in its nft table. Read only by who adopts it or hands over to it. */
export interface ReferenceFacts {
  readonly chains: readonly string[];
  readonly maps: readonly string[];
  /** What its maps give, each once and sorted, whatever the number of pods. */
  readonly translations: readonly Translation[];
}

export const NO_REFERENCE: ReferenceFacts = Object.freeze({
  chains: Object.freeze([]),
  maps: Object.freeze([]),
  translations: Object.freeze([]),
});

/** Facts by domain: a domain is read again as a whole when something woke it. */
export interface HostFacts {
  readonly network: NetworkFacts;
  /** Path below /proc/sys with slashes, `net/ipv4/conf/all/rp_filter`, to its trimmed content. */
  readonly sysctls: Readonly<Record<string, string>>;
  readonly iptables: { readonly 4: Ruleset; readonly 6: Ruleset };
  readonly sets: ReadonlyMap<string, SetFacts>;
  /** Our nft table as `nft list table` prints it, figures removed; "" when absent. */
  readonly nft: string;
  readonly record: IntentRecord;
  /** Read with `nft`, where somebody wants to know. */
  readonly reference: ReferenceFacts;
  /** OVN's northbound database; another object when something in it that concerns us is. */
  readonly northbound: NorthboundFacts;
  /** Heard on the wire, while the agent runs; another object when something in it is another. */
  readonly rivals: readonly Rival[];
  /** Links that went down, came up or changed MAC since we last announced on them, and addresses announced on them. */
  readonly announced: ReadonlySet<string>;
}

export type Domain = keyof HostFacts;

export const NO_RIVALS: readonly Rival[] = Object.freeze([]);

export const NOTHING_RECORDED: IntentRecord = Object.freeze({
  addresses: Object.freeze([]),
  sysctls: Object.freeze({}),
});

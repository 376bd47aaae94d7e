// Everything the planner may know, joined and frozen. Pure types.
import type { AddressIndex } from "./address-index.ts";
import type { HostFacts } from "./facts.ts";
import type { Address, Family } from "./ip.ts";
import type { MarkLayout } from "./marks.ts";
import type { EgressIP, Namespace, Node, Pod, Problem } from "./objects.ts";
import type { Settings } from "./settings.ts";
import type { Shards } from "./shards.ts";
import type { KeptEntries } from "./unresolved.ts";

/** An egress IP that this node is to give. */
export interface Held {
  readonly egressIP: EgressIP;
  readonly address: Address;
  readonly family: Family;
  readonly primary: boolean;
  readonly link: string;
  /** The link's routing table, 1000 + ifindex. */
  readonly table: string;
  readonly mark: number;
  /** False while the link is down: nothing can leave, and an address that the kernel took away is not put back yet. */
  readonly linkUp: boolean;
}

/** An egress IP that is assigned to this node and cannot be given, and why. */
export interface Unready {
  readonly egressIP: EgressIP;
  readonly address: Address;
  readonly reason: string;
  /** The reason is that somebody else has it: another EgressIP, or a node. */
  readonly contested: boolean;
}

export interface Snapshot {
  readonly settings: Settings;
  readonly layout: MarkLayout;
  readonly host: HostFacts;
  /** By family, then address order. */
  readonly held: readonly Held[];
  readonly unready: readonly Unready[];
  /** Selected pods that concern this node, by address. */
  readonly served: AddressIndex;
  /** Entries to leave as they are, since an address is not known for the moment. */
  readonly kept: KeptEntries;
  /** Destinations that keep the pod's own source, as hash:net members, sorted. */
  readonly exempt: { readonly 4: readonly string[]; readonly 6: readonly string[] };
  /** Addresses that any EgressIP asks for and this node does not hold: never ours to answer for. */
  readonly notHeld: ReadonlySet<Address>;
  readonly egressIPs: readonly EgressIP[];
  readonly nodes: ReadonlyMap<string, Node>;
  readonly namespaces: ReadonlyMap<string, Namespace>;
  readonly pods: Shards<Pod>;
  readonly problems: readonly Problem[];
}

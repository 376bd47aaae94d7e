// What OVN's northbound database says, as far as egress IPs go: routers and addresses to plan with, and the rows that are there.
// Table and column names are the schema's (ovn-nb(5)). Pure types, and the empty value.
import { type Address, type Cidr, type Family, parseCidr } from "./ip.ts";
import { NAME_KEY, NODE_KEY } from "./northbound-ids.ts";
import { emptyShards, type Shards } from "./shards.ts";

export type RowTable =
  | "Logical_Router_Policy"
  | "NAT"
  | "QoS"
  | "ACL"
  | "Logical_Router_Static_Route"
  | "Address_Set";

/** A column as rows here need it: sets of text sorted, maps as records. */
export type ColumnValue = number | string | readonly string[] | Readonly<Record<string, string>>;

/** One row as it should be or is, but for what nobody here looks at. */
export interface Row {
  readonly table: RowTable;
  /** Names of the routers or switches that refer to it, sorted; none for a row of a root table. */
  readonly on: readonly string[];
  readonly columns: Readonly<Record<string, ColumnValue>>;
  /** external_ids by which it is told whose it is and what for. */
  readonly ids: Readonly<Record<string, string>>;
}

export interface FoundRow extends Row {
  readonly uuid: string;
}

/** A row as a packet meets it. */
export type RouterRow = Pick<Row, "on" | "columns">;

/** Rows that are somebody else's, read when they are asked about: policies of routers that a pod passes, NAT rows that mean its address. */
export interface OthersRows {
  readonly policies: readonly RouterRow[];
  readonly nats: readonly RouterRow[];
  /** Members of sets that our rows name, and that are another feature's. */
  readonly sets: ReadonlyMap<string, readonly Address[]>;
}

/** At most one address per family. */
export type PerFamily<T> = { readonly [F in Family]?: T };

/** The parts of the logical network that next hops and parents are taken from. */
export interface Topology {
  /** Logical routers and switches by name, to their row's uuid. */
  readonly routers: ReadonlyMap<string, string>;
  readonly switches: ReadonlyMap<string, string>;
  /** The cluster router's port to other zones, `rtots-NODE`; "" where there is none. */
  readonly transitPort: string;
  /** Join-side addresses of `GR_NODE` by node: networks of its port `rtoj-GR_NODE`. */
  readonly gateways: ReadonlyMap<string, PerFamily<Address>>;
  /** Outside addresses of `GR_NODE` by node: networks of its port `rtoe-GR_NODE`. */
  readonly outside: ReadonlyMap<string, PerFamily<Address>>;
  /** Addresses of the own node's management port `k8s-NODE`. */
  readonly management: PerFamily<Address>;
  /** The own node's pods' networks, from its port `rtos-NODE`. */
  readonly podNetworks: readonly string[];
  /** Join networks, from the port `rtoj-ovn_cluster_router`. */
  readonly join: PerFamily<string>;
  /** Whether QoS rows can set a packet mark (northbound schema 7.1 and later): without it replies are not told from the rest. */
  readonly marksReplies: boolean;
  /** `src-ip` routes that are not ours: prefix to next hop. */
  readonly sourceRoutes: ReadonlyMap<string, string>;
}

/** Members of a set of addresses, by the family of the set. */
export type Members = { readonly [F in Family]: Shards<true> };

const NO_MEMBERS: Members = Object.freeze({ 4: emptyShards<true>(), 6: emptyShards<true>() });

export interface NorthboundFacts {
  /**
   *     off      no database was given
   *     current  as the database is now, and this node's lock is ours
   *     waiting  as the database is now, and another agent has this node's lock
   *     stale    not connected, or not read yet: what is here is what was last known
   */
  readonly state: "off" | "current" | "waiting" | "stale";
  /** Whether this agent holds the lock of its zone: it writes the rows that all nodes of the zone share. */
  readonly leads: boolean;
  readonly topology: Topology;
  /** Rows of single pod addresses that are ours, or the reference's where we adopt, by that address; "" where there is none. */
  readonly pods: Shards<readonly FoundRow[]>;
  /** All other rows of egress IPs that are ours, or the reference's where we adopt. */
  readonly shared: readonly FoundRow[];
  /** Members of the sets of served pods that are ours, whatever is in them. */
  readonly served: Members;
  /** The same of the sets of pods that arrive from other zones. */
  readonly arriving: Members;
  /** Nodes whose agents wrote rows here, and how many; "" for rows that do not say. */
  readonly writers: ReadonlyMap<string, number>;
  /** Rows for egress IPs that others wrote and that we leave alone: how many of each owner's; "" for rows that do not say. */
  readonly foreign: ReadonlyMap<string, number>;
  /** Families of which there is a set of nodes' addresses that is called as the reference's is, and not ours. */
  readonly theirNodeIps: readonly Family[];
  /**
   * SNAT rows on own gateway router that give single pod addresses the node's address: pod address to the rows' uuids; none of them
   * where somebody else's rows alone say what that address leaves with.
   */
  readonly nodeSnats: Shards<readonly string[]>;
}

/** No database was given: nothing of it is looked at or written. */
export const NORTHBOUND_OFF: NorthboundFacts = Object.freeze({
  state: "off",
  leads: false,
  topology: Object.freeze({
    routers: new Map(),
    switches: new Map(),
    transitPort: "",
    gateways: new Map(),
    outside: new Map(),
    management: Object.freeze({}),
    podNetworks: Object.freeze([]),
    join: Object.freeze({}),
    marksReplies: true,
    sourceRoutes: new Map(),
  }),
  pods: emptyShards<readonly FoundRow[]>(),
  shared: Object.freeze([]),
  served: NO_MEMBERS,
  arriving: NO_MEMBERS,
  writers: new Map(),
  foreign: new Map(),
  theirNodeIps: Object.freeze([]),
  nodeSnats: emptyShards<readonly string[]>(),
});

/** Networks of a router's port, as they are written there. */
export function cidrsOf(networks: readonly string[]): readonly Cidr[] {
  return networks.map(parseCidr).filter((cidr) => cidr !== undefined);
}

export const CLUSTER_ROUTER = "ovn_cluster_router";

export function gatewayRouter(node: string): string {
  return `GR_${node}`;
}

/** The switch between a gateway router and its node's bridge. */
export function outsideSwitch(node: string): string {
  return `ext_${node}`;
}

/** The router that a policy of ours belongs under, by its name: all else may be wrong. Those of a gateway router end with its node. */
export function routerOf(ids: Row["ids"]): string {
  const node = ids[NODE_KEY];
  return node !== undefined && ids[NAME_KEY]?.endsWith(`_${node}`) ? gatewayRouter(node) : CLUSTER_ROUTER;
}

/** The switch that an ACL of ours belongs under. */
export function switchOf(ids: Row["ids"]): string {
  return outsideSwitch(ids[NODE_KEY] ?? "");
}

// The northbound facts as plain JSON and back, part of what `facts` prints and `plan --host-facts` reads. Pure.
import type { Family } from "../model/ip.ts";
import type { FoundRow, Members, NorthboundFacts, Topology } from "../model/northbound.ts";
import { entriesOf, type Shards, shardsFrom } from "../model/shards.ts";

type Entries<V> = Readonly<Record<string, V>>;

export interface WrittenNorthbound {
  readonly state: NorthboundFacts["state"];
  readonly leads: boolean;
  readonly topology: {
    readonly [K in keyof Topology]: Topology[K] extends ReadonlyMap<string, infer V>
      ? Entries<V>
      : Topology[K];
  };
  readonly pods: Entries<readonly FoundRow[]>;
  readonly shared: readonly FoundRow[];
  readonly served: WrittenMembers;
  readonly arriving: WrittenMembers;
  readonly writers: Entries<number>;
  readonly foreign: Entries<number>;
  readonly theirNodeIps: readonly Family[];
  readonly nodeSnats: Entries<readonly string[]>;
}

type WrittenMembers = { readonly [F in Family]: readonly string[] };

export function printNorthbound(facts: NorthboundFacts): WrittenNorthbound {
  const { state, leads, topology, shared, theirNodeIps } = facts;
  return {
    state,
    leads,
    topology: {
      routers: Object.fromEntries(topology.routers),
      switches: Object.fromEntries(topology.switches),
      transitPort: topology.transitPort,
      gateways: Object.fromEntries(topology.gateways),
      outside: Object.fromEntries(topology.outside),
      management: topology.management,
      podNetworks: topology.podNetworks,
      join: topology.join,
      marksReplies: topology.marksReplies,
      sourceRoutes: Object.fromEntries(topology.sourceRoutes),
    },
    pods: sortedEntries(facts.pods),
    shared,
    served: printMembers(facts.served),
    arriving: printMembers(facts.arriving),
    writers: Object.fromEntries(facts.writers),
    foreign: Object.fromEntries(facts.foreign),
    theirNodeIps,
    nodeSnats: sortedEntries(facts.nodeSnats),
  };
}

export function parseNorthbound(written: WrittenNorthbound): NorthboundFacts {
  const { state, leads, topology, shared, theirNodeIps } = written;
  return Object.freeze({
    state,
    leads,
    topology: {
      routers: new Map(Object.entries(topology.routers)),
      switches: new Map(Object.entries(topology.switches)),
      transitPort: topology.transitPort,
      gateways: new Map(Object.entries(topology.gateways)),
      outside: new Map(Object.entries(topology.outside)),
      management: topology.management,
      podNetworks: topology.podNetworks,
      join: topology.join,
      marksReplies: topology.marksReplies,
      sourceRoutes: new Map(Object.entries(topology.sourceRoutes)),
    },
    pods: shardsFrom(Object.entries(written.pods)),
    shared,
    served: parseMembers(written.served),
    arriving: parseMembers(written.arriving),
    writers: new Map(Object.entries(written.writers)),
    foreign: new Map(Object.entries(written.foreign)),
    theirNodeIps,
    nodeSnats: shardsFrom(Object.entries(written.nodeSnats)),
  });
}

function printMembers(members: Members): WrittenMembers {
  return { 4: Object.keys(sortedEntries(members[4])), 6: Object.keys(sortedEntries(members[6])) };
}

function parseMembers(written: WrittenMembers): Members {
  const of = (addresses: readonly string[]) =>
    shardsFrom(addresses.map((address) => [address, true as const]));
  return { 4: of(written[4]), 6: of(written[6]) };
}

function sortedEntries<V>(shards: Shards<V>): Entries<V> {
  return Object.fromEntries([...entriesOf(shards)].sort(([a], [b]) => (a < b ? -1 : 1)));
}

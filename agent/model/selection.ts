// Which egress IP object gives a pod its address: a total order, the same on every node and after every restart. Pure.
import { familyOf } from "./ip.ts";
import { lastOf, perObject } from "./memo.ts";
import type { EgressIP, Namespace, Node, Pod } from "./objects.ts";
import { matches } from "./select.ts";
import { fromShards, type Shard, type Shards, shardwise } from "./shards.ts";

/** A pod that at least one EgressIP selects. */
export interface SelectedPod {
  readonly pod: Pod;
  /** First in order: the one that counts. */
  readonly by: EgressIP;
  /** The others that select it too, in order: they lose. */
  readonly others: readonly EgressIP[];
}

const NO_OTHERS: readonly EgressIP[] = Object.freeze([]);

/** Older first; then UID, then name. Nothing a node sees locally takes part. */
export function inOrder(a: EgressIP, b: EgressIP): number {
  return compare(a.created, b.created) || compare(a.uid, b.uid) || compare(a.name, b.name);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

interface Reusable {
  readonly shard: Shard<Pod>;
  readonly result: Shard<SelectedPod>;
}

/** Selects for one node; made anew when an EgressIP or a namespace changes, then it remembers per shard of pods. */
export type Select = (pods: Shards<Pod>) => Shards<SelectedPod>;

export function selectFor(
  node: string,
  egressIPs: readonly EgressIP[],
  namespaces: ReadonlyMap<string, Namespace>,
  nodes: ReadonlyMap<string, Node>,
): Select {
  const ofNodes = addressesOfNodes(nodes);
  const ordered = [...egressIPs].sort(inOrder);
  const byNamespace = new Map<string, readonly EgressIP[]>();
  for (const namespace of namespaces.values()) {
    const selecting = ordered.filter((egressIP) => matches(egressIP.namespaceSelector, namespace.labels));
    if (selecting.length > 0) byNamespace.set(namespace.name, selecting);
  }
  const select = (pod: Pod): SelectedPod | undefined => {
    const candidates = byNamespace.get(pod.namespace);
    if (candidates === undefined || pod.hostNetwork || pod.finished || pod.addresses.length === 0)
      return undefined;
    // Whatever its spec says: with a node's address its entry would move that node's own traffic (known-faults BL-17).
    if (pod.addresses.some((address) => ofNodes.has(address))) return undefined;
    const by = candidates.find((egressIP) => matches(egressIP.podSelector, pod.labels));
    if (by === undefined) return undefined;
    // A pod elsewhere matters here only when its packets are sent here.
    if (pod.node !== node && !by.assignments.some((assignment) => assignment.node === node)) return undefined;
    const others =
      candidates.length === 1
        ? NO_OTHERS
        : candidates.filter((egressIP) => egressIP !== by && matches(egressIP.podSelector, pod.labels));
    return { pod, by, others };
  };
  const perShard = shardwise((shard: Shard<Pod>, before?: Reusable): Shard<SelectedPod> => {
    const out = new Map<string, SelectedPod>();
    for (const [key, pod] of shard) {
      // One more in a shard must not make the others new, for each has addresses in shards of their own.
      const selected = before?.shard.get(key) === pod ? before.result.get(key) : select(pod);
      if (selected !== undefined) out.set(key, selected);
    }
    return out;
  });
  const joined = lastOf(fromShards<SelectedPod>);
  return (pods) => joined(perShard(pods));
}

function addressesOfNodes(nodes: ReadonlyMap<string, Node>): ReadonlySet<string> {
  return new Set(
    [...nodes.values()].flatMap(({ internalAddresses, hostCidrs }) => [
      ...internalAddresses,
      ...hostCidrs.map(({ address }) => address),
    ]),
  );
}

/** The addresses of a selected pod for which its EgressIP speaks: only the families it asks for. */
export function addressesOf({ pod, by }: SelectedPod): readonly string[] {
  const families = familiesOf(by);
  return pod.addresses.every((address) => families.has(familyOf(address)))
    ? pod.addresses
    : pod.addresses.filter((address) => families.has(familyOf(address)));
}

const familiesOf = perObject(
  (egressIP: EgressIP): ReadonlySet<4 | 6> => new Set(egressIP.requested.map(familyOf)),
);

// This node's part of OVN's northbound database: rows for its pods, for the egress IPs it holds, and for its zone. Pure.
// What decides is which of the two ways an egress IP leaves by: its node's gateway router, or its node's kernel.
import type { Claims } from "../../model/address-index.ts";
import type { Address } from "../../model/ip.ts";
import { lastOf } from "../../model/memo.ts";
import { type FoundRow, NORTHBOUND_OFF, type Topology } from "../../model/northbound.ts";
import { NAME_KEY, podRowName } from "../../model/northbound-ids.ts";
import type { EgressIP, Namespace, Node, Pod } from "../../model/objects.ts";
import { createPodAddresses, type PodAddresses } from "../../model/pod-addresses.ts";
import { ownPodNetworks } from "../../model/pod-networks.ts";
import { matches } from "../../model/select.ts";
import type { SelectedPod } from "../../model/selection.ts";
import type { Settings } from "../../model/settings.ts";
import { entriesOf, fromShards, pairwise, type Shard, type Shards, shardwise } from "../../model/shards.ts";
import type { Held, Snapshot } from "../../model/snapshot.ts";
import { isUnresolved } from "../../model/unresolved.ts";
import { isAlone } from "../../model/zone.ts";
import { nothing, type PlannedNorthbound, type Unresolved } from "../plan.ts";
import { isGuarded } from "./northbound/arrival-guard.ts";
import { hasGatewayGuard } from "./northbound/gateway-guard.ts";
import { throughGateway } from "./northbound/next-hops.ts";
import { type PodRows, podRowsFor } from "./northbound/pod-rows.ts";
import { sharedRows } from "./northbound/shared-rows.ts";

export function createNorthbound(): (snapshot: Snapshot) => PlannedNorthbound {
  const podRowsPerShard = lastOf((...of: Parameters<typeof podRowsFor>) =>
    pairwise<Claims, readonly FoundRow[], Shard<PodRows>>(NO_POD_ROWS, podRowsFor(...of)),
  );
  const podRows = lastOf((shards: readonly Shard<PodRows>[]) => fromShards(shards));
  const arrivingPerShard = shardwise(arrivingPods);
  const arriving = lastOf((shards: readonly Shard<readonly string[]>[]) => fromShards(shards));
  const shared = lastOf(sharedRows);
  const servedOf = lastOf((settings: Settings) =>
    createPodAddresses(({ pod, by }: SelectedPod) =>
      // Both families, also where the EgressIP has one: what exempts them asks for the family itself.
      pod.node === settings.node && (by.assignments.length > 0 || settings.whenUnready === "drop")
        ? pod.addresses
        : [],
    ),
  );
  const localOf = lastOf((settings: Settings) =>
    createPodAddresses((pod: Pod) =>
      pod.node === settings.node && !pod.hostNetwork && !pod.finished ? pod.addresses : [],
    ),
  );
  const unresolvedPerShard = shardwise((shard: Shard<Pod>) => [...shard.values()].filter(isUnresolved));
  const unresolved = lastOf(unresolvedRows);
  const zoneOf = lastOf(zonePart);
  const snatPerPod = lastOf((pods: PodAddresses, topology: Topology, node: string) => ({
    pods,
    to: topology.outside.get(node) ?? {},
  }));
  const givenBy = lastOf(
    (settings: Settings, held: readonly Held[]): ReadonlySet<Address> =>
      new Set(held.filter(({ primary }) => throughGateway(settings, primary)).map(({ address }) => address)),
  );
  const joined = lastOf(
    (
      zone: ReturnType<typeof zonePart>,
      pods: Shards<PodRows>,
      sharedByZone: PlannedNorthbound["shared"],
      served: PodAddresses,
      arrivals: PodAddresses,
      kernelHop: PlannedNorthbound["kernelHop"],
      waiting: Unresolved,
      snats: PlannedNorthbound["snatPerPod"],
      gives: PlannedNorthbound["gives"],
    ): PlannedNorthbound =>
      Object.freeze({
        ...zone,
        pods,
        shared: sharedByZone,
        served,
        arriving: arrivals,
        kernelHop,
        unresolved: waiting,
        snatPerPod: snats,
        gives,
      }),
  );
  return ({ settings, host, held, nodes, namespaces, egressIPs, pods, served }) => {
    const { state, topology } = host.northbound;
    if (state === "off" || !nodes.has(settings.node)) return nothing.northbound;
    // Rows of other nodes matter where there are any: else what one's own writing changes would be worked out again.
    const found = isAlone(settings.node, nodes, topology) ? NORTHBOUND_OFF.pods : host.northbound.pods;
    const rows = podRows(podRowsPerShard(settings, held, nodes, topology)(served.claims, found));
    return joined(
      zoneOf(settings, nodes, topology),
      rows,
      shared(settings, nodes, topology),
      servedOf(settings)(served.selected),
      isGuarded(settings, nodes, topology) || hasGatewayGuard(settings, nodes, topology)
        ? arriving(arrivingPerShard(rows))
        : NO_ARRIVALS,
      topology.management,
      unresolved(unresolvedPerShard(pods), egressIPs, namespaces, pods),
      settings.snatPerPod ? snatPerPod(localOf(settings)(pods), topology, settings.node) : undefined,
      isAlone(settings.node, nodes, topology) ? undefined : givenBy(settings, held),
    );
  };
}

const NO_POD_ROWS: Shard<PodRows> = new Map();

const NO_ARRIVALS: PodAddresses = nothing.northbound.arriving;

/** Of whom this node has a NAT row alone is another node's: a pod that this agent steers has a policy. */
function arrivingPods(rows: Shard<PodRows>): Shard<readonly string[]> {
  const arrivals = new Map<string, readonly string[]>();
  for (const [address, own] of rows)
    if (own.every(({ table }) => table === "NAT"))
      arrivals.set(
        address,
        own.map(({ ids }) => ids[NAME_KEY] ?? ""),
      );
  return arrivals;
}

/** Rows of running pods of unknown address that an EgressIP still selects, by name: what an address is kept for. */
function unresolvedRows(
  perShard: readonly (readonly Pod[])[],
  egressIPs: readonly EgressIP[],
  namespaces: ReadonlyMap<string, Namespace>,
  pods: Shards<Pod>,
): Unresolved {
  const waiting = perShard.flat();
  if (waiting.length === 0) return nothing.northbound.unresolved;
  const names = waiting.flatMap((pod) => {
    const labels = namespaces.get(pod.namespace)?.labels;
    const by = egressIPs.find(
      ({ namespaceSelector, podSelector }) =>
        labels !== undefined && matches(namespaceSelector, labels) && matches(podSelector, pod.labels),
    );
    return by === undefined ? [] : [podRowName(by.name, pod)];
  });
  const alive = [...entriesOf(pods)].filter(([, { finished }]) => !finished);
  return { names: new Set(names), taken: new Set(alive.flatMap(([, { addresses }]) => addresses)) };
}

function zonePart(
  { node, northboundOwner: owner }: Settings,
  nodes: ReadonlyMap<string, Node>,
  topology: Topology,
): Pick<PlannedNorthbound, "node" | "owner" | "podNetworks" | "nodes"> {
  const own = nodes.get(node);
  // A node that went over to another zone has left this one.
  const inZone = [...nodes.values()].filter(({ zone }) => zone === own?.zone);
  return {
    node,
    owner,
    nodes: new Map(inZone.map(({ name, podSubnets }) => [name, podSubnets])),
    podNetworks: isAlone(node, nodes, topology) ? undefined : ownPodNetworks(node, nodes, topology),
  };
}

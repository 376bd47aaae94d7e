// This node's part of OVN's northbound database: rows for its pods, for the egress IPs it holds, and for its zone. Pure.
// What decides is which of the two ways an egress IP leaves by: its node's gateway router, or its node's kernel.
import { lastOf } from "../../model/memo.ts";
import type { Topology } from "../../model/northbound.ts";
import type { Node, Pod } from "../../model/objects.ts";
import { createPodAddresses, type PodAddresses } from "../../model/pod-addresses.ts";
import type { SelectedPod } from "../../model/selection.ts";
import type { Settings } from "../../model/settings.ts";
import { fromShards, type Shard, type Shards, shardwise } from "../../model/shards.ts";
import type { Snapshot } from "../../model/snapshot.ts";
import { isUnresolved } from "../../model/unresolved.ts";
import { nothing, type PlannedNorthbound } from "../plan.ts";
import { type PodRows, podRowsFor } from "./northbound/pod-rows.ts";
import { sharedRows } from "./northbound/shared-rows.ts";

export function createNorthbound(): (snapshot: Snapshot) => PlannedNorthbound {
  const podRowsPerShard = lastOf((...of: Parameters<typeof podRowsFor>) => shardwise(podRowsFor(...of)));
  const podRows = lastOf((shards: readonly Shard<PodRows>[]) => fromShards(shards));
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
  const unresolved = lastOf(
    (pods: readonly (readonly Pod[])[]) =>
      new Set(pods.flat().map(({ namespace, name }) => `${namespace}/${name}`)),
  );
  const zoneOf = lastOf(zonePart);
  const snatPerPod = lastOf((pods: PodAddresses, topology: Topology, node: string) => ({
    pods,
    to: topology.outside.get(node) ?? {},
  }));
  const joined = lastOf(
    (
      zone: ReturnType<typeof zonePart>,
      pods: Shards<PodRows>,
      sharedByZone: PlannedNorthbound["shared"],
      served: PodAddresses,
      kernelHop: PlannedNorthbound["kernelHop"],
      waiting: ReadonlySet<string>,
      snats: PlannedNorthbound["snatPerPod"],
    ): PlannedNorthbound =>
      Object.freeze({
        ...zone,
        pods,
        shared: sharedByZone,
        served,
        kernelHop,
        unresolved: waiting,
        snatPerPod: snats,
      }),
  );
  return ({ settings, host, held, nodes, pods, served }) => {
    const { state, topology } = host.northbound;
    if (state === "off" || !nodes.has(settings.node)) return nothing.northbound;
    return joined(
      zoneOf(settings, nodes),
      podRows(podRowsPerShard(settings, held, nodes, topology)(served.claims)),
      shared(settings, nodes, topology),
      servedOf(settings)(served.selected),
      topology.management,
      unresolved(unresolvedPerShard(pods)),
      settings.snatPerPod ? snatPerPod(localOf(settings)(pods), topology, settings.node) : undefined,
    );
  };
}

function zonePart(
  { node, northboundOwner: owner }: Settings,
  nodes: ReadonlyMap<string, Node>,
): Pick<PlannedNorthbound, "node" | "owner" | "podNetworks" | "nodes"> {
  const own = nodes.get(node);
  const inZone = [...nodes.values()].filter(({ zone }) => zone === own?.zone);
  return {
    node,
    owner,
    nodes: new Set(nodes.keys()),
    podNetworks: inZone.length > 1 ? (own?.podSubnets ?? []) : [],
  };
}

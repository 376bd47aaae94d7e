// What arrives from pods of other zones and that nobody here gives an egress IP is dropped: it was steered here a moment before this
// node's rows were there, or a moment after they went, and would leave with this node's address. Not in the reference. Pure.
import { type Family, formatPrefix } from "../../../model/ip.ts";
import { CLUSTER_ROUTER, type Row, type Topology } from "../../../model/northbound.ts";
import { ARRIVING_PODS, podSet, policyIds } from "../../../model/northbound-ids.ts";
import { GLOBAL_ZONE, type Node } from "../../../model/objects.ts";
import type { Settings } from "../../../model/settings.ts";
import { isAlone } from "../../../model/zone.ts";

/** Below everything that steers pods (102 exempt, 101 EgressService, 100 egress IPs), above what nobody claims. */
const GUARD_PRIORITY = 99;

/**
 * Where a zone is one node, everything from other zones comes in by one port, and nobody else's pods. With one database for all
 * nodes there is no such port: see gateway-guard.ts.
 */
export function isGuarded(
  { node, whenUnready }: Settings,
  nodes: ReadonlyMap<string, Node>,
  topology: Topology,
): boolean {
  const zone = nodes.get(node)?.zone ?? GLOBAL_ZONE;
  const hasPort = topology.transitPort !== "";
  return whenUnready === "drop" && zone !== GLOBAL_ZONE && hasPort && isAlone(node, nodes, topology);
}

/** The set of those that may, and the policy that drops the others: one for each pod network. They are this node's own. */
export function arrivalGuard(settings: Settings, family: Family, { transitPort }: Topology): readonly Row[] {
  const ids = { owner: settings.northboundOwner, node: settings.node };
  const set = podSet(ids, ARRIVING_PODS, family);
  const source = `ip${family}.src`;
  return [
    { table: "Address_Set", on: [], columns: { name: set.name }, ids: set.ids },
    ...settings.clusterNetworks
      .filter((network) => network.family === family)
      .map((network): Row => {
        const match = `inport == "${transitPort}" && ${source} == ${formatPrefix(network)} && ${source} != $${set.name}`;
        return {
          table: "Logical_Router_Policy",
          on: [CLUSTER_ROUTER],
          columns: { priority: GUARD_PRIORITY, match, action: "drop", nexthops: [], options: {} },
          ids: policyIds(ids, GUARD_PRIORITY, "EIP-Drop-Unclaimed-Arrivals", `ip${family}`),
        };
      }),
  ];
}

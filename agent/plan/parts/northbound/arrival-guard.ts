// What arrives from pods of other zones and that nobody here gives an egress IP is dropped: it was steered here a moment before this
// node's rows were there, or a moment after they went, and would leave with this node's address. Not in the reference. Pure.
import { type Family, formatPrefix } from "../../../model/ip.ts";
import { CLUSTER_ROUTER, type Row, type Topology } from "../../../model/northbound.ts";
import { ARRIVING_PODS, podSet, policyIds } from "../../../model/northbound-ids.ts";
import { GLOBAL_ZONE, type Node } from "../../../model/objects.ts";
import type { Settings } from "../../../model/settings.ts";
import { isAlone } from "../../../model/zone.ts";

/**
 * Below everything that steers pods: 102 exempt, 101 EgressService, 100 egress IPs. Two policies, since one that says `!= $set` costs
 * OVN the square of the set: each member excluded is a condition of every flow.
 */
const LET_PASS = 99;
const DROP = 98;

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

/** The set of those that may pass, the policy that lets them, and for each pod network one that drops the others: all this node's own. */
export function arrivalGuard(settings: Settings, family: Family, { transitPort }: Topology): readonly Row[] {
  const ids = { owner: settings.northboundOwner, node: settings.node };
  const set = podSet(ids, ARRIVING_PODS, family);
  const source = `ip${family}.src`;
  const policy = (priority: number, action: "allow" | "drop", name: string, from: string): Row => ({
    table: "Logical_Router_Policy",
    on: [CLUSTER_ROUTER],
    columns: {
      priority,
      match: `inport == "${transitPort}" && ${source} == ${from}`,
      action,
      nexthops: [],
      options: {},
    },
    ids: policyIds(ids, priority, name, `ip${family}`),
  });
  return [
    { table: "Address_Set", on: [], columns: { name: set.name }, ids: set.ids },
    policy(LET_PASS, "allow", "EIP-Pass-Claimed-Arrivals", `$${set.name}`),
    ...settings.clusterNetworks
      .filter((network) => network.family === family)
      .map((network) => policy(DROP, "drop", "EIP-Drop-Unclaimed-Arrivals", formatPrefix(network))),
  ];
}

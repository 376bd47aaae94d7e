// What keeps rows of OVN's northbound database from being written or from working, in words for a person. Pure.
import { formatPrefix } from "./ip.ts";
import { CLUSTER_ROUTER, gatewayRouter, type NorthboundFacts } from "./northbound.ts";
import { REFERENCE_OWNER } from "./northbound-ids.ts";
import { GLOBAL_ZONE, type Node, type Problem } from "./objects.ts";
import type { Settings } from "./settings.ts";
import type { Held } from "./snapshot.ts";

export function northboundProblems(
  settings: Settings,
  { state, topology, foreign }: NorthboundFacts,
  held: readonly Held[],
  nodes: ReadonlyMap<string, Node>,
): readonly Problem[] {
  if (state === "waiting")
    return [
      problem(`another agent has the lock of node ${settings.node} and writes its rows; end one of the two`),
    ];
  if (state !== "current") return [];
  const texts: string[] = [];
  const { node } = settings;
  const gatewayHeld = settings.gatewayMode === "shared" && held.some(({ primary }) => primary);
  const kernelHeld = held.some(({ primary }) => settings.gatewayMode === "local" || !primary);
  if (!topology.routers.has(CLUSTER_ROUTER))
    texts.push(`router ${CLUSTER_ROUTER} is not there, so no pod is steered to an egress IP`);
  if (gatewayHeld && !topology.routers.has(gatewayRouter(node)))
    texts.push(
      `router ${gatewayRouter(node)} is not there, so egress IPs of the primary network are not given`,
    );
  if (kernelHeld && Object.keys(topology.management).length === 0)
    texts.push(`port k8s-${node} has no address, so pods are not led to this host for egress IPs`);
  if (!topology.marksReplies)
    texts.push(
      "this OVN's QoS rows cannot set marks, so a served pod's answer to a client that came in by another node " +
        "leaves by the egress node; OVN 23.09 and later can",
    );
  if (foreign > 0 && !settings.adopt)
    texts.push(
      `${foreign} rows of egress IPs are ${REFERENCE_OWNER}'s: two programs steer the same pods; ` +
        "turn egress IPs off there, and start once with --adopt true to take the rows over",
    );
  const withoutTransit = [...nodes.values()].filter(
    ({ name, zone, transit }) => name !== node && zone !== nodes.get(node)?.zone && transit.length === 0,
  );
  for (const { name } of withoutTransit)
    texts.push(
      `node ${name} of another zone has no k8s.ovn.org/node-transit-switch-port-ifaddr, so no pod is steered to it`,
    );
  const gateways = Object.values(topology.gateways.get(node) ?? {});
  for (const network of settings.clusterNetworks) {
    const hop = topology.sourceRoutes.get(formatPrefix(network));
    if (hop !== undefined && nodes.get(node)?.zone !== GLOBAL_ZONE && !gateways.includes(hop))
      texts.push(
        `the route of ${formatPrefix(network)} by source leads to ${hop} and has to lead to ${gatewayRouter(node)}, ` +
          "so pods of other nodes do not get their egress IP here; it is not ours: remove it, or put it right",
      );
  }
  return texts.map(problem);
}

function problem(text: string): Problem {
  return { object: "host", path: "northbound", text };
}

// What keeps rows of OVN's northbound database from being written or from working, in words for a person. Pure.
import { formatPrefix } from "./ip.ts";
import { byCodeUnit } from "./names.ts";
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
  texts.push(...foreignRows(settings, foreign));
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

/** Two programs that steer the same pods, or one that did so under another name. */
function foreignRows(
  { adopt, northboundOwner }: Settings,
  foreign: ReadonlyMap<string, number>,
): readonly string[] {
  return [...foreign]
    .sort(([a], [b]) => byCodeUnit(a, b))
    .flatMap(([owner, count]) => {
      if (owner === REFERENCE_OWNER)
        return adopt
          ? []
          : [
              `${count} rows of egress IPs are ${owner}'s: two programs steer the same pods; ` +
                "turn egress IPs off there, and start once with --adopt true to take the rows over",
            ];
      if (owner === "")
        return [
          `${count} rows of egress IPs do not say whose they are and steer the same pods as ${northboundOwner}'s; remove them`,
        ];
      return [
        `${count} rows of egress IPs are ${owner}'s and steer the same pods as ${northboundOwner}'s; if that was this agent, ` +
          `end it and run uninstall --ovn-owner ${owner} on each node first, or go back to --ovn-owner ${owner}`,
      ];
    });
}

/** Why nothing can be written there now, with what the connection says; undefined where it can, or there is nothing to write to. */
export function unwritable(
  { state }: Pick<NorthboundFacts, "state">,
  failure: string | undefined,
): string | undefined {
  if (state === "waiting") return "another agent has the lock of this node and writes its rows; end it first";
  if (state === "stale")
    return `the database of --ovn-nb cannot be used: ${failure ?? "it has not been read yet"}`;
  return undefined;
}

function problem(text: string): Problem {
  return { object: "host", path: "northbound", text };
}

// The part of a packet's way that OVN decides, by the rows that are in the northbound database: the cluster router's policies by
// priority, then, where they lead there, this node's gateway router. In: facts, rows of others, a packet. Out: steps, and where it goes on. Pure.
// What is not looked at: load balancers, other networks' rows, OVN's flows themselves; `ovn-trace` says those.
import { type Address, addressAt, contains, familyOf } from "./model/ip.ts";
import { CLUSTER_ROUTER, gatewayRouter, type NorthboundFacts, type RouterRow } from "./model/northbound.ts";
import type { Node } from "./model/objects.ts";
import {
  aclsOf,
  firstMet,
  inportOf,
  markOf,
  natsOf,
  type OvnHost,
  type OvnPacket,
  policiesOf,
  say,
  shown,
  type Walk,
} from "./trace-ovn-rows.ts";
import type { Step, StepName } from "./trace-step.ts";

export type OvnEnd =
  /** It goes on in this host's kernel, with this mark. */
  | { readonly kind: "kernel"; readonly mark: number }
  | { readonly kind: "leaves"; readonly router: string; readonly source: Address }
  | { readonly kind: "stays"; readonly why: string }
  | { readonly kind: "dropped"; readonly at: StepName; readonly why: string }
  | { readonly kind: "node"; readonly nodes: readonly string[] }
  | { readonly kind: "unknown"; readonly why: string };

export interface OvnWay {
  readonly steps: readonly Step[];
  readonly unjudged: number;
  readonly end: OvnEnd;
}

/** Without a northbound database the way begins in the kernel: what brings it there nobody here knows. */
export function traceOvn(host: OvnHost, packet: OvnPacket): OvnWay {
  const walk: Walk = { ...host, packet, family: familyOf(packet.source), steps: [], mark: 0, unjudged: 0 };
  const end = host.northbound.state === "off" ? ({ kind: "kernel", mark: 0 } as const) : cluster(walk);
  return { steps: walk.steps, unjudged: walk.unjudged, end };
}

/** Packet mark by which the bridge gives a packet for another node its own node's address (OVN-Kubernetes, since 2023). */
const TO_NODE_MARK = 1008;

function cluster(walk: Walk): OvnEnd {
  const { northbound, others, settings, packet, steps } = walk;
  if (northbound.state === "stale" || others === undefined)
    steps.push({
      step: "ovn",
      object: "northbound database",
      found: northbound.state === "stale" ? "not connected" : "rows of others could not be read",
      verdict: "by what was last known of it, and by our own rows alone",
    });
  if (settings.serviceNetworks.some((network) => contains(network, packet.destination)))
    return {
      kind: "unknown",
      why: `${packet.destination} is a service's: OVN gives the packet an endpoint's address before all of this; ask with the endpoint`,
    };
  const policies = policiesOf(walk, CLUSTER_ROUTER);
  const policy = firstMet(walk, policies, inportOf(walk));
  if (policy === undefined) return unsteered(walk);
  const { action } = policy.columns;
  walk.mark = markOf(policy, walk.mark);
  if (action === "drop") {
    say(walk, "ovn-policy", policy, "drops");
    return { kind: "dropped", at: "ovn-policy", why: `dropped by ${shown(policy)}` };
  }
  if (action !== "reroute") {
    say(walk, "ovn-policy", policy, `is not rerouted${walk.mark === 0 ? "" : `, mark ${walk.mark}`}`);
    return unsteered(walk);
  }
  return rerouted(walk, policy);
}

function rerouted(walk: Walk, policy: RouterRow): OvnEnd {
  const { northbound, settings, family, nodes } = walk;
  const { topology } = northbound;
  const hops = policy.columns["nexthops"] as readonly Address[];
  const places = hops.map((hop) => {
    if (hop === topology.management[family]) return "kernel";
    return nodeWith(nodes, topology, hop) ?? hop;
  });
  const marked = walk.mark === 0 ? "" : ` with mark ${walk.mark}`;
  const here = new Set(places.map((place) => (place === "kernel" ? settings.node : place)));
  const [first = ""] = places;
  const to =
    first === "kernel"
      ? `to this host by ${settings.managementPort}${marked}`
      : first === settings.node
        ? `to ${gatewayRouter(settings.node)}`
        : `to ${places.join(" or ")}`;
  if (here.size > 1) {
    say(walk, "ovn-policy", policy, `each connection goes to one of ${[...here].join(", ")}`);
    return { kind: "node", nodes: [...here] };
  }
  say(walk, "ovn-policy", policy, `rerouted ${to}`);
  if (first === "kernel") return { kind: "kernel", mark: walk.mark };
  if (first === settings.node) return gateway(walk);
  for (const nat of natsOf(walk, gatewayRouter(first)))
    say(walk, "ovn-nat", nat, `source ${nat.columns["external_ip"]} there`);
  return { kind: "node", nodes: [first] };
}

/** Where routing leads it by itself: to pods, or out by the way of the gateway mode. */
function unsteered(walk: Walk): OvnEnd {
  const { settings, packet, nodes, own, others } = walk;
  if (settings.clusterNetworks.some((network) => contains(network, packet.destination)))
    return { kind: "stays", why: `${packet.destination} is of the pods' networks: no source is changed` };
  const isOwnPod = packet.node === settings.node;
  const sameZone = nodes.get(packet.node)?.zone === nodes.get(settings.node)?.zone;
  if (!isOwnPod && sameZone) {
    walk.steps.push({
      step: "ovn",
      object: CLUSTER_ROUTER,
      found: "no policy reroutes it",
      verdict: `goes out by ${packet.node || "its own node"}`,
    });
    return { kind: "node", nodes: [packet.node || "its own node"] };
  }
  // OVN-Kubernetes' own policy leads a pod to its own node by the management port.
  const isForHost = others === undefined && own.has(packet.destination);
  if (isOwnPod && (settings.gatewayMode === "local" || isForHost)) return { kind: "kernel", mark: walk.mark };
  return gateway(walk);
}

/** This node's gateway router: its policies, what it translates, and the last look behind it. */
function gateway(walk: Walk): OvnEnd {
  const { settings, northbound, family } = walk;
  const router = gatewayRouter(settings.node);
  const policy = firstMet(walk, policiesOf(walk, router), `rtoj-${router}`);
  if (policy !== undefined) {
    walk.mark = markOf(policy, walk.mark);
    const drops = policy.columns["action"] === "drop";
    say(walk, "ovn-policy", policy, drops ? "drops" : `passes, mark ${walk.mark}`);
    if (drops) return { kind: "dropped", at: "ovn-policy", why: `dropped by ${shown(policy)}` };
  }
  const [nat] = natsOf(walk, router);
  const outside = northbound.topology.outside.get(settings.node)?.[family];
  let source = walk.packet.source;
  if (nat === undefined)
    walk.steps.push({
      step: "ovn-nat",
      object: router,
      found: "no row for it",
      verdict: "keeps its own source",
    });
  else {
    source = String(nat.columns["external_ip"]);
    say(walk, "ovn-nat", nat, `source ${source}`);
  }
  const acl = firstMet(walk, aclsOf(walk), `etor-${router}`, source);
  if (acl !== undefined && acl.columns["action"] === "drop") {
    say(walk, "ovn-acl", acl, "drops");
    return {
      kind: "dropped",
      at: "ovn-acl",
      why: `dropped by ${shown(acl)}: selected, and no row gives it an egress IP`,
    };
  }
  if (walk.mark === TO_NODE_MARK && outside !== undefined) {
    source = outside;
    walk.steps.push({
      step: "ovn",
      object: "bridge of the node",
      found: `mark ${TO_NODE_MARK}`,
      verdict: `source ${outside}, by OVN-Kubernetes' own flow for packets to nodes, which is not looked at`,
    });
  }
  return { kind: "leaves", router, source };
}

function nodeWith(
  nodes: ReadonlyMap<string, Node>,
  { gateways }: NorthboundFacts["topology"],
  hop: Address,
): string | undefined {
  const family = familyOf(hop);
  for (const { name, transit, podSubnets } of nodes.values()) {
    if (Object.values(gateways.get(name) ?? {}).includes(hop)) return name;
    if (transit.some(({ address }) => address === hop)) return name;
    // Another node's management port: the second address of its pods' network (reference 0.4).
    const subnet = podSubnets.find((cidr) => cidr.family === family);
    if (subnet !== undefined && addressAt(subnet, 2) === hop) return name;
  }
  return undefined;
}

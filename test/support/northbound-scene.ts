// Kubernetes objects and host facts that go with the rows of the OVN lab: nodes with its addresses, as annotations say them.
// In: how the cluster is laid out. Out: nodes, a node's host, and what is planned for its database as short text.

import { createBuild } from "../../agent/model/build.ts";
import type { HostFacts } from "../../agent/model/facts.ts";
import { byCodeUnit } from "../../agent/model/names.ts";
import {
  CLUSTER_ROUTER,
  type FoundRow,
  gatewayRouter,
  NORTHBOUND_OFF,
  outsideSwitch,
  type Row,
  type Topology,
} from "../../agent/model/northbound.ts";
import { NODE_KEY } from "../../agent/model/northbound-ids.ts";
import type { KubernetesObject, Node } from "../../agent/model/objects.ts";
import type { Settings } from "../../agent/model/settings.ts";
import { entriesOf, shardsFrom } from "../../agent/model/shards.ts";
import { createMode } from "../../agent/plan/modes.ts";
import type { PlannedNorthbound } from "../../agent/plan/plan.ts";
import { address, bareHost, cidr, network, node, objects, settings } from "../agent/make.ts";
import { joinNetworks, type OvnNode, ovnNodePlans } from "../ovn-lab/topology.ts";

export const nodeNames = ["node1", "node2", "node3"] as const satisfies readonly OvnNode[];

/** `zone`: each node its own unless said. */
export function labNode(name: OvnNode, of: Partial<Omit<Node, "kind" | "name">> = {}): Node {
  const plan = ovnNodePlans[name];
  const cidrs = [`${plan["br-ex"][4]}/24`, `${plan["br-ex"][6]}/64`].map(cidr);
  return node(name, {
    internalAddresses: [plan["br-ex"][4], plan["br-ex"][6]],
    hostCidrs: [...cidrs, cidr(`${plan.eth1[4]}/24`), cidr(`${plan.eth1[6]}/64`)],
    primary: cidrs,
    zone: name,
    transit: [cidr(`${plan.transit[4]}/16`), cidr(`${plan.transit[6]}/64`)],
    podSubnets: [cidr(plan.podNetwork[4]), cidr(plan.podNetwork[6])],
    ...of,
  });
}

export function labNodes(of: Partial<Omit<Node, "kind" | "name">> = {}): readonly Node[] {
  return nodeNames.map((name) => labNode(name, of));
}

/** make.ts's host, with this node's addresses. */
export function hostOf(name: OvnNode): HostFacts {
  const plan = ovnNodePlans[name];
  return {
    ...bareHost,
    network: {
      ...network,
      addresses: [
        address("eth0", `${plan["br-ex"][4]}/24`),
        address("eth0", `${plan["br-ex"][6]}/64`),
        address("eth1", `${plan.eth1[4]}/24`),
        address("eth1", `${plan.eth1[6]}/64`),
        address("lo", "127.0.0.1/8", { scope: "host" }),
        address("ovn-k8s-mp0", `${plan["ovn-k8s-mp0"][4]}/24`),
        address("ovn-k8s-mp0", `${plan["ovn-k8s-mp0"][6]}/64`),
      ],
    },
  };
}

/** `zones`: a database for each node. `central`: one for all. */
export type Layout = "zones" | "central";

/** Facts of a node whose database has what the lab's has before there is any egress IP. */
export function factsOf(name: OvnNode, layout: Layout, of: Partial<Topology> = {}): HostFacts {
  const here: readonly OvnNode[] = layout === "zones" ? [name] : nodeNames;
  const { "ovn-k8s-mp0": management, podNetwork } = ovnNodePlans[name];
  const per = <T>(value: (node: OvnNode) => T) => new Map(here.map((node) => [node, value(node)]));
  const topology: Topology = {
    routers: new Map(
      [CLUSTER_ROUTER, ...here.map(gatewayRouter)].map((router) => [router, `uuid of ${router}`]),
    ),
    switches: new Map(
      here.flatMap((node) => [node, outsideSwitch(node)].map((name) => [name, `uuid of ${name}`])),
    ),
    gateways: per((node) => ovnNodePlans[node].join),
    outside: per((node) => ovnNodePlans[node]["br-ex"]),
    management,
    podNetworks: [podNetwork[4], podNetwork[6]],
    transitPort: layout === "zones" ? `rtots-${name}` : "",
    join: joinNetworks,
    marksReplies: true,
    sourceRoutes: new Map(),
    ...of,
  };
  return { ...hostOf(name), northbound: { ...NORTHBOUND_OFF, state: "current", leads: true, topology } };
}

/** The same with the rows by which these nodes' gateway routers translate these addresses, as their agents write them. */
export function withNats(
  facts: HostFacts,
  addresses: readonly string[],
  nodes: readonly OvnNode[] = ["node2", "node3"],
): HostFacts {
  const row = (address: string, node: OvnNode): FoundRow => ({
    table: "NAT",
    uuid: `nat of ${address} on ${node}`,
    on: [gatewayRouter(node)],
    columns: { type: "snat", logical_ip: address },
    ids: { [NODE_KEY]: node },
  });
  const pods = shardsFrom(
    addresses.map((address) => [address, nodes.map((node) => row(address, node))] as const),
  );
  return { ...facts, northbound: { ...facts.northbound, pods } };
}

/** What is planned for the database: rows of pods one a line, the served set. */
export function planOf(
  all: readonly KubernetesObject[],
  facts: HostFacts,
  of: Partial<Settings> = {},
): PlannedNorthbound & { readonly text: string } {
  const whole: Settings = { ...settings, gatewayMode: "shared", ...of };
  const { northbound } = createMode(whole.gatewayMode).plan(createBuild()(whole, objects(...all), facts));
  const rows = [...entriesOf(northbound.pods)].flatMap(([, own]) => own.map(rowText));
  const served = [...entriesOf(northbound.served)].map(([address]) => address).sort(byCodeUnit);
  const lines = [...rows, ...(served.length === 0 ? [] : [`served ${served.join(" ")}`])].sort(byCodeUnit);
  return { ...northbound, text: lines.join("\n") };
}

/** `policy 10.244.1.3 100.64.0.2`, `policy 10.244.1.3 10.244.1.2 pkt_mark=1009` or `nat GR_node1 10.244.1.3 172.18.0.50` */
function rowText({ table, on, columns }: Row): string {
  if (table === "NAT") return `nat ${on.join()} ${columns["logical_ip"]} ${columns["external_ip"]}`;
  const hops = columns["nexthops"] as readonly string[];
  const options = Object.entries(columns["options"] ?? {}).map(([key, value]) => ` ${key}=${value}`);
  return `policy ${String(columns["match"]).replace(/.* /, "")} ${columns["action"] === "drop" ? "drop" : hops.join()}${options.join("")}`;
}

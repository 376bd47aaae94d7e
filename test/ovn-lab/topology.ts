// The OVN lab's address plan as values: test/lab's, with a third node and what only OVN has (join, transit, chassis).
// Pure; northbound.ts, bridge.ts and wiring.ts make rows, flows and commands of it, README.md draws it.
import {
  type Addresses,
  type Destination,
  type Family,
  internet,
  outside,
  serverPort,
} from "../lab/topology.ts";
import { mac, segmentOf } from "../lab/wiring.ts";

export const ovnNodes = ["node1", "node2", "node3"] as const;
export type OvnNode = (typeof ovnNodes)[number];

export const joinNetworks: Addresses = { 4: "100.64.0.0/16", 6: "fd98::/64" };
/** What the cluster router is called on the join switch. */
export const joinGateway: Addresses = { 4: "100.64.0.1", 6: "fd98::1" };
export const transitNetworks: Addresses = { 4: "100.88.0.0/16", 6: "fd97::/64" };

export interface OvnNodePlan {
  readonly number: number;
  /** OVN-Kubernetes gives 1 away as the routers' own, so nodes begin at 2; last part of the join and transit addresses. */
  readonly id: number;
  readonly podNetwork: Addresses;
  readonly gateway: Addresses;
  readonly "ovn-k8s-mp0": Addresses;
  /** The node's address: of br-ex, whose port eth0 is. */
  readonly "br-ex": Addresses;
  readonly eth1: Addresses;
  readonly join: Addresses;
  readonly transit: Addresses;
  /** eth0's and br-ex's, as with a bridge that took over a link. */
  readonly bridgeMac: string;
  readonly mp0Mac: string;
  readonly chassis: string;
}

function planOf(number: number): OvnNodePlan {
  const id = number + 1;
  const mp0 = { 4: `10.244.${number}.2`, 6: `fd00:10:244:${number}::2` };
  return {
    number,
    id,
    podNetwork: { 4: `10.244.${number}.0/24`, 6: `fd00:10:244:${number}::/64` },
    gateway: { 4: `10.244.${number}.1`, 6: `fd00:10:244:${number}::1` },
    "ovn-k8s-mp0": mp0,
    "br-ex": { 4: `172.18.0.1${number}`, 6: `fd00:172:18::1${number}` },
    eth1: { 4: `10.10.10.1${number}`, 6: `fd00:10:10::1${number}` },
    join: { 4: `100.64.0.${id}`, 6: `fd98::${id}` },
    transit: { 4: `100.88.0.${id}`, 6: `fd97::${id}` },
    bridgeMac: mac(segmentOf.ext, number, "far"),
    mp0Mac: ovnMac(mp0[4]),
    chassis: `${number}c0ffee0-0000-4000-8000-00000000000${number}`,
  };
}

export const ovnNodePlans: Readonly<Record<OvnNode, OvnNodePlan>> = {
  node1: planOf(1),
  node2: planOf(2),
  node3: planOf(3),
};

/** OVN-Kubernetes' MAC of an IPv4 address: 0a:58 in front of it. */
export function ovnMac(address: string): string {
  const bytes = address.split(".").map(Number);
  return [0x0a, 0x58, ...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

export interface OvnPod extends Addresses {
  /** Also the name of its place. */
  readonly name: string;
  readonly namespace: string;
  readonly node: OvnNode;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** `host` is the last part of its addresses. */
export function ovnPod(
  name: string,
  node: OvnNode,
  host: number,
  { namespace = "shop", app = "web", uid = `5f6c1f0e-0000-4000-9000-${hex(node, host)}` } = {},
): OvnPod {
  const { number } = ovnNodePlans[node];
  const addresses = { 4: `10.244.${number}.${host}`, 6: `fd00:10:244:${number}::${host.toString(16)}` };
  return { name, namespace, node, uid, labels: { app }, ...addresses };
}

const hex = (node: OvnNode, host: number) =>
  (256 * ovnNodePlans[node].number + host).toString(16).padStart(12, "0");

const uid = (last: number) => `5f6c1f0e-0000-4000-8000-000000000${last}`;

/** As in test/scenarios/common and packaging/examples. a4, b2 and c1 are also servers. */
const pods: readonly OvnPod[] = [
  ovnPod("a1", "node1", 3, { uid: uid(301) }),
  ovnPod("a2", "node1", 4, { app: "billing", uid: uid(302) }),
  ovnPod("a3", "node1", 5, { namespace: "play", uid: uid(303) }),
  ovnPod("a4", "node1", 6, { app: "server", uid: uid(304) }),
  ovnPod("b1", "node2", 3, { uid: uid(305) }),
  ovnPod("b2", "node2", 4, { namespace: "play", app: "server", uid: uid(306) }),
  ovnPod("c1", "node3", 3, { uid: uid(307) }),
];
export const servingPods: readonly string[] = ["a4", "b2", "c1"];

export function firstPods(nodes: readonly OvnNode[]): readonly OvnPod[] {
  return pods.filter(({ node }) => nodes.includes(node));
}

/** Everything else of a lab that the rows, flows and commands depend on. */
export interface Cluster {
  readonly nodes: readonly OvnNode[];
  /** A zone, with databases and northd of its own, for each node; else one zone for all. */
  readonly interconnect: boolean;
  /** Where what is no egress IP's leaves: through the gateway router, or through the node's kernel. */
  readonly gateway: "shared" | "local";
  /** Of pods and routers. Networks outside have both, and br-ex the IPv4 address that tunnels go by. */
  readonly families: readonly Family[];
  /** OVN-Kubernetes' `disable-snat-multiple-gws`: a NAT row for each pod instead of one for the cluster. */
  readonly disableSnatMultipleGws: boolean;
}

/** The name of a zone, as on the node's annotation, and the nodes in it. */
export interface Zone {
  readonly name: string;
  readonly nodes: readonly OvnNode[];
}

export function zonesOf({ interconnect, nodes }: Cluster): readonly Zone[] {
  return interconnect ? nodes.map((node) => ({ name: node, nodes: [node] })) : [{ name: "global", nodes }];
}

/** By name. `node1` and so on are servers on the node itself, by each of its addresses. */
export const ovnDestinations: Readonly<Record<string, Destination>> = {
  internet: { ...internet, port: serverPort },
  ext: { ...outside.ext.server, port: serverPort },
  sec: { ...outside.sec.server, port: serverPort },
  ...Object.fromEntries(pods.map((pod) => [pod.name, { 4: pod[4], 6: pod[6], port: serverPort }])),
  ...Object.fromEntries(
    ovnNodes.flatMap((node) => [
      [node, { ...ovnNodePlans[node]["br-ex"], port: serverPort }],
      [`${node}eth1`, { ...ovnNodePlans[node].eth1, port: serverPort }],
      [`${node}mp0`, { ...ovnNodePlans[node]["ovn-k8s-mp0"], port: serverPort }],
    ]),
  ),
};

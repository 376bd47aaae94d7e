// The lab's address plan as values: who exists, where it is attached, what it is called by others.
// Pure; wiring.ts makes commands of it, README.md draws it.

export type Family = 4 | 6;
export const families = [4, 6] as const satisfies readonly Family[];

export type Protocol = "tcp" | "udp";
export type Backend = "nft" | "legacy";

/** One address in each family. */
export interface Addresses {
  readonly 4: string;
  readonly 6: string;
}

export const nodeNames = ["node1", "node2"] as const;
export const podNames = ["a1", "a2", "a3", "a4", "b1", "b2"] as const;
export const outsideNames = ["ext", "sec"] as const;
export type NodeName = (typeof nodeNames)[number];
export type PodName = (typeof podNames)[number];
export type OutsideName = (typeof outsideNames)[number];

/** Everything that has a namespace of its own. */
export type Place = "fabric" | NodeName | PodName | OutsideName;
// The fabric first: making its namespace is what claims the prefix.
export const places: readonly Place[] = ["fabric", ...nodeNames, ...outsideNames, ...podNames];

export const podNetworks: Addresses = { 4: "10.244.0.0/16", 6: "fd00:10:244::/48" };
export const serviceNetworks: Addresses = { 4: "10.96.0.0/16", 6: "fd00:10:96::/112" };

export interface NodePlan {
  readonly number: number;
  /** The pods of this node. */
  readonly podNetwork: Addresses;
  /** What the pods and the management port call the fabric. */
  readonly gateway: Addresses;
  readonly "ovn-k8s-mp0": Addresses;
  readonly eth0: Addresses;
  readonly eth1: Addresses;
  /** Where this node's node ports lead. */
  readonly backend: PodName;
}

function nodePlan(number: number, backend: PodName): NodePlan {
  return {
    number,
    podNetwork: { 4: `10.244.${number}.0/24`, 6: `fd00:10:244:${number}::/64` },
    gateway: { 4: `10.244.${number}.1`, 6: `fd00:10:244:${number}::1` },
    "ovn-k8s-mp0": { 4: `10.244.${number}.2`, 6: `fd00:10:244:${number}::2` },
    eth0: { 4: `172.18.0.1${number}`, 6: `fd00:172:18::1${number}` },
    eth1: { 4: `10.10.10.1${number}`, 6: `fd00:10:10::1${number}` },
    backend,
  };
}

export const nodes: Readonly<Record<NodeName, NodePlan>> = {
  node1: nodePlan(1, "a4"),
  node2: nodePlan(2, "b2"),
};

export interface PodPlan extends Addresses {
  readonly node: NodeName;
}

function podPlan(node: NodeName, host: number): PodPlan {
  const { number } = nodes[node];
  return { node, 4: `10.244.${number}.${host}`, 6: `fd00:10:244:${number}::${host}` };
}

export const pods: Readonly<Record<PodName, PodPlan>> = {
  a1: podPlan("node1", 3),
  a2: podPlan("node1", 4),
  a3: podPlan("node1", 5),
  a4: podPlan("node1", 6),
  b1: podPlan("node2", 3),
  b2: podPlan("node2", 4),
};

/** One network outside the cluster: the nodes' link into it and the server on it. */
export interface OutsidePlan {
  readonly link: "eth0" | "eth1";
  readonly gateway: Addresses;
  readonly server: Addresses;
}

export const outside: Readonly<Record<OutsideName, OutsidePlan>> = {
  ext: {
    link: "eth0",
    gateway: { 4: "172.18.0.1", 6: "fd00:172:18::1" },
    server: { 4: "172.18.0.100", 6: "fd00:172:18::100" },
  },
  sec: {
    link: "eth1",
    gateway: { 4: "10.10.10.1", 6: "fd00:10:10::1" },
    server: { 4: "10.10.10.100", 6: "fd00:10:10::100" },
  },
};

/** On `lo` of both ext and sec: who answers tells which way the packet went. */
export const internet: Addresses = { 4: "198.51.100.80", 6: "2001:db8:51::80" };

export const serverPort = 8080;
export const apiPort = 6443;
/** Like externalTrafficPolicy: Local: the backend sees the client's own address. */
export const localNodePort = 30080;
/** Like externalTrafficPolicy: Cluster: the backend sees the node's management port. */
export const clusterNodePort = 30081;

/** Something a pod can talk to. */
export interface Destination extends Addresses {
  readonly port: number;
}

export const destinations = {
  internet: { ...internet, port: serverPort },
  ext: { ...outside.ext.server, port: serverPort },
  sec: { ...outside.sec.server, port: serverPort },
  /** Served by pod a4, on every node. TCP and UDP. */
  service: { 4: "10.96.0.10", 6: "fd00:10:96::10", port: 80 },
  /** The API server, which is ext:6443. TCP only. */
  api: { 4: "10.96.0.1", 6: "fd00:10:96::1", port: 443 },
  a4: { 4: pods.a4[4], 6: pods.a4[6], port: serverPort },
  b2: { 4: pods.b2[4], 6: pods.b2[6], port: serverPort },
  /** A server on the node itself, by each of its networks. */
  node1eth0: { ...nodes.node1.eth0, port: serverPort },
  node1eth1: { ...nodes.node1.eth1, port: serverPort },
  node2eth0: { ...nodes.node2.eth0, port: serverPort },
  node2eth1: { ...nodes.node2.eth1, port: serverPort },
  nodePort1: { ...nodes.node1.eth0, port: localNodePort },
  nodePort2: { ...nodes.node2.eth0, port: localNodePort },
  clusterPort1: { ...nodes.node1.eth0, port: clusterNodePort },
  clusterPort2: { ...nodes.node2.eth0, port: clusterNodePort },
} as const satisfies Record<string, Destination>;

export type DestinationName = keyof typeof destinations;

/** The pod all of the service's traffic goes to. */
export const serviceBackend: PodName = "a4";

/** The namespace of a place in the lab with this prefix. */
export function namespaceOf(prefix: string, place: Place): string {
  return `${prefix}-${place}`;
}

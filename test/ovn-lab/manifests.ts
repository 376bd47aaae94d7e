// What Kubernetes would say of an OVN lab: Nodes with OVN-Kubernetes' annotations, Namespaces and Pods, as objects and as a
// folder of YAML. Pure but for the writing.
import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { type Addresses, type Family, outside } from "../lab/topology.ts";
import { podMac } from "./row-parts.ts";
import {
  type Cluster,
  joinNetworks,
  type OvnNode,
  type OvnPod,
  ovnNodePlans,
  transitNetworks,
  zonesOf,
} from "./topology.ts";

export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Readonly<Record<string, unknown>> & { readonly name: string };
  readonly [more: string]: unknown;
}

const nodeLength = { 4: 24, 6: 64 } as const;
const lengthOf = (network: string) => Number(network.split("/")[1]);
const joinLength = { 4: lengthOf(joinNetworks[4]), 6: lengthOf(joinNetworks[6]) };
const transitLength = { 4: lengthOf(transitNetworks[4]), 6: lengthOf(transitNetworks[6]) };

/** In the order in which OVN-Kubernetes lists families. */
export function nodeAnnotations(cluster: Cluster, node: OvnNode): Readonly<Record<string, string>> {
  const { families, gateway } = cluster;
  const plan = ovnNodePlans[node];
  const zone = zonesOf(cluster).find(({ nodes }) => nodes.includes(node));
  const cidrs = (addresses: Addresses, length: Readonly<Record<Family, number>>) =>
    families.map((family) => `${addresses[family]}/${length[family]}`);
  const byFamily = (addresses: Addresses, length: Readonly<Record<Family, number>>) =>
    Object.fromEntries(families.map((family) => [`ipv${family}`, `${addresses[family]}/${length[family]}`]));
  const primary = cidrs(plan["br-ex"], nodeLength);
  const nextHops = families.map((family) => outside.ext.gateway[family]);
  const l3 = {
    mode: gateway,
    "bridge-id": "br-ex",
    "interface-id": `br-ex_${node}`,
    "mac-address": plan.bridgeMac,
    "ip-addresses": primary,
    ...(primary.length === 1 && { "ip-address": primary[0], "next-hop": nextHops[0] }),
    "next-hops": nextHops,
    "node-port-enable": "true",
    "vlan-id": "0",
  };
  const lrp = byFamily(plan.join, joinLength);
  const key = (name: string) => `k8s.ovn.org/${name}`;
  return {
    [key("host-cidrs")]: JSON.stringify([...primary, ...cidrs(plan.eth1, nodeLength)]),
    [key("l3-gateway-config")]: JSON.stringify({ default: l3 }),
    [key("network-ids")]: JSON.stringify({ default: "0" }),
    [key("node-chassis-id")]: plan.chassis,
    [key("node-gateway-router-lrp-ifaddr")]: JSON.stringify(lrp),
    [key("node-gateway-router-lrp-ifaddrs")]: JSON.stringify({ default: lrp }),
    [key("node-id")]: String(plan.id),
    [key("node-mgmt-port-mac-addresses")]: JSON.stringify({ default: plan.mp0Mac }),
    [key("node-primary-ifaddr")]: JSON.stringify(byFamily(plan["br-ex"], nodeLength)),
    [key("node-subnets")]: JSON.stringify({ default: families.map((family) => plan.podNetwork[family]) }),
    [key("node-transit-switch-port-ifaddr")]: JSON.stringify(byFamily(plan.transit, transitLength)),
    [key("zone-name")]: zone?.name ?? "global",
  };
}

function nodeObject(cluster: Cluster, node: OvnNode): KubernetesObject {
  const { number, "br-ex": addresses } = ovnNodePlans[node];
  const internal = cluster.families.map((family) => ({ type: "InternalIP", address: addresses[family] }));
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name: node,
      uid: `5f6c1f0e-0000-4000-8000-00000000010${number}`,
      labels: { "k8s.ovn.org/egress-assignable": "" },
      annotations: nodeAnnotations(cluster, node),
    },
    status: { addresses: [...internal, { type: "Hostname", address: node }] },
  };
}

const envOf: Readonly<Record<string, string>> = { shop: "prod", play: "test" };
const uidOf: Readonly<Record<string, string>> = { shop: "201", play: "202" };

function namespaceObject(name: string): KubernetesObject {
  const uid = `5f6c1f0e-0000-4000-8000-000000000${uidOf[name] ?? "203"}`;
  const labels = { env: envOf[name] ?? "other", "kubernetes.io/metadata.name": name };
  return { apiVersion: "v1", kind: "Namespace", metadata: { name, uid, labels } };
}

function podObject({ families }: Cluster, pod: OvnPod): KubernetesObject {
  const { namespace, name, uid, labels, node } = pod;
  const { gateway } = ovnNodePlans[node];
  const network = {
    ip_addresses: families.map((family) => `${pod[family]}/${nodeLength[family]}`),
    mac_address: podMac(pod),
    gateway_ips: families.map((family) => gateway[family]),
    role: "primary",
  };
  const addresses = families.map((family) => pod[family]);
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace,
      name,
      uid,
      labels,
      annotations: { "k8s.ovn.org/pod-networks": JSON.stringify({ default: network }) },
    },
    spec: { nodeName: node, containers: [{ name: "main", image: "registry.example/main:1" }] },
    status: { phase: "Running", podIP: addresses[0], podIPs: addresses.map((ip) => ({ ip })) },
  };
}

export interface Manifests {
  readonly nodes: readonly KubernetesObject[];
  readonly namespaces: readonly KubernetesObject[];
  readonly pods: readonly KubernetesObject[];
}

export function manifests(cluster: Cluster, pods: readonly OvnPod[]): Manifests {
  const namespaces = new Set(["shop", "play", ...pods.map(({ namespace }) => namespace)]);
  return {
    nodes: cluster.nodes.map((node) => nodeObject(cluster, node)),
    namespaces: [...namespaces].map(namespaceObject),
    pods: pods.map((pod) => podObject(cluster, pod)),
  };
}

/** nodes.yaml, namespaces.yaml and pods.yaml, each replaced whole by a rename. */
export async function writeManifests(folder: string, all: Manifests): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const [name, objects] of Object.entries(all) as [string, readonly KubernetesObject[]][]) {
    const text = objects.map((object) => `---\n${stringify(object)}`).join("");
    await writeFile(join(folder, `.${name}.yaml.new`), text);
    await rename(join(folder, `.${name}.yaml.new`), join(folder, `${name}.yaml`));
  }
}

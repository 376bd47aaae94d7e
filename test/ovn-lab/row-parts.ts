// What rows of the Northbound database are called, and small pieces of them that several tables need. Pure.
import type { Family } from "../lab/topology.ts";
import { type Cluster, type OvnPod, ovnMac } from "./topology.ts";
import type { Row, Transaction } from "./transaction.ts";

const writer = "default-network-controller";
export const lengthOf = (network: string) => network.split("/")[1] ?? "";

export const portNameOf = ({ namespace, name }: OvnPod) => `${namespace}_${name}`;
export const podMac = (pod: OvnPod) => ovnMac(pod[4]);

/** OVN's name of an address set or port group: `a` and the FNV-1a-64 of its id. */
export function hashed(id: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(id)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return `a${hash}`;
}

export function owned<More extends Row>(
  type: string,
  name: string,
  more?: More,
  suffix: readonly string[] = [],
) {
  return {
    "k8s.ovn.org/id": [writer, type, name, ...suffix].join(":"),
    "k8s.ovn.org/name": name,
    "k8s.ovn.org/owner-controller": writer,
    "k8s.ovn.org/owner-type": type,
    ...more,
  } as Readonly<Record<string, string>> & { readonly "k8s.ovn.org/id": string };
}

/** The addresses of the cluster's families, with the length that a network has. */
function networks({ families }: Cluster, addresses: Both, like: Both): string[] {
  return families.map((family) => `${addresses[family]}/${lengthOf(like[family])}`);
}

export type Both = Readonly<Record<Family, string>>;

export function routerPort(
  rows: Transaction,
  cluster: Cluster,
  name: string,
  addresses: Both,
  like: Both,
  more: Row = {},
) {
  const mac = ovnMac(addresses[4]);
  return rows.insert("Logical_Router_Port", {
    name,
    mac,
    networks: networks(cluster, addresses, like),
    ...more,
  });
}

export function switchRouterPort(
  rows: Transaction,
  name: string,
  peer: string,
  { addresses = "router", options = {} }: { addresses?: string; options?: Record<string, string> } = {},
) {
  return rows.insert("Logical_Switch_Port", {
    name,
    type: "router",
    addresses,
    options: { "router-port": peer, ...options },
  });
}

export function route(rows: Transaction, prefix: string, nexthop: string, more: Row = {}) {
  return rows.insert("Logical_Router_Static_Route", { ip_prefix: prefix, nexthop, ...more });
}

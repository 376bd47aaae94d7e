// Objects and facts for tests of the agent's pure parts: plain ones, with only what a test is about said.
// Addresses are those of the lab: nodes 172.18.0.11 and 10.10.10.11, pods 10.244.1.0/24, egress IPs .50 to .99.

import type { Objects } from "../../agent/model/build.ts";
import {
  type HostFacts,
  type NetworkFacts,
  NO_REFERENCE,
  NO_RIVALS,
  NOTHING_RECORDED,
} from "../../agent/model/facts.ts";
import { type Cidr, familyOf, parseCidr } from "../../agent/model/ip.ts";
import { NORTHBOUND_OFF } from "../../agent/model/northbound.ts";
import type { EgressIP, KubernetesObject, Namespace, Node, Pod } from "../../agent/model/objects.ts";
import { keyOf } from "../../agent/model/objects.ts";
import type { Settings } from "../../agent/model/settings.ts";
import { shardsFrom } from "../../agent/model/shards.ts";
import type { LinkAddress } from "../../lib/netlink/pure.ts";

export function cidr(text: string): Cidr {
  const parsed = parseCidr(text);
  if (parsed === undefined) throw new Error(`not a network: ${text}`);
  return Object.freeze(parsed);
}

export const settings: Settings = Object.freeze({
  node: "node1",
  gatewayMode: "local",
  managementPort: "ovn-k8s-mp0",
  clusterNetworks: [cidr("10.244.0.0/16"), cidr("fd00:10:244::/48")],
  serviceNetworks: [cidr("10.96.0.0/16"), cidr("fd00:10:96::/112")],
  exemptNetworks: [cidr("100.64.0.0/16")],
  markMask: 0x7ff00000,
  whenUnready: "drop",
  existingConnections: "keep",
  randomFully: false,
  manageForwarding: false,
  northboundOwner: "egressip-agent",
  adopt: false,
  snatPerPod: false,
  draining: false,
});

type Made<T extends KubernetesObject> = Partial<Omit<T, "kind">>;

export function egressIP(
  name: string,
  of: Made<EgressIP> & { readonly at?: Readonly<Record<string, string>> } = {},
): EgressIP {
  const { at = {}, ...rest } = of;
  const assignments = Object.entries(at).map(([address, node]) => ({
    address,
    node,
    family: familyOf(address),
  }));
  return Object.freeze({
    kind: "EgressIP",
    name,
    uid: `uid-${name}`,
    created: "2026-01-01T00:00:00Z",
    requested: Object.keys(at),
    assignments,
    namespaceSelector: [],
    podSelector: [],
    ...rest,
  });
}

export function node(name: string, of: Made<Node> = {}): Node {
  return Object.freeze({
    kind: "Node",
    name,
    uid: `uid-${name}`,
    internalAddresses: [],
    hostCidrs: [],
    secondaryEgressIPs: [],
    primary: [],
    zone: "global",
    transit: [],
    podSubnets: [],
    cloud: false,
    assignable: false,
    leaving: "",
    ...of,
  });
}

export function namespace(name: string, labels: Readonly<Record<string, string>> = {}): Namespace {
  return Object.freeze({ kind: "Namespace", name, uid: `uid-${name}`, labels });
}

/** `pod("shop/web", ["10.244.1.3"])`, on node1. */
export function pod(name: string, addresses: readonly string[] = [], of: Made<Pod> = {}): Pod {
  const [space = "", own = ""] = name.split("/");
  return Object.freeze({
    kind: "Pod",
    namespace: space,
    name: own,
    uid: `uid-${name}`,
    labels: {},
    node: "node1",
    hostNetwork: false,
    finished: false,
    running: true,
    addresses,
    ...of,
  });
}

export function objects(...all: readonly KubernetesObject[]): Objects {
  const named = <K extends KubernetesObject["kind"]>(kind: K) =>
    new Map(
      all
        .filter((object): object is Extract<KubernetesObject, { kind: K }> => object.kind === kind)
        .map((object) => [object.name, object]),
    );
  return Object.freeze({
    egressIPs: named("EgressIP"),
    nodes: named("Node"),
    namespaces: named("Namespace"),
    pods: shardsFrom(
      all
        .filter((object): object is Pod => object.kind === "Pod")
        .map((object) => [keyOf(object), object] as const),
    ),
    problems: [],
  });
}

/** `address("eth0", "172.18.0.11/24")` */
export function address(link: string, text: string, of: Partial<LinkAddress> = {}): LinkAddress {
  const { address: own, length, family } = cidr(text);
  return {
    link,
    family,
    address: own,
    length,
    scope: "global",
    label: family === 4 ? link : "",
    flags: [],
    ...of,
  };
}

const links = [
  ["lo", 1, "00:00:00:00:00:00"],
  ["ovn-k8s-mp0", 2, "0a:58:0a:f4:01:02"],
  ["eth0", 3, "02:00:00:00:00:03"],
  ["eth1", 4, "02:00:00:00:00:04"],
] as const;

export const network: NetworkFacts = Object.freeze({
  links: links.map(([name, index, mac]) => ({
    name,
    index,
    mac,
    up: true,
    running: true,
    mtu: 1500,
    master: "",
  })),
  addresses: [
    address("eth0", "172.18.0.11/24"),
    address("eth0", "fd00:172:18::11/64"),
    address("eth1", "10.10.10.11/24"),
    address("eth1", "fd00:10:10::11/64"),
    address("lo", "127.0.0.1/8", { scope: "host" }),
    address("ovn-k8s-mp0", "10.244.1.2/24"),
    address("ovn-k8s-mp0", "fd00:10:244:1::2/64"),
  ],
  routes: [
    route("0.0.0.0/0", "eth0", "172.18.0.1", 100),
    route("0.0.0.0/0", "eth1", "10.10.10.1", 500),
    route("10.10.10.0/24", "eth1"),
    route("10.244.0.0/16", "ovn-k8s-mp0", "10.244.1.1"),
    route("172.18.0.0/24", "eth0"),
    route("fd00:10:10::/64", "eth1", "", 256),
    route("fd00:172:18::/64", "eth0", "", 256),
  ],
  rules: [],
});

function route(destination: string, link: string, gateway = "", metric = 0): NetworkFacts["routes"][number] {
  const hops = [{ gateway, link, onlink: false, weight: 1 }];
  const family = familyOf(destination.slice(0, destination.indexOf("/")));
  return { family, table: "main", type: "unicast", destination, metric, protocol: "kernel", hops, mtu: 0 };
}

/** A host on which nothing of ours is. */
export const bareHost: HostFacts = Object.freeze({
  network,
  sysctls: {},
  iptables: { 4: new Map(), 6: new Map() },
  sets: new Map(),
  nft: "",
  record: NOTHING_RECORDED,
  reference: NO_REFERENCE,
  announced: new Set<string>(),
  northbound: NORTHBOUND_OFF,
  rivals: NO_RIVALS,
});

export const node1: Node = node("node1", {
  internalAddresses: ["172.18.0.11", "fd00:172:18::11"],
  hostCidrs: [
    cidr("172.18.0.11/24"),
    cidr("10.10.10.11/24"),
    cidr("fd00:172:18::11/64"),
    cidr("fd00:10:10::11/64"),
  ],
  primary: [cidr("172.18.0.11/24"), cidr("fd00:172:18::11/64")],
});

export const node2: Node = node("node2", {
  internalAddresses: ["172.18.0.12", "fd00:172:18::12"],
  hostCidrs: [cidr("172.18.0.12/24"), cidr("10.10.10.12/24"), cidr("fd00:172:18::12/64")],
  primary: [cidr("172.18.0.12/24")],
});

/** For a status that is not asked to explain anything. */
export const notLooking = {
  look: () => Promise.reject(new Error("nobody is to look")),
  others: () => Promise.resolve(undefined),
};

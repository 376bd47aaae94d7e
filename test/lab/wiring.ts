// What makes a topology of empty namespaces: links, sysctls, addresses, routes, as text for `ip -batch`,
// for /proc/sys and for nft. Pure: same text in each run, so ifindexes and MACs are the same too.
import { fabricBatch, legOf } from "./fabric.ts";
import { address, bits, subnet } from "./lines.ts";
import {
  type Backend,
  families,
  internet,
  type NodeName,
  nodeNames,
  nodes,
  type OutsideName,
  outside,
  type Place,
  type PodName,
  podNames,
  podNetworks,
  pods,
} from "./topology.ts";

export interface LabOptions {
  /** Whose tables hold the strangers' rules. */
  readonly backend: Backend;
  /** net.ipv4.conf.{all,default}.rp_filter of the nodes, before their links are made. */
  readonly rpFilter: 0 | 1 | 2;
}

// 02 = locally administered; `near` is the end in the fabric or outside, `far` the node's or pod's.
export function mac(segment: number, port: number, end: "near" | "far"): string {
  const octets = [0x02, 0xe1, 0, segment, port, end === "near" ? 1 : 2];
  return octets.map((octet) => octet.toString(16).padStart(2, "0")).join(":");
}

/**
 * The near end's index is said, to be another than the far end's: the kernel takes a link whose peer has the same
 * index for one without a peer, and may tell IPv6 and the bridge of its carrier only a second later
 * (net/core/link_watch.c, linkwatch_urgent_event).
 */
function veth(name: string, peer: string, namespace: string, segment: number, port: number): string {
  const [near, far] = [mac(segment, port, "near"), mac(segment, port, "far")];
  const index = 100 * (segment + 1) + port;
  return `link add ${name} index ${index} address ${near} type veth peer name ${peer} address ${far} netns ${namespace}`;
}

/**
 * `ip -batch` text that makes all links of the namespaces that own one end of each. To be run in this order,
 * one after the other: it gives a node 2 = ovn-k8s-mp0, 3 = eth0, 4 = eth1.
 */
export function links(namespace: (place: Place) => string): [Place, string[]][] {
  const fabric = [
    ...nodeNames.map((node, at) => veth(legOf(node), "ovn-k8s-mp0", namespace(node), 0, at + 1)),
    ...podNames.map((pod, at) => veth(pod, "eth0", namespace(pod), 1, at + 1)),
  ];
  return [
    ["fabric", fabric],
    ["ext", outsideLinks("ext", nodeNames, namespace)],
    ["sec", outsideLinks("sec", nodeNames, namespace)],
  ];
}

/** In MAC addresses of the links into a network outside. */
export const segmentOf = { ext: 2, sec: 3 } as const satisfies Record<OutsideName, number>;

/** The same of the server's own link. */
export const serverPortNumber = 100;

/** A network outside: a switch, the server's link to it and a port of its name for each node. */
export function outsideLinks<Node extends string>(
  place: OutsideName,
  nodes: readonly Node[],
  namespace: (place: OutsideName | Node) => string,
): string[] {
  const segment = segmentOf[place];
  return [
    // The server is on a port of the switch, not on the switch: a bridge's own carrier comes up to 1 s late.
    `link add switch index 10 address ${mac(segment, 0, "near")} type bridge stp_state 0 mcast_snooping 0`,
    veth("port", "lan", namespace(place), segment, serverPortNumber),
    ...nodes.map((node, at) => veth(node, outside[place].link, namespace(node), segment, at + 1)),
  ];
}

// The machine's own values are inherited by new namespaces, some of them; so each one that matters is said.
// They have to be there before the links are: `default` is copied when a link is made.
const everywhere = [
  ["net.ipv4.conf.*.rp_filter", 0],
  ["net.ipv4.conf.*.src_valid_mark", 0],
  ["net.ipv4.conf.*.accept_redirects", 0],
  ["net.ipv4.conf.*.send_redirects", 0],
  ["net.ipv4.conf.*.arp_ignore", 0],
  ["net.ipv4.conf.*.arp_announce", 0],
  ["net.ipv4.conf.*.proxy_arp", 0],
  ["net.ipv4.conf.*.promote_secondaries", 0],
  ["net.ipv4.ip_forward", 0],
  ["net.ipv6.conf.*.disable_ipv6", 0],
  ["net.ipv6.conf.*.accept_dad", 0],
  ["net.ipv6.conf.*.accept_ra", 0],
  ["net.ipv6.conf.*.router_solicitations", 0],
  ["net.ipv6.conf.*.accept_redirects", 0],
] as const;

const forwarding = [
  ["net.ipv4.ip_forward", 1],
  ["net.ipv6.conf.*.forwarding", 1],
] as const;

const answeringForPods = [
  ["net.ipv4.conf.*.proxy_arp", 1],
  ["net.ipv6.conf.*.proxy_ndp", 1],
] as const;

/** Sysctls as [name, value]; set before any link is made. */
export function sysctls(place: Place, { rpFilter }: Pick<LabOptions, "rpFilter">): [string, number][] {
  if (place === "fabric") return sysctlsWith([...forwarding, ...answeringForPods]);
  return place in nodes ? nodeSysctls(rpFilter) : sysctlsWith([]);
}

export function nodeSysctls(rpFilter: LabOptions["rpFilter"]): [string, number][] {
  return sysctlsWith([...forwarding, ["net.ipv4.conf.*.rp_filter", rpFilter]]);
}

/** What is said everywhere, and more. */
export function sysctlsWith(extra: readonly (readonly [string, number])[]): [string, number][] {
  return [...everywhere, ...extra].flatMap(([name, value]): [string, number][] =>
    name.includes("*")
      ? ["all", "default"].map((scope) => [name.replace("*", scope), value])
      : [[name, value]],
  );
}

function nodeBatch(node: NodeName): string[] {
  const plan = nodes[node];
  const lines = ["link set lo up"];
  for (const link of ["ovn-k8s-mp0", "eth0", "eth1"] as const)
    lines.push(...address(plan[link], subnet, link), `link set ${link} up`);
  for (const family of families) {
    lines.push(
      `route add ${podNetworks[family]} via ${plan.gateway[family]} dev ovn-k8s-mp0`,
      // IPv6 would otherwise take 1024 here and prefer eth1.
      `route add default via ${outside.ext.gateway[family]} dev eth0 metric 100`,
      `route add default via ${outside.sec.gateway[family]} dev eth1 metric 500`,
    );
  }
  return lines;
}

function podBatch(pod: PodName): string[] {
  const { gateway } = nodes[pods[pod].node];
  return [
    "link set lo up",
    ...address(pods[pod], bits, "eth0"),
    "link set eth0 up",
    ...families.map((family) => `route add default via ${gateway[family]} dev eth0 onlink`),
  ];
}

export function outsideBatch(place: OutsideName, nodes: readonly string[]): string[] {
  const plan = outside[place];
  return [
    "link set lo up",
    "link set switch up",
    ...["port", ...nodes].flatMap((port) => [`link set ${port} master switch`, `link set ${port} up`]),
    ...address(plan.server, subnet, "lan"),
    // Deprecated, so that what is started here comes from the server's address.
    ...address(plan.gateway, subnet, "lan").map((line) =>
      line.endsWith("nodad") ? `${line} preferred_lft 0` : line,
    ),
    "link set lan up",
    ...address(internet, bits, "lo"),
  ];
}

/** `ip -batch` text for one namespace whose links exist: addresses, routes, rules. */
export function batch(place: Place): string[] {
  if (place === "fabric") return fabricBatch();
  if (place in nodes) return nodeBatch(place as NodeName);
  if (place in pods) return podBatch(place as PodName);
  return outsideBatch(place as OutsideName, nodeNames);
}

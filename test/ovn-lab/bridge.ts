// What a node's Open vSwitch holds besides OVN's own: bridges and ports as words for ovs-vsctl, the flows of br-ex as
// OVN-Kubernetes has them, and how a packet's mark gets out of OVS into the kernel. Pure.
import { type Family, podNetworks } from "../lab/topology.ts";
import { podMac, portNameOf } from "./row-parts.ts";
import { type Cluster, type OvnNode, type OvnPod, ovnNodePlans } from "./topology.ts";

/** ovn-controller's port of br-ex, which leads to the gateway router. */
export const patchPortOf = (node: OvnNode) => `patch-br-ex_${node}-to-br-int`;

const quoted = (text: string) => `"${text}"`;

/** Everything, in one ovs-vsctl, before ovs-vswitchd is there. `remote` is the Southbound socket. */
export function switchWords(
  cluster: Cluster,
  node: OvnNode,
  remote: string,
  pods: readonly OvnPod[],
): string[] {
  const plan = ovnNodePlans[node];
  const ids: Readonly<Record<string, string>> = {
    "system-id": plan.chassis,
    hostname: node,
    "ovn-remote": remote,
    "ovn-encap-type": "geneve",
    "ovn-encap-ip": plan["br-ex"][4],
    "ovn-bridge-datapath-type": "netdev",
    "ovn-bridge-mappings": "physnet:br-ex",
    "ovn-monitor-all": "true",
    "ovn-ofctrl-wait-before-clear": "0",
    // Without it ovn-controller makes no tunnel to a chassis of another zone.
    ...(cluster.interconnect && { "ovn-is-interconn": "true" }),
  };
  const bridge = (name: string, ...more: string[]) => [
    ...["--", "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", ...more],
  ];
  const port = (on: string, name: string, ...more: string[]) => [
    ...["--", "add-port", on, name, "--", "set", "interface", name, ...more],
  ];
  const internal = ["fail_mode=secure", "other_config:disable-in-band=true"];
  return [
    ...["--no-wait", "init", "--", "set", "Open_vSwitch", "."],
    ...Object.entries(ids).map(([key, value]) => `external_ids:${key}=${quoted(value)}`),
    // One of each is enough, and the machine may have two cores for everything.
    ...["other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1"],
    ...bridge("br-ex", "fail_mode=standalone", `other_config:hwaddr=${quoted(plan.bridgeMac)}`),
    ...port("br-ex", "eth0", "ofport_request=1"),
    ...bridge("br-int", ...internal),
    // The management port hangs off a bridge of its own, for its mark: see markFlows.
    ...bridge("br-mp0", ...internal),
    ...port("br-int", "mp0-int", "type=patch", "options:peer=mp0-shim", `external_ids:iface-id=k8s-${node}`),
    ...port("br-mp0", "mp0-shim", "type=patch", "options:peer=mp0-int", "ofport_request=1"),
    ...port("br-mp0", "ovn-k8s-mp0", "type=internal", `mac=${quoted(plan.mp0Mac)}`, "ofport_request=2"),
    ...pods.flatMap((pod) => podWords(pod)),
  ];
}

/** A port of OVS itself, which the kernel sees only in the pod's namespace: nothing to be kept from it there. */
export function podWords(pod: OvnPod): string[] {
  return [
    ...["--", "add-port", "br-int", pod.name, "--", "set", "interface", pod.name, "type=internal"],
    `mac=${quoted(podMac(pod))}`,
    `external_ids:attached_mac=${quoted(podMac(pod))}`,
    `external_ids:iface-id=${portNameOf(pod)}`,
    `external_ids:iface-id-ver=${pod.uid}`,
  ];
}

/**
 * A mark is not part of a packet, so a tap loses it, which in a cluster the kernel's own OVS does not. Here br-mp0 writes it
 * into the lower half of the source MAC, 0a:4d in front, and nft on the other side makes a mark of it before anything looks
 * (`markRuleset`). nft copies the bytes as they lie, hence lowest first.
 */
export const markFlows: readonly string[] = [
  "table=0,priority=100,in_port=1,pkt_mark=0,actions=output:2",
  ...["ip", "ipv6"].map((kind) => {
    const move = (from: number, to: number) =>
      `move:NXM_NX_PKT_MARK[${from}..${from + 7}]->NXM_OF_ETH_SRC[${to}..${to + 7}]`;
    const bytes = [move(0, 24), move(8, 16), move(16, 8), move(24, 0)].join(",");
    return `table=0,priority=90,in_port=1,${kind},actions=set_field:0a:4d:00:00:00:00->eth_src,${bytes},output:2`;
  }),
  "table=0,priority=80,in_port=1,actions=output:2",
  "table=0,priority=80,in_port=2,actions=output:1",
];

export const markRuleset = `table netdev lab {
  chain mark-of-mp0 {
    type filter hook ingress device "ovn-k8s-mp0" priority -300; policy accept;
    ether saddr & ff:ff:00:00:00:00 == 0a:4d:00:00:00:00 meta mark set @ll,64,32
  }
}
`;

/** OVS reads a copy of what comes in at eth0: the kernel must not take the same packet in, too. */
export const uplinkRuleset = `table netdev lab {
  chain only-ovs {
    type filter hook ingress device "eth0" priority -400; policy drop;
  }
}
`;

const zone = 64000;
const fromOvn = "0x1";
const fromHost = "0x2";
/** OVN-Kubernetes' own flows by their cookie, so that others' can be told from them. */
const cookie = "cookie=0xdeff105";

/** Of a bridge with the default network and no services. `patch` is the number of `patchPortOf`. */
export function bridgeFlows(cluster: Cluster, node: OvnNode, patch: number): string[] {
  const { bridgeMac: mac } = ovnNodePlans[node];
  const flows = [
    `table=0,priority=205,in_port=1,dl_dst=${mac},udp,udp_dst=6081,actions=LOCAL`,
    `table=0,priority=200,in_port=1,udp,udp_dst=6081,actions=NORMAL`,
    `table=0,priority=200,in_port=LOCAL,udp,udp_dst=6081,actions=output:1`,
    // The gateway router and the node have the same MAC address, so NORMAL would know one of the two ports only.
    `table=0,priority=10,in_port=1,dl_dst=${mac},actions=output:${patch},LOCAL`,
    `table=0,priority=10,in_port=${patch},dl_src=${mac},actions=NORMAL`,
    `table=0,priority=9,in_port=${patch},actions=drop`,
    "table=0,priority=0,actions=NORMAL",
    ...[134, 136].map((type) => `table=1,priority=14,icmp6,icmpv6_type=${type},actions=FLOOD`),
    `table=1,priority=10,dl_dst=${mac},actions=LOCAL`,
    "table=1,priority=0,actions=NORMAL",
    ...cluster.families.flatMap((family) => familyFlows(node, family, patch)),
  ];
  return flows.map((flow) => `${cookie},${flow}`);
}

function familyFlows(node: OvnNode, family: Family, patch: number): string[] {
  const { bridgeMac: mac, "br-ex": address, podNetwork } = ovnNodePlans[node];
  const [ip, source] = family === 4 ? ["ip", "nw_src"] : ["ipv6", "ipv6_src"];
  const commit = (mark: string, nat = "") =>
    `ct(commit,zone=${zone}${nat},exec(set_field:${mark}->ct_mark)),output:1`;
  const from = `table=0,in_port=${patch},dl_src=${mac},${ip}`;
  return [
    // A local pod that the gateway router does not translate leaves as it is.
    `${from},priority=109,${source}=${podNetwork[family]},actions=${commit(fromOvn)}`,
    // A pod's way to a node's address: as the node, whatever the gateway router has made of it.
    `${from},priority=105,pkt_mark=0x3f0,actions=${commit(fromOvn, `,nat(src=${address[family]})`)}`,
    // Another node's pod that was sent here before the egress IP's NAT row was.
    `table=0,in_port=${patch},${ip},priority=104,${source}=${podNetworks[family]},actions=drop`,
    `${from},priority=100,actions=${commit(fromOvn)}`,
    `table=0,in_port=LOCAL,${ip},priority=100,actions=${commit(fromHost)}`,
    `table=0,in_port=1,${ip},priority=50,actions=ct(zone=${zone},nat,table=1)`,
    ...["est", "rel"].flatMap((state) => [
      `table=1,${ip},priority=100,ct_state=+trk+${state},ct_mark=${fromOvn},actions=output:${patch}`,
      `table=1,${ip},priority=100,ct_state=+trk+${state},ct_mark=${fromHost},actions=LOCAL`,
    ]),
  ];
}

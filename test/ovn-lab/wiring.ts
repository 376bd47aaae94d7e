// What the kernel of a node and of a pod needs, as text for `ip -batch` and iptables-restore. Pure.
import { address, subnet } from "../lab/lines.ts";
import { type Addresses, type Family, outside, podNetworks } from "../lab/topology.ts";
import { podMac } from "./row-parts.ts";
import { type Cluster, type OvnNode, type OvnPod, ovnNodePlans } from "./topology.ts";

/** Of pods: what a tunnel adds has to fit into the underlay's 1500. */
const podMtu = 1400;

/** As address() does, of the cluster's families. */
function addresses(
  { families }: Cluster,
  both: Addresses,
  length: Readonly<Record<Family, number>>,
  device: string,
): string[] {
  const [four = "", six = ""] = address(both, length, device);
  return families.map((family) => (family === 4 ? four : six));
}

/** After ovs-vswitchd has made br-ex and ovn-k8s-mp0. */
export function nodeLines(cluster: Cluster, node: OvnNode): string[] {
  const plan = ovnNodePlans[node];
  return [
    "link set lo up",
    // It feeds OVS; the kernel has nothing to say there.
    "link set eth0 addrgenmode none",
    "link set eth0 up",
    ...addresses(cluster, plan.eth1, subnet, "eth1"),
    "link set eth1 up",
    ...address(plan["br-ex"], subnet, "br-ex"),
    "link set br-ex up",
    `link set ovn-k8s-mp0 mtu ${podMtu}`,
    ...addresses(cluster, plan["ovn-k8s-mp0"], subnet, "ovn-k8s-mp0"),
    "link set ovn-k8s-mp0 up",
    ...cluster.families.flatMap((family) => [
      `route add ${podNetworks[family]} via ${plan.gateway[family]} dev ovn-k8s-mp0`,
      `route add default via ${outside.ext.gateway[family]} dev br-ex metric 100`,
      `route add default via ${outside.sec.gateway[family]} dev eth1 metric 500`,
    ]),
  ];
}

/** Moves a pod's port out of its node. */
export function podPortLine(pod: OvnPod, namespace: string): string {
  return `link set ${pod.name} netns ${namespace} name eth0`;
}

export function podLines(cluster: Cluster, pod: OvnPod): string[] {
  return [
    "link set lo up",
    `link set eth0 address ${podMac(pod)} mtu ${podMtu}`,
    ...addresses(cluster, pod, subnet, "eth0"),
    "link set eth0 up",
    ...cluster.families.map(
      (family) => `route add default via ${ovnNodePlans[pod.node].gateway[family]} dev eth0`,
    ),
  ];
}

/** The node's own rules in one family. */
export function natRules({ gateway }: Cluster, node: OvnNode, family: Family): string {
  const plan = ovnNodePlans[node];
  return [
    "*nat",
    ":OVN-KUBE-SNAT-MGMTPORT - [0:0]",
    "-A POSTROUTING -o ovn-k8s-mp0 -j OVN-KUBE-SNAT-MGMTPORT",
    // What the host has to say to pods comes from the management port.
    `-A OVN-KUBE-SNAT-MGMTPORT -o ovn-k8s-mp0 -j SNAT --to-source ${plan["ovn-k8s-mp0"][family]}`,
    ...(gateway === "local" ? [`-A POSTROUTING -s ${plan.podNetwork[family]} -j MASQUERADE`] : []),
    "COMMIT",
    "",
  ].join("\n");
}

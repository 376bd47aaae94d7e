// What makes one node: Open vSwitch with everything in its database, then the kernel of the node and of its pods, then
// ovn-controller and the flows of br-ex. A plan in; effects inside of the node's and its pods' namespaces out.

import { mkdir } from "node:fs/promises";
import { run } from "../../lib/exec/index.ts";
import { serverPort } from "../lab/topology.ts";
import { inside, ipBatch, setSysctls, startServer } from "../lab/up.ts";
import { sysctlsWith } from "../lab/wiring.ts";
import { allEnded } from "../support/all-ended.ts";
import {
  bridgeFlows,
  markFlows,
  markRuleset,
  patchPortOf,
  podWords,
  switchWords,
  uplinkRuleset,
} from "./bridge.ts";
import { daemonOf, fileOf, type LabPlan, placeOfZone, program, zoneOf } from "./plan.ts";
import { tool } from "./tools.ts";
import { type OvnNode, type OvnPod, ovnNodePlans, servingPods } from "./topology.ts";
import { natRules, nodeLines, podLines, podPortLine } from "./wiring.ts";

export async function startDatabase(
  plan: LabPlan,
  node: OvnNode,
  place: string,
  name: "nb" | "sb" | "ovsdb",
  schema: string,
): Promise<void> {
  const file = fileOf(plan, place, name === "ovsdb" ? "conf.db" : `${name}.db`);
  await run(program(plan.ovs, "ovsdb-tool"), ["create", file, schema]);
  await daemonOf(plan, node, name).start();
}

/** Open vSwitch of a node, and what the kernel of the node and of its pods needs of it. */
export async function startSwitch(plan: LabPlan, node: OvnNode, wires: Promise<unknown>): Promise<void> {
  const namespace = `${plan.prefix}-${node}`;
  await mkdir(fileOf(plan, node, ""), { recursive: true });
  const pods = plan.pods.filter((pod) => pod.node === node);
  const southboundSocket = `unix:${fileOf(plan, placeOfZone(zoneOf(plan, node)), "sb.sock")}`;
  await startDatabase(plan, node, node, "ovsdb", plan.ovs.ovsSchema);
  await tool(plan, node, "ovs-vsctl", switchWords(plan, node, southboundSocket, pods));
  await wires;
  await inside(namespace, "nft", ["-f", "-"], uplinkRuleset);
  await daemonOf(plan, node, "vswitchd").start();
  await allEnded([
    tool(plan, node, "ovs-ofctl", ["replace-flows", "br-mp0", "-"], markFlows),
    inside(namespace, "nft", ["-f", "-"], markRuleset),
    ...plan.families.map((family) =>
      inside(
        namespace,
        `${family === 4 ? "iptables" : "ip6tables"}-${plan.backend}-restore`,
        ["-w", "5"],
        natRules(plan, node, family),
      ),
    ),
    setUpNode(plan, node, pods),
  ]);
}

async function setUpNode(plan: LabPlan, node: OvnNode, pods: readonly OvnPod[]): Promise<void> {
  const namespace = `${plan.prefix}-${node}`;
  const moves = pods.map((pod) => podPortLine(pod, `${plan.prefix}-${pod.name}`));
  await ipBatch(["-n", namespace], [...moves, ...nodeLines(plan, node)]);
  // As OVN-Kubernetes has it: what comes from a pod need not go back there by the node's own routes.
  await setSysctls(namespace, [["net.ipv4.conf.ovn-k8s-mp0.rp_filter", 2]]);
  const { "br-ex": primary, eth1, "ovn-k8s-mp0": mp0 } = ovnNodePlans[node];
  const addresses = plan.families.flatMap((family) => [primary[family], eth1[family], mp0[family]]);
  await allEnded([
    startServer(namespace, { name: node, ports: [serverPort], addresses }),
    ...pods.map((pod) => setUpPod(plan, pod, servingPods.includes(pod.name))),
  ]);
}

async function setUpPod(plan: LabPlan, pod: OvnPod, serves: boolean): Promise<void> {
  const namespace = `${plan.prefix}-${pod.name}`;
  await ipBatch(["-n", namespace], podLines(plan, pod));
  const addresses = plan.families.map((family) => pod[family]);
  if (serves) await startServer(namespace, { name: `pod ${pod.name}`, ports: [serverPort], addresses });
}

/** ovn-controller, and the flows of br-ex that lead to the port it makes there. */
export async function startOvn(plan: LabPlan, node: OvnNode): Promise<void> {
  await daemonOf(plan, node, "ovn-controller").start();
  for (const other of plan.nodes.filter((name) => name !== node)) {
    // A tunnel of the userspace datapath loses the packet for which it asks for the other end's MAC address.
    const { "br-ex": addresses, bridgeMac } = ovnNodePlans[other];
    await tool(plan, node, "ovs-appctl", ["tnl/neigh/set", "br-ex", addresses[4], bridgeMac]);
  }
  const patch = patchPortOf(node);
  await tool(plan, node, "ovs-vsctl", ["--timeout=20", "wait-until", "interface", patch, "ofport>0"]);
  const { stdout } = await tool(plan, node, "ovs-vsctl", ["get", "interface", patch, "ofport"]);
  const flows = bridgeFlows(plan, node, Number(stdout));
  await tool(plan, node, "ovs-ofctl", ["replace-flows", "br-ex", "-"], flows);
}

/** One pod more: its port, its namespace, what the kernel needs there. Its rows are the caller's. */
export async function plugIn(plan: LabPlan, pod: OvnPod, serves: boolean): Promise<void> {
  const namespace = `${plan.prefix}-${pod.name}`;
  await ipBatch([], [`netns add ${namespace}`]);
  await setSysctls(namespace, sysctlsWith([]));
  await tool(plan, pod.node, "ovs-vsctl", podWords(pod).slice(1));
  await ipBatch(["-n", `${plan.prefix}-${pod.node}`], [podPortLine(pod, namespace)]);
  await setUpPod(plan, pod, serves);
}

// Makes an OVN lab: namespaces, wires, databases with everything that is to be in them, and then the daemons that read them,
// so that none of them finds a half. A plan in; effects inside of the new namespaces and the lab's folder out.
import { mkdir } from "node:fs/promises";
import { run } from "../../lib/exec/index.ts";
import { internet, type OutsideName, outside, outsideNames, serverPort } from "../lab/topology.ts";
import { inside, ipBatch, setSysctls, startServer } from "../lab/up.ts";
import {
  mac,
  nodeSysctls,
  outsideBatch,
  outsideLinks,
  segmentOf,
  serverPortNumber,
  sysctlsWith,
} from "../lab/wiring.ts";
import {
  bridgeFlows,
  markFlows,
  markRuleset,
  patchPortOf,
  podWords,
  switchWords,
  uplinkRuleset,
} from "./bridge.ts";
import { namespacesOf } from "./down.ts";
import { northbound, southbound } from "./northbound.ts";
import {
  daemonOf,
  fileOf,
  folderOf,
  type LabPlan,
  placeOfZone,
  program,
  savePlan,
  type Tool,
  toolWords,
  zoneOf,
} from "./plan.ts";
import {
  joinGateway,
  type OvnNode,
  type OvnPod,
  ovnMac,
  ovnNodePlans,
  servingPods,
  type Zone,
  zonesOf,
} from "./topology.ts";
import { complaint, type Transaction } from "./transaction.ts";
import { natRules, nodeLines, podLines, podPortLine } from "./wiring.ts";

export function placesOf(plan: LabPlan): string[] {
  const central = plan.interconnect ? [] : ["central"];
  return [...outsideNames, ...central, ...plan.nodes, ...plan.pods.map(({ name }) => name)];
}

/** Makes the namespaces and the folder, or throws and makes none of them. */
export async function claim(plan: LabPlan): Promise<void> {
  const { prefix } = plan;
  const present = await namespacesOf(prefix);
  if (present.length > 0)
    throw new Error(`there is a lab "${prefix}" already, take it down first: ${present.join(" ")}`);
  await mkdir(folderOf(prefix));
  await savePlan(plan);
  await ipBatch(
    [],
    placesOf(plan).map((place) => `netns add ${prefix}-${place}`),
  );
}

/** Fills the claimed namespaces. What was made before a failure stays, for `takeDown`. */
export async function build(plan: LabPlan): Promise<void> {
  const namespace = (place: string) => `${plan.prefix}-${place}`;
  const isNode = (place: string) => (plan.nodes as readonly string[]).includes(place);
  await Promise.all(
    placesOf(plan).map((place) =>
      setSysctls(
        namespace(place),
        // A server's switch would also answer for it, with a MAC address of its own.
        isNode(place) ? nodeSysctls(plan.rpFilter) : sysctlsWith([["net.ipv4.conf.*.arp_ignore", 1]]),
      ),
    ),
  );
  const zones = new Map(zonesOf(plan).map((zone) => [zone, startZone(plan, zone)]));
  const wires = Promise.all(outsideNames.map((place) => wire(plan, place)));
  const starting = plan.nodes.map(async (node) => {
    await startSwitch(plan, node, wires);
    await zones.get([...zones.keys()].find(({ nodes }) => nodes.includes(node)) as Zone);
    await startOvn(plan, node);
  });
  await Promise.all([...starting, ...zones.values(), wires]);
  await Promise.all(zonesOf(plan).map((zone) => settle(plan, zone)));
}

async function wire(plan: LabPlan, place: OutsideName): Promise<void> {
  const namespace = `${plan.prefix}-${place}`;
  await ipBatch(
    ["-n", namespace],
    outsideLinks(place, plan.nodes, (far) => `${plan.prefix}-${far}`),
  );
  await ipBatch(["-n", namespace], outsideBatch(place, plan.nodes));
  // OVS takes frames as they lie: checksums have to be in them, and no frame may be larger than the link's.
  const off = ["tx", "tso", "gso", "gro"].flatMap((offload) => [offload, "off"]);
  await run("ip", ["netns", "exec", namespace, "ethtool", "-K", "lan", ...off]);
  // Whom nobody answers for is known after 0.3 s instead of 3.
  for (const family of ["ipv4", "ipv6"])
    await setSysctls(namespace, [[`net.${family}.neigh.lan.retrans_time_ms`, 100]]);
  const addresses = [outside[place].gateway, outside[place].server, internet].flatMap((both) => [
    both[4],
    both[6],
  ]);
  await startServer(namespace, { name: place, ports: [serverPort], addresses });
}

/** A zone's databases, filled, and then northd. */
async function startZone(plan: LabPlan, zone: Zone): Promise<void> {
  const [node] = zone.nodes;
  if (node === undefined) return;
  const place = placeOfZone(zone);
  await mkdir(fileOf(plan, place, ""), { recursive: true });
  await Promise.all([
    startDatabase(plan, node, place, "nb", plan.ovn.nbSchema).then(() =>
      transact(plan, node, "nb", northbound(plan, zone, plan.pods)),
    ),
    startDatabase(plan, node, place, "sb", plan.ovn.sbSchema).then(() =>
      transact(plan, node, "sb", southbound(plan, zone)),
    ),
  ]);
  await daemonOf(plan, node, "northd").start();
}

async function startDatabase(
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

/** Throws when any part of it was refused. */
export async function transact(
  plan: LabPlan,
  node: OvnNode,
  which: "nb" | "sb",
  transaction: Transaction,
): Promise<void> {
  const socket = `unix:${fileOf(plan, placeOfZone(zoneOf(plan, node)), `${which}.sock`)}`;
  const text = transaction.text(which === "nb" ? "OVN_Northbound" : "OVN_Southbound");
  const { stdout } = await run(program(plan.ovs, "ovsdb-client"), ["transact", socket, text]);
  const refused = complaint(stdout);
  if (refused !== undefined) throw new Error(`${socket}: ${refused}`);
}

/** Open vSwitch of a node, and what the kernel of the node and of its pods needs of it. */
async function startSwitch(plan: LabPlan, node: OvnNode, wires: Promise<unknown>): Promise<void> {
  const namespace = `${plan.prefix}-${node}`;
  await mkdir(fileOf(plan, node, ""), { recursive: true });
  const pods = plan.pods.filter((pod) => pod.node === node);
  const southboundSocket = `unix:${fileOf(plan, placeOfZone(zoneOf(plan, node)), "sb.sock")}`;
  await startDatabase(plan, node, node, "ovsdb", plan.ovs.ovsSchema);
  await tool(plan, node, "ovs-vsctl", switchWords(plan, node, southboundSocket, pods));
  await wires;
  await inside(namespace, "nft", ["-f", "-"], uplinkRuleset);
  await daemonOf(plan, node, "vswitchd").start();
  await Promise.all([
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
  await Promise.all([
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
async function startOvn(plan: LabPlan, node: OvnNode): Promise<void> {
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

/** Until every node of the zone has in its flows what is in the Northbound database. */
async function settle(plan: LabPlan, zone: Zone): Promise<void> {
  const [node] = zone.nodes;
  if (node === undefined) return;
  await tool(plan, node, "ovn-nbctl", ["--timeout=30", "--wait=sb", "sync"]);
  await bindRemotePorts(plan, zone, node);
  await learnNeighbours(plan, zone, node);
  await syncHv(plan, node);
}

/**
 * Gateway routers know the MAC addresses they need, as after some minutes in a cluster. ovn-controller keeps four packets while
 * it asks for one, so the first of many connections at once would be lost.
 */
async function learnNeighbours(plan: LabPlan, zone: Zone, node: OvnNode): Promise<void> {
  const outsideMac = mac(segmentOf.ext, serverPortNumber, "far");
  const words = await Promise.all(
    zone.nodes.map(async (name) => {
      const columns = [
        "--bare",
        "--columns=datapath",
        "find",
        "port_binding",
        `logical_port=rtoe-GR_${name}`,
      ];
      const { stdout: datapath } = await tool(plan, node, "ovn-sbctl", columns);
      const others = plan.nodes.filter((other) => other !== name).map((other) => ovnNodePlans[other]);
      const known = plan.families.flatMap((family) => [
        ...others.map((other) => ["rtoe", other["br-ex"][family], other.bridgeMac]),
        ["rtoe", outside.ext.gateway[family], outsideMac],
        ["rtoe", outside.ext.server[family], outsideMac],
        ["rtoj", joinGateway[family], ovnMac(joinGateway[4])],
      ]);
      return known.flatMap(([port, ip, neighbour]) => [
        ...["--", "create", "mac_binding", `logical_port=${port}-GR_${name}`, `ip="${ip}"`],
        ...[`mac="${neighbour}"`, `datapath=${datapath.trim()}`, `timestamp=${Date.now()}`],
      ]);
    }),
  );
  await tool(plan, node, "ovn-sbctl", words.flat());
}

export async function syncHv(plan: LabPlan, node: OvnNode): Promise<void> {
  await tool(plan, node, "ovn-nbctl", ["--timeout=30", "--wait=hv", "sync"]);
  // New flows are in the tables then. What the datapath remembers of the old ones would be looked at up to 0.5 s later.
  const { nodes } = zoneOf(plan, node);
  await Promise.all(nodes.map((name) => tool(plan, name, "ovs-appctl", ["revalidator/purge"])));
}

/** northd of 23.03 leaves the binding of another zone's ports to OVN-Kubernetes. */
async function bindRemotePorts(plan: LabPlan, zone: Zone, node: OvnNode): Promise<void> {
  if (plan.ovn.suite !== "bookworm") return;
  for (const other of plan.nodes.filter((name) => !zone.nodes.includes(name)))
    await tool(plan, node, "ovn-sbctl", ["lsp-bind", `tstor-${other}`, ovnNodePlans[other].chassis]);
}

/** Runs one of `toolWords`' tools. */
export async function tool(
  plan: LabPlan,
  node: OvnNode,
  name: Tool,
  args: readonly string[],
  input?: readonly string[],
) {
  const [command = "", ...words] = toolWords(plan, node, name);
  return await run(command, [...words, ...args], input && { input: `${input.join("\n")}\n` });
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

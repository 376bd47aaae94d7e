// Makes an OVN lab: namespaces, wires, databases with everything that is to be in them, and then the daemons that read them,
// so that none of them finds a half. A plan in; effects inside of the new namespaces and the lab's folder out.

import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { run } from "../../lib/exec/index.ts";
import { internet, type OutsideName, outside, outsideNames, serverPort } from "../lab/topology.ts";
import { ipBatch, setSysctls, startServer } from "../lab/up.ts";
import {
  mac,
  nodeSysctls,
  outsideBatch,
  outsideLinks,
  segmentOf,
  serverPortNumber,
  sysctlsWith,
} from "../lab/wiring.ts";
import { allEnded } from "../support/all-ended.ts";
import { namespacesOf } from "./down.ts";
import { northbound, southbound } from "./northbound.ts";
import { daemonOf, fileOf, folderOf, type LabPlan, placeOfZone, savePlan } from "./plan.ts";
import { syncHv, tool, transact } from "./tools.ts";
import { joinGateway, type OvnNode, ovnMac, ovnNodePlans, type Zone, zonesOf } from "./topology.ts";
import { startDatabase, startOvn, startSwitch } from "./up-node.ts";

export function placesOf(plan: LabPlan): string[] {
  const central = plan.interconnect ? [] : ["central"];
  return [...outsideNames, ...central, ...plan.nodes, ...plan.pods.map(({ name }) => name)];
}

/** Makes the lab's folder, or throws: of two runs with the same prefix one gets it. */
export async function claim(plan: LabPlan): Promise<void> {
  const folder = folderOf(plan.prefix);
  const present = await namespacesOf(plan.prefix);
  if (present.length === 0 && !existsSync(folder)) {
    await mkdir(folder);
    return await savePlan(plan);
  }
  const found = [...present, ...(existsSync(folder) ? [folder] : [])].join(" ");
  throw new Error(`there is a lab "${plan.prefix}" already, take it down first: ${found}`);
}

/** Makes everything else. What was made before a failure stays, for `takeDown`. */
export async function build(plan: LabPlan): Promise<void> {
  const namespace = (place: string) => `${plan.prefix}-${place}`;
  await ipBatch(
    [],
    placesOf(plan).map((place) => `netns add ${namespace(place)}`),
  );
  const isNode = (place: string) => (plan.nodes as readonly string[]).includes(place);
  await allEnded(
    placesOf(plan).map((place) =>
      setSysctls(
        namespace(place),
        // A server's switch would also answer for it, with a MAC address of its own.
        isNode(place) ? nodeSysctls(plan.rpFilter) : sysctlsWith([["net.ipv4.conf.*.arp_ignore", 1]]),
      ),
    ),
  );
  const zones = new Map(zonesOf(plan).map((zone) => [zone, startZone(plan, zone)]));
  const wires = allEnded(outsideNames.map((place) => wire(plan, place)));
  const starting = plan.nodes.map(async (node) => {
    await startSwitch(plan, node, wires);
    await zones.get([...zones.keys()].find(({ nodes }) => nodes.includes(node)) as Zone);
    await startOvn(plan, node);
  });
  await allEnded([...starting, ...zones.values(), wires]);
  await allEnded(zonesOf(plan).map((zone) => settle(plan, zone)));
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
  await allEnded([
    startDatabase(plan, node, place, "nb", plan.ovn.nbSchema).then(() =>
      transact(plan, node, "nb", northbound(plan, zone, plan.pods)),
    ),
    startDatabase(plan, node, place, "sb", plan.ovn.sbSchema).then(() =>
      transact(plan, node, "sb", southbound(plan, zone)),
    ),
  ]);
  await daemonOf(plan, node, "northd").start();
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
  const words = await allEnded(
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

/** northd of 23.03 leaves the binding of another zone's ports to OVN-Kubernetes. */
async function bindRemotePorts(plan: LabPlan, zone: Zone, node: OvnNode): Promise<void> {
  if (plan.ovn.suite !== "bookworm") return;
  for (const other of plan.nodes.filter((name) => !zone.nodes.includes(name)))
    await tool(plan, node, "ovn-sbctl", ["lsp-bind", `tstor-${other}`, ovnNodePlans[other].chassis]);
}

// One lab as values: what it was asked to be, where its files are, which program talks to which socket. Kept as JSON in the
// lab's folder, from which another process takes it up again. Pure but for the two functions that read and write it.
import { readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LabOptions } from "../lab/wiring.ts";
import type { OvnPrograms } from "../support/ovn-programs.ts";
import { Daemon } from "./daemons.ts";
import { type Cluster, type OvnNode, type OvnPod, type Zone, zonesOf } from "./topology.ts";

export interface LabPlan extends LabOptions, Cluster {
  readonly prefix: string;
  readonly ovn: OvnPrograms;
  /** Of another release where the other OVN's own is not fit (README.md). */
  readonly ovs: OvnPrograms;
  pods: readonly OvnPod[];
}

/** A Unix socket's path may have 107 bytes; the longest name in a folder here is ovn-controller's. */
const longestPath = 107 - "/central/ovn-controller.4194304.ctl".length;

export function folderOf(prefix: string): string {
  const folder = join(tmpdir(), prefix);
  if (folder.length > longestPath) throw new Error(`too long for sockets in it: ${folder}`);
  return folder;
}

export const planFile = (prefix: string) => join(folderOf(prefix), "lab.json");

export async function savePlan(plan: LabPlan): Promise<void> {
  await writeFile(planFile(plan.prefix), JSON.stringify(plan));
}

export async function loadPlan(prefix: string): Promise<LabPlan> {
  const text = await readFile(planFile(prefix), "utf8").catch(() => undefined);
  if (text === undefined) throw new Error(`there is no lab "${prefix}"`);
  return JSON.parse(text) as LabPlan;
}

export function zoneOf(plan: LabPlan, node: OvnNode): Zone {
  const zone = zonesOf(plan).find(({ nodes }) => nodes.includes(node));
  if (zone === undefined) throw new Error(`lab "${plan.prefix}" has no ${node}`);
  return zone;
}

/** Where a zone's databases live: on their node, or in a place of their own. */
export const placeOfZone = ({ name }: Zone) => (name === "global" ? "central" : name);

export function fileOf(plan: LabPlan, place: string, name: string): string {
  return join(folderOf(plan.prefix), place, name);
}

export const program = (from: OvnPrograms, name: string) => join(from.bin, name);

/** The daemons of a zone, by what they are called here; and those of each node. */
export type ZoneDaemon = "nb" | "sb" | "northd";
export type NodeDaemon = "ovsdb" | "vswitchd" | "ovn-controller";

export function daemonOf(plan: LabPlan, node: OvnNode, name: ZoneDaemon | NodeDaemon): Daemon {
  const onNode = name === "ovsdb" || name === "vswitchd" || name === "ovn-controller";
  const place = onNode ? node : placeOfZone(zoneOf(plan, node));
  const file = (base: string) => fileOf(plan, place, base);
  const server = (database: string, socket: string) => [
    program(plan.ovs, "ovsdb-server"),
    ...[`--unixctl=${file(`${name}.ctl`)}`, `--remote=punix:${file(socket)}`, file(database)],
  ];
  const [of = "", ...args] = {
    nb: server("nb.db", "nb.sock"),
    sb: server("sb.db", "sb.sock"),
    northd: [
      program(plan.ovn, "ovn-northd"),
      ...[`--unixctl=${file("northd.ctl")}`, "--ovnnb-db", `unix:${file("nb.sock")}`],
      ...["--ovnsb-db", `unix:${file("sb.sock")}`],
    ],
    ovsdb: server("conf.db", "db.sock"),
    vswitchd: [
      program(plan.ovs, "ovs-vswitchd"),
      `--unixctl=${file("vswitchd.ctl")}`,
      `unix:${file("db.sock")}`,
    ],
    // Of 23.03 it takes no --unixctl; its socket is ovn-controller.PID.ctl in the same folder.
    "ovn-controller": [program(plan.ovn, "ovn-controller"), `unix:${file("db.sock")}`],
  }[name];
  return new Daemon({
    namespace: `${plan.prefix}-${place}`,
    folder: fileOf(plan, place, ""),
    name,
    program: of,
    args,
  });
}

export type Tool = "ovn-nbctl" | "ovn-sbctl" | "ovn-trace" | "ovs-vsctl" | "ovs-ofctl" | "ovs-appctl";

/** A tool's command line, environment first, with the socket that it is to talk to. */
export function toolWords(plan: LabPlan, node: OvnNode, tool: Tool): string[] {
  const zone = placeOfZone(zoneOf(plan, node));
  const [place, from, ...words] = {
    "ovn-nbctl": [zone, plan.ovn, "--db", `unix:${fileOf(plan, zone, "nb.sock")}`] as const,
    "ovn-sbctl": [zone, plan.ovn, "--db", `unix:${fileOf(plan, zone, "sb.sock")}`] as const,
    "ovn-trace": [zone, plan.ovn, "--db", `unix:${fileOf(plan, zone, "sb.sock")}`] as const,
    "ovs-vsctl": [node, plan.ovs, "--db", `unix:${fileOf(plan, node, "db.sock")}`] as const,
    "ovs-ofctl": [node, plan.ovs, "-O", "OpenFlow15"] as const,
    "ovs-appctl": [node, plan.ovs, "-t", fileOf(plan, node, "vswitchd.ctl")] as const,
  }[tool];
  const folder = fileOf(plan, place, "");
  return ["env", `OVS_RUNDIR=${folder}`, `OVN_RUNDIR=${folder}`, program(from, tool), ...words];
}

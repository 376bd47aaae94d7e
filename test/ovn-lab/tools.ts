// Talking to a lab's databases and switches: OVN's and OVS's tools, a transaction, and waiting until flows are what rows say.
import { run } from "../../lib/exec/index.ts";
import { fileOf, type LabPlan, placeOfZone, program, type Tool, toolWords, zoneOf } from "./plan.ts";
import type { OvnNode } from "./topology.ts";
import { complaint, type Transaction } from "./transaction.ts";

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

export async function syncHv(plan: LabPlan, node: OvnNode): Promise<void> {
  await tool(plan, node, "ovn-nbctl", ["--timeout=30", "--wait=hv", "sync"]);
  // New flows are in the tables then. What the datapath remembers of the old ones would be looked at up to 0.5 s later.
  const { nodes } = zoneOf(plan, node);
  await Promise.all(nodes.map((name) => tool(plan, name, "ovs-appctl", ["revalidator/purge"])));
}

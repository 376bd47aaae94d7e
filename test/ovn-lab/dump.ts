// A node's Northbound database as text that is the same until somebody writes: a line for each row, sorted, columns sorted,
// rows named by what they are instead of by their UUID. What northd and ovn-controller report there is left out.
import { run } from "../../lib/exec/index.ts";
import { fileOf, type LabPlan, placeOfZone, program, zoneOf } from "./plan.ts";
import type { OvnNode } from "./topology.ts";

export interface DumpOptions {
  /** Each row's own UUID at its front, and rows referred to by theirs: tells a row from one made anew in its likeness. */
  readonly uuids?: boolean;
  /** Which rows; all of them by default. */
  readonly only?: (table: string, row: NorthboundRow) => boolean;
}

/** Columns as OVSDB's JSON has them (RFC 7047 section 5.1). */
export type NorthboundRow = Readonly<Record<string, unknown>>;

interface DumpedTable {
  readonly caption: string;
  readonly headings: readonly string[];
  readonly data: readonly (readonly unknown[])[];
}

/** Written by northd and ovn-controller, not by whoever configures. */
const reported: Readonly<Record<string, readonly string[]>> = {
  NB_Global: [
    "nb_cfg",
    "nb_cfg_timestamp",
    "sb_cfg",
    "sb_cfg_timestamp",
    "hv_cfg",
    "hv_cfg_timestamp",
    "options",
  ],
  Logical_Switch_Port: ["up", "dynamic_addresses"],
  Logical_Router_Port: ["status"],
  Connection: ["status", "is_connected"],
};

export async function northboundText(
  plan: LabPlan,
  node: OvnNode,
  options: DumpOptions = {},
): Promise<string> {
  const socket = `unix:${fileOf(plan, placeOfZone(zoneOf(plan, node)), "nb.sock")}`;
  const args = ["dump", "--format=json", socket, "OVN_Northbound"];
  const { stdout } = await run(program(plan.ovs, "ovsdb-client"), args);
  // A table of JSON on each line.
  const tables = stdout
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as DumpedTable);
  return textOf(tables, options);
}

/** Pure. */
function textOf(tables: readonly DumpedTable[], { uuids = false, only }: DumpOptions): string {
  const rows = tables.flatMap(({ caption, headings, data }) => {
    const table = caption.replace(/ table$/, "");
    return data.map((values) => ({
      table,
      row: Object.fromEntries(headings.map((heading, at) => [heading, values[at]])),
    }));
  });
  const names = new Map(
    rows.map(({ table, row }) => [uuidOf(row), uuids ? uuidOf(row) : nameOf(table, row)]),
  );
  const lines = rows
    .filter(({ table, row }) => only?.(table, row) ?? true)
    .map(({ table, row }) => {
      const columns = Object.entries(row)
        .filter(([column]) => !column.startsWith("_") && !reported[table]?.includes(column))
        .map(([column, value]): [string, string] => [column, shown(value, names)])
        .filter(([, value]) => value !== "" && value !== "{}")
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([column, value]) => `${column}=${value}`);
      return `${[table, ...(uuids ? [uuidOf(row)] : []), ...columns].join(" ")}\n`;
    });
  return lines.sort(byCodeUnit).join("");
}

const uuidOf = (row: NorthboundRow) => (row["_uuid"] as [string, string])[1];

/** What tells a row of its table from others: enough to compare texts, not unique. */
function nameOf(table: string, row: NorthboundRow): string {
  const telling = [
    "name",
    "priority",
    "match",
    "external_ip",
    "logical_ip",
    "ip_prefix",
    "nexthop",
    "policy",
  ];
  const values = telling.map((column) => shown(row[column], new Map())).filter((value) => value !== "");
  return `${table}(${values.join(" ")})`;
}

function shown(value: unknown, names: ReadonlyMap<string, string>): string {
  if (typeof value === "string")
    return /^[\w.:/@-]+$/.test(value) ? value : value === "" ? "" : JSON.stringify(value);
  if (!Array.isArray(value)) return value === undefined ? "" : String(value);
  const [kind, content] = value as [string, unknown];
  if (kind === "uuid") return names.get(content as string) ?? (content as string);
  if (kind === "set") {
    const members = (content as unknown[]).map((member) => shown(member, names)).sort(byCodeUnit);
    return members.length === 0 ? "" : members.length === 1 ? (members[0] ?? "") : `[${members.join(", ")}]`;
  }
  const pairs = (content as [unknown, unknown][]).map(
    ([key, member]) => `${shown(key, names)}=${shown(member, names) || '""'}`,
  );
  return `{${pairs.sort(byCodeUnit).join(", ")}}`;
}

const byCodeUnit = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

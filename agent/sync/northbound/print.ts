// Changes of northbound rows as text: table, parents, columns, and the id that tells whose row it is. Pure.
import type { ColumnValue, Row } from "../../model/northbound.ts";
import { ID_KEY } from "../../model/northbound-ids.ts";
import { changedColumns, changedIds, type RowChange } from "./changes.ts";

export function printChange(change: RowChange): string {
  switch (change.op) {
    case "insert":
      return `insert ${titleOf(change.row)} ${printColumns(change.row)}${idOf(change.row)}`;
    case "delete":
      return `delete ${titleOf(change.found)} ${printColumns(change.found)}${idOf(change.found)}${reasonOf(change.why)}`;
    case "update":
      return `update ${titleOf(change.row)} ${printUpdate(change.row, change.found)}${idOf(change.row)}`;
    case "members": {
      const { set, add, remove } = change;
      return `update Address_Set name=${set} ${[...add.map((one) => `+${one}`), ...remove.map((one) => `-${one}`)].join(" ")}`;
    }
    case "take-node-snat":
      return `delete NAT ${change.router}: type=snat logical_ip=${change.pod}  # would stand beside the egress IP's`;
    case "give-node-snat":
      return `insert NAT ${change.router}: type=snat external_ip=${change.node} logical_ip=${change.pod}  # leaves as its node again`;
  }
}

function titleOf({ table, on }: Row): string {
  return on.length === 0 ? `${table}` : `${table} ${on.join(",")}:`;
}

function printColumns({ columns }: Row): string {
  let text = "";
  for (const column in columns) {
    const value = columns[column] as ColumnValue;
    if (!isEmpty(value)) text += `${text === "" ? "" : " "}${column}=${printValue(value)}`;
  }
  return text;
}

/** What differs, as it was and as it is to be. */
function printUpdate(row: Row, found: Row): string {
  const parents =
    row.on.join() === found.on.join() ? [] : [`on ${found.on.join(",")} -> ${row.on.join(",")}`];
  const columns = changedColumns(row, found).map((column) => {
    const before = found.columns[column];
    return `${column}=${before === undefined ? "" : printValue(before)} -> ${printValue(row.columns[column] ?? "")}`;
  });
  const ids = changedIds(row, found).map((key) => `${key}=${found.ids[key] ?? ""} -> ${row.ids[key] ?? ""}`);
  const where = Object.entries(row.columns)
    .filter(
      ([column, value]) =>
        WHICH.has(column) && !isEmpty(value) && columns.every((text) => !text.startsWith(`${column}=`)),
    )
    .map(([column, value]) => `${column}=${printValue(value)}`);
  return [...where, ...parents, ...columns, ...ids].join(" ");
}

/** Columns by which a person tells one row from another. */
const WHICH: ReadonlySet<string> = new Set(["priority", "match", "logical_ip", "ip_prefix", "name"]);

function printValue(value: ColumnValue): string {
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return /^[-\w.:/$]+$/.test(value) ? value : JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.join(",")}]`;
  return `{${Object.entries(value)
    .map(([key, entry]) => `${key}=${entry}`)
    .join(",")}}`;
}

function isEmpty(value: ColumnValue): boolean {
  return typeof value === "object" ? Object.keys(value).length === 0 : value === "";
}

function idOf({ ids }: Row): string {
  const id = ids[ID_KEY];
  return id === undefined ? "" : `  # ${id}`;
}

function reasonOf(why: "unwanted" | "duplicate" | "gone-node"): string {
  return why === "unwanted" ? "" : ` (${why})`;
}

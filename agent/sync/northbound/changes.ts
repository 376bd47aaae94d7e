// What can be done to rows of the northbound database, and whether a row is as it should be. Pure.
import type { Address, Family } from "../../model/ip.ts";
import type { ColumnValue, FoundRow, Row } from "../../model/northbound.ts";
import { NODE_KEY, type PodSet } from "../../model/northbound-ids.ts";

export type RowChange =
  /** A row that is missing, under the parents it names; members are what a set of addresses begins with. */
  | { readonly op: "insert"; readonly row: Row }
  /** A row of ours, or one to adopt, that is not as it should be. */
  | { readonly op: "update"; readonly row: Row; readonly found: FoundRow }
  | { readonly op: "delete"; readonly found: FoundRow; readonly why: "unwanted" | "duplicate" | "gone-node" }
  /** Members of a set of addresses that all nodes of a zone write to: single ones, never the whole. */
  | {
      readonly op: "members";
      readonly of: PodSet;
      /** Name of the set, and its row; none where the set itself is made with these. */
      readonly set: string;
      readonly uuid: string | undefined;
      readonly family: Family;
      readonly add: readonly Address[];
      readonly remove: readonly Address[];
    }
  /** The row by which a pod leaves with its node's address, where the cluster gives each pod its own: taken or given back. */
  | {
      readonly op: "take-node-snat";
      readonly router: string;
      readonly pod: Address;
      readonly uuids: readonly string[];
    }
  | { readonly op: "give-node-snat"; readonly router: string; readonly pod: Address; readonly node: Address };

/**
 * OVN answers for the address of such a NAT row from then on; without it a pod needs the row by which it leaves with its node's
 * address.
 */
export function givesAnew(change: RowChange): boolean {
  if (change.op === "take-node-snat") return true;
  if (change.op !== "insert" && change.op !== "update") return false;
  const before = change.op === "update" ? change.found.columns["external_ip"] : undefined;
  return change.row.table === "NAT" && change.row.columns["external_ip"] !== before;
}

/** Columns that differ, of those that are wanted: what else a row holds is not looked at. */
export function changedColumns(row: Row, found: Row): readonly string[] {
  return Object.keys(row.columns).filter(
    (column) => !sameValue(row.columns[column] as ColumnValue, found.columns[column]),
  );
}

/** Other people's keys stay; that of the writer goes where a row is nobody's in particular any more. */
export function changedIds(row: Row, found: Row): readonly string[] {
  return [...new Set([...Object.keys(row.ids), NODE_KEY])].filter((key) => row.ids[key] !== found.ids[key]);
}

export function isAsWanted(row: Row, found: Row): boolean {
  return sameValue(row.on, found.on) && hasColumns(row, found) && hasIds(row, found);
}

/** A row that was predicted holds the very objects that are wanted. */
function hasColumns({ columns: wanted }: Row, { columns }: Row): boolean {
  if (wanted === columns) return true;
  for (const column in wanted) if (!sameValue(wanted[column] as ColumnValue, columns[column])) return false;
  return true;
}

function hasIds({ ids: wanted }: Row, { ids }: Row): boolean {
  if (wanted === ids) return true;
  for (const key in wanted) if (wanted[key] !== ids[key]) return false;
  return wanted[NODE_KEY] === ids[NODE_KEY];
}

function sameValue(wanted: ColumnValue, found: ColumnValue | undefined): boolean {
  if (wanted === found) return true;
  if (typeof wanted !== "object" || typeof found !== "object") return false;
  // Sets come in the database's order, which is nobody's here (known-faults BL-01).
  if (isList(wanted)) return isList(found) && hasMembers(wanted, found);
  return !isList(found) && isCovered(wanted, found) && isCovered(found, wanted);
}

/** Mostly both are in the same order. */
function hasMembers(wanted: readonly string[], found: readonly string[]): boolean {
  if (wanted.length === found.length && wanted.every((member, at) => member === found[at])) return true;
  const members = new Set(found);
  return wanted.length === members.size && wanted.every((member) => members.has(member));
}

type TextMap = Readonly<Record<string, string>>;

function isCovered(map: TextMap, by: TextMap): boolean {
  for (const key in map) if (map[key] !== by[key]) return false;
  return true;
}

function isList(value: ColumnValue): value is readonly string[] {
  return Array.isArray(value);
}

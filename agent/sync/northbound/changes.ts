// What can be done to rows of the northbound database, and whether a row is as it should be. Pure.
import type { Address, Family } from "../../model/ip.ts";
import type { ColumnValue, FoundRow, Row } from "../../model/northbound.ts";

export type RowChange =
  /** A row that is missing, under the parents it names; members are what a set of addresses begins with. */
  | { readonly op: "insert"; readonly row: Row }
  /** A row of ours, or one to adopt, that is not as it should be. */
  | { readonly op: "update"; readonly row: Row; readonly found: FoundRow }
  | { readonly op: "delete"; readonly found: FoundRow; readonly why: "unwanted" | "duplicate" | "gone-node" }
  /** Members of a set of addresses that all nodes of a zone write to: single ones, never the whole. */
  | {
      readonly op: "members";
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

/** Columns that differ, of those that are wanted: what else a row holds is not looked at. */
export function changedColumns(row: Row, found: Row): readonly string[] {
  return Object.keys(row.columns).filter(
    (column) => !sameValue(row.columns[column] as ColumnValue, found.columns[column]),
  );
}

export function changedIds(row: Row, found: Row): readonly string[] {
  return Object.keys(row.ids).filter((key) => row.ids[key] !== found.ids[key]);
}

export function isAsWanted(row: Row, found: Row): boolean {
  return (
    sameValue(row.on, found.on) &&
    changedColumns(row, found).length === 0 &&
    changedIds(row, found).length === 0
  );
}

function sameValue(wanted: ColumnValue, found: ColumnValue | undefined): boolean {
  if (typeof wanted !== "object") return wanted === found;
  if (typeof found !== "object") return false;
  const [a, b] = [Object.entries(wanted), Object.entries(found)];
  return (
    a.length === b.length &&
    a.every(([key, value]) => (found as Readonly<Record<string, unknown>>)[key] === value)
  );
}

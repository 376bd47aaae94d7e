// Rows of one table from what a monitor tells. In: an update and the row that was. Out: a frozen row, the very one that
// was if nothing is different. Pure.
import { ParseError } from "./errors.ts";
import type { WantedColumn } from "./tables.ts";
import type { Row, Uuid, Value } from "./types.ts";
import type { RowUpdate, WireRow } from "./updates.ts";
import { applyDifference, decodeValue, defaultValue, equalValues } from "./values.ts";

/** The row as it is after `update`, undefined for gone; `before` is of the same columns. Throws ParseError, also for a change of a row that is not there. */
export function rowAfter(
  columns: readonly WantedColumn[],
  before: Row | undefined,
  { table, uuid, kind, row }: RowUpdate,
): Row | undefined {
  if (kind === "whole") return sameOr(columns, before, wholeRow(columns, uuid, row));
  if (before === undefined) throw new ParseError(`${table} ${uuid}: ${kind}, and there is no such row`);
  return kind === "gone" ? undefined : sameOr(columns, before, changedRow(columns, before, row));
}

/** Every row of a table has the same properties in the same order: V8 then keeps one shape for all. */
function wholeRow(columns: readonly WantedColumn[], uuid: Uuid, wire: WireRow): Row {
  const row: Record<string, Value> & { _uuid: Uuid } = { _uuid: uuid };
  for (const { name, type } of columns) {
    const json = wire[name];
    row[name] = json === undefined ? defaultValue(type) : decodeValue(type, json);
  }
  return Object.freeze(row);
}

function changedRow(columns: readonly WantedColumn[], before: Row, wire: WireRow): Row {
  const row: Record<string, Value> & { _uuid: Uuid } = { _uuid: before._uuid };
  for (const { name, type } of columns) {
    const json = wire[name];
    row[name] = json === undefined ? before[name] : applyDifference(type, before[name], json);
  }
  return Object.freeze(row);
}

function sameOr(columns: readonly WantedColumn[], before: Row | undefined, after: Row): Row {
  if (before === undefined) return after;
  for (const { name } of columns) if (!equalValues(before[name], after[name])) return after;
  return before;
}

// What a monitor tells, in its two forms, as one: <table-updates> of RFC 7047 (4.1.6) and <table-updates2> of
// ovsdb-server(7) (4.1.14). In: JSON. Out: for each row its new whole, what is different in it, or that it is gone. Pure.
import { ParseError } from "./errors.ts";
import { isObject, type Json } from "./messages.ts";
import { isUuid, type Uuid } from "./types.ts";

export type WireRow = { readonly [column: string]: Json };

export interface RowUpdate {
  readonly table: string;
  readonly uuid: Uuid;
  /**
   * `whole`: columns left out have their default. `different`: columns left out are as they were, the others say what is
   * different. `gone`: no row.
   */
  readonly kind: "whole" | "different" | "gone";
  readonly row: WireRow;
}

export type UpdatesForm = 1 | 2;

const NO_ROW: WireRow = {};

/** Throws ParseError. */
export function parseUpdates(form: UpdatesForm, all: Json): readonly RowUpdate[] {
  const updates: RowUpdate[] = [];
  for (const [table, json] of Object.entries(object(all, "updates"))) {
    const rows = object(json, table);
    for (const uuid in rows) {
      if (!isUuid(uuid)) throw new ParseError(`${table}: not a uuid: ${uuid.slice(0, 50)}`);
      const of = object(rows[uuid], table);
      updates.push(form === 1 ? rowUpdate(table, uuid, of) : rowUpdate2(table, uuid, of));
    }
  }
  return updates;
}

/** `new` has every column that is monitored, whether the row is new or another than `old`. */
function rowUpdate(table: string, uuid: Uuid, change: WireRow): RowUpdate {
  const row = change["new"];
  if (row !== undefined && row !== null) return { table, uuid, kind: "whole", row: object(row, table) };
  if (change["old"] === undefined) throw new ParseError(`${table} ${uuid}: neither old nor new`);
  return { table, uuid, kind: "gone", row: NO_ROW };
}

function rowUpdate2(table: string, uuid: Uuid, change: WireRow): RowUpdate {
  const whole = change["initial"] ?? change["insert"];
  if (whole !== undefined && whole !== null) return { table, uuid, kind: "whole", row: object(whole, table) };
  const different = change["modify"];
  if (different !== undefined) return { table, uuid, kind: "different", row: object(different, table) };
  // Its value is null, or the row that was.
  if ("delete" in change) return { table, uuid, kind: "gone", row: NO_ROW };
  throw new ParseError(`${table} ${uuid}: none of initial, insert, modify, delete`);
}

function object(json: Json | undefined, what: string): WireRow {
  if (!isObject(json)) throw new ParseError(`${what}: not an object`);
  return json;
}

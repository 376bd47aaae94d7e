// How a database is monitored: the three requests that servers know, newest first, and what they answer.
// In: definitions, schema, the last transaction seen. Out: params to send; of a reply the contents or the delta. Pure.
import { encodeWhere } from "./encode-operations.ts";
import { ParseError, type RemoteError, UnsuitableServerError } from "./errors.ts";
import type { Json } from "./messages.ts";
import { type Schema, tableOf } from "./schema.ts";
import { type TableDefinition, wantedColumns } from "./tables.ts";
import { parseUpdates, type RowUpdate, type UpdatesForm } from "./updates.ts";

/** ovsdb-server(7): `_since` of 2.12, `_cond` of 2.6; RFC 7047 has `monitor` alone. */
export type MonitorMethod = "monitor_cond_since" | "monitor_cond" | "monitor";

export const FIRST_METHOD: MonitorMethod = "monitor_cond_since";

/** What to try when the server does not know a method. Undefined: this error is about something else. */
export function methodAfter(method: MonitorMethod, { error }: RemoteError): MonitorMethod | undefined {
  if (error !== "unknown method") return undefined;
  return method === "monitor_cond_since" ? "monitor_cond" : method === "monitor_cond" ? "monitor" : undefined;
}

/**
 * Only what the schema has. Throws UnsuitableServerError where rows are to be left out and the server knows no
 * conditions, SchemaMismatchError, UnknownColumnError.
 */
export function monitorRequests(
  method: MonitorMethod,
  definitions: readonly TableDefinition[],
  schema: Schema,
): { readonly [table: string]: Json } {
  const requests: Record<string, Json> = {};
  for (const definition of definitions) {
    const columns = wantedColumns(definition, schema);
    if (columns === undefined) continue;
    const where = encodeWhere(tableOf(schema, definition.name), definition.where);
    if (where.length > 0 && method === "monitor")
      throw new UnsuitableServerError(
        `the server cannot leave out rows of ${definition.name}: it has no monitor_cond`,
      );
    requests[definition.name] = [
      {
        columns: columns.filter(({ read }) => read).map(({ name }) => name),
        ...(where.length === 0 ? {} : { where }),
      },
    ];
  }
  return requests;
}

export function monitorParams(
  method: MonitorMethod,
  database: string,
  id: string,
  requests: Json,
  lastTransaction: string,
): readonly Json[] {
  return method === "monitor_cond_since"
    ? [database, id, requests, lastTransaction]
    : [database, id, requests];
}

export interface MonitorReply {
  /** The updates are what happened since the last transaction seen; otherwise they are everything. */
  readonly found: boolean;
  /** To ask with the next time; undefined where the server does not say. */
  readonly lastTransaction: string | undefined;
  readonly updates: readonly RowUpdate[];
}

/** Throws ParseError. */
export function parseMonitorReply(method: MonitorMethod, result: Json): MonitorReply {
  if (method !== "monitor_cond_since") {
    const form: UpdatesForm = method === "monitor" ? 1 : 2;
    return { found: false, lastTransaction: undefined, updates: parseUpdates(form, result) };
  }
  const [found, lastTransaction, updates] = Array.isArray(result) ? (result as readonly Json[]) : [];
  if (typeof found !== "boolean" || typeof lastTransaction !== "string" || updates === undefined)
    throw new ParseError("a reply to monitor_cond_since that is none");
  return { found, lastTransaction, updates: parseUpdates(2, updates) };
}

export interface MonitorUpdate {
  readonly id: Json;
  readonly lastTransaction: string | undefined;
  readonly updates: readonly RowUpdate[];
}

/** `update`, `update2`, `update3`; undefined for any other notification. Throws ParseError. */
export function parseUpdateNotification(method: string, params: readonly Json[]): MonitorUpdate | undefined {
  const [id = null, second = null, third = null] = params;
  switch (method) {
    case "update":
      return { id, lastTransaction: undefined, updates: parseUpdates(1, second) };
    case "update2":
      return { id, lastTransaction: undefined, updates: parseUpdates(2, second) };
    case "update3":
      if (typeof second !== "string") throw new ParseError("update3 without transaction id");
      return { id, lastTransaction: second, updates: parseUpdates(2, third) };
    default:
      return undefined;
  }
}

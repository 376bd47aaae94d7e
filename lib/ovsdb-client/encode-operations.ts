// Operations to the JSON of `transact` (RFC 7047, 4.1.3 and 5.2), and the reply to results.
// In: operations and the server's schema. Out: JSON, or UnknownColumnError or ValueError with nothing sent; of a reply
// the results, or the OperationError of the one that failed. Pure.
import { encodeAtom, encodeSet, encodeValue } from "./encode.ts";
import { OperationError, ParseError, ValueError } from "./errors.ts";
import { isObject, type Json } from "./messages.ts";
import type { Condition, Mutation, Operation, ResultOf, WrittenRow } from "./operations.ts";
import { columnOf, type Schema, type TableSchema, tableOf } from "./schema.ts";
import { isUuid, type Row, type Uuid, type Value } from "./types.ts";
import { decodeValue } from "./values.ts";

export function encodeOperations(schema: Schema, operations: readonly Operation[]): readonly Json[] {
  return operations.map((operation) => encodeOperation(schema, operation));
}

function encodeOperation(schema: Schema, operation: Operation): Json {
  const { op } = operation;
  switch (op) {
    case "insert": {
      const { name, uuid } = operation;
      const table = tableOf(schema, operation.table);
      return {
        op,
        table: table.name,
        row: encodeRow(table, operation.row),
        ...(name === undefined ? {} : { "uuid-name": name }),
        ...(uuid === undefined ? {} : { uuid }),
      };
    }
    case "select": {
      const table = tableOf(schema, operation.table);
      const columns = operation.columns?.map((column) => columnOf(table, column).name);
      const where = encodeWhere(table, operation.where);
      return { op, table: table.name, where, ...(columns === undefined ? {} : { columns }) };
    }
    case "update": {
      const table = tableOf(schema, operation.table);
      const where = encodeWhere(table, operation.where);
      return { op, table: table.name, where, row: encodeRow(table, operation.row) };
    }
    case "mutate": {
      const table = tableOf(schema, operation.table);
      const mutations = operation.mutations.map((mutation) => encodeMutation(table, mutation));
      return { op, table: table.name, where: encodeWhere(table, operation.where), mutations };
    }
    case "delete": {
      const table = tableOf(schema, operation.table);
      return { op, table: table.name, where: encodeWhere(table, operation.where) };
    }
    case "wait": {
      const { until, timeout } = operation;
      const table = tableOf(schema, operation.table);
      return {
        op,
        table: table.name,
        where: encodeWhere(table, operation.where),
        columns: operation.columns.map((column) => columnOf(table, column).name),
        until,
        rows: operation.rows.map((row) => encodeRow(table, row)),
        ...(timeout === undefined ? {} : { timeout }),
      };
    }
    case "commit":
      return { op, durable: operation.durable };
    case "abort":
      return { op };
    case "comment":
      return { op, comment: operation.comment };
    case "assert":
      return { op, lock: operation.lock };
  }
}

function encodeRow(table: TableSchema, row: WrittenRow): Json {
  const encoded: Record<string, Json> = {};
  for (const name in row)
    encoded[name] = encodeValue(`${table.name}.${name}`, columnOf(table, name), row[name]);
  return encoded;
}

export function encodeWhere(table: TableSchema, where: readonly Condition[]): readonly Json[] {
  return where.map((condition): Json => {
    if (typeof condition === "boolean") return condition;
    const [name, is, value] = condition;
    return [name, is, encodeValue(`${table.name}.${name}`, columnOf(table, name), value, true)];
  });
}

function encodeMutation(table: TableSchema, [name, mutator, value]: Mutation): Json {
  const column = columnOf(table, name);
  const where = `${table.name}.${name}`;
  if (mutator !== "insert" && mutator !== "delete")
    return [name, mutator, encodeAtom(where, column.key.type, value)];
  if (column.shape === "one") throw new ValueError(`${where}: ${mutator} is for sets and maps`);
  // Pairs are deleted by key alone, or only where key and value are those.
  if (mutator === "delete" && column.shape === "map" && Array.isArray(value))
    return [name, mutator, encodeSet(where, column, value, true)];
  return [name, mutator, encodeValue(where, column, value, true)];
}

/**
 * `reply` has one member for each operation, null after the first that failed, and one more if committing failed.
 * Throws OperationError, ParseError.
 */
export function decodeResults(
  schema: Schema,
  operations: readonly Operation[],
  reply: Json,
): readonly ResultOf<Operation>[] {
  if (!Array.isArray(reply)) throw new ParseError("a reply to transact that is no array");
  const failed = (reply as readonly Json[]).findIndex(
    (result) => isObject(result) && result["error"] !== undefined,
  );
  if (failed !== -1) {
    const { error, details, syntax } = reply[failed] as { readonly [name: string]: Json };
    const parts = [details, typeof syntax === "string" ? `syntax ${syntax}` : ""];
    throw new OperationError(
      failed,
      operations[failed],
      typeof error === "string" ? error : JSON.stringify(error),
      parts.filter((part) => typeof part === "string" && part !== "").join("; "),
    );
  }
  return operations.map((operation, at) => decodeResult(schema, operation, reply[at] as Json | undefined));
}

function decodeResult(schema: Schema, operation: Operation, result: Json | undefined): ResultOf<Operation> {
  if (!isObject(result)) throw new ParseError(`no result of ${operation.op}: ${JSON.stringify(result)}`);
  switch (operation.op) {
    case "insert": {
      const { uuid } = result;
      if (Array.isArray(uuid) && isUuid(uuid[1])) return { uuid: uuid[1] };
      break;
    }
    case "select": {
      const { rows } = result;
      const table = tableOf(schema, operation.table);
      if (Array.isArray(rows)) return { rows: rows.map((row: Json) => decodeRow(table, row)) };
      break;
    }
    case "update":
    case "mutate":
    case "delete":
      if (typeof result["count"] === "number") return { count: result["count"] };
      break;
    case "wait":
    case "commit":
    case "abort":
    case "comment":
    case "assert":
      return {};
  }
  throw new ParseError(`not a result of ${operation.op}: ${JSON.stringify(result).slice(0, 200)}`);
}

/** Columns as they come: a select may have asked for some, or for all, `_version` among them. */
function decodeRow(table: TableSchema, json: Json): Row {
  if (!isObject(json)) throw new ParseError(`a row of ${table.name} that is no object`);
  const row: Record<string, Value> = {};
  for (const [name, value] of Object.entries(json)) row[name] = decodeValue(columnOf(table, name), value);
  return Object.freeze(row as Record<string, Value> & { _uuid: Uuid });
}

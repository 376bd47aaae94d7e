// A database's schema (RFC 7047, 3.2) as get_schema gives it. In: JSON. Out: tables and the types of their columns, and
// answers to "is there such a column". Pure.
import { ParseError, UnknownColumnError } from "./errors.ts";
import { isObject, type Json } from "./messages.ts";
import { type Atom, type AtomName, type BaseType, type ColumnType, shapeOf } from "./types.ts";

export interface ColumnSchema extends ColumnType {
  readonly name: string;
  readonly mutable: boolean;
  /** Not kept over a restart of the server. */
  readonly ephemeral: boolean;
}

export interface TableSchema {
  readonly name: string;
  /** A row of any other table lives only as long as something refers to it. */
  readonly isRoot: boolean;
  /** Infinity where nothing is said. */
  readonly maxRows: number;
  readonly indexes: readonly (readonly string[])[];
  /** Without `_uuid` and `_version`, which every table has. */
  readonly columns: ReadonlyMap<string, ColumnSchema>;
}

export interface Schema {
  readonly name: string;
  /** "7.3.0"; "" where the schema has none. */
  readonly version: string;
  readonly tables: ReadonlyMap<string, TableSchema>;
}

export const hasTable = (schema: Schema, table: string): boolean => schema.tables.has(table);

/** `_uuid` and `_version` are columns of every table. */
export const hasColumn = (schema: Schema, table: string, column: string): boolean => {
  const columns = schema.tables.get(table)?.columns;
  return columns !== undefined && (columns.has(column) || IMPLIED.has(column));
};

/** Throws UnknownColumnError. */
export function tableOf(schema: Schema, table: string): TableSchema {
  const found = schema.tables.get(table);
  if (found === undefined) throw new UnknownColumnError(table);
  return found;
}

/** Throws UnknownColumnError. */
export function columnOf(table: TableSchema, column: string): ColumnSchema {
  const found = table.columns.get(column) ?? IMPLIED.get(column);
  if (found === undefined) throw new UnknownColumnError(table.name, column);
  return found;
}

const IMPLIED: ReadonlyMap<string, ColumnSchema> = new Map(
  ["_uuid", "_version"].map((name) => [
    name,
    { name, key: { type: "uuid" }, min: 1, max: 1, shape: "one", mutable: false, ephemeral: false },
  ]),
);

/** Throws ParseError. */
export function parseSchema(json: Json): Schema {
  const { name, version, tables } = object(json, "schema");
  if (typeof name !== "string") throw new ParseError("a schema without name");
  return {
    name,
    version: typeof version === "string" ? version : "",
    tables: new Map(entries(tables, "tables").map(([table, of]) => [table, parseTable(table, of)])),
  };
}

function parseTable(name: string, json: Json): TableSchema {
  const { columns, isRoot, maxRows, indexes } = object(json, name);
  return {
    name,
    isRoot: isRoot === true,
    maxRows: typeof maxRows === "number" ? maxRows : Infinity,
    indexes: Array.isArray(indexes) ? (indexes as readonly (readonly string[])[]) : [],
    columns: new Map(
      entries(columns, `columns of ${name}`).map(([column, of]) => [
        column,
        parseColumn(`${name}.${column}`, column, of),
      ]),
    ),
  };
}

function parseColumn(where: string, name: string, json: Json): ColumnSchema {
  const { type = null, mutable, ephemeral } = object(json, where);
  const flags = { mutable: mutable !== false, ephemeral: ephemeral === true };
  if (typeof type === "string")
    return { name, key: parseBase(where, type), min: 1, max: 1, shape: "one", ...flags };
  const { key = null, value, min = 1, max = 1 } = object(type, where);
  const most = max === "unlimited" ? Infinity : max;
  if ((min !== 0 && min !== 1) || typeof most !== "number")
    throw new ParseError(`${where}: not a type: ${shown(type)}`);
  return {
    name,
    key: parseBase(where, key),
    ...(value === undefined ? {} : { value: parseBase(where, value) }),
    min,
    max: most,
    shape: shapeOf(value !== undefined, min, most),
    ...flags,
  };
}

const ATOMS: readonly string[] = ["integer", "real", "boolean", "string", "uuid"] satisfies AtomName[];
const isAtomName = (value: unknown): value is AtomName => typeof value === "string" && ATOMS.includes(value);

function parseBase(where: string, json: Json): BaseType {
  if (isAtomName(json)) return { type: json };
  const { type, enum: allowed, refTable, refType } = object(json, where);
  if (!isAtomName(type)) throw new ParseError(`${where}: not a type: ${shown(json)}`);
  return {
    type,
    ...(allowed === undefined ? {} : { enum: members(allowed) }),
    ...(typeof refTable === "string" ? { refTable, refType: refType === "weak" ? "weak" : "strong" } : {}),
  };
}

function members(json: Json): readonly Atom[] {
  return (Array.isArray(json) && json[0] === "set" ? json[1] : [json]) as readonly Atom[];
}

function object(json: Json | undefined, what: string): { readonly [name: string]: Json } {
  if (!isObject(json)) throw new ParseError(`${what}: not an object`);
  return json;
}

const entries = (json: Json | undefined, what: string): readonly [string, Json][] =>
  Object.entries(object(json, what));
const shown = (json: Json): string => JSON.stringify(json).slice(0, 200);

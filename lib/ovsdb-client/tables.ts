// What a caller wants to read, as a value: which columns of which table, of what type, and which rows.
// In: names and column kinds. Out: a definition whose rows TypeScript knows. Pure.
import { SchemaMismatchError } from "./errors.ts";
import type { Condition } from "./operations.ts";
import type { Schema } from "./schema.ts";
import { type AtomName, type ColumnType, type Row, shapeOf, type Uuid, type Value } from "./types.ts";

/** A column's type as a definition says it. `T` is what its rows hold. */
export interface Column<T extends Value = Value> extends ColumnType {
  /** Never there: carries the type. */
  readonly holds?: T;
}

function kind<T extends Value>(key: AtomName, min: 0 | 1, max: number, value?: AtomName): Column<T> {
  return {
    key: { type: key },
    ...(value === undefined ? {} : { value: { type: value } }),
    min,
    max,
    shape: shapeOf(value !== undefined, min, max),
  };
}

type Single<T extends string | number | boolean> = Column<T> & { readonly shape: Column["shape"] };

/**
 * Kinds of columns: `column.string`, `column.optional(column.uuid)`, `column.set(column.string)`,
 * `column.map(column.string, column.integer)`.
 */
export const column = {
  integer: kind<number>("integer", 1, 1),
  real: kind<number>("real", 1, 1),
  boolean: kind<boolean>("boolean", 1, 1),
  string: kind<string>("string", 1, 1),
  uuid: kind<Uuid>("uuid", 1, 1),
  /** At most one value: read as the value or undefined. */
  optional: <T extends string | number | boolean>(of: Single<T>): Column<T | undefined> =>
    kind(of.key.type, 0, 1),
  /** Any other number of values: read as a sorted array. */
  set: <T extends string | number | boolean>(of: Single<T>): Column<readonly T[]> =>
    kind(of.key.type, 0, Infinity),
  /** Read as an object; a key that is no text is in text. */
  map: <T extends string | number | boolean>(
    key: Single<string> | Single<number> | Single<boolean> | Single<Uuid>,
    value: Single<T>,
  ): Column<Readonly<Record<string, T>>> => kind(key.key.type, 0, Infinity, value.key.type),
} as const;

export interface TableDefinition<R extends Row = Row> {
  readonly name: string;
  /** Undefined: every column that the schema has. */
  readonly columns: readonly string[] | undefined;
  /** By name, where the definition says types. */
  readonly kinds: ReadonlyMap<string, Column>;
  /** Rows that match any of these; all rows if there is none. */
  readonly where: readonly Condition[];
  /** Never there: carries the type. */
  readonly row?: R;
}

export type RowOf<D> = D extends TableDefinition<infer R> ? R : never;

type RowOfColumns<C extends Readonly<Record<string, Column>>> = { readonly _uuid: Uuid } & {
  readonly [K in keyof C]: C[K] extends Column<infer T> ? T : never;
};

export interface TableOptions {
  /** Rows that match any of these (ovsdb-server(7), 4.1.12): unlike in an operation, where all have to. */
  readonly where?: readonly Condition[];
}

/** Columns by name: what they hold is what the schema says, and TypeScript knows only that it is a Value. */
export function defineTable(
  name: string,
  columns?: readonly string[],
  options?: TableOptions,
): TableDefinition;
/**
 * Columns with their kinds. A column that the server's schema lacks is not asked for and reads as what it would hold had
 * it just been added (its default); one of another kind in the schema is a SchemaMismatchError.
 */
export function defineTable<const C extends Readonly<Record<string, Column>>>(
  name: string,
  columns: C,
  options?: TableOptions,
): TableDefinition<RowOfColumns<C>>;
export function defineTable(
  name: string,
  columns?: readonly string[] | Readonly<Record<string, Column>>,
  options: TableOptions = {},
): TableDefinition {
  const { where = [] } = options;
  if (columns === undefined || isList(columns)) return { name, columns, kinds: new Map(), where };
  return { name, columns: Object.keys(columns), kinds: new Map(Object.entries(columns)), where };
}

const isList = (value: unknown): value is readonly string[] => Array.isArray(value);

/** The columns that can be read, in the definition's order; `read` is false for one that the schema lacks. */
export interface WantedColumn {
  readonly name: string;
  readonly type: ColumnType;
  readonly read: boolean;
}

/** Undefined if the schema has no such table. Throws SchemaMismatchError. */
export function wantedColumns(
  { name: table, columns, kinds }: TableDefinition,
  schema: Schema,
): readonly WantedColumn[] | undefined {
  const known = schema.tables.get(table)?.columns;
  if (known === undefined) return undefined;
  const wanted: WantedColumn[] = [];
  for (const name of columns ?? known.keys()) {
    if (name === "_uuid") continue;
    const [expected, found] = [kinds.get(name), known.get(name)];
    if (found !== undefined) {
      if (expected !== undefined && kindText(expected) !== kindText(found))
        throw new SchemaMismatchError(
          `${schema.name} ${schema.version}: ${table}.${name} is ${kindText(found)}, not ${kindText(expected)}`,
        );
      wanted.push({ name, type: found, read: true });
    } else if (expected !== undefined) wanted.push({ name, type: expected, read: false });
  }
  return wanted;
}

function kindText({ shape, key, value }: ColumnType): string {
  const of = value === undefined ? key.type : `${key.type} to ${value.type}`;
  return shape === "one" ? of : `${shape} of ${of}`;
}

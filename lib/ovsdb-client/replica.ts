// What is known of the database: tables of rows, kept current by whole contents and by updates.
// In: updates of a monitor. Out: the changes, and the tables to read. An update is applied whole or not at all. Pure.
import { ParseError, SettingError } from "./errors.ts";
import { createLookup, type KeyOf, keyOfColumn, type LiveLookup, type Lookup } from "./lookup.ts";
import { rowAfter } from "./rows.ts";
import type { Schema } from "./schema.ts";
import { type TableDefinition, type WantedColumn, wantedColumns } from "./tables.ts";
import type { Atom, Row, Uuid } from "./types.ts";
import type { RowUpdate } from "./updates.ts";

export interface TableReplica<R extends Row = Row> {
  readonly name: string;
  /** Live: the same map for the session's whole life. A row that is unchanged is the same object. */
  readonly rows: ReadonlyMap<Uuid, R>;
  /** Another number whenever a row of the table is another. */
  readonly version: number;
  /** Rows by a column's value, or by what a function says of a row. From then on kept current; ask once and keep it. */
  lookup(column: keyof R & string): Lookup<R, Atom>;
  lookup<K>(keyOf: KeyOf<R, K>): Lookup<R, K>;
}

export interface Replica {
  /**
   * The contents are those of the server, but for what is under way. False before the first time and while there is no
   * connection: then they are what they last were, and an empty table says nothing about the database.
   */
  readonly current: boolean;
  /** Another number whenever any row is another. */
  readonly version: number;
  /** Throws SettingError for a table that is not among the session's. A table that the schema lacks is empty. */
  table<R extends Row>(definition: TableDefinition<R>): TableReplica<R>;
  table(name: string): TableReplica;
}

export interface RowChange<R extends Row = Row> {
  readonly uuid: Uuid;
  /** Undefined for a row that is new. */
  readonly before: R | undefined;
  /** Undefined for a row that is gone. */
  readonly after: R | undefined;
}

/** What one update changed: only tables and rows that really are different. */
export interface Changes {
  readonly tables: ReadonlyMap<string, readonly RowChange[]>;
  of<R extends Row>(definition: TableDefinition<R>): readonly RowChange<R>[];
}

interface LiveTable {
  readonly definition: TableDefinition;
  readonly rows: Map<Uuid, Row>;
  readonly lookups: LiveLookup<Row, unknown>[];
  columns: readonly WantedColumn[];
  version: number;
}

export interface LiveReplica extends Replica {
  setCurrent(current: boolean): void;
  /** Takes `updates` for everything there is; columns are those of `schema`. */
  replaceAll(schema: Schema, updates: readonly RowUpdate[]): Changes;
  /** Throws ParseError with nothing changed. */
  apply(updates: readonly RowUpdate[]): Changes;
}

/** Throws SettingError for a table that is defined twice. */
export function createReplica(definitions: readonly TableDefinition[]): LiveReplica {
  const tables = new Map<string, LiveTable>();
  for (const definition of definitions) {
    if (tables.has(definition.name)) throw new SettingError(`table ${definition.name} is defined twice`);
    tables.set(definition.name, { definition, rows: new Map(), lookups: [], columns: [], version: 0 });
  }
  const views = new Map([...tables].map(([name, table]) => [name, viewOf(table)]));
  let current = false;
  let version = 0;

  /** First everything is worked out, then everything is changed. */
  const carryOut = (planned: readonly (readonly [LiveTable, readonly RowChange[]])[]): Changes => {
    const keyed = planned.map(([{ lookups }, changes]) =>
      lookups.map((lookup) =>
        changes.map(({ after }) => (after === undefined ? NO_KEYS : lookup.keysOf(after))),
      ),
    );
    for (const [table, changes] of planned) {
      if (changes.length === 0) continue;
      for (const { uuid, after } of changes) {
        if (after === undefined) table.rows.delete(uuid);
        else table.rows.set(uuid, after);
      }
      table.version++;
    }
    for (const [at, [{ lookups }, changes]] of planned.entries())
      for (const [which, lookup] of lookups.entries())
        for (const [row, { uuid, after }] of changes.entries()) {
          if (after === undefined) lookup.drop(uuid);
          else lookup.put(after, keyed[at]?.[which]?.[row] ?? NO_KEYS);
        }
    const told = new Map(
      planned.filter(([, { length }]) => length > 0).map(([{ definition }, rows]) => [definition.name, rows]),
    );
    if (told.size > 0) version++;
    return changesOf(told);
  };

  return {
    get current() {
      return current;
    },
    get version() {
      return version;
    },
    table: (which: TableDefinition | string) => {
      const name = typeof which === "string" ? which : which.name;
      const view = views.get(name);
      if (view === undefined) throw new SettingError(`table ${name} is not among those of the session`);
      return view as TableReplica<never>;
    },
    setCurrent: (value) => {
      current = value;
    },
    replaceAll: (schema, updates) => {
      const found = [...tables.values()].map((table) => {
        const columns = wantedColumns(table.definition, schema) ?? [];
        return { table, columns, rows: new Map<Uuid, Row>(), alike: isAlike(table.columns, columns) };
      });
      const byName = new Map(found.map((of) => [of.table.definition.name, of]));
      for (const update of updates) {
        const { uuid, kind } = update;
        const of = byName.get(update.table);
        if (of === undefined)
          throw new ParseError(`updates of ${update.table}, a table that was not asked for`);
        if (kind !== "whole")
          throw new ParseError(`${update.table} ${uuid}: ${kind} among the first contents`);
        const row = rowAfter(of.columns, of.alike ? of.table.rows.get(uuid) : undefined, update);
        if (row !== undefined) of.rows.set(uuid, row);
      }
      const changes = carryOut(found.map(({ table, rows }) => [table, rowChanges(table.rows, rows)]));
      for (const { table, columns } of found) table.columns = columns;
      return changes;
    },
    apply: (updates) => {
      const planned = new Map<LiveTable, RowChange[]>();
      for (const update of updates) {
        const table = tables.get(update.table);
        if (table === undefined)
          throw new ParseError(`updates of ${update.table}, a table that was not asked for`);
        const before = table.rows.get(update.uuid);
        const after = rowAfter(table.columns, before, update);
        if (after === before) continue;
        const changes = planned.get(table);
        const change = { uuid: update.uuid, before, after };
        if (changes === undefined) planned.set(table, [change]);
        else changes.push(change);
      }
      return carryOut([...planned]);
    },
  };
}

/** What is different between two sets of rows, told by the identity of the rows. */
function rowChanges(before: ReadonlyMap<Uuid, Row>, after: ReadonlyMap<Uuid, Row>): readonly RowChange[] {
  const changes: RowChange[] = [];
  for (const [uuid, row] of before)
    if (!after.has(uuid)) changes.push({ uuid, before: row, after: undefined });
  for (const [uuid, row] of after) {
    const was = before.get(uuid);
    if (was !== row) changes.push({ uuid, before: was, after: row });
  }
  return changes;
}

const isAlike = (a: readonly WantedColumn[], b: readonly WantedColumn[]): boolean =>
  a.length === b.length &&
  a.every(({ name, type }, at) => b[at]?.name === name && b[at].type.shape === type.shape);

const NO_KEYS: readonly never[] = Object.freeze([]);
const NO_CHANGES: readonly never[] = Object.freeze([]);

function changesOf(tables: ReadonlyMap<string, readonly RowChange[]>): Changes {
  return {
    tables,
    of: <R extends Row>({ name }: TableDefinition<R>) =>
      (tables.get(name) ?? NO_CHANGES) as readonly RowChange<R>[],
  };
}

function viewOf(table: LiveTable): TableReplica {
  const { rows, lookups, definition } = table;
  return {
    name: definition.name,
    rows,
    get version() {
      return table.version;
    },
    lookup: <K>(by: string | KeyOf<Row, K>) => {
      const lookup: LiveLookup<Row, unknown> = createLookup<Row, unknown>(
        typeof by === "string" ? keyOfColumn(by) : by,
      );
      for (const row of rows.values()) lookup.put(row, lookup.keysOf(row));
      lookups.push(lookup);
      return lookup as Lookup<Row, never>;
    },
  };
}

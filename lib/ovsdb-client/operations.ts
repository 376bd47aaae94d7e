// Operations of a transaction as values (RFC 7047, 5.2), and the functions that make them. Pure.
// They can be collected, compared and printed before anything is sent; encode-operations.ts turns them into JSON.
import type { TableDefinition } from "./tables.ts";
import type { NamedUuid, Row, Uuid, WrittenValue } from "./types.ts";

export type WrittenRow = Readonly<Record<string, WrittenValue>>;

/** For optional numbers `<` and its like are false where there is none (ovsdb-server(7), 5.1). */
export type ConditionFunction = "<" | "<=" | "==" | "!=" | ">=" | ">" | "includes" | "excludes";
/** `true` and `false` are ovsdb-server's (5.1). */
export type Condition = boolean | readonly [column: string, is: ConditionFunction, value: WrittenValue];
export type Mutator = "+=" | "-=" | "*=" | "/=" | "%=" | "insert" | "delete";
/** Arithmetic takes a number and is done to each member of a set. `delete` of a map takes pairs, or an array of keys. */
export type Mutation = readonly [column: string, mutator: Mutator, value: WrittenValue];

export interface InsertOperation {
  readonly op: "insert";
  readonly table: string;
  /** Columns left out get their default. */
  readonly row: WrittenRow;
  /** `named(name)` means this row in the whole transaction. */
  readonly name?: string;
  /** The row's uuid, if the server is not to draw one: a second attempt then fails with "duplicate uuid" (OVS 2.17). */
  readonly uuid?: Uuid;
}
export interface SelectOperation {
  readonly op: "select";
  readonly table: string;
  readonly where: readonly Condition[];
  /** All, if left out. */
  readonly columns?: readonly string[];
}
export interface UpdateOperation {
  readonly op: "update";
  readonly table: string;
  readonly where: readonly Condition[];
  readonly row: WrittenRow;
}
export interface MutateOperation {
  readonly op: "mutate";
  readonly table: string;
  readonly where: readonly Condition[];
  readonly mutations: readonly Mutation[];
}
export interface DeleteOperation {
  readonly op: "delete";
  readonly table: string;
  readonly where: readonly Condition[];
}
export interface WaitOperation {
  readonly op: "wait";
  readonly table: string;
  readonly where: readonly Condition[];
  readonly columns: readonly string[];
  readonly until: "==" | "!=";
  readonly rows: readonly WrittenRow[];
  /** Milliseconds; 0 asks once. For ever, if left out. */
  readonly timeout?: number;
}
export interface CommitOperation {
  readonly op: "commit";
  readonly durable: boolean;
}
export interface AbortOperation {
  readonly op: "abort";
}
export interface CommentOperation {
  readonly op: "comment";
  readonly comment: string;
}
export interface AssertOperation {
  readonly op: "assert";
  readonly lock: string;
}

export type Operation =
  | InsertOperation
  | SelectOperation
  | UpdateOperation
  | MutateOperation
  | DeleteOperation
  | WaitOperation
  | CommitOperation
  | AbortOperation
  | CommentOperation
  | AssertOperation;

/** What an operation answers. */
export type ResultOf<O> = O extends InsertOperation
  ? { readonly uuid: Uuid }
  : O extends SelectOperation
    ? { readonly rows: readonly Row[] }
    : O extends UpdateOperation | MutateOperation | DeleteOperation
      ? { readonly count: number }
      : O extends Operation
        ? Readonly<Record<never, never>>
        : never;

export type ResultsOf<Ops extends readonly Operation[]> = { readonly [At in keyof Ops]: ResultOf<Ops[At]> };

type Written<T> = T extends Uuid
  ? Uuid | NamedUuid
  : T extends readonly (infer Item)[]
    ? readonly Written<Item>[]
    : T extends Readonly<Record<string, infer Item>>
      ? Readonly<Record<string, Written<Item>>>
      : T;

/** Some columns of a row: `undefined` empties an optional one. */
export type Columns<R extends Row> = string extends keyof R
  ? WrittenRow
  : { readonly [K in keyof R as K extends "_uuid" ? never : K]?: Written<R[K]> };

type Where = readonly Condition[];

/** The one row. */
export const byUuid = (uuid: Uuid | NamedUuid): Where => [["_uuid", "==", uuid]];

export function insert<R extends Row>(
  table: TableDefinition<R>,
  row: Columns<R>,
  as: { readonly name?: string; readonly uuid?: Uuid } = {},
): InsertOperation {
  return { op: "insert", table: table.name, row: row as WrittenRow, ...as };
}

/** Every row that meets all conditions; every row, if there are none. */
export function select(
  table: TableDefinition | string,
  where: Where,
  columns?: readonly string[],
): SelectOperation {
  const name = typeof table === "string" ? table : table.name;
  return { op: "select", table: name, where, ...(columns === undefined ? {} : { columns }) };
}

export function update<R extends Row>(
  table: TableDefinition<R>,
  where: Where,
  row: Columns<R>,
): UpdateOperation {
  return { op: "update", table: table.name, where, row: row as WrittenRow };
}

export function mutate<R extends Row>(
  table: TableDefinition<R>,
  where: Where,
  mutations: readonly (Mutation & readonly [keyof R & string, Mutator, WrittenValue])[],
): MutateOperation {
  return { op: "mutate", table: table.name, where, mutations };
}

/** Named so because `delete` is JavaScript's. */
export function remove<R extends Row>(table: TableDefinition<R>, where: Where): DeleteOperation {
  return { op: "delete", table: table.name, where };
}

/**
 * Fails with "timed out" unless the rows' columns are (`==`), or are not (`!=`), those given: a guard for what was read
 * before. Rows are compared as sets.
 */
export function wait<R extends Row>(
  table: TableDefinition<R>,
  where: Where,
  until: "==" | "!=",
  rows: readonly Columns<R>[],
  options: { readonly columns?: readonly (keyof R & string)[]; readonly timeout?: number } = {},
): WaitOperation {
  const { columns = [...new Set(rows.flatMap((row) => Object.keys(row)))], timeout = 0 } = options;
  return {
    op: "wait",
    table: table.name,
    where,
    columns,
    until,
    rows: rows as readonly WrittenRow[],
    timeout,
  };
}

export const comment = (text: string): CommentOperation => ({ op: "comment", comment: text });
export const commit = (durable: boolean): CommitOperation => ({ op: "commit", durable });
export const abort = (): AbortOperation => ({ op: "abort" });
/** Fails with "not owner" unless this session holds the lock. */
export const assertLock = (lock: string): AssertOperation => ({ op: "assert", lock });

// The door for code that must not touch the network: values, definitions, operations, replicas made from updates.
export { named } from "./encode.ts";
export { decodeResults, encodeOperations } from "./encode-operations.ts";
export { type Endpoint, parseEndpoints } from "./endpoints.ts";
export {
  ClosedError,
  ClusterMismatchError,
  ConnectionError,
  NotCurrentError,
  OperationError,
  OutcomeUnknownError,
  OversizedError,
  ParseError,
  RemoteError,
  SchemaMismatchError,
  SettingError,
  TlsFilesError,
  UnknownColumnError,
  UnresponsiveError,
  UnsuitableServerError,
  ValueError,
} from "./errors.ts";
export type { KeyOf, Lookup } from "./lookup.ts";
export type { Json } from "./messages.ts";
export {
  abort,
  assertLock,
  byUuid,
  type Columns,
  type Condition,
  comment,
  commit,
  insert,
  type Mutation,
  mutate,
  type Operation,
  type ResultsOf,
  remove,
  select,
  update,
  type WrittenRow,
  wait,
} from "./operations.ts";
export {
  type Changes,
  createReplica,
  type LiveReplica,
  type Replica,
  type RowChange,
  type TableReplica,
} from "./replica.ts";
export { columnOf, hasColumn, hasTable, parseSchema, type Schema, tableOf } from "./schema.ts";
export { column, defineTable, type RowOf, type TableDefinition } from "./tables.ts";
export {
  type Atom,
  isUuid,
  type NamedUuid,
  type Row,
  type Uuid,
  type Value,
  type WrittenValue,
} from "./types.ts";
export { parseUpdates, type RowUpdate } from "./updates.ts";
export { compareAtoms, equalValues } from "./values.ts";

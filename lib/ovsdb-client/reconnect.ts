// Decisions about servers: whether one may be used, which is next, and when. In: what it says of itself in _Server,
// what became of the last attempts. Out: a verdict, an endpoint and a delay. Pure.
import { ClusterMismatchError, UnsuitableServerError } from "./errors.ts";
import { column, defineTable, type RowOf } from "./tables.ts";

/** What a server says of its databases (ovsdb-server(5)). Its `schema` column is left out: get_schema gives it. */
export const SERVER_DATABASE = defineTable("Database", {
  name: column.string,
  model: column.string,
  connected: column.boolean,
  leader: column.boolean,
  cid: column.optional(column.uuid),
  sid: column.optional(column.uuid),
  index: column.optional(column.integer),
});

export type ServerDatabase = RowOf<typeof SERVER_DATABASE>;

export interface Wanted {
  readonly database: string;
  readonly leaderOnly: boolean;
  /** The cluster asked for, or met before. */
  readonly cluster: string | undefined;
  /** Of the log: a server that is behind it would show the past. */
  readonly index: number;
}

/** Why this server must not be used; undefined if it may. */
export function objection(
  row: ServerDatabase | undefined,
  wanted: Wanted,
): UnsuitableServerError | undefined {
  const { database, leaderOnly, cluster, index } = wanted;
  const no = (why: string) => new UnsuitableServerError(`${database}: the server ${why}`);
  if (row === undefined) return no("does not have it");
  if (row.model === "standalone")
    return cluster === undefined ? undefined : new ClusterMismatchError(cluster, "none: it stands alone");
  if (!row.connected) return no("is not connected to its cluster");
  if (row.model === "relay") return leaderOnly ? no("is a relay, not the leader") : undefined;
  if (cluster !== undefined && row.cid !== cluster)
    return new ClusterMismatchError(cluster, row.cid ?? "unknown");
  if (leaderOnly && !row.leader) return no("is not the leader");
  if ((row.index ?? 0) < index) return no(`is behind: at ${row.index ?? 0}, and ${index} was seen`);
  return undefined;
}

export interface Backoff {
  /** Milliseconds. */
  readonly first: number;
  readonly most: number;
}

export interface Attempts {
  readonly endpoints: number;
  /** Of the last attempt. */
  readonly at: number;
  /** Attempts in a row that came to nothing, or did not last; 0 after one that did. */
  readonly failures: number;
  /** Try the same endpoint again, at once: it is we who left it. */
  readonly stay: boolean;
}

/**
 * Every endpoint once without delay, then with one that doubles for each further round, drawn from its upper half so
 * that many clients do not come at the same moment. `random` is in [0, 1). Delay in milliseconds.
 */
export function nextAttempt(
  { endpoints, at, failures, stay }: Attempts,
  { first, most }: Backoff,
  random: number,
): { readonly at: number; readonly delay: number } {
  if (stay) return { at, delay: 0 };
  const next = (at + 1) % endpoints;
  if (failures < endpoints) return { at: next, delay: 0 };
  const rounds = Math.floor(failures / endpoints) - 1;
  return { at: next, delay: Math.min(most, first * 2 ** Math.min(rounds, 30)) * (0.5 + random / 2) };
}

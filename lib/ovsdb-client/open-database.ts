// The steps from a connection to contents: is the database here, may this server be used, what is its schema, monitor.
// In: a connection. Out: what each step learned; errors are reasons not to use this server.
import type { Connection } from "./connection.ts";
import { ParseError, RemoteError, UnsuitableServerError } from "./errors.ts";
import type { Json } from "./messages.ts";
import {
  FIRST_METHOD,
  type MonitorReply,
  type MonitorUpdate,
  methodAfter,
  monitorParams,
  monitorRequests,
  parseMonitorReply,
} from "./monitor.ts";
import { SERVER_DATABASE, type ServerDatabase } from "./reconnect.ts";
import { createReplica } from "./replica.ts";
import { parseSchema, type Schema } from "./schema.ts";
import type { TableDefinition } from "./tables.ts";
import { ZERO_UUID } from "./types.ts";

/** The database that tells about the others, since OVS 2.9 (ovsdb-server(5)). */
const SERVER = "_Server";
export const SERVER_MONITOR = "server";

/** Throws UnsuitableServerError. */
export async function findDatabase(
  connection: Connection,
  database: string,
  timeoutMs: number,
): Promise<{ readonly tellsAboutItself: boolean }> {
  const names = await connection.request("list_dbs", [], timeoutMs, (result) => {
    if (!Array.isArray(result)) throw new ParseError("a reply to list_dbs that is no array");
    return result as readonly Json[];
  });
  if (!names.includes(database)) throw new UnsuitableServerError(`${database}: the server does not have it`);
  return { tellsAboutItself: names.includes(SERVER) };
}

export async function readSchema(
  connection: Connection,
  database: string,
  timeoutMs: number,
): Promise<Schema> {
  return await connection.request("get_schema", [database], timeoutMs, parseSchema);
}

export interface MonitorWanted {
  readonly connection: Connection;
  readonly timeoutMs: number;
  readonly database: string;
  readonly id: string;
  readonly definitions: readonly TableDefinition[];
  readonly schema: Schema;
  readonly lastTransaction: string;
  /** Called in the order of the stream, before any update that follows. */
  readonly received: (reply: MonitorReply) => void;
}

/** By the newest method that the server knows. */
export async function startMonitor(wanted: MonitorWanted): Promise<void> {
  const { connection, timeoutMs, database, id, definitions, schema, lastTransaction, received } = wanted;
  let method = FIRST_METHOD;
  for (;;) {
    const tried = method;
    const requests = monitorRequests(tried, definitions, schema);
    try {
      return await connection.request(
        tried,
        monitorParams(tried, database, id, requests, lastTransaction),
        timeoutMs,
        (result) => received(parseMonitorReply(tried, result)),
      );
    } catch (error) {
      const next = error instanceof RemoteError ? methodAfter(tried, error) : undefined;
      if (next === undefined) throw error;
      method = next;
    }
  }
}

export interface ServerWatch {
  /** Resolves after the first call of `told`. */
  start(connection: Connection, timeoutMs: number): Promise<void>;
  updated(update: MonitorUpdate): void;
}

/**
 * Calls `told` with what the server says of the database, first and whenever it is different. From then on the server
 * does not cut us off for every change of any of its databases (ovsdb-server(7), 4.1.16).
 */
export function createServerWatch(
  database: string,
  told: (row: ServerDatabase | undefined) => void,
): ServerWatch {
  const replica = createReplica([SERVER_DATABASE]);
  const byName = replica.table(SERVER_DATABASE).lookup("name");
  const tell = (): void => told(byName.get(database).values().next().value);
  return {
    start: async (connection, timeoutMs) => {
      const schema = await readSchema(connection, SERVER, timeoutMs);
      await startMonitor({
        connection,
        timeoutMs,
        database: SERVER,
        id: SERVER_MONITOR,
        definitions: [SERVER_DATABASE],
        schema,
        // Of this server alone: there is nothing to go on from.
        lastTransaction: ZERO_UUID,
        received: ({ updates }) => {
          replica.replaceAll(schema, updates);
          tell();
        },
      });
      await connection.request("set_db_change_aware", [true], timeoutMs, () => {});
    },
    updated: ({ updates }) => {
      if (replica.apply(updates).tables.size > 0) tell();
    },
  };
}

// One database, held in a replica for as long as the session lives, through whatever happens to servers and connections.
// In: endpoints, tables, wishes. Out: the replica, its state, transactions. The order of things on a connection: database,
// server, schema, locks, monitor; only then is the session current, and only then is anything written.
// Long, and one closure: everything in it is about the one connection that there is, and what becomes of it.
import { type Connection, createConnection } from "./connection.ts";
import { decodeResults, encodeOperations } from "./encode-operations.ts";
import { type Endpoint, parseEndpoints } from "./endpoints.ts";
import {
  ClosedError,
  ConnectionError,
  NotCurrentError,
  OutcomeUnknownError,
  ParseError,
  RemoteError,
  SettingError,
} from "./errors.ts";
import { createListeners } from "./listeners.ts";
import { createLocks } from "./locks.ts";
import type { Json } from "./messages.ts";
import { type MonitorReply, parseUpdateNotification } from "./monitor.ts";
import {
  createServerWatch,
  findDatabase,
  readSchema,
  SERVER_MONITOR,
  type ServerWatch,
  startMonitor,
} from "./open-database.ts";
import type { ResultsOf } from "./operations.ts";
import { nextAttempt, objection, type ServerDatabase } from "./reconnect.ts";
import { type Changes, createReplica } from "./replica.ts";
import type { Schema } from "./schema.ts";
import { type Session, type SessionOptions, type SessionState, withDefaults } from "./session-options.ts";
import { readTlsFiles, watchTlsFiles } from "./tls-files.ts";
import { ZERO_UUID } from "./types.ts";
import { untilCurrent } from "./until-current.ts";

const MONITOR = "replica";

/** Connects, and goes on connecting. Throws SettingError for options that cannot be meant. */
export function connectOvsdb(options: SessionOptions): Session {
  const { database, tables, timeoutMs, syncTimeoutMs, clock, tls, dial, random, backoff, ...rest } =
    withDefaults(options);
  const { probeMs, limitBytes, leaderOnly } = rest;
  const endpoints = parseEndpoints(options.endpoints);
  if (tls === undefined && endpoints.some(({ kind }) => kind === "ssl"))
    throw new SettingError("an ssl: endpoint needs key, certificate and CA");
  const replica = createReplica(tables);
  const stateListeners = createListeners<[SessionState, Error | undefined]>();
  const changeListeners = createListeners<[Changes]>();
  const lockListeners = createListeners<[string, "wanted" | "waiting" | "held"]>();
  const locks = createLocks(options.locks ?? [], (name, state) => lockListeners.tell(name, state));
  const closing = new AbortController();

  let state: SessionState = "connecting";
  let failure: Error | undefined;
  let connection: Connection | undefined;
  let endpoint: Endpoint | undefined;
  let schema: Schema | undefined;
  let everCurrent = false;
  let currentSince: number | undefined;
  /** The connection is on its way out: why, and whether the same endpoint is to be tried again. */
  let leaving: { readonly reason: Error; readonly stay: boolean } | undefined;
  let cluster = options.cluster;
  let index = 0;
  /** What the contents are of: which rows and columns, and the last transaction seen. */
  let contents = { of: "", lastTransaction: ZERO_UUID as string };

  const setState = (next: SessionState, why?: Error): void => {
    if (state === "closed" || (state === next && failure === why)) return;
    state = next;
    failure = why;
    replica.setCurrent(next === "current");
    stateListeners.tell(next, why);
  };

  const tell = (changes: Changes): void => {
    if (changes.tables.size > 0) changeListeners.tell(changes);
  };

  /** Nothing new is sent any more; what is under way may still be answered. */
  const leave = (from: Connection, reason: Error, stay: boolean): void => {
    if (from !== connection || leaving !== undefined) return;
    leaving = { reason, stay };
    if (state !== "current") {
      from.end(reason);
      return;
    }
    setState("stale", reason);
    const cancel = clock.after(timeoutMs, () => from.end(reason));
    from.whenIdle(() => {
      cancel();
      from.end(reason);
    });
  };

  const serverTold = (from: Connection, row: ServerDatabase | undefined): void => {
    const no = objection(row, { database, leaderOnly, cluster, index });
    if (no !== undefined) leave(from, no, false);
    else if (row?.model === "clustered") {
      cluster = row.cid ?? cluster;
      index = row.index ?? index;
    }
  };

  const install = (of: string, seen: Schema, { found, lastTransaction, updates }: MonitorReply): void => {
    const changes = found ? replica.apply(updates) : replica.replaceAll(seen, updates);
    contents = { of, lastTransaction: lastTransaction ?? ZERO_UUID };
    schema = seen;
    everCurrent = true;
    currentSince = clock.now();
    setState("current");
    tell(changes);
  };

  const synchronize = async (to: Connection, watch: ServerWatch): Promise<void> => {
    const { tellsAboutItself } = await findDatabase(to, database, timeoutMs);
    if (tellsAboutItself) await watch.start(to, timeoutMs);
    const seen = await readSchema(to, database, timeoutMs);
    await locks.resume(to, timeoutMs);
    const of = JSON.stringify([
      seen.version,
      tables.map(({ name, columns, where }) => [name, columns ?? [], where]),
    ]);
    await startMonitor({
      connection: to,
      timeoutMs: syncTimeoutMs,
      database,
      id: MONITOR,
      definitions: tables,
      schema: seen,
      lastTransaction: contents.of === of ? contents.lastTransaction : ZERO_UUID,
      received: (reply) => install(of, seen, reply),
    });
  };

  const notified = (from: Connection, watch: ServerWatch, method: string, params: readonly Json[]): void => {
    if (locks.notified(method, params)) return;
    if (method === "monitor_canceled")
      throw new ConnectionError("the server ended the monitor: the database is another");
    const update = parseUpdateNotification(method, params);
    if (update === undefined || from !== connection) return;
    if (update.id === SERVER_MONITOR) {
      watch.updated(update);
      return;
    }
    if (update.id !== MONITOR)
      throw new ParseError(`an update of a monitor that is not ours: ${JSON.stringify(update.id)}`);
    const changes = replica.apply(update.updates);
    if (update.lastTransaction !== undefined)
      contents = { ...contents, lastTransaction: update.lastTransaction };
    tell(changes);
  };

  /** One connection from its making to its end. Returns why it ended; never throws. */
  const attempt = async (to: Endpoint): Promise<Error> => {
    let unwatch = (): void => {};
    try {
      const material = to.kind === "ssl" && tls !== undefined ? await readTlsFiles(tls) : undefined;
      const stream = await dial(to, { material, timeoutMs, clock, signal: closing.signal });
      const { promise: over, resolve: end } = Promise.withResolvers<Error>();
      const watch = createServerWatch(database, (row) => serverTold(made, row));
      const made: Connection = createConnection(stream, {
        clock,
        probeMs,
        limitBytes,
        notified: (method, params) => notified(made, watch, method, params),
        ended: (reason) => {
          connection = undefined;
          endpoint = undefined;
          // What was read is no longer sure to be what the server has: everything anew.
          if (reason instanceof ParseError) contents = { of: "", lastTransaction: ZERO_UUID };
          setState(everCurrent ? "stale" : "connecting", reason);
          locks.lost();
          end(reason);
        },
      });
      connection = made;
      endpoint = to;
      setState("syncing", failure);
      if (material !== undefined && tls !== undefined)
        unwatch = watchTlsFiles(tls, material, clock, () =>
          leave(made, new ConnectionError("the certificate files are new"), true),
        );
      if (closing.signal.aborted) made.end(new ClosedError());
      await synchronize(made, watch).catch((error: Error) => made.end(error));
      return await over;
    } catch (error) {
      setState(everCurrent ? "stale" : "connecting", error as Error);
      return error as Error;
    } finally {
      unwatch();
    }
  };

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const go = (): void => {
        cancel();
        closing.signal.removeEventListener("abort", go);
        resolve();
      };
      const cancel = clock.after(ms, go);
      closing.signal.addEventListener("abort", go);
    });

  const live = async (): Promise<void> => {
    let at = 0;
    let failures = 0;
    while (!closing.signal.aborted) {
      leaving = undefined;
      currentSince = undefined;
      await attempt(endpoints[at] as Endpoint);
      const lasted = currentSince !== undefined && clock.now() - currentSince >= backoff.most;
      failures = lasted ? 0 : failures + 1;
      const next = nextAttempt(
        { endpoints: endpoints.length, at, failures, stay: isStay() },
        backoff,
        random(),
      );
      at = next.at;
      if (next.delay > 0 && !closing.signal.aborted) await pause(next.delay);
    }
  };
  const isStay = (): boolean => leaving?.stay === true;

  const usable = (): { readonly to: Connection; readonly by: Schema } => {
    if (state !== "current" || connection === undefined || schema === undefined)
      throw new NotCurrentError(state, failure);
    return { to: connection, by: schema };
  };
  const lived = live();

  return {
    replica,
    get state() {
      return state;
    },
    get failure() {
      return failure;
    },
    get schema() {
      return schema;
    },
    get endpoint() {
      return endpoint?.text;
    },
    locks: locks.states,
    onState: stateListeners.add,
    onChange: changeListeners.add,
    onLock: lockListeners.add,
    whenCurrent: (deadlineMs) => untilCurrent(clock, deadlineMs, stateListeners, () => ({ state, failure })),
    transact: async (operations, { timeoutMs: deadline = timeoutMs } = {}) => {
      const { to, by } = usable();
      const params = [database, ...encodeOperations(by, operations)];
      const reply = await to
        .request("transact", params, deadline, (result) => result)
        .catch((error: Error) => {
          throw error instanceof RemoteError ? error : new OutcomeUnknownError(error);
        });
      return decodeResults(by, operations, reply) as ResultsOf<typeof operations>;
    },
    caughtUp: async (deadline = timeoutMs) => {
      await usable().to.request("transact", [database], deadline, () => {});
    },
    lock: (name) => locks.lock(leaving === undefined ? connection : undefined, timeoutMs, name),
    steal: async (name) => await locks.steal(usable().to, timeoutMs, name),
    unlock: (name) => locks.unlock(connection, timeoutMs, name),
    reconnect: (reason) => {
      contents = { of: "", lastTransaction: ZERO_UUID };
      if (connection !== undefined) leave(connection, reason, true);
    },
    close: async () => {
      setState("closed");
      closing.abort();
      connection?.end(new ClosedError());
      await lived;
    },
    [Symbol.asyncDispose]() {
      return this.close();
    },
  };
}

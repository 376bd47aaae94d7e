// What a session is asked for and what it offers: the public face of session.ts, and the defaults.
import { type Clock, systemClock } from "./clock.ts";
import { type Dial, dial } from "./dial.ts";
import type { LockState } from "./locks.ts";
import type { Operation, ResultsOf } from "./operations.ts";
import type { Backoff } from "./reconnect.ts";
import type { Changes, Replica } from "./replica.ts";
import type { Schema } from "./schema.ts";
import type { TableDefinition } from "./tables.ts";
import type { TlsFiles } from "./tls-files.ts";

/**
 *     connecting   no contents yet, no connection
 *     syncing      connected; contents, if any, are old ones
 *     current      the replica follows the server
 *     stale        no connection to use; contents are what they last were
 *     closed       by close()
 */
export type SessionState = "connecting" | "syncing" | "current" | "stale" | "closed";

export interface SessionOptions {
  /** As Open vSwitch writes them, tried in turn: "unix:/run/ovn/ovnnb_db.sock", "ssl:192.0.2.1:6641,ssl:[2001:db8::1]:6641". */
  readonly endpoints: string;
  readonly database: string;
  readonly tables: readonly TableDefinition[];
  /** Of a clustered database only the leader is used. True by default: a follower may show the past. */
  readonly leaderOnly?: boolean;
  /** The cluster's id. By default that of the first clustered server met; a server of another one is refused. */
  readonly cluster?: string;
  /** Asked for on every connection before the session is current. */
  readonly locks?: readonly string[];
  /** Needed for ssl: endpoints. */
  readonly tls?: TlsFiles;
  /** Milliseconds of silence before an echo request, and again before the connection is dead. 5 000. */
  readonly probeMs?: number;
  /** Milliseconds for a reply to any request, and for connecting. 10 000. */
  readonly timeoutMs?: number;
  /** Milliseconds for the first contents. 60 000. */
  readonly syncTimeoutMs?: number;
  /** Milliseconds between rounds of attempts: 250 at first, then doubled up to 8 000. */
  readonly backoff?: Backoff;
  /** Largest message that is taken, in bytes. 256 MiB; V8 has no text of 512 MiB. */
  readonly limitBytes?: number;
  readonly clock?: Clock;
  readonly dial?: Dial;
  /** In [0, 1). */
  readonly random?: () => number;
}

export const withDefaults = (options: SessionOptions) => ({
  database: options.database,
  tables: options.tables,
  tls: options.tls,
  leaderOnly: options.leaderOnly ?? true,
  probeMs: options.probeMs ?? 5_000,
  timeoutMs: options.timeoutMs ?? 10_000,
  syncTimeoutMs: options.syncTimeoutMs ?? 60_000,
  backoff: options.backoff ?? { first: 250, most: 8_000 },
  limitBytes: options.limitBytes ?? 256 * 1024 * 1024,
  clock: options.clock ?? systemClock,
  dial: options.dial ?? dial,
  random: options.random ?? Math.random,
});

export interface Session {
  readonly replica: Replica;
  readonly state: SessionState;
  /** Why the session is not current, or was not when it began to connect anew; undefined when it is. */
  readonly failure: Error | undefined;
  /** The last one read; undefined before the first time. */
  readonly schema: Schema | undefined;
  /** The one connected to. */
  readonly endpoint: string | undefined;
  /** By name: `held` only while the server says so. */
  readonly locks: ReadonlyMap<string, LockState>;
  /** Each listener's return value takes it back. */
  onState(listener: (state: SessionState, failure: Error | undefined) => void): () => void;
  /** Once for each update that made any row another, after all of it was applied. */
  onChange(listener: (changes: Changes) => void): () => void;
  onLock(listener: (name: string, state: LockState) => void): () => void;
  /** Rejects with NotCurrentError after the deadline, with ClosedError when the session is closed. For ever without one. */
  whenCurrent(deadlineMs?: number): Promise<void>;
  /**
   * All or nothing. Results in the order of the operations. A server sends what a transaction changed before the reply to
   * it, on the same connection: when this resolves, the replica shows it.
   *
   * Rejects with NotCurrentError, UnknownColumnError, ValueError (nothing was sent); RemoteError, OperationError (nothing
   * was done); OutcomeUnknownError (may have been done: the session re-reads; it never sends anything twice).
   */
  transact<const Ops extends readonly Operation[]>(
    operations: Ops,
    options?: { readonly timeoutMs?: number },
  ): Promise<ResultsOf<Ops>>;
  /**
   * Resolves when the replica shows everything that the server had committed before it was asked, by whomever: an empty
   * transaction, to which the reply comes after all updates. Rejects with NotCurrentError or the connection's end.
   */
  caughtUp(deadlineMs?: number): Promise<void>;
  /** Asks for a lock, now and on every later connection. `waiting` turns into `held` by itself. */
  lock(name: string): Promise<LockState>;
  /** Takes a lock from whoever has it. Rejects with NotCurrentError. */
  steal(name: string): Promise<LockState>;
  unlock(name: string): Promise<void>;
  /**
   * Gives the connection up, makes another to the same server and reads everything anew: for a caller to whom what the server
   * said does not fit together. The reason is the failure meanwhile. Without a connection only the reading anew is kept.
   */
  reconnect(reason: Error): void;
  /** For good. Requests without reply are rejected. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

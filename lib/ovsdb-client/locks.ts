// Locks that a session wants (RFC 7047, 4.1.8 to 4.1.10). In: wishes, replies and notifications. Out: who holds what, as far as
// the server has told. A lock belongs to a connection: without one nothing is held, and after the next it is asked for anew.
import type { Connection } from "./connection.ts";
import { ParseError } from "./errors.ts";
import { isObject, type Json } from "./messages.ts";

/** `wanted`: not asked for yet, since there is no connection. `waiting`: somebody else has it. */
export type LockState = "wanted" | "waiting" | "held";

export interface Locks {
  readonly states: ReadonlyMap<string, LockState>;
  /** On a new connection: asks for everything that is wanted. Never steals. */
  resume(connection: Connection, timeoutMs: number): Promise<void>;
  lock(connection: Connection | undefined, timeoutMs: number, name: string): Promise<LockState>;
  steal(connection: Connection, timeoutMs: number, name: string): Promise<LockState>;
  unlock(connection: Connection | undefined, timeoutMs: number, name: string): Promise<void>;
  /** True if the notification was about a lock. */
  notified(method: string, params: readonly Json[]): boolean;
  /** The connection is gone, and what was held with it. */
  lost(): void;
}

export function createLocks(
  wanted: readonly string[],
  changed: (name: string, state: LockState) => void,
): Locks {
  const states = new Map<string, LockState>(wanted.map((name) => [name, "wanted"]));
  /** On this connection: a server takes a second request for a lock only after `unlock`. */
  const asked = new Map<string, Promise<LockState>>();

  const set = (name: string, state: LockState): LockState => {
    const before = states.get(name);
    states.set(name, state);
    if (before !== state) changed(name, state);
    return state;
  };

  const ask = (connection: Connection, timeoutMs: number, method: "lock" | "steal", name: string) => {
    const answer = connection.request(method, [name], timeoutMs, (result) => {
      if (!isObject(result) || typeof result["locked"] !== "boolean")
        throw new ParseError(`a reply to ${method} that is none`);
      return set(name, result["locked"] ? "held" : "waiting");
    });
    asked.set(name, answer);
    return answer;
  };

  const release = async (connection: Connection, timeoutMs: number, name: string): Promise<void> => {
    if (asked.delete(name)) await connection.request("unlock", [name], timeoutMs, () => {});
  };

  const lock: Locks["lock"] = async (connection, timeoutMs, name) => {
    if (connection === undefined) return set(name, "wanted");
    if (!states.has(name)) set(name, "wanted");
    const before = asked.get(name);
    if (before === undefined) return await ask(connection, timeoutMs, "lock", name);
    await before;
    return states.get(name) ?? "wanted";
  };

  return {
    states,
    resume: async (connection, timeoutMs) => {
      await Promise.all([...states.keys()].map((name) => lock(connection, timeoutMs, name)));
    },
    lock,
    steal: async (connection, timeoutMs, name) => {
      if (states.get(name) === "held") return "held";
      await release(connection, timeoutMs, name);
      return await ask(connection, timeoutMs, "steal", name);
    },
    unlock: async (connection, timeoutMs, name) => {
      states.delete(name);
      if (connection !== undefined) await release(connection, timeoutMs, name);
    },
    notified: (method, params) => {
      if (method !== "locked" && method !== "stolen") return false;
      const [name] = params;
      if (typeof name !== "string") throw new ParseError(`${method} without the name of a lock`);
      // After `stolen` the server has us first in the line again (measured with 3.5).
      if (states.has(name)) set(name, method === "locked" ? "held" : "waiting");
      return true;
    },
    lost: () => {
      asked.clear();
      for (const name of states.keys()) set(name, "wanted");
    },
  };
}

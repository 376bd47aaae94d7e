// A clock that stands still until a test moves it.
import type { Clock } from "../../../lib/ovsdb-client/index.ts";

export interface ManualClock extends Clock {
  /** Calls what has become due, in the order of time, also what that sets. */
  advance(ms: number): void;
  /** How many calls are set. */
  readonly waiting: number;
}

export function manualClock(): ManualClock {
  let now = 0;
  let last = 0;
  const calls = new Map<number, { readonly at: number; readonly call: () => void }>();
  return {
    now: () => now,
    after: (ms, call) => {
      const id = ++last;
      calls.set(id, { at: now + ms, call });
      return () => void calls.delete(id);
    },
    advance: (ms) => {
      const until = now + ms;
      for (;;) {
        const [next] = [...calls].filter(([, { at }]) => at <= until).sort(([, a], [, b]) => a.at - b.at);
        if (next === undefined) break;
        const [id, { at, call }] = next;
        calls.delete(id);
        now = Math.max(now, at);
        call();
      }
      now = until;
    },
    get waiting() {
      return calls.size;
    },
  };
}

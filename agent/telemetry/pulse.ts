// The pulse of the loop: whether it turns, and how long it takes from an event to a host that is right. In: the wake that it waits
// for, watched. Out: why it is stuck, seconds. Pure but for its clock.
import type { Reason, Wake } from "../wake.ts";

/**
 * Longer than a round in which every tool hangs up to its deadline of 30 s: such rounds fail and are tried again, and to start the
 * process anew would not help. Milliseconds.
 */
export const STUCK_MS = 600_000;

export type Cause = "objects" | "host" | "northbound" | "reload";

export interface Verified {
  readonly cause: Cause;
  readonly seconds: number;
}

export interface Pulse {
  /** The same wake, seen. */
  watch(wake: Wake): Wake;
  /** Why the loop does not turn; undefined while it does. */
  stuck(): string | undefined;
  /**
   * A round has ended; `isVerified` if without a failure and with nothing left to read back. Then, if something was written since the
   * first event that was open: how long that took.
   */
  ended(wrote: boolean, isVerified: boolean): Verified | undefined;
}

export function createPulse(now: () => number = () => performance.now()): Pulse {
  /** Since when the loop has been asked to look at something, and has not begun to. */
  const woken = new Map<Reason, number>();
  /** Of these, what was an event, and no look of ours. */
  const events = new Map<Reason, number>();
  let roundSince: number | undefined;
  let open: { readonly cause: Cause; readonly at: number } | undefined;
  let wroteSince = false;
  const note = (map: Map<Reason, number>, reason: Reason) => {
    if (!map.has(reason)) map.set(reason, now());
  };
  const begin = (reasons: ReadonlySet<Reason>) => {
    const everything = reasons.has("tick") || reasons.has("reload");
    for (const [reason, at] of events) {
      if (!everything && !reasons.has(reason)) continue;
      events.delete(reason);
      // The host tells of our own writes too, and of much that is nothing to us: its word gives way to anybody's.
      const cause = open === undefined || open.cause === "host" ? causeOf(reason) : open.cause;
      open = { cause, at: Math.min(open?.at ?? at, at) };
    }
    for (const reason of [...woken.keys()]) if (everything || reasons.has(reason)) woken.delete(reason);
    roundSince = now();
  };
  return {
    watch: (wake) => ({
      because: (reason) => {
        note(woken, reason);
        if (reason !== "tick") note(events, reason);
        wake.because(reason);
      },
      now: (reason) => {
        note(woken, reason);
        wake.now(reason);
      },
      rest: wake.rest,
      next: async () => {
        roundSince = undefined;
        const reasons = await wake.next();
        begin(reasons);
        return reasons;
      },
    }),
    stuck: () => {
      const seconds = (since: number) => Math.round((now() - since) / 1000);
      if (roundSince !== undefined && now() - roundSince > STUCK_MS)
        return `a round has not ended for ${seconds(roundSince)} s`;
      const late = [...woken].find(([, at]) => now() - at > STUCK_MS);
      return late === undefined
        ? undefined
        : `${late[0]} has been waiting for a round for ${seconds(late[1])} s`;
    },
    ended: (wrote, isVerified) => {
      wroteSince ||= wrote;
      if (!isVerified) return undefined;
      const verified =
        open !== undefined && wroteSince
          ? { cause: open.cause, seconds: (now() - open.at) / 1000 }
          : undefined;
      open = undefined;
      wroteSince = false;
      return verified;
    },
  };
}

function causeOf(reason: Reason): Cause {
  return reason === "objects" || reason === "northbound" || reason === "reload" ? reason : "host";
}

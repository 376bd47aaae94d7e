// Waiting until a session is current. In: its state, and whoever tells of it. Out: a promise that is kept, or rejected at the
// deadline or when the session is closed.
import type { Clock } from "./clock.ts";
import { ClosedError, NotCurrentError } from "./errors.ts";
import type { Listeners } from "./listeners.ts";
import type { SessionState } from "./session-options.ts";

export function untilCurrent(
  clock: Clock,
  deadlineMs: number | undefined,
  listeners: Listeners<[SessionState, Error | undefined]>,
  now: () => { readonly state: SessionState; readonly failure: Error | undefined },
): Promise<void> {
  return new Promise((resolve, reject) => {
    let cancel = (): void => {};
    let forget = (): void => {};
    const look = (state: SessionState): boolean => {
      if (state !== "current" && state !== "closed") return false;
      cancel();
      forget();
      if (state === "current") resolve();
      else reject(new ClosedError());
      return true;
    };
    if (look(now().state)) return;
    forget = listeners.add(look);
    if (deadlineMs === undefined) return;
    cancel = clock.after(deadlineMs, () => {
      forget();
      const { state, failure } = now();
      reject(new NotCurrentError(state, failure));
    });
  });
}

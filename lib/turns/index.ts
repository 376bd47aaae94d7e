// Long work in pieces, so that whoever else waits for the event loop gets his turn: an event, a question on a socket, a timer.
import { setImmediate } from "node:timers/promises";

/** Milliseconds of work at a time that nobody notices. */
const TURN_MS = 16;

/**
 * Runs work that yields where it may be interrupted, in as many turns as it takes. Resolves to what it returns, rejects with what it
 * throws.
 */
export async function inTurns<T>(work: Generator<unknown, T>): Promise<T> {
  const rest = createRest();
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    await rest();
  }
}

/** To be asked between pieces: resolves at once, or after everybody else where this turn has taken `turnMs` by now. */
export function createRest(turnMs = TURN_MS): () => Promise<void> {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < turnMs) return;
    await nextTurn();
    began = performance.now();
  };
}

/** Resolves when everybody else has had his turn, timers too. */
export async function nextTurn(): Promise<void> {
  // After input come immediates, and timers only then: the first may still be of the turn that input has begun.
  await setImmediate();
  await setImmediate();
}

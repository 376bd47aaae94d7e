// A body read in slices: whoever else waits for the event loop gets his turn, and silence has an end. In: an open answer and
// what takes its pieces. Out: when it has ended.
import { setImmediate as turn } from "node:timers/promises";
import type { Clock } from "./clock.ts";
import { UnreachableError } from "./errors.ts";
import { type Answer, unreachable } from "./transport.ts";

export interface Reading {
  readonly clock: Clock;
  /** Milliseconds without a byte until the request is given up. */
  readonly idleMs: number;
  /** Ends the request that the answer belongs to. */
  readonly abort: AbortController;
  /** A byte came. */
  onContact(): void;
  /** A slice is done. */
  onSlice(): void;
}

/** Calls off what takes too long: nothing else is heard of a request that waits for a connection. */
export const expectWithin = ({ clock, idleMs, abort }: Reading, asked: string): (() => void) =>
  clock.after(idleMs, () =>
    abort.abort(new UnreachableError(`${asked}: nothing heard for ${Math.round(idleMs / 1000)} s`)),
  );

/** Of this much work at a time a round of the agent, or an answer on a socket, does not notice anything. */
const SLICE_MS = 8;

/**
 * Hands each piece that `split` makes of the bytes to `take`. Throws what those throw, and UnreachableError for a body that was
 * cut or fell silent.
 */
export async function readInSlices<Piece>(
  { asked, body }: Answer,
  split: (chunk: Uint8Array) => Iterable<Piece>,
  take: (piece: Piece) => void,
  reading: Reading,
): Promise<void> {
  const { abort, onContact, onSlice } = reading;
  let cancel = expectWithin(reading, asked);
  const chunks = body[Symbol.asyncIterator]();
  try {
    let began = performance.now();
    for (;;) {
      const { value: chunk, done } = await nextOf(chunks, asked);
      abort.signal.throwIfAborted();
      if (done) return;
      cancel();
      cancel = expectWithin(reading, asked);
      onContact();
      for (const piece of split(chunk)) {
        take(piece);
        if (performance.now() - began < SLICE_MS) continue;
        onSlice();
        await turn();
        abort.signal.throwIfAborted();
        began = performance.now();
      }
      onSlice();
    }
  } finally {
    cancel();
    // Destroys the body, whose end would else be an error that nobody listens to.
    await chunks.return?.();
  }
}

/** What the reader's own work throws is no fault of the connection's; only what is thrown here is. */
async function nextOf(chunks: AsyncIterator<Uint8Array>, asked: string): Promise<IteratorResult<Uint8Array>> {
  try {
    return await chunks.next();
  } catch (cause) {
    throw unreachable(asked, cause);
  }
}

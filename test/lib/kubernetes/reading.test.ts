// A body read in slices: others get their turn however fast it comes.
import { expect, it } from "vitest";
import { systemClock } from "../../../lib/kubernetes/index.ts";
import { readInSlices } from "../../../lib/kubernetes/reading.ts";

/** Always ready, so that nothing but the reader ever waits. */
async function* ready(count: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < count; at++) yield Uint8Array.of(at);
}

const work = (ms: number): void => {
  const until = performance.now() + ms;
  while (performance.now() < until);
};

it("lets others have their turn, within a chunk and between chunks", async () => {
  for (const [chunks, pieces] of [
    [1, 60],
    [60, 1],
  ] as const) {
    let turns = 0;
    let slices = 0;
    let left = 60;
    const turn = (): void => {
      turns++;
      if (left > 0) setImmediate(turn);
    };
    setImmediate(turn);
    await readInSlices(
      { asked: "GET x", body: Object.assign(ready(chunks), { text: async () => "" }) },
      () => Array.from({ length: pieces }, () => 1),
      () => {
        work(2);
        left--;
      },
      {
        clock: systemClock,
        idleMs: 60_000,
        abort: new AbortController(),
        onContact: () => {},
        onSlice: () => slices++,
      },
    );
    // 120 ms of work in slices of 8.
    expect([left, turns > 5, slices > 5]).toEqual([0, true, true]);
  }
});

// Long work leaves the loop to others, short work does not.
import { describe, expect, it } from "vitest";
import { createRest, inTurns } from "../../../lib/turns/index.ts";

/** Work of so many pieces, each as long as it says. */
function* pieces(count: number, ms: number, done: string[]): Generator<undefined, string> {
  for (let piece = 0; piece < count; piece++) {
    for (const began = performance.now(); performance.now() - began < ms; );
    done.push(`piece ${piece}`);
    yield;
  }
  return "all";
}

describe("turns", () => {
  it("lets others in between pieces that take long together", async () => {
    const done: string[] = [];
    setImmediate(() => done.push("somebody else"));
    expect(await inTurns(pieces(4, 20, done))).toBe("all");
    expect(done).toEqual(["piece 0", "somebody else", "piece 1", "piece 2", "piece 3"]);
  });

  it("hands on what the work throws", async () => {
    const failing = (function* (): Generator<undefined, void> {
      yield;
      throw new Error("no more");
    })();
    await expect(inTurns(failing)).rejects.toThrow("no more");
  });

  it("rests where the turn is as long as somebody says", async () => {
    const done: string[] = [];
    setImmediate(() => done.push("somebody else"));
    await createRest(60_000)();
    expect(done).toEqual([]);
    await createRest(0)();
    expect(done).toEqual(["somebody else"]);
  });
});

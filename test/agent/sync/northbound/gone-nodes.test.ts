// When a node that wrote rows and has no Node object any more counts as gone.
import { describe, expect, it } from "vitest";
import { createGoneNodes } from "../../../../agent/sync/northbound/gone-nodes.ts";

/** At each time, who is absent, and who is gone by then. */
type Course = readonly (readonly [at: number, absent: string, gone: string])[];

describe("createGoneNodes", () => {
  it.each<[string, Course]>([
    [
      "nobody who is there",
      [
        [0, "", ""],
        [500, "", ""],
      ],
    ],
    [
      "one that has been away for so long",
      [
        [0, "a", ""],
        [99, "a", ""],
        [100, "a", "a"],
        [150, "a", "a"],
      ],
    ],
    [
      "each by its own time",
      [
        [0, "a", ""],
        [50, "a b", ""],
        [100, "a b", "a"],
        [150, "a b", "a b"],
      ],
    ],
    [
      "one that was back in between from the start again",
      [
        [0, "a", ""],
        [90, "a", ""],
        [95, "", ""],
        [99, "a", ""],
        [180, "a", ""],
        [199, "a", "a"],
      ],
    ],
    [
      "nobody while none was asked about for so long that it may have been back",
      [
        [0, "a", ""],
        [90, "a", ""],
        [191, "a", ""],
        [290, "a", ""],
        [291, "a", "a"],
      ],
    ],
    [
      "nobody at once at a late start",
      [
        [1_000, "a", ""],
        [1_099, "a", ""],
        [1_100, "a", "a"],
      ],
    ],
  ])("says %s", (_, course) => {
    let time = 0;
    const gone = createGoneNodes(() => time, 100);
    for (const [at, absent, expected] of course) {
      time = at;
      const names = absent === "" ? [] : absent.split(" ");
      expect(gone(names).join(" ")).toBe(expected);
      // Asked twice at one time it says the same.
      expect(gone(names).join(" ")).toBe(expected);
    }
  });
});

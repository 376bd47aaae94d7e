// Remembering by identity: made again when, and only when, an input is another object.
import { describe, expect, it } from "vitest";
import { keepEqual, lastOf, perObject } from "../../../agent/model/memo.ts";

describe("lastOf", () => {
  it("makes again when any argument is another object, even an equal one", () => {
    let made = 0;
    const make = lastOf((a: object, b: object) => ({ a, b, made: ++made }));
    const [a, b] = [{}, {}];
    const first = make(a, b);
    expect(make(a, b)).toBe(first);
    expect(make(a, {})).not.toBe(first);
    expect(make(a, b)).not.toBe(first);
    expect(made).toBe(3);
  });

  it("takes NaN for itself, remembers undefined, and knows no result before the first call", () => {
    let made = 0;
    const make = lastOf((value: unknown): undefined => {
      made += value === "x" ? 0 : 1;
    });
    make(undefined);
    make(undefined);
    make(Number.NaN);
    make(Number.NaN);
    expect(made).toBe(2);
  });

  it("makes once without arguments", () => {
    let made = 0;
    const make = lastOf(() => ++made);
    expect([make(), make()]).toEqual([1, 1]);
  });

  it("remembers nothing of a call that threw", () => {
    const broken = new Set(["yes"]);
    const make = lastOf((a: object) => {
      if (broken.delete("yes")) throw new Error("no");
      return a;
    });
    const a = {};
    expect(() => make(a)).toThrow("no");
    expect(make(a)).toBe(a);
  });
});

describe("perObject", () => {
  it("makes once for each object", () => {
    let made = 0;
    const make = perObject((_key: object) => ++made);
    const [a, b] = [{}, {}];
    expect([make(a), make(b), make(a), make(b), make({})]).toEqual([1, 2, 1, 2, 3]);
  });
});

describe("keepEqual", () => {
  it("gives the object of before while the new one is equal, and compares with what it gave", () => {
    const make = keepEqual(
      (value: number) => ({ value }),
      (before, now) => Math.abs(before.value - now.value) < 2,
    );
    const first = make(1);
    expect(make(2)).toBe(first);
    // Not with the one in between, or it would drift away unnoticed.
    expect(make(3)).toEqual({ value: 3 });
    expect(make(1)).not.toBe(first);
  });
});

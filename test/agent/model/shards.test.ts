// The map in pieces behaves as a Map, and what was not touched stays the same object.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  adoptShards,
  compareShards,
  emptyShards,
  entriesOf,
  fromShards,
  getFrom,
  isEmpty,
  type Shard,
  type Shards,
  shardOf,
  shardsFrom,
  shardwise,
  sizeOf,
  stepsTo,
  withEntries,
} from "../../../agent/model/shards.ts";

const key = fc.oneof(
  fc.nat({ max: 300 }).map((n) => `10.244.1.${n}`),
  fc.string({ maxLength: 4 }),
);
const changes = fc.array(fc.tuple(key, fc.option(fc.nat({ max: 5 }), { nil: undefined })), { maxLength: 40 });
const history = fc.array(changes, { maxLength: 8 });

function applied(
  before: ReadonlyMap<string, number>,
  edits: readonly (readonly [string, number | undefined])[],
) {
  const after = new Map(before);
  for (const [name, value] of edits) {
    if (value === undefined) after.delete(name);
    else after.set(name, value);
  }
  return after;
}

const sorted = <V>(entries: Iterable<readonly [string, V]>) =>
  [...entries].sort(([a], [b]) => (a < b ? -1 : Number(a > b)));

describe("a map in shards", () => {
  it("holds after any history what a Map holds", () => {
    fc.assert(
      fc.property(history, (steps) => {
        let plain: ReadonlyMap<string, number> = new Map();
        let shards: Shards<number> = emptyShards();
        for (const step of steps) {
          plain = applied(plain, step);
          shards = withEntries(shards, step);
          expect(sorted(entriesOf(shards))).toEqual(sorted(plain));
          expect(sizeOf(shards)).toBe(plain.size);
          for (const [name] of step) expect(getFrom(shards, name)).toBe(plain.get(name));
        }
        expect(sorted(entriesOf(shardsFrom(plain)))).toEqual(sorted(plain));
      }),
    );
  });

  it("keeps the identity of every shard in which nothing changed, and of itself", () => {
    fc.assert(
      fc.property(changes, changes, (first, second) => {
        const before = withEntries(emptyShards<number>(), first);
        const after = withEntries(before, second);
        const plain = applied(new Map(), first);
        const now = applied(plain, second);
        const differs = new Set(
          [...new Set([...plain.keys(), ...now.keys()])]
            .filter((name) => plain.get(name) !== now.get(name))
            .map(shardOf),
        );
        // What was changed and changed back may have been copied; what never was may not.
        const touched = new Set(second.map(([name]) => shardOf(name)));
        for (const [at, shard] of after.shards.entries()) {
          if (!touched.has(at)) expect(shard).toBe(before.shards[at]);
          if (differs.has(at)) expect(shard).not.toBe(before.shards[at]);
        }
      }),
    );
  });

  it.each<[string, readonly (readonly [string, number | undefined])[]]>([
    ["nothing", []],
    ["what it holds already", [["a", 1]]],
    ["the removal of what it does not hold", [["z", undefined]]],
  ])("is the same object after %s", (_, edits) => {
    const before = shardsFrom([["a", 1] as const]);
    expect(withEntries(before, edits)).toBe(before);
  });

  it("fills a piece again that the same changes have emptied, and no other one with it", () => {
    const before = shardsFrom([["a", 1]]);
    const after = withEntries(before, [
      ["a", undefined],
      ["a", 2],
    ]);
    expect(sorted(entriesOf(after))).toEqual([["a", 2]]);
    expect(sorted(entriesOf(before))).toEqual([["a", 1]]);
    expect(isEmpty(emptyShards())).toBe(true);
  });

  it("never changes a map that somebody holds", () => {
    fc.assert(
      fc.property(changes, changes, (first, second) => {
        const before = withEntries(emptyShards<number>(), first);
        const seen = sorted(entriesOf(before));
        withEntries(before, second);
        expect(sorted(entriesOf(before))).toEqual(seen);
        expect(sizeOf(emptyShards())).toBe(0);
      }),
    );
  });

  it("spreads keys that differ in little", () => {
    const used = new Set(Array.from({ length: 20_000 }, (_, n) => shardOf(`Pod/shop/web-${n}`)));
    expect(used.size).toBe(1024);
    const fullest = Math.max(
      ...shardsFrom(
        Array.from({ length: 20_000 }, (_, n) => [`10.244.${n >> 8}.${n & 255}`, n] as const),
      ).shards.map(({ size }) => size),
    );
    expect(fullest).toBeLessThan(100);
  });
});

describe("compareShards", () => {
  it("names each key that differs once, with both values", () => {
    fc.assert(
      fc.property(changes, changes, (first, second) => {
        const a = applied(new Map(), first);
        const b = applied(new Map(), second);
        const found: [string, [number | undefined, number | undefined]][] = [];
        compareShards(shardsFrom(a), shardsFrom(b), (name, before, after) =>
          found.push([name, [before, after]]),
        );
        const expected = [...new Set([...a.keys(), ...b.keys()])]
          .filter((name) => a.get(name) !== b.get(name))
          .map((name) => [name, [a.get(name), b.get(name)]] as const);
        expect(sorted(found)).toEqual(sorted(expected));
      }),
    );
  });

  it("does not look into a shard that is the same", () => {
    const map = shardsFrom([["a", 1] as const]);
    const guarded = { shards: map.shards.map((shard) => (shard.size === 0 ? shard : unreadable(shard))) };
    compareShards(guarded, guarded, () => expect.unreachable());
    expect(() => compareShards(guarded, emptyShards(), () => undefined)).toThrow("looked into");
  });
});

function unreadable<V>(shard: Shard<V>): Shard<V> {
  return new Proxy(shard, {
    get: () => {
      throw new Error("looked into");
    },
  });
}

describe("stepsTo", () => {
  it("takes over so many more shards each time, and ends with the very map", () => {
    fc.assert(
      fc.property(changes, changes, fc.integer({ min: 1, max: 5 }), (first, second, atATime) => {
        const before = withEntries(emptyShards<number>(), first);
        const after = withEntries(before, second);
        const steps = [...stepsTo(before, after, atATime)];
        let last = before;
        for (const step of steps) {
          const taken = step.shards.filter((shard, at) => shard !== last.shards[at]);
          expect(taken.length).toBeLessThanOrEqual(atATime);
          expect(taken.every((shard) => after.shards.includes(shard))).toBe(true);
          last = step;
        }
        expect(last).toBe(after);
      }),
    );
  });
});

describe("shardwise", () => {
  const many = shardsFrom(Array.from({ length: 100 }, (_, n) => [`k${n}`, n] as const));
  const doubling = () => {
    let calls = 0;
    const perShard = shardwise((shard: Shard<number>) => {
      calls++;
      return new Map([...shard].map(([name, value]) => [name, value * 2]));
    });
    return { perShard, calls: () => calls };
  };

  it("derives each shard once, and after a change only the shards that changed", () => {
    const { perShard, calls } = doubling();
    const filled = new Set(Array.from({ length: 100 }, (_, n) => shardOf(`k${n}`))).size;
    expect(sorted(entriesOf(fromShards(perShard(many))))).toEqual(
      sorted([...entriesOf(many)].map(([name, value]) => [name, value * 2] as const)),
    );
    expect(calls()).toBe(filled + 1); // and the empty one, for all that are
    const more = withEntries(many, [["k100", 100]]);
    expect(getFrom(fromShards(perShard(more)), "k100")).toBe(200);
    expect(calls()).toBe(filled + 2);
  });

  it("gives the same list when no shard changed, and its parts stay the same objects", () => {
    const { perShard } = doubling();
    const first = perShard(many);
    expect(perShard(many)).toBe(first);
    expect(perShard({ shards: [...many.shards] })).toBe(first);
    const second = perShard(withEntries(many, [["k1", 7]]));
    expect(second).not.toBe(first);
    expect(second.filter((shard, at) => shard !== first[at])).toHaveLength(1);
  });

  it("gives what it would give without a memory, after any history", () => {
    fc.assert(
      fc.property(history, (steps) => {
        const { perShard } = doubling();
        let map: Shards<number> = emptyShards();
        for (const step of steps) {
          map = withEntries(map, step);
          expect(sorted(entriesOf(fromShards(perShard(map))))).toEqual(
            sorted([...entriesOf(map)].map(([name, value]) => [name, value * 2] as const)),
          );
        }
      }),
    );
  });
});

describe("fromShards", () => {
  it("has one empty shard for all that hold nothing, so that they compare as the same", () => {
    const none = fromShards(emptyShards<number>().shards.map(() => new Map<string, number>()));
    compareShards(none, emptyShards<number>(), () => expect.unreachable());
    expect(none.shards.every((shard, at) => shard === emptyShards().shards[at])).toBe(true);
    expect([isEmpty(none), isEmpty(shardsFrom([["a", 1] as const]))]).toEqual([true, false]);
  });
});

describe("adoptShards", () => {
  it("holds what the later map holds, with the earlier one's shards where they are equal", () => {
    fc.assert(
      fc.property(changes, changes, (first, second) => {
        const before = withEntries(emptyShards<number>(), first);
        const after = shardsFrom(applied(applied(new Map(), first), second));
        const adopted = adoptShards(before, after);
        expect(sorted(entriesOf(adopted))).toEqual(sorted(entriesOf(after)));
        for (const [at, shard] of adopted.shards.entries()) {
          const same =
            JSON.stringify(sorted(shard)) === JSON.stringify(sorted(before.shards[at] as Shard<number>));
          expect(shard === before.shards[at]).toBe(same);
        }
      }),
    );
  });
});

// Addresses of pods kept over snapshots: always what a first look at the same pods would give.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createPodAddresses } from "../../../agent/model/pod-addresses.ts";
import { emptyShards, entriesOf, type Shards, shardsFrom, withEntries } from "../../../agent/model/shards.ts";

const addressesOf = (value: readonly string[]) => value;
const written = (map: Shards<readonly string[]>) =>
  Object.fromEntries([...entriesOf(map)].sort(([a], [b]) => (a < b ? -1 : 1)));

describe("createPodAddresses", () => {
  it("lists who has an address, and forgets it with the last one", () => {
    const addresses = createPodAddresses(addressesOf);
    const two = shardsFrom<readonly string[]>([
      ["shop/b", ["10.244.1.3", "fd00::3"]],
      ["shop/a", ["10.244.1.3"]],
    ]);
    expect(written(addresses(two))).toEqual({ "10.244.1.3": ["shop/a", "shop/b"], "fd00::3": ["shop/b"] });
    const one = withEntries(two, [["shop/b", undefined]]);
    expect(written(addresses(one))).toEqual({ "10.244.1.3": ["shop/a"] });
    expect(written(addresses(emptyShards()))).toEqual({});
  });

  it("is the same object for the same pods, and has the same shards where nothing changed", () => {
    const addresses = createPodAddresses(addressesOf);
    const pods = shardsFrom<readonly string[]>(
      Array.from({ length: 50 }, (_, at) => [`shop/${at}`, [`10.244.1.${at}`]]),
    );
    const before = addresses(pods);
    expect(addresses(pods)).toBe(before);
    const after = addresses(withEntries(pods, [["shop/more", ["10.244.1.200"]]]));
    expect(after.shards.filter((shard, at) => shard !== before.shards[at])).toHaveLength(1);
  });

  it("is a function of the pods alone, whatever came before", () => {
    const pods = fc.dictionary(
      fc.constantFrom("a", "b", "c", "d"),
      fc.uniqueArray(fc.constantFrom("1", "2", "3")),
    );
    fc.assert(
      fc.property(fc.array(pods, { minLength: 1, maxLength: 6 }), (history) => {
        const kept = createPodAddresses(addressesOf);
        for (const now of history) {
          const values = shardsFrom<readonly string[]>(Object.entries(now));
          expect(written(kept(values))).toEqual(written(createPodAddresses(addressesOf)(values)));
        }
      }),
    );
  });
});

// The index kept from snapshot to snapshot is at every moment what it would be if made from nothing.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AddressIndex, indexAddresses, NO_ADDRESSES } from "../../../agent/model/address-index.ts";
import { atOnce } from "../../../agent/model/pieces.ts";
import type { SelectedPod } from "../../../agent/model/selection.ts";
import {
  emptyShards,
  entriesOf,
  getFrom,
  type Shards,
  shardsFrom,
  withEntries,
} from "../../../agent/model/shards.ts";
import { egressIP, pod } from "../make.ts";

const indexed = (...of: Parameters<typeof indexAddresses>) => atOnce(indexAddresses(...of));

const older = egressIP("older", { created: "2026-01-01T00:00:00Z", requested: ["172.18.0.50", "fd00::50"] });
const younger = egressIP("younger", { created: "2026-01-02T00:00:00Z", requested: ["172.18.0.51"] });

const names = ["a", "b", "c", "d", "e"];
const addresses = ["10.244.1.3", "10.244.1.4", "10.244.1.5"];
const edit = fc.tuple(
  fc.constantFrom(...names),
  fc.option(
    fc.record({
      by: fc.constantFrom(older, younger),
      four: fc.option(fc.constantFrom(...addresses), { nil: undefined }),
      six: fc.option(fc.constantFrom("fd00::3", "fd00::4"), { nil: undefined }),
    }),
    { nil: undefined },
  ),
);

function selection(name: string, addressList: readonly string[], by = older): SelectedPod {
  return { pod: pod(`shop/${name}`, addressList), by, others: [] };
}

const plainly = ({ claims, contested }: AddressIndex) => ({
  claims: new Map(
    [...entriesOf(claims)].map(([address, all]) => [
      address,
      all.map((claim) => `${claim.pod.name} ${claim.by.name}`),
    ]),
  ),
  contested: new Set(contested),
});

describe("the address index", () => {
  it("equals, after any history, one made from nothing", () => {
    fc.assert(
      fc.property(fc.array(fc.array(edit, { maxLength: 4 }), { maxLength: 12 }), (history) => {
        let selected: Shards<SelectedPod> = emptyShards();
        let kept = NO_ADDRESSES;
        for (const step of history) {
          const entries = step.map(([name, of]) => {
            const list = [of?.four, of?.six].filter((address) => address !== undefined);
            return [`Pod/shop/${name}`, of === undefined ? undefined : selection(name, list, of.by)] as const;
          });
          selected = withEntries(selected, entries);
          kept = indexed(kept, selected);
          expect(plainly(kept)).toEqual(plainly(indexed(NO_ADDRESSES, shardsFrom(entriesOf(selected)))));
        }
      }),
      { numRuns: 300 },
    );
  });

  it("is the same index when the selection is", () => {
    const selected = shardsFrom([["Pod/shop/a", selection("a", ["10.244.1.3"])] as const]);
    const index = indexed(NO_ADDRESSES, selected);
    expect(indexed(index, selected)).toBe(index);
  });

  it("puts the claim of the older EgressIP first, then the lower name", () => {
    const selected = shardsFrom(
      [
        ["b", younger],
        ["c", older],
        ["a", younger],
        ["d", older],
      ].map(
        ([name, by]) =>
          [
            `Pod/shop/${name as string}`,
            selection(name as string, ["10.244.1.3"], by as typeof older),
          ] as const,
      ),
    );
    const index = indexed(NO_ADDRESSES, selected);
    expect(getFrom(index.claims, "10.244.1.3")?.map((claim) => claim.pod.name)).toEqual(["c", "d", "a", "b"]);
    expect([...index.contested]).toEqual(["10.244.1.3"]);
  });

  it("lets the address go with its pod when the pod gets another one (BL-03, BL-31)", () => {
    const before = indexed(
      NO_ADDRESSES,
      shardsFrom([["Pod/shop/a", selection("a", ["10.244.1.3"])] as const]),
    );
    const after = indexed(
      before,
      withEntries(before.selected, [["Pod/shop/a", selection("a", ["10.244.1.7"])]]),
    );
    expect([...entriesOf(after.claims)].map(([address]) => address)).toEqual(["10.244.1.7"]);
  });
});

// Wanted rows beside found ones: which is kept, put right, made, taken away.
import { describe, expect, it } from "vitest";
import type { FoundRow, Row } from "../../../../agent/model/northbound.ts";
import { NO_CHANGES, pair } from "../../../../agent/sync/northbound/pairing.ts";

const row = (hops: readonly string[], of: Partial<Row> = {}): Row => ({
  table: "Logical_Router_Policy",
  on: ["r"],
  columns: { match: "m", nexthops: hops },
  ids: { id: "1" },
  ...of,
});
const found = (uuid: string, hops: readonly string[], of: Partial<Row> = {}): FoundRow => ({
  ...row(hops, of),
  uuid,
});
const changes = (wanted: readonly Row[], there: readonly FoundRow[]) => {
  const { establish, retire } = pair(wanted, there, ({ table }) => table);
  return [...establish, ...retire].map((change) => {
    if (change.op === "insert") return "insert";
    if (change.op === "update") return `update ${change.found.uuid}`;
    return change.op === "delete" ? `delete ${change.found.uuid} ${change.why}` : change.op;
  });
};

describe("pair", () => {
  it.each<[string, readonly Row[], readonly FoundRow[], readonly string[]]>([
    ["nothing and nothing", [], [], []],
    ["the same", [row(["a", "b"])], [found("1", ["a", "b"])], []],
    ["the same in another order (BL-01)", [row(["a", "b"])], [found("1", ["b", "a"])], []],
    ["a member more", [row(["a", "b"])], [found("1", ["a", "b", "c"])], ["update 1"]],
    ["a member less", [row(["a", "b"])], [found("1", ["a"])], ["update 1"]],
    ["none", [row([])], [found("1", ["a"])], ["update 1"]],
    ["missing", [row(["a"])], [], ["insert"]],
    ["unwanted", [], [found("1", ["a"])], ["delete 1 unwanted"]],
    [
      "twice, the right one second (BL-06)",
      [row(["a"])],
      [found("1", ["b"]), found("2", ["a"])],
      ["delete 1 duplicate"],
    ],
    [
      "three times, none right",
      [row(["a"])],
      [found("1", ["b"]), found("2", ["c"]), found("3", ["d"])],
      ["update 1", "delete 2 duplicate", "delete 3 duplicate"],
    ],
    [
      "under another parent",
      [row(["a"])],
      [found("1", ["a"], { on: ["other"] })],
      ["insert", "delete 1 unwanted"],
    ],
    [
      "under a parent more",
      [row(["a"])],
      [found("1", ["a"], { on: ["other", "r"] })],
      ["insert", "delete 1 unwanted"],
    ],
    [
      "under the right parent once, under another once",
      [row(["a"])],
      [found("1", ["a"], { on: ["other"] }), found("2", ["b"])],
      ["update 2", "delete 1 duplicate"],
    ],
    [
      "of a table whose rows several share",
      [row(["a"], { table: "QoS", on: ["a", "b"] })],
      [found("1", ["a"], { table: "QoS", on: ["b", "c"] })],
      ["update 1"],
    ],
    [
      "of another table",
      [row(["a"])],
      [found("1", ["a"], { table: "NAT" })],
      ["insert", "delete 1 unwanted"],
    ],
    [
      "with somebody else's id beside ours",
      [row(["a"])],
      [found("1", ["a"], { ids: { id: "1", more: "x" } })],
      [],
    ],
    ["with another id", [row(["a"])], [found("1", ["a"], { ids: { id: "2" } })], ["update 1"]],
    [
      "with a writer where nobody in particular is",
      [row(["a"])],
      [found("1", ["a"], { ids: { id: "1", "egressip-agent/node": "node2" } })],
      ["update 1"],
    ],
    [
      "of two sets the one that is called so",
      [row(["a"], { table: "Address_Set", columns: { name: "s", addresses: ["1"] }, on: [] })],
      [
        found("1", [], { table: "Address_Set", columns: { name: "old", addresses: ["1"] }, on: [] }),
        found("2", [], { table: "Address_Set", columns: { name: "s", addresses: ["2"] }, on: [] }),
      ],
      ["update 2", "delete 1 duplicate"],
    ],
  ])("%s", (_, wanted, there, expected) => {
    expect(changes(wanted, there)).toEqual(expected);
  });

  it("says so by one and the same object where nothing is to be done", () => {
    expect(pair([row(["a"])], [found("1", ["a"])], ({ table }) => table)).toBe(NO_CHANGES);
  });
});

// What goes on while somebody fights over single rows, and what waits with them.
import { describe, expect, it } from "vitest";
import type { Row } from "../../../../agent/model/northbound.ts";
import type { RowChange } from "../../../../agent/sync/northbound/changes.ts";
import { withoutLines } from "../../../../agent/sync/northbound/held-lines.ts";
import { printChange } from "../../../../agent/sync/northbound/print.ts";

const policy = (address: string, on = "ovn_cluster_router"): Row => ({
  table: "Logical_Router_Policy",
  on: [on],
  columns: { priority: 100, match: `ip4.src == ${address}` },
  ids: {},
});
const insert = (row: Row): RowChange => ({ op: "insert", row });
const remove = (row: Row): RowChange => ({ op: "delete", found: { ...row, uuid: "u" }, why: "unwanted" });
const set: Row = { table: "Address_Set", on: [], columns: { name: "a1" }, ids: {} };
const members = (uuid: string | undefined, name = "a1"): RowChange => ({
  op: "members",
  of: "egressip-served-pods",
  set: name,
  uuid,
  family: 4,
  add: ["10.244.1.3"],
  remove: [],
});

const left = (
  held: readonly RowChange[],
  establish: readonly RowChange[],
  retire: readonly RowChange[] = [],
) => withoutLines({ establish, retire }, new Set(held.map(printChange)));

describe("withoutLines", () => {
  it("leaves out what prints as one of them, in either half", () => {
    const [one, two] = [insert(policy("10.244.1.3")), insert(policy("10.244.1.4"))];
    expect(left([one], [one, two])).toEqual({ establish: [two], retire: [] });
    const [old, other] = [remove(policy("10.244.1.5")), remove(policy("10.244.1.6"))];
    expect(left([old], [one], [old, other])).toEqual({ establish: [one], retire: [other] });
  });

  it("keeps what a row is to replace until that is there", () => {
    const now = insert(policy("10.244.1.3"));
    const before = remove(policy("10.244.1.3", "elsewhere"));
    const other = remove(policy("10.244.1.4", "elsewhere"));
    expect(left([now], [now], [before, other])).toEqual({ establish: [], retire: [other] });
  });

  it("adds no members to a set that is not made", () => {
    const made = insert(set);
    const [of, others, there] = [members(undefined), members(undefined, "a2"), members("u")];
    expect(left([made], [made, of, others, there]).establish).toEqual([others, there]);
  });
});

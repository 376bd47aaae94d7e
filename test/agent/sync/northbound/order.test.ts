// The order of a round's rows as text: that of what they are for, whatever order they were found in.
import { describe, expect, it } from "vitest";
import type { FoundRow } from "../../../../agent/model/northbound.ts";
import { NAME_KEY, NODE_KEY } from "../../../../agent/model/northbound-ids.ts";
import { shardsFrom } from "../../../../agent/model/shards.ts";
import { nothing } from "../../../../agent/plan/plan.ts";
import { createNorthboundDiff } from "../../../../agent/sync/northbound/diff.ts";
import { factsOf, labNodes, planOf } from "../../../support/northbound-scene.ts";

const row = (uuid: string, nexthop: string, ids: Readonly<Record<string, string>> = {}): FoundRow => ({
  table: "Logical_Router_Policy",
  uuid,
  on: ["ovn_cluster_router"],
  columns: {
    priority: 100,
    match: "ip4.src == 10.244.1.3",
    action: "reroute",
    nexthops: [nexthop],
    options: {},
  },
  ids: { [NODE_KEY]: "node1", [NAME_KEY]: "prod_shop/web", "ip-family": "ip4", ...ids },
});

function retired(...rows: readonly FoundRow[]): readonly string[] {
  const facts = factsOf("node1", "zones");
  const { northbound } = facts;
  const found = {
    ...facts,
    northbound: { ...northbound, pods: shardsFrom([["10.244.1.3", rows] as const]) },
  };
  const plan = { ...nothing, northbound: planOf(labNodes(), found) };
  return createNorthboundDiff(() => [])(plan, found).retire.flatMap((change) =>
    change.op === "delete" ? [change.found.uuid] : [],
  );
}

describe("rows that go", () => {
  it("are in one order, also when only their columns tell them apart", () => {
    const [one, other] = [row("a", "100.64.0.9"), row("b", "100.64.0.3")];
    expect(retired(one, other)).toEqual(["b", "a"]);
    expect(retired(other, one)).toEqual(["b", "a"]);
  });

  it("stand together by name before their columns are looked at", () => {
    const [one, other] = [row("a", "100.64.0.9"), row("b", "100.64.0.3", { [NAME_KEY]: "prod_shop/x" })];
    expect(retired(one, other)).toEqual(["a", "b"]);
    expect(retired(other, one)).toEqual(["a", "b"]);
  });
});

// NAT rows that go although something else fails on this host: those of an egress IP that is another's now, and that no policy of
// this node leads to any more.
import { describe, expect, it } from "vitest";
import type { FoundRow } from "../../../../agent/model/northbound.ts";
import { NODE_KEY } from "../../../../agent/model/northbound-ids.ts";
import { shardsFrom } from "../../../../agent/model/shards.ts";
import { nothing, type Plan } from "../../../../agent/plan/plan.ts";
import type { RowChange } from "../../../../agent/sync/northbound/changes.ts";
import { releasedRows } from "../../../../agent/sync/northbound/released.ts";
import { factsOf } from "../../../support/northbound-scene.ts";

const [hopHere, hopThere] = ["100.64.0.2", "100.64.0.3"];
const nat = (pod: string): FoundRow => ({
  table: "NAT",
  uuid: `nat ${pod}`,
  on: ["GR_node1"],
  columns: { logical_ip: pod, external_ip: "172.18.0.50" },
  ids: { [NODE_KEY]: "node1" },
});
const policy = (pod: string, node: string, nexthop: string): FoundRow => ({
  table: "Logical_Router_Policy",
  uuid: `policy ${pod}`,
  on: ["ovn_cluster_router"],
  columns: { priority: 100, match: `ip4.src == ${pod}`, nexthops: [nexthop] },
  ids: { [NODE_KEY]: node },
});
const gone = (found: FoundRow, why: "unwanted" | "gone-node" = "unwanted"): RowChange => ({
  op: "delete",
  found,
  why,
});

const [led, turned, ofAnother, unled] = ["10.244.1.3", "10.244.1.4", "10.244.1.5", "10.244.2.3"];
const facts = {
  ...factsOf("node1", "zones"),
  northbound: {
    ...factsOf("node1", "zones").northbound,
    pods: shardsFrom<readonly FoundRow[]>([
      [led, [policy(led, "node1", hopHere), nat(led)]],
      [turned, [policy(turned, "node1", hopThere), nat(turned)]],
      [ofAnother, [policy(ofAnother, "node2", hopHere), nat(ofAnother)]],
      [unled, [nat(unled)]],
    ]),
  },
};
const retire = [
  ...[led, turned, ofAnother, unled].map((pod) => gone(nat(pod))),
  gone(nat(unled), "gone-node"),
  gone(policy(turned, "node1", hopThere)),
];
const plan = (inTurn: Plan["addresses"]["inTurn"]): Plan => ({
  ...nothing,
  addresses: { ...nothing.addresses, inTurn },
  northbound: { ...nothing.northbound, node: "node1" },
});

describe("what is released", () => {
  it("is what no policy of this node leads to: others have their own guards, their agents their own order", () => {
    const names = releasedRows(plan(new Set()), facts, retire).map(
      (change) => change.op === "delete" && change.found.uuid,
    );
    expect(names).toEqual([turned, ofAnother, unled].map((pod) => `nat ${pod}`));
  });

  it("is nothing of an egress IP that only moves on this node, nor where everything ends in its turn", () => {
    expect(releasedRows(plan(new Set(["172.18.0.50" as never])), facts, retire)).toEqual([]);
    expect(releasedRows(plan("all"), facts, retire)).toEqual([]);
  });
});

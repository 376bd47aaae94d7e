// Changes of rows as a person reads them, as operations of one transaction, and as what they will have done.
import { describe, expect, it } from "vitest";
import type { FoundRow, Row, Topology } from "../../../../agent/model/northbound.ts";
import { locksOf } from "../../../../agent/model/northbound-locks.ts";
import { getFrom, shardsFrom } from "../../../../agent/model/shards.ts";
import type { RowChange } from "../../../../agent/sync/northbound/changes.ts";
import { operationsFor } from "../../../../agent/sync/northbound/operations.ts";
import { predictNorthbound } from "../../../../agent/sync/northbound/predict.ts";
import { printChange } from "../../../../agent/sync/northbound/print.ts";
import { factsOf } from "../../../support/northbound-scene.ts";

const uuid = (last: number) => `5f6c1f0e-0000-4000-9000-00000000000${last}`;
const policy: Row = {
  table: "Logical_Router_Policy",
  on: ["ovn_cluster_router"],
  columns: {
    priority: 100,
    match: "ip4.src == 10.244.1.3",
    action: "reroute",
    nexthops: ["100.64.0.2"],
    options: {},
  },
  ids: { "k8s.ovn.org/id": "o:EgressIP:100:prod_shop/web:ip4:default", "egressip-agent/node": "node1" },
};
const nat: Row = {
  table: "NAT",
  on: ["GR_node1"],
  columns: {
    type: "snat",
    external_ip: "172.18.0.50",
    logical_ip: "10.244.1.3",
    options: { stateless: "false" },
    match: "",
  },
  ids: { "k8s.ovn.org/id": "o:EgressIP:prod_shop/web:ip4" },
};
const qos: Row = {
  table: "QoS",
  on: ["node1", "node2"],
  columns: { priority: 103, direction: "from-lport", match: "m", action: { mark: "42" } },
  ids: { "k8s.ovn.org/id": "q" },
};
const found = (row: Row, last: number, of: Partial<Row> = {}): FoundRow => ({
  ...row,
  ...of,
  uuid: uuid(last),
});
const set = { of: "egressip-served-pods", set: "a1", uuid: uuid(9), family: 4 } as const;

const changes: readonly (readonly [RowChange, string])[] = [
  [
    { op: "insert", row: policy },
    'insert Logical_Router_Policy ovn_cluster_router: priority=100 match="ip4.src == 10.244.1.3" action=reroute ' +
      "nexthops=[100.64.0.2]  # o:EgressIP:100:prod_shop/web:ip4:default",
  ],
  [
    {
      op: "update",
      row: nat,
      found: found(nat, 1, { columns: { ...nat.columns, external_ip: "172.18.0.49" } }),
    },
    "update NAT GR_node1: logical_ip=10.244.1.3 external_ip=172.18.0.49 -> 172.18.0.50  # o:EgressIP:prod_shop/web:ip4",
  ],
  [
    { op: "update", row: qos, found: found(qos, 2, { on: ["node1", "join"] }) },
    "update QoS node1,node2: priority=103 match=m on node1,join -> node1,node2  # q",
  ],
  [
    {
      op: "update",
      row: { ...policy, ids: { "k8s.ovn.org/id": "theirs" } },
      found: found(policy, 3),
    },
    'update Logical_Router_Policy ovn_cluster_router: priority=100 match="ip4.src == 10.244.1.3" ' +
      "k8s.ovn.org/id=o:EgressIP:100:prod_shop/web:ip4:default -> theirs egressip-agent/node=node1 ->   # theirs",
  ],
  [
    { op: "delete", found: found(nat, 4), why: "duplicate" },
    "delete NAT GR_node1: type=snat external_ip=172.18.0.50 logical_ip=10.244.1.3 options={stateless=false}  " +
      "# o:EgressIP:prod_shop/web:ip4 (duplicate)",
  ],
  [
    { op: "members", ...set, add: ["10.244.1.3"], remove: ["10.244.1.4"] },
    "update Address_Set name=a1 +10.244.1.3 -10.244.1.4",
  ],
  [
    { op: "take-node-snat", router: "GR_node1", pod: "10.244.1.3", uuids: [uuid(5)] },
    "delete NAT GR_node1: type=snat logical_ip=10.244.1.3  # would stand beside the egress IP's",
  ],
  [
    { op: "give-node-snat", router: "GR_node1", pod: "10.244.1.3", node: "172.18.0.11" },
    "insert NAT GR_node1: type=snat external_ip=172.18.0.11 logical_ip=10.244.1.3  # leaves as its node again",
  ],
];

describe("predictNorthbound", () => {
  it("leaves other people's ids on a row, and takes the writer's where it is nobody's in particular any more", () => {
    const there = found(policy, 3, { ids: { ...policy.ids, somebody: "was here" } });
    const { northbound } = factsOf("node1", "zones");
    const before = {
      ...northbound,
      pods: shardsFrom<readonly FoundRow[]>([["10.244.1.3", [there]]]),
      writers: new Map([["node1", 1]]),
    };
    const row = { ...policy, ids: { "k8s.ovn.org/id": "theirs" } };
    const after = predictNorthbound(before, [{ op: "update", row, found: there }]);
    expect(getFrom(after.pods, "10.244.1.3")).toEqual([
      { ...there, ids: { "k8s.ovn.org/id": "theirs", somebody: "was here" } },
    ]);
    expect(after.writers).toEqual(new Map([["", 1]]));
  });
});

describe("printChange", () => {
  it.each(changes)("%#", (change, text) => {
    expect(printChange(change)).toBe(text);
  });
});

const topology: Topology = factsOf("node1", "central").northbound.topology;
const locks = locksOf("egressip-agent", "node1");
const operations = (...all: readonly RowChange[]) => operationsFor(all, topology, locks, "node1");
const asserted = (...all: readonly RowChange[]) =>
  operations(...all).flatMap((operation) => (operation.op === "assert" ? [operation.lock] : []));

describe("operationsFor", () => {
  it("asserts the node's lock always, and the zone's for what all share or what a node left behind", () => {
    const guard = { ...policy, columns: { ...policy.columns, priority: 98 } };
    expect(asserted({ op: "insert", row: guard })).toEqual([locks.node]);
    expect(asserted({ op: "insert", row: policy })).toEqual([locks.node]);
    expect(
      asserted({ op: "insert", row: nat }, { op: "delete", found: found(policy, 1), why: "unwanted" }),
    ).toEqual([locks.node]);
    for (const change of [
      { op: "insert", row: qos },
      {
        op: "update",
        row: { ...policy, columns: { ...policy.columns, priority: 102 }, ids: qos.ids },
        found: found(policy, 1),
      },
      { op: "delete", found: found(policy, 1), why: "gone-node" },
    ] as const)
      expect(asserted(change)).toEqual([locks.node, locks.zone]);
  });

  it("is a waiting for each parent and one mutation of each parent's column, however many rows", () => {
    const rows = Array.from(
      { length: 500 },
      (_, at): RowChange => ({
        op: "insert",
        row: { ...policy, columns: { ...policy.columns, match: `ip4.src == 10.244.1.${at}` } },
      }),
    );
    const counts = new Map<string, number>();
    for (const { op } of operations(...rows, { op: "insert", row: nat }))
      counts.set(op, (counts.get(op) ?? 0) + 1);
    expect(Object.fromEntries(counts)).toEqual({ assert: 1, wait: 2, insert: 501, mutate: 2, comment: 1 });
  });

  it("writes of a row what is not as it should be, and of external_ids what is ours", () => {
    const before = found(policy, 3, {
      columns: { ...policy.columns, nexthops: ["100.64.0.9"] },
      ids: { ...policy.ids, "k8s.ovn.org/id": "old", somebody: "was here" },
    });
    const written = operations({ op: "update", row: policy, found: before });
    expect(written.map(({ op }) => op)).toEqual(["assert", "update", "mutate", "comment"]);
    expect(JSON.stringify(written[1])).toContain('"row":{"nexthops":["100.64.0.2"]}');
    expect(JSON.stringify(written[2])).not.toContain("somebody");
  });

  it("makes a set with its members, and touches single ones of a set that is there", () => {
    const row: Row = { table: "Address_Set", on: [], columns: { name: "a1" }, ids: {} };
    const made = operations(
      { op: "insert", row },
      { op: "members", ...set, uuid: undefined, add: ["10.244.1.3"], remove: [] },
    );
    expect(made.map(({ op }) => op)).toEqual(["assert", "assert", "insert", "comment"]);
    expect(JSON.stringify(made[2])).toContain('"addresses":["10.244.1.3"]');
    const touched = operations({ op: "members", ...set, add: ["10.244.1.3"], remove: ["10.244.1.4"] });
    expect(touched.map(({ op }) => op)).toEqual(["assert", "mutate", "comment"]);
  });
});

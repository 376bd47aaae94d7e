// What is done before all else when an egress IP leaves this node's gateway router for another node's in the same database.
import { describe, expect, it } from "vitest";
import type { HostFacts } from "../../../../agent/model/facts.ts";
import { type FoundRow, NORTHBOUND_OFF, type Row } from "../../../../agent/model/northbound.ts";
import { ARRIVING_PODS } from "../../../../agent/model/northbound-ids.ts";
import { shardsFrom } from "../../../../agent/model/shards.ts";
import { nothing, type Plan } from "../../../../agent/plan/plan.ts";
import type { RowChange } from "../../../../agent/sync/northbound/changes.ts";
import { withdrawnRows } from "../../../../agent/sync/northbound/withdraw.ts";
import { bareHost } from "../../make.ts";

const ids = { "egressip-agent/node": "node1" };
const nat = (pod: string, external_ip = "172.18.0.50"): FoundRow => ({
  table: "NAT",
  uuid: `nat ${pod}`,
  on: ["GR_node1"],
  columns: { logical_ip: pod, external_ip },
  ids,
});
const policy = (pod: string, ...nexthops: readonly string[]): FoundRow => ({
  table: "Logical_Router_Policy",
  uuid: `policy ${pod}`,
  on: ["ovn_cluster_router"],
  columns: { priority: 100, match: `ip4.src == ${pod}`, nexthops },
  ids,
});
const gone = (found: FoundRow): RowChange => ({ op: "delete", found, why: "unwanted" });
const update = (found: FoundRow, row: Row): RowChange => ({ op: "update", found, row });
const members = (add: readonly string[], remove: readonly string[]): RowChange => ({
  op: "members",
  of: ARRIVING_PODS,
  set: "a1",
  uuid: "set",
  family: 4,
  add,
  remove,
});

const [own, away] = ["10.244.1.3", "10.244.2.3"];
const led = policy(own, "100.64.0.2");
const held = policy(own);

const NONE: ReadonlySet<string> = new Set();

function withdrawn(
  establish: readonly RowChange[],
  retire: readonly RowChange[],
  {
    gives = NONE,
    rows = [led, nat(own)],
    alone = false,
  }: { gives?: ReadonlySet<string>; rows?: readonly FoundRow[]; alone?: boolean } = {},
) {
  const plan: Plan = {
    ...nothing,
    northbound: { ...nothing.northbound, node: "node1", gives: alone ? undefined : gives },
  };
  const topology = { ...NORTHBOUND_OFF.topology, gateways: new Map([["node1", { 4: "100.64.0.2" }]]) };
  const pods = shardsFrom([[own, rows] as const, [away, [nat(away)]] as const]);
  const facts: HostFacts = {
    ...bareHost,
    northbound: { ...NORTHBOUND_OFF, state: "current", topology, pods },
  };
  return withdrawnRows(plan, facts, { establish, retire });
}

describe("rows that are withdrawn", () => {
  const turns = update(led, held);
  const all = [gone(nat(own)), gone(nat(away))];

  it("are the NAT rows, with what leads own pods to them and lets in those of others", () => {
    const other = update(policy("10.244.1.9", "100.64.0.2"), policy("10.244.1.9"));
    const insert: RowChange = { op: "insert", row: nat("10.244.1.4", "172.18.0.51") };
    expect(withdrawn([turns, other, insert, members(["10.244.2.9"], [away])], all)).toEqual([
      turns,
      members([], [away]),
      ...all,
    ]);
  });

  it("are none of an egress IP that is still given here, or where the database is this node's alone", () => {
    const establish = [turns, members([], [away])];
    expect(withdrawn(establish, all, { gives: new Set(["172.18.0.50"]) })).toEqual([]);
    expect(withdrawn(establish, all, { alone: true })).toEqual([]);
    expect(withdrawn(establish, [gone(policy(own))])).toEqual([]);
  });

  it("are none of a pod that is led to them still: its policy goes in the end, or waits for the kernel", () => {
    expect(withdrawn([], all)).toEqual([gone(nat(away))]);
    expect(withdrawn([], [gone(led), ...all])).toEqual([gone(nat(away))]);
  });

  it("are those of a pod that is led elsewhere already, and not those of a node that is gone", () => {
    expect(withdrawn([], all, { rows: [policy(own, "100.64.0.3"), nat(own)] })).toEqual(all);
    expect(withdrawn([], [{ op: "delete", found: nat(away), why: "gone-node" }])).toEqual([]);
  });
});

// What is done before all else when an egress IP leaves this node's gateway router for another node's in the same database.
import { describe, expect, it } from "vitest";
import type { HostFacts } from "../../../../agent/model/facts.ts";
import { type FoundRow, NORTHBOUND_OFF, type Row } from "../../../../agent/model/northbound.ts";
import { ARRIVING_PODS, podSet } from "../../../../agent/model/northbound-ids.ts";
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
const rowOf = ({ uuid: _, ...row }: FoundRow): Row => row;
const gone = (found: FoundRow): RowChange => ({ op: "delete", found, why: "unwanted" });
const update = (found: FoundRow, row: Row): RowChange => ({ op: "update", found, row });
const { name: setName, ids: setIds } = podSet({ owner: "egressip-agent", node: "node1" }, ARRIVING_PODS, 4);
const arrivingSet: FoundRow = {
  table: "Address_Set",
  uuid: "set",
  on: [],
  columns: { name: setName },
  ids: setIds,
};
const members = (add: readonly string[], remove: readonly string[]): RowChange => ({
  op: "members",
  of: ARRIVING_PODS,
  set: setName,
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
    notHeld = NONE,
    arriving = [],
  }: {
    gives?: ReadonlySet<string>;
    rows?: readonly FoundRow[];
    alone?: boolean;
    notHeld?: ReadonlySet<string>;
    arriving?: readonly string[];
  } = {},
) {
  const plan: Plan = {
    ...nothing,
    addresses: { ...nothing.addresses, notHeld },
    northbound: {
      ...nothing.northbound,
      node: "node1",
      owner: "egressip-agent",
      gives: alone ? undefined : gives,
    },
  };
  const topology = { ...NORTHBOUND_OFF.topology, gateways: new Map([["node1", { 4: "100.64.0.2" }]]) };
  const pods = shardsFrom([[own, rows] as const, [away, [nat(away)]] as const]);
  const facts: HostFacts = {
    ...bareHost,
    northbound: {
      ...NORTHBOUND_OFF,
      state: "current",
      topology,
      pods,
      shared: [arrivingSet],
      arriving: {
        4: shardsFrom(arriving.map((pod) => [pod, true as const] as const)),
        6: shardsFrom<true>([]),
      },
    },
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

describe("rows that are to give another address", () => {
  const exchanged = [update(nat(own), nat(own, "172.18.0.51")), update(nat(away), nat(away, "172.18.0.51"))];
  const [ours, theirs] = [nat(own), nat(away)];
  const given = { gives: new Set(["172.18.0.51"]), notHeld: new Set(["172.18.0.50"]), arriving: [away] };

  it("go, where an EgressIP asks for the old one and it is not this node's: nobody is led or let in to them", () => {
    const two = policy(own, "100.64.0.2", "100.64.0.3");
    const only = policy(own, "100.64.0.3");
    expect(withdrawn(exchanged, [], { ...given, rows: [two, ours] })).toEqual([
      update(two, { ...rowOf(only), columns: { ...only.columns, action: "reroute" } }),
      members([], [away]),
      gone(ours),
      gone(theirs),
    ]);
  });

  it("hold back a pod that has no other way, and leave one alone that turns by itself", () => {
    expect(withdrawn(exchanged, [], given)[0]).toEqual(
      update(led, { ...rowOf(held), columns: { ...held.columns, action: "drop" } }),
    );
    const turns = update(led, policy(own, "100.64.0.3"));
    expect(withdrawn([turns, ...exchanged], [], given)[0]).toEqual(turns);
    // It is to lead here still, when the new row is there.
    const stays = update(led, policy(own, "100.64.0.2", "100.64.0.3"));
    expect(withdrawn([stays, ...exchanged], [], given)).not.toContainEqual(stays);
  });

  it("keep out with those that leave anyway, in one change of the set", () => {
    const leaving = members(["10.244.2.9"], ["10.244.2.8"]);
    expect(withdrawn([leaving, ...exchanged], [], given)).toContainEqual(members([], ["10.244.2.8", away]));
  });

  it("are changed in their turn where nobody asks for the old one, or this node gives it still", () => {
    expect(withdrawn(exchanged, [], { ...given, notHeld: NONE })).toEqual([]);
    expect(withdrawn(exchanged, [], { ...given, gives: new Set(["172.18.0.50", "172.18.0.51"]) })).toEqual(
      [],
    );
  });
});

// Rows that OVN-Kubernetes wrote: left alone without being asked to, taken over in one transaction with it, and given back.
// The previous owner is an agent that writes under its name, without the key of its own that the reference does not have.
import { describe, expect, test } from "vitest";
import { egressIP, namespace, objects, pod } from "../agent/make.ts";
import { openNorthboundAgent } from "../support/northbound-agent.ts";
import { anyDamage } from "../support/northbound-damage.ts";
import { hostOf, labNodes } from "../support/northbound-scene.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import {
  type DatabaseRow,
  printForeign,
  printRows,
  rowsOfOwner,
  shortRows,
} from "../support/northbound-tables.ts";

const REFERENCE = "default-network-controller";
const OURS = "egressip-agent";

const all = objects(
  ...labNodes(),
  namespace("shop"),
  egressIP("prod", { at: { "172.18.0.50": "node1", "fd00:172:18::51": "node2" } }),
  pod("shop/web", ["10.244.1.3", "fd00:10:244:1::3"]),
  pod("shop/away", ["10.244.2.3"], { node: "node2" }),
);

const THEIR_NODE_IPS = "a712973235162149816";

/** The reference's rows of a user-defined network, and routes as it writes them: without ids. */
const ofNetwork = (network: string) => [
  "map",
  Object.entries({
    "k8s.ovn.org/owner-controller": REFERENCE,
    "k8s.ovn.org/owner-type": "EgressIP",
    "k8s.ovn.org/name": "prod_shop/web",
    "k8s.ovn.org/id": `${REFERENCE}:EgressIP:100:prod_shop/web:ip4:${network}`,
    network,
  }),
];

/** What the reference has as well: all but the guard of arrivals and its sets. */
function theirs<R extends { readonly columns: Readonly<Record<string, unknown>> }>(rows: readonly R[]): R[] {
  return rows.filter(
    (row) => !/EIP-(?:Drop-Unclaimed|Pass-Claimed)-Arrivals|egressip-arriving-pods/.test(JSON.stringify(row)),
  );
}

async function referenceServer(): Promise<NorthboundServer> {
  const server = await NorthboundServer.open();
  await using agent = openNorthboundAgent(server.endpoint, { northboundOwner: REFERENCE }, hostOf("node1"));
  await agent.round(all);
  const rows = await rowsOfOwner(server, REFERENCE);
  const strip = rows.map(({ table, uuid }) => ({
    op: "mutate",
    table,
    where: [["_uuid", "==", ["uuid", uuid]]],
    mutations:
      table === "Logical_Router_Static_Route"
        ? [
            ["external_ids", "delete", ["set", ["k8s.ovn.org/owner-controller", "k8s.ovn.org/owner-type"]]],
            ["external_ids", "delete", ["set", ["egressip-agent/node"]]],
          ]
        : [["external_ids", "delete", ["set", ["egressip-agent/node"]]]],
  }));
  const red = {
    priority: 100,
    match: "ip4.src == 10.244.1.3",
    action: "reroute",
    nexthops: "100.65.0.2",
    external_ids: ofNetwork("red"),
  };
  // Rows of all networks name the one set of nodes' addresses (reference B.2).
  const toNodes = { ...red, priority: 102, match: `ip4.dst == $${THEIR_NODE_IPS}`, action: "allow" };
  const reply = await server.client(
    "transact",
    JSON.stringify([
      "OVN_Northbound",
      ...strip,
      { op: "insert", table: "Logical_Router_Policy", row: red, "uuid-name": "red" },
      {
        op: "insert",
        table: "Logical_Router_Policy",
        row: { ...toNodes, nexthops: ["set", []] },
        "uuid-name": "nodes",
      },
      {
        op: "insert",
        table: "Logical_Router",
        row: {
          name: "red_ovn_cluster_router",
          policies: [
            "set",
            [
              ["named-uuid", "red"],
              ["named-uuid", "nodes"],
            ],
          ],
        },
      },
    ]),
  );
  expect(reply).not.toContain("error");
  return server;
}

const only = (app: string) => ({ podSelector: [{ key: "app", operator: "In", values: [app] }] }) as const;
const uuidsOf = (rows: readonly DatabaseRow[]) => rows.map(({ table, uuid }) => `${table} ${uuid}`).sort();
const isNodeIps = (row: DatabaseRow) => JSON.stringify(row).includes('"k8s.ovn.org/name":"node-ips"');
const ofDefault = (rows: readonly DatabaseRow[]) =>
  rows.filter(({ columns }) => !JSON.stringify(columns).includes('"red"'));
/** What is there to be taken over: all but the set of nodes' addresses. */
const adoptable = (rows: readonly DatabaseRow[]) => ofDefault(rows).filter((row) => !isNodeIps(row));

/** The database but for the owner's name, and for names of sets, which are made from it. */
const neutral = (rows: readonly DatabaseRow[]) =>
  printRows(rows)
    .replaceAll(/"egressip-agent\/node":"node1",?/g, "")
    .replaceAll(REFERENCE, "OWNER")
    .replaceAll(`"k8s.ovn.org/id":"${OURS}`, '"k8s.ovn.org/id":"OWNER')
    .replaceAll(`"k8s.ovn.org/owner-controller":"${OURS}"`, '"k8s.ovn.org/owner-controller":"OWNER"')
    .replaceAll(/a\d{15,}/g, "SET")
    .split("\n")
    .sort()
    .join("\n");

describe("rows of a previous owner", () => {
  test("are left alone without --adopt, and named as a Problem", async () => {
    await using server = await referenceServer();
    const before = await rowsOfOwner(server, REFERENCE);
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    await agent.round(all);
    expect(await rowsOfOwner(server, REFERENCE)).toEqual(before);
    expect(agent.last?.snapshot.problems.map(({ text }) => text).join()).toContain(
      "default-network-controller's: two programs steer the same pods",
    );
    await agent.leave();
    expect(await rowsOfOwner(server, REFERENCE)).toEqual(before);
    expect(await rowsOfOwner(server, OURS)).toEqual([]);
  });

  test("are taken over in one transaction and stay the rows they were; what is of another network stays theirs", async () => {
    await using server = await referenceServer();
    const before = await rowsOfOwner(server, REFERENCE);
    await using agent = openNorthboundAgent(server.endpoint, { adopt: true }, hostOf("node1"));
    await agent.round(all);
    expect(agent.transactions).toBe(1);
    const after = await rowsOfOwner(server, OURS);
    expect(uuidsOf(after.filter((row) => !isNodeIps(row)))).toEqual(uuidsOf(adoptable(before)));
    expect(neutral(after)).toBe(neutral(ofDefault(before)));
    expect(await rowsOfOwner(server, REFERENCE)).toEqual(
      before.filter((row) => !adoptable(before).includes(row)),
    );
    expect(before.filter(isNodeIps).map(({ columns }) => columns["name"])).toContain(THEIR_NODE_IPS);
    expect(await agent.round()).toBe("");
    expect(agent.transactions).toBe(1);
    // What a database says that nobody adopted any more is the same as one that was never adopted.
    await using fresh = await NorthboundServer.open();
    await using other = openNorthboundAgent(fresh.endpoint, {}, hostOf("node1"));
    await other.round(all);
    const withoutRoutes = (rows: readonly DatabaseRow[]) =>
      printRows(rows.filter(({ table }) => table !== "Logical_Router_Static_Route"));
    expect(withoutRoutes(after)).toBe(withoutRoutes(await rowsOfOwner(fresh, OURS)));
  });

  test("are taken over where ours stand beside them already, and where half of them were", async () => {
    await using server = await referenceServer();
    {
      await using beside = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
      await beside.round(all);
    }
    const ours = await rowsOfOwner(server, OURS);
    const half = ours.filter(({ table }) => table === "NAT");
    await using agent = openNorthboundAgent(server.endpoint, { adopt: true }, hostOf("node1"));
    await agent.round(all);
    expect(adoptable(await rowsOfOwner(server, REFERENCE))).toEqual([]);
    expect(printRows(await rowsOfOwner(server, OURS))).toBe(printRows(ours));
    expect((await rowsOfOwner(server, OURS)).filter(({ table }) => table === "NAT")).toEqual(half);
    expect(await agent.round()).toBe("");
  });

  test("are taken over where neither theirs nor ours are right, sets too, whose names are unique", async () => {
    await using server = await referenceServer();
    {
      await using beside = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
      await beside.round(all);
    }
    const right = printRows(await rowsOfOwner(server, OURS));
    const rows = [...(await rowsOfOwner(server, OURS)), ...adoptable(await rowsOfOwner(server, REFERENCE))];
    const wrong = rows.flatMap((row) => (row.table === "Address_Set" ? anyDamage(row, 0) : []));
    await server.client("transact", JSON.stringify(["OVN_Northbound", ...wrong]));
    await using agent = openNorthboundAgent(server.endpoint, { adopt: true }, hostOf("node1"));
    await agent.round(all);
    expect(printRows(await rowsOfOwner(server, OURS))).toBe(right);
    expect(adoptable(await rowsOfOwner(server, REFERENCE))).toEqual([]);
    expect(await agent.round()).toBe("");
  });

  test("are put right while they are taken over: a stale hop, a pod that is gone", async () => {
    await using server = await referenceServer();
    await using agent = openNorthboundAgent(server.endpoint, { adopt: true }, hostOf("node1"));
    await agent.round(
      objects(
        ...labNodes(),
        namespace("shop"),
        egressIP("prod", { at: { "172.18.0.50": "node2" } }),
        pod("shop/web", ["10.244.1.3"]),
      ),
    );
    expect(await shortRows(server)).toEqual(["policy 10.244.1.3 100.88.0.3", "served 10.244.1.3"]);
    expect(adoptable(await rowsOfOwner(server, REFERENCE))).toEqual([]);
    expect(await agent.round()).toBe("");
  });

  test("where there were none, are given to it with the set of nodes' addresses, and without what is held back", async () => {
    await using server = await NorthboundServer.open();
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    await agent.round(
      objects(
        ...labNodes(),
        namespace("shop"),
        egressIP("prod", { at: { "172.18.0.50": "node1" }, ...only("web") }),
        egressIP("more", { at: {}, requested: ["172.18.0.51"], ...only("held") }),
        pod("shop/web", ["10.244.1.3"], { labels: { app: "web" } }),
        pod("shop/held", ["10.244.1.4"], { labels: { app: "held" } }),
      ),
    );
    expect(await shortRows(server)).toContain("policy 10.244.1.4 drop");
    await agent.leave(true);
    const given = await rowsOfOwner(server, REFERENCE);
    expect(await rowsOfOwner(server, OURS)).toEqual([]);
    expect(await shortRows(server, REFERENCE)).toEqual([
      "nat GR_node1 10.244.1.3 172.18.0.50",
      "policy 10.244.1.3 100.64.0.2",
      "served 10.244.1.3",
    ]);
    expect(printRows(given)).not.toContain('"drop"');
    expect(given.filter(isNodeIps).map(({ columns }) => columns["name"])).toContain(THEIR_NODE_IPS);
  });

  test("go back to it as they were, and come again", async () => {
    await using server = await referenceServer();
    // What only this agent has, the guard of arrivals, is made anew each time and goes with it.
    const before = theirs(await rowsOfOwner(server, REFERENCE));
    const others = await printForeign(server, REFERENCE);
    for (let time = 0; time < 2; time++) {
      await using agent = openNorthboundAgent(server.endpoint, { adopt: true }, hostOf("node1"));
      await agent.round(all);
      const ours = theirs(await rowsOfOwner(server, OURS));
      expect(uuidsOf(ours.filter((row) => !isNodeIps(row)))).toEqual(uuidsOf(adoptable(before)));
      await agent.leave(true);
      const given = await rowsOfOwner(server, REFERENCE);
      expect(await rowsOfOwner(server, OURS)).toEqual([]);
      expect(uuidsOf(given)).toEqual(uuidsOf(before));
      // Byte for byte what the previous owner had written.
      expect(printRows(given)).toBe(printRows(before));
      const never = (rows: readonly DatabaseRow[]) => rows.filter((row) => !adoptable(rows).includes(row));
      expect(never(given)).toEqual(never(before));
      expect(await printForeign(server, REFERENCE)).toBe(others);
    }
  });
});

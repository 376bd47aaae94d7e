// Parts of the logical network that are not there yet, or no more: a Problem in words, nothing else affected, and right when
// they appear. Also rows that somebody else has and ours would clash with.
import { describe, expect, test } from "vitest";
import { egressIP, namespace, objects, pod } from "../agent/make.ts";
import { Transaction } from "../ovn-lab/transaction.ts";
import { openNorthboundAgent } from "../support/northbound-agent.ts";
import { hostOf, labNodes } from "../support/northbound-scene.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { printRows, readTables, rowsOfOwner, shortRows } from "../support/northbound-tables.ts";

const all = objects(
  ...labNodes(),
  namespace("shop"),
  egressIP("prod", { at: { "172.18.0.50": "node1" } }),
  pod("shop/web", ["10.244.1.3"]),
  pod("shop/away", ["10.244.2.3"], { node: "node2" }),
);
const served = "served 10.244.1.3";
const whole = [
  "nat GR_node1 10.244.1.3 172.18.0.50",
  "nat GR_node1 10.244.2.3 172.18.0.50",
  "policy 10.244.1.3 100.64.0.2",
  served,
];

const rename = (table: string, from: string, to: string) =>
  JSON.stringify([
    "OVN_Northbound",
    { op: "update", table, where: [["name", "==", from]], row: { name: to } },
  ]);

interface Missing {
  readonly title: string;
  readonly table: string;
  readonly name: string;
  readonly problem: string;
  readonly rows: readonly string[];
}

const missing: readonly Missing[] = [
  {
    title: "the cluster router",
    table: "Logical_Router",
    name: "ovn_cluster_router",
    problem: "router ovn_cluster_router is not there",
    rows: [...whole.slice(0, 2), served],
  },
  {
    title: "the own gateway router",
    table: "Logical_Router",
    name: "GR_node1",
    problem: "router GR_node1 is not there",
    rows: [whole[2] ?? "", served],
  },
  {
    title: "the gateway router's port to the join network",
    table: "Logical_Router_Port",
    name: "rtoj-GR_node1",
    problem: "",
    rows: [...whole.slice(0, 2), "policy 10.244.1.3 drop", served],
  },
];

describe("from the start", () => {
  test.each(missing)("$title", async ({ table, name, problem, rows }) => {
    await using server = await NorthboundServer.open();
    await server.client("transact", rename(table, name, "elsewhere"));
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    await agent.round(all);
    expect(await shortRows(server)).toEqual(rows);
    const said = () => (agent.last?.snapshot.problems ?? []).map(({ text }) => text).join("\n");
    expect(said()).toContain(problem);
    expect(await agent.round()).toBe("");
    await server.client("transact", rename(table, "elsewhere", name));
    await agent.round();
    expect(await shortRows(server)).toEqual(whole);
    if (problem !== "") expect(said()).not.toContain(problem);
    expect(await agent.round()).toBe("");
    await using fresh = await NorthboundServer.open();
    await using other = openNorthboundAgent(fresh.endpoint, {}, hostOf("node1"));
    await other.round(all);
    expect(printRows(await rowsOfOwner(server, "egressip-agent"))).toBe(
      printRows(await rowsOfOwner(fresh, "egressip-agent")),
    );
  });

  test("everything: an empty database, filled later", async () => {
    await using server = await NorthboundServer.open({ rows: false });
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    await agent.round(all);
    expect(await shortRows(server)).toEqual([served]);
    expect(await agent.round()).toBe("");
  });
});

describe("while it runs", () => {
  test("the gateway router is made anew, and its rows with it", async () => {
    await using server = await NorthboundServer.open();
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    await agent.round(all);
    const [gateway] = (await readTables(server, ["Logical_Router"])).filter(
      ({ columns }) => columns["name"] === "GR_node1",
    );
    await server.nbctl("lr-del", "GR_node1");
    await agent.round();
    expect(await shortRows(server)).toEqual(["policy 10.244.1.3 drop", served]);
    const again = new Transaction();
    again.insert("Logical_Router", {
      name: "GR_node1",
      ports: again.insert("Logical_Router_Port", {
        name: "rtoj-GR_node1",
        mac: "0a:58:64:40:00:02",
        networks: ["100.64.0.2/16", "fd98::2/64"],
      }),
    });
    expect(gateway?.columns["nat"]).toBeDefined();
    await server.transact(again);
    await agent.round();
    expect(await shortRows(server)).toEqual(whole);
    expect(await agent.round()).toBe("");
  });

  test("a join address becomes another (a node that was rebooted): the next hop follows in place (BL-01)", async () => {
    await using server = await NorthboundServer.open();
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    await agent.round(all);
    await server.client(
      "transact",
      JSON.stringify([
        "OVN_Northbound",
        {
          op: "update",
          table: "Logical_Router_Port",
          where: [["name", "==", "rtoj-GR_node1"]],
          row: { networks: ["set", ["100.64.0.9/16", "fd98::9/64"]] },
        },
      ]),
    );
    await agent.round();
    expect(await shortRows(server)).toContain("policy 10.244.1.3 100.64.0.9");
    const routes = (await rowsOfOwner(server, "egressip-agent")).filter(
      ({ columns }) => "ip_prefix" in columns,
    );
    expect(routes.map(({ columns }) => columns["nexthop"]).sort()).toEqual(["100.64.0.9", "fd98::9"]);
    expect(await agent.round()).toBe("");
  });

  test("a route by source that is somebody else's is as good as ours, or a Problem, and no second one is made", async () => {
    await using server = await NorthboundServer.open();
    const theirs = async (nexthop: string) => {
      await server.nbctl(
        "--policy=src-ip",
        "--may-exist",
        "lr-route-add",
        "ovn_cluster_router",
        "10.244.0.0/16",
        nexthop,
      );
    };
    await theirs("100.64.0.2");
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    await agent.round(all);
    const routes = async () =>
      (await readTables(server, ["Logical_Router_Static_Route"])).filter(
        ({ columns }) => columns["ip_prefix"] === "10.244.0.0/16" && columns["policy"] === "src-ip",
      );
    expect((await routes()).map(({ columns }) => columns["nexthop"])).toEqual(["100.64.0.2"]);
    expect(agent.last?.snapshot.problems).toEqual([]);
    await theirs("100.64.0.3");
    await agent.round();
    expect((await routes()).map(({ columns }) => columns["nexthop"])).toEqual(["100.64.0.3"]);
    expect(agent.last?.snapshot.problems.map(({ text }) => text).join()).toContain("leads to 100.64.0.3");
    await server.nbctl("--policy=src-ip", "lr-route-del", "ovn_cluster_router", "10.244.0.0/16");
    await agent.round();
    expect((await routes()).map(({ columns }) => columns["nexthop"])).toEqual(["100.64.0.2"]);
    expect(await agent.round()).toBe("");
  });
});

// Whatever happened before, the rows are a function of what is now: random histories of EgressIPs, pods, namespaces, nodes and
// settings, with restarts and damage in between, end in the rows that a first start writes into a new database, and nobody
// else's row was touched (invariants 2 to 4). Seeded: a failing history says its number, and NORTHBOUND_HISTORY=N plays it alone.
import { describe, expect, test } from "vitest";
import type { HostFacts } from "../../agent/model/facts.ts";
import type { OvnNode } from "../ovn-lab/topology.ts";
import { type NorthboundAgent, openNorthboundAgent, settle } from "../support/northbound-agent.ts";
import { anyDamage } from "../support/northbound-damage.ts";
import { comparable, History } from "../support/northbound-history.ts";
import { hostOf, nodeNames } from "../support/northbound-scene.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { printForeign, printRows, rowsOfOwner } from "../support/northbound-tables.ts";

const OURS = "egressip-agent";
const REFERENCE = "default-network-controller";
const HISTORIES = 200;
const CENTRAL_HISTORIES = 40;

async function damage(server: NorthboundServer, history: History): Promise<void> {
  const rows = await rowsOfOwner(server, OURS);
  // One row once: two changes of one may be none that a server takes.
  const hit = rows.filter(() => history.chance(0.15));
  const operations = hit.flatMap((row) => anyDamage(row, history.number(1_000) / 1_000));
  const reply = await server.client("transact", JSON.stringify(["OVN_Northbound", ...operations]));
  expect(reply).not.toContain("error");
}

/** Rows as the reference leaves them: without our key, and routes that nobody tells from its others taken away. */
async function leaveReferenceRows(server: NorthboundServer, history: History): Promise<void> {
  const settings = { northboundOwner: REFERENCE, node: "node1" };
  await using agent = openNorthboundAgent(server.endpoint, settings, hostOf("node1"));
  await agent.round(history.objects());
  const rows = await rowsOfOwner(server, REFERENCE);
  const operations = rows.map(({ table, uuid }) =>
    table === "Logical_Router_Static_Route"
      ? {
          op: "mutate",
          table: "Logical_Router",
          where: [["name", "==", "ovn_cluster_router"]],
          mutations: [["static_routes", "delete", ["set", [["uuid", uuid]]]]],
        }
      : {
          op: "mutate",
          table,
          where: [["_uuid", "==", ["uuid", uuid]]],
          mutations: [["external_ids", "delete", ["set", ["egressip-agent/node"]]]],
        },
  );
  await server.client("transact", JSON.stringify(["OVN_Northbound", ...operations]));
}

const only = process.env["NORTHBOUND_HISTORY"];
const seeds = (count: number) =>
  only === undefined ? Array.from({ length: count }, (_, at) => at + 1) : [Number(only)];

describe("histories", () => {
  test(`${HISTORIES} on a node with a database of its own`, async () => {
    await using server = await NorthboundServer.open();
    await using empty = await NorthboundServer.open();
    const pristine = printRows(await rowsOfOwner(empty, OURS));
    for (const seed of seeds(HISTORIES)) {
      const history = new History(seed);
      for (let events = 0; events < 12; events++) history.event();
      if (history.chance(0.3)) await leaveReferenceRows(server, history);
      const others = await printForeign(server, OURS, REFERENCE);
      const theirs = printRows(await rowsOfOwner(server, REFERENCE));
      let adopted = false;
      history.resettle();
      let agent = openNorthboundAgent(server.endpoint, history.settings, hostOf("node1"));
      const round = async (what: string) => {
        adopted ||= history.settings.adopt === true;
        const text = await agent.round(history.objects());
        // What a round says it has brought about is what is there.
        const predicted = comparable(agent.last?.outcome.facts as HostFacts);
        expect(predicted, `history ${seed}, ${what}`).toEqual(comparable(await agent.read()));
        return text;
      };
      const steps = 2 + history.number(4);
      for (let step = 0; step < steps; step++) {
        for (let events = history.number(4); events > 0; events--) history.event();
        if (history.chance(0.3)) await damage(server, history);
        if (history.chance(0.3)) {
          await agent.close();
          history.resettle();
          agent = openNorthboundAgent(server.endpoint, history.settings, hostOf("node1"));
        }
        await round(`step ${step}`);
      }
      history.resolve();
      await round("the end");
      const before = agent.transactions;
      expect(await round("once more"), `history ${seed}`).toBe("");
      expect(agent.transactions, `history ${seed}`).toBe(before);
      await agent.close();

      await using fresh = openNorthboundAgent(empty.endpoint, history.settings, hostOf("node1"));
      await fresh.round(history.objects());
      const expected = printRows(await rowsOfOwner(empty, OURS));
      expect(printRows(await rowsOfOwner(server, OURS)), `history ${seed}`).toBe(expected);
      expect(await printForeign(server, OURS, REFERENCE), `history ${seed}`).toBe(others);
      if (!adopted) expect(printRows(await rowsOfOwner(server, REFERENCE)), `history ${seed}`).toBe(theirs);
      else if (history.settings.adopt)
        // Rows of other networks name this one too: it is never taken over.
        expect(
          (await rowsOfOwner(server, REFERENCE)).filter((row) => !JSON.stringify(row).includes('"node-ips"')),
          `history ${seed}`,
        ).toEqual([]);
      await fresh.leave();
      expect(printRows(await rowsOfOwner(empty, OURS)), `history ${seed}`).toBe(pristine);
    }
  }, 240_000);

  test(`${CENTRAL_HISTORIES} of two agents on one database, each as late as it likes`, async () => {
    const cluster = { cluster: { interconnect: false } } as const;
    await using server = await NorthboundServer.open(cluster);
    await using empty = await NorthboundServer.open(cluster);
    const open = (endpoint: string, history: History, node: OvnNode) =>
      openNorthboundAgent(
        endpoint,
        { ...history.settings, adopt: false, gatewayMode: "shared", node },
        hostOf(node),
      );
    for (const seed of seeds(CENTRAL_HISTORIES)) {
      const history = new History(seed, "global");
      for (let events = 0; events < 12; events++) history.event();
      history.resettle();
      const others = await printForeign(server, OURS);
      const agents = [open(server.endpoint, history, "node1"), open(server.endpoint, history, "node2")];
      for (let step = 0; step < 6; step++) {
        for (let events = history.number(4); events > 0; events--) history.event();
        // A node that is gone writes nothing until it is back; its rows are another test's.
        history.world.nodes.add("node2");
        if (history.chance(0.3)) await damage(server, history);
        const at = history.number(2);
        if (history.chance(0.3)) {
          await agents[at]?.close();
          agents[at] = open(server.endpoint, history, nodeNames[at] as OvnNode);
        }
        await settle([agents[at] as NorthboundAgent], history.objects());
      }
      history.resolve();
      expect(await settle(agents, history.objects()), `history ${seed}`).toBe(true);
      const rows = printRows(await rowsOfOwner(server, OURS));
      expect(await printForeign(server, OURS), `history ${seed}`).toBe(others);
      for (const agent of agents) await agent.close();

      const fresh = [open(empty.endpoint, history, "node1"), open(empty.endpoint, history, "node2")];
      expect(await settle(fresh, history.objects()), `history ${seed}`).toBe(true);
      expect(rows, `history ${seed}`).toBe(printRows(await rowsOfOwner(empty, OURS)));
      for (const agent of fresh) {
        await agent.leads();
        await agent.leave();
        await agent.close();
      }
      expect(await rowsOfOwner(empty, OURS), `history ${seed}`).toEqual([]);
    }
  }, 240_000);
});

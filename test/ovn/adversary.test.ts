// The northbound database as an adversary: it dies, stands still, falls silent, comes back empty, forgets to tell, loses replies,
// and others write into it. After each of it the rows are those of an agent that nobody troubled, each once, and strangers' are
// untouched; meanwhile nothing was taken away for want of knowing, and the agent did not call itself ready.
// known-faults BL-80, BL-81, BL-82, BL-84
import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { type FollowingAgent, followNorthbound } from "../support/following-agent.ts";
import { rowsIn } from "../support/northbound-rows.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { addStrangers, calmRows, clusterRows, settled, shop } from "../support/northbound-trouble.ts";
import { noOvn, ovnPrograms } from "../support/ovn-programs.ts";
import { openBareClient, request } from "../support/ovsdb-bare.ts";
import { type Message, OvsdbProxy } from "../support/ovsdb-proxy.ts";
import { until } from "../support/until.ts";

const missing = noOvn();
const [few, more, most] = [shop(4, 2), shop(7, 1), shop(12, 3)] as const;
const [fewRows, moreRows, mostRows] =
  missing === undefined ? await Promise.all([calmRows(few), calmRows(more), calmRows(most)]) : [[], [], []];

/** A server with strangers' rows, and an agent that has come to rest on it. */
async function troubled(
  through: (server: NorthboundServer) => Promise<string> = async ({ endpoint }) => endpoint,
) {
  const server = await NorthboundServer.open();
  await addStrangers(server);
  const agent = followNorthbound(await through(server), few);
  const { others } = await settled(server, agent, fewRows);
  return {
    server,
    agent,
    /** Rows of ours as they should be, strangers' as they were. */
    comesTo: async (rows: readonly string[]) => {
      const held = await settled(server, agent, rows);
      expect(held.others).toBe(others);
    },
    [Symbol.asyncDispose]: async () => {
      await agent.close();
      await server.close();
    },
  };
}

const notReady = (agent: FollowingAgent) =>
  until(() => !agent.ready && agent.told().state === "stale", "it says that it is not ready");
/** Rounds have been made of this, and the host was given what it needs of it. */
const onHost = (agent: FollowingAgent, text: string) =>
  until(() => agent.hostWrites.some((write) => write.includes(text)), `the host was given ${text}`);

describe.skipIf(missing !== undefined)(
  `a database in trouble${missing === undefined ? "" : `: ${missing}`}`,
  () => {
    test("killed and started again, five times, with pods coming and going meanwhile", async () => {
      await using trouble = await troubled();
      const { server, agent } = trouble;
      for (const [wanted, rows] of [
        [more, moreRows],
        [few, fewRows],
        [most, mostRows],
        [more, moreRows],
        [few, fewRows],
      ] as const) {
        await server.kill();
        await notReady(agent);
        agent.want(wanted);
        await server.start();
        await trouble.comesTo(rows);
      }
      expect(agent.told().failure).toBeUndefined();
      // Once when it begins and once when it ends, with the reason.
      expect(agent.journal.filter((entry) => entry.startsWith("northboundLost"))).toHaveLength(5);
      expect(agent.journal.filter((entry) => entry === "northboundFollowed")).toHaveLength(6);
      expect(agent.journal.find((entry) => entry.startsWith("northboundLost"))).toMatch(
        /closed|ECONN|ENOENT/,
      );
    });

    test("the host is served although the database is not there, from the first moment on", async () => {
      await using server = await NorthboundServer.open();
      await server.kill();
      await using agent = followNorthbound(server.endpoint, few);
      await onHost(agent, "10.10.10.60");
      expect(agent.ready).toBe(false);
      expect(agent.last?.outcome.failures.map(({ backend }) => backend)).toEqual(["northbound"]);
      await server.start();
      await settled(server, agent, fewRows);
    });

    test("stands still for longer than it is asked for, a transaction under way", async () => {
      await using trouble = await troubled();
      const { server, agent } = trouble;
      process.kill(server.pid, "SIGSTOP");
      agent.want(most);
      await notReady(agent);
      expect(agent.transactions.at(-1)?.failed).toBe("OutcomeUnknownError");
      await onHost(agent, "10.244.1.202");
      process.kill(server.pid, "SIGCONT");
      await trouble.comesTo(mostRows);
    });

    test("half-open: nothing comes, nothing goes, and the server still has the old connection and its lock", async () => {
      let proxy: OvsdbProxy | undefined;
      await using trouble = await troubled(async ({ endpoint }) => {
        proxy = await OvsdbProxy.open(endpoint);
        return proxy.endpoint;
      });
      await using line = proxy as unknown as OvsdbProxy;
      const { agent } = trouble;
      line.strand();
      agent.want(more);
      await notReady(agent);
      await until(
        () => agent.told().failure?.includes("no reply") || agent.told().failure?.includes("nothing heard"),
        "it says why",
      );
      // Another connection, which waits for the lock of the one that is gone: nothing may be written before that one's last word.
      await until(() => agent.told().state === "waiting", "it waits for the lock");
      expect(agent.ready).toBe(false);
      expect(agent.last?.outcome.failures).toEqual([]);
      expect(agent.transactions.at(-1)?.failed).toBe("OutcomeUnknownError");
      line.endStranded();
      await trouble.comesTo(moreRows);
    });

    test("replies come and updates do not: nothing is written twice, whoever changes what", async () => {
      let proxy: OvsdbProxy | undefined;
      await using trouble = await troubled(async ({ endpoint }) => {
        proxy = await OvsdbProxy.open(endpoint);
        return proxy.endpoint;
      });
      await using line = proxy as unknown as OvsdbProxy;
      const { server, agent } = trouble;
      line.withholdsUpdates = true;
      for (const [wanted, rows] of [
        [most, mostRows],
        [few, fewRows],
        [more, moreRows],
      ] as const) {
        agent.want(wanted);
        await trouble.comesTo(rows);
      }
      // Somebody takes rows away and nobody tells: the slow tick sees that what is known here is under no router.
      await server.nbctl("lr-policy-del", "ovn_cluster_router", "100", "ip4.src == 10.244.1.10");
      agent.tick();
      await trouble.comesTo(moreRows);
      line.withholdsUpdates = false;
    });

    test("a reply that is lost after the commit, twenty times: each row once", async () => {
      let proxy: OvsdbProxy | undefined;
      await using trouble = await troubled(async ({ endpoint }) => {
        proxy = await OvsdbProxy.open(endpoint);
        return proxy.endpoint;
      });
      await using line = proxy as unknown as OvsdbProxy;
      const { agent } = trouble;
      const writes = new Set<unknown>();
      line.heard = ({ id, method, params }) => {
        if (method === "transact" && JSON.stringify(params).includes('"op":"assert"')) writes.add(id);
      };
      let lost = 0;
      for (let turn = 0; turn < 20; turn++) {
        let armed = true;
        line.passes = ({ id, result }: Message) => {
          if (!armed || result === undefined || !writes.has(id)) return true;
          armed = false;
          lost++;
          line.cut();
          return false;
        };
        const [wanted, rows] = turn % 2 === 0 ? ([most, mostRows] as const) : ([few, fewRows] as const);
        agent.want(wanted);
        await trouble.comesTo(rows);
        writes.clear();
      }
      expect(lost).toBe(20);
      expect(agent.transactions.filter(({ failed }) => failed === "OutcomeUnknownError")).toHaveLength(20);
    });

    test("comes back with an empty database: nothing to write and a Problem, and all rows when there are routers again", async () => {
      await using server = await NorthboundServer.open();
      await using agent = followNorthbound(server.endpoint, few);
      await settled(server, agent, fewRows);
      await server.kill();
      await notReady(agent);
      const file = join(server.directory, "nb.db");
      await rm(file);
      const { bin, nbSchema } = await ovnPrograms();
      await promisify(execFile)(join(bin, "ovsdb-tool"), ["create", file, nbSchema]);
      await server.start();
      await until(
        () => agent.told().state === "current" && agent.last?.outcome.failures.length === 0,
        "it follows it",
      );
      expect(agent.last?.snapshot.problems.map(({ text }) => text).join("\n")).toMatch(
        /router ovn_cluster_router is not there/,
      );
      // Sets belong to nobody and are there for whoever names them; all else would stand under a router or switch.
      const { ours, others } = await rowsIn(server);
      expect(ours.filter((row) => !row.startsWith("Address_Set "))).toEqual([]);
      expect(others).not.toContain("GR_node1");
      await server.transact(clusterRows());
      await settled(server, agent, fewRows);
    });

    test("one change is one transaction, and what it brings about is looked at once and written no more", async () => {
      await using trouble = await troubled();
      const { agent } = trouble;
      const [sent, rounds] = [agent.transactions.length, agent.rounds];
      agent.want(most);
      await trouble.comesTo(mostRows);
      expect(agent.transactions).toHaveLength(sent + 1);
      expect(agent.rounds - rounds).toBeLessThanOrEqual(4);
      expect(agent.last?.outcome.steps).toEqual([]);
    });

    test("two agents of one node: one writes, the other waits, says so, and goes on where the first one ends", async () => {
      await using server = await NorthboundServer.open();
      await using first = followNorthbound(server.endpoint, few);
      await settled(server, first, fewRows);
      await using second = followNorthbound(server.endpoint, more);
      await until(() => second.told().state === "waiting" && second.rounds > 0, "the second one waits");
      expect(second.ready).toBe(false);
      expect(second.journal).toEqual(["northboundLocked another agent has the lock of this node"]);
      expect(second.last?.snapshot.problems.map(({ text }) => text).join("\n")).toMatch(
        /another agent has the lock of node node1/,
      );
      expect(second.transactions).toEqual([]);
      expect((await rowsIn(server)).ours).toEqual(fewRows);
      await first.close();
      await settled(server, second, moreRows);
      expect(second.journal.at(-1)).toBe("northboundFollowed");
    });

    test("somebody deletes and changes rows all the time, ours and others'", async () => {
      await using trouble = await troubled();
      const { server, agent } = trouble;
      const wants = [most, more, few];
      const random = randomFrom(7);
      const client = await openBareClient(server.endpoint);
      const ask: Ask = async (...operations) =>
        (await client.ask(request("transact", ["OVN_Northbound", ...operations])))["result"];
      for (let step = 0; step < 500; step++) {
        await chaos(ask, random);
        if (step % 10 === 0) {
          agent.want(wants[(step / 10) % wants.length] ?? few);
          // Not faster than anybody could follow: now and then it has come to rest in between.
          const { rounds } = agent;
          await until(() => agent.rounds > rounds, "another round");
        }
      }
      await tidy(ask);
      client.close();
      agent.want(most);
      agent.tick();
      await trouble.comesTo(mostRows);
      expect(agent.transactions.length).toBeGreaterThan(50);
      // Whatever was done to rows is no reason to doubt what the server tells.
      expect(agent.journal).toEqual(["northboundFollowed"]);
    }, 60_000);
  },
);

/** Numerical Recipes' generator: the same chaos in every run. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

type Ask = (...operations: readonly unknown[]) => Promise<unknown>;

const PARENTS: Readonly<Record<string, readonly [string, string]>> = {
  Logical_Router_Policy: ["Logical_Router", "policies"],
  NAT: ["Logical_Router", "nat"],
  QoS: ["Logical_Switch", "qos_rules"],
};

/** A row that is made and unmade beside ours, for the same pod. */
const beside = (name: string) => ({
  op: "insert",
  table: "Logical_Router_Policy",
  row: {
    priority: 1,
    match: "ip4.src == 10.244.1.10",
    action: "allow",
    external_ids: ["map", [["who", "chaos"]]],
  },
  "uuid-name": name,
});

/** A row ends when its parent forgets it. */
async function tidy(ask: Ask): Promise<void> {
  const where = [["external_ids", "includes", ["map", [["who", "chaos"]]]]];
  const [{ rows }] = (await ask({
    op: "select",
    table: "Logical_Router_Policy",
    where,
    columns: ["_uuid"],
  })) as [{ readonly rows: readonly { readonly _uuid: unknown }[] }];
  const references = ["set", rows.map(({ _uuid }) => _uuid)];
  await ask({
    op: "mutate",
    table: "Logical_Router",
    where: [],
    mutations: [["policies", "delete", references]],
  });
}

/** One act against one row of ours, or beside it. */
async function chaos(ask: Ask, random: (below: number) => number): Promise<void> {
  const table = ["Logical_Router_Policy", "NAT", "QoS", "Address_Set"][random(4)] as string;
  const mine = ["external_ids", "includes", ["map", [["k8s.ovn.org/owner-controller", "egressip-agent"]]]];
  const [found] = (await ask({ op: "select", table, where: [mine], columns: ["_uuid", "external_ids"] })) as [
    {
      readonly rows: readonly { readonly _uuid: readonly [string, string]; readonly external_ids: unknown }[];
    },
  ];
  const row = found.rows[random(found.rows.length)];
  if (row === undefined) return;
  const where = [["_uuid", "==", row._uuid]];
  const intruder = JSON.stringify(row.external_ids).includes('"v6"') ? "2001:db8::9" : "192.0.2.9";
  const parent = PARENTS[table];
  const column = { Logical_Router_Policy: "match", NAT: "external_ip", QoS: "match", Address_Set: "name" }[
    table
  ] as string;
  const spoilt = { match: "ip4.src == 192.0.2.7", external_ip: "192.0.2.8", name: "spoilt" }[column];
  const acts: readonly (readonly unknown[])[] = [
    [
      parent === undefined
        ? { op: "delete", table, where }
        : {
            op: "mutate",
            table: parent[0],
            where: [],
            mutations: [[parent[1], "delete", ["set", [row._uuid]]]],
          },
    ],
    [
      table === "Address_Set"
        ? { op: "mutate", table, where, mutations: [["addresses", "insert", intruder]] }
        : { op: "update", table, where, row: { [column]: spoilt } },
    ],
    [
      {
        op: "mutate",
        table,
        where,
        mutations: [["external_ids", "insert", ["map", [["a-stranger", "was-here"]]]]],
      },
    ],
    [
      beside("one"),
      {
        op: "mutate",
        table: "Logical_Router",
        where: [["name", "==", "ovn_cluster_router"]],
        mutations: [["policies", "insert", ["named-uuid", "one"]]],
      },
    ],
  ];
  await ask(...(acts[random(acts.length)] as readonly unknown[]));
}

// The northbound database as a cluster whose leader moves, twenty times, while pods come and go: the agent follows it, says when it
// cannot, and never takes an empty or past database for the truth. known-faults BL-81
import { describe, expect, test } from "vitest";
import { openFolder, type RealServer } from "../lib/ovsdb-client/real-server.ts";
import { followNorthbound } from "../support/following-agent.ts";
import { calmRows, clusterRows, settled, shop } from "../support/northbound-trouble.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { until } from "../support/until.ts";

const LATE_MS = 60_000;

const missing = noOvn();

describe.skipIf(missing !== undefined)(`northbound${missing === undefined ? "" : `: ${missing}`}`, () => {
  test("a leader that moves twenty times under changes", { timeout: 180_000 }, async () => {
    await using folder = await openFolder();
    const members = await openCluster(folder);
    const status = (member: RealServer) => member.control("cluster/status", "OVN_Northbound").catch(() => "");
    const leads = async (member: RealServer) => (await status(member)).includes("Role: leader");
    const leader = () =>
      until(
        async () => {
          for (const member of members) if (await leads(member)) return member;
          return undefined;
        },
        "a leader",
        LATE_MS,
      );
    const endpoints = members.map(({ endpoint }) => endpoint).join(",");
    const server = {
      client: (command: string, ...args: readonly string[]) =>
        folder.tool("ovsdb-client", "--timeout=30", command, endpoints, ...args),
    };
    await server.client("transact", clusterRows().text("OVN_Northbound"));
    const wants = [shop(4, 2), shop(7, 1), shop(12, 3)] as const;
    const rows = await Promise.all(wants.map(calmRows));
    await using agent = followNorthbound(endpoints, wants[0]);
    await settled(server, agent, rows[0] as readonly string[], LATE_MS);
    for (let move = 1; move <= 20; move++) {
      const current = await leader();
      agent.want(wants[move % 3] as (typeof wants)[0]);
      await current.control("cluster/failure-test", "transfer-leadership");
      await until(async () => !(await leads(current)), "the leader's end", LATE_MS);
      await settled(server, agent, rows[move % 3] as readonly string[], LATE_MS);
      expect(agent.told().endpoint).toBe((await leader()).endpoint);
    }
    const lost = agent.journal.filter((entry) => entry.startsWith("northboundLost"));
    expect(lost.length).toBeGreaterThanOrEqual(20);
    expect(lost.every((entry) => /leader|closed|connected|behind/.test(entry))).toBe(true);
    // What all three want was never taken away.
    const deleted = agent.transactions.flatMap(({ deletes }) => deletes);
    const always = [0, 1, 2, 3].map((at) => `prod_shop/web-${at}`).concat("more_back/web-0");
    expect(deleted.filter((name) => always.includes(name) || name.startsWith("EIP-"))).toEqual([]);
  });
});

async function openCluster(folder: Awaited<ReturnType<typeof openFolder>>): Promise<readonly RealServer[]> {
  const raft = [1, 2, 3].map((n) => `unix:${folder.at(`r${n}`)}`);
  const databases = [1, 2, 3].map((n) => folder.at(`c${n}.db`));
  const members: RealServer[] = [];
  for (const [at, database] of databases.entries()) {
    const [own, first] = [raft[at] as string, raft[0] as string];
    if (at === 0) await folder.tool("ovsdb-tool", "create-cluster", database, folder.programs.nbSchema, own);
    else await folder.tool("ovsdb-tool", "join-cluster", database, "OVN_Northbound", own, first);
    const member = await folder.server(`c${at + 1}`, { database });
    members.push(member);
    await until(
      async () =>
        (await member.control("cluster/status", "OVN_Northbound").catch(() => "")).includes(
          "Status: cluster member",
        ),
      "a member",
      LATE_MS,
    );
  }
  return members;
}

// The daemon as it is run, in a network namespace, and a northbound database that comes late, goes and comes back: the host is
// served all the time, `status` and the log tell the truth once, a change of the database wakes it, SIGTERM gives the lock back.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { locksOf } from "../../agent/model/northbound-locks.ts";
import { pod } from "../bench/manifests.ts";
import { openWorld, settingsFor, type World } from "../bench/world.ts";
import { Agent } from "../support/agent.ts";
import { rowsIn } from "../support/northbound-rows.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { openBareClient, request } from "../support/ovsdb-bare.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const SIZE = { pods: 20, egressIPs: 2, dual: false };
const program = fileURLToPath(new URL("../../agent/main.ts", import.meta.url));
const missing = noOvn() ?? canRunKernelTests();

interface Northbound {
  readonly state: string;
  readonly endpoint: string;
  readonly since: string;
  readonly rows: number;
  readonly leads: boolean;
  readonly failure?: string;
}

describe.skipIf(missing !== undefined)(`the daemon${missing === undefined ? "" : `: ${missing}`}`, () => {
  let world: World;
  let server: NorthboundServer;
  let settings: Readonly<Record<string, string>>;
  beforeAll(async () => {
    [world, server] = await Promise.all([openWorld(), NorthboundServer.open()]);
    settings = { ...settingsFor(world, SIZE), EGRESSIP_LOG_LEVEL: "info", EGRESSIP_OVN_NB: server.endpoint };
  });
  const agents: Agent[] = [];
  afterAll(async () => {
    for (const agent of agents) if (!agent.ended) await agent.kill();
    await server.close();
    await world.close();
  });

  const started = () => {
    const debugSocket = settings["EGRESSIP_DEBUG_SOCKET"] as string;
    const words = [program, "run", "--resync-seconds", "3600"];
    const agent = new Agent({ namespace: world.node, debugSocket }, words, settings);
    agents.push(agent);
    return agent;
  };
  const northboundOf = async (agent: Agent) =>
    ((await agent.status()) as unknown as { readonly northbound: Northbound }).northbound;
  const policies = async () =>
    (await rowsIn(server)).ours.filter(
      (row) => row.includes("reroute") && row.startsWith("Logical_Router_Policy"),
    );
  const lineOf = (agent: Agent, event: string) =>
    agent.said.split("\n").filter((line) => line.includes(`"${event}"`));
  const northboundChanges = async (agent: Agent) =>
    (await agent.changes()).filter((text) => text.includes(" northbound\n"));

  test("from a start without a database to SIGTERM", async () => {
    await server.kill();
    const agent = started();
    await until(() => agent.answers(), "it answers", 20_000);
    // The host has everything, and the agent is not ready.
    await until(async () => (await agent.status()).held === 2, "it holds its addresses", 20_000);
    const eth1 = await world.exec(world.node, "ip", ["address", "show", "dev", "eth1"]);
    expect(eth1).toContain("10.10.100.1/32");
    const status = await agent.when(({ failures }) => failures.length > 0, "a round with a failure");
    expect(status.ready).toBe(false);
    expect(status.failures.map(({ backend }) => backend)).toEqual(["northbound"]);
    expect(await northboundOf(agent)).toMatchObject({
      state: "stale",
      endpoint: server.endpoint,
      rows: 0,
      leads: false,
    });
    expect((await northboundOf(agent)).failure).toMatch(/ENOENT/);

    await server.start();
    await agent.ready();
    expect(await policies()).toHaveLength(SIZE.pods);
    expect(await northboundOf(agent)).toMatchObject({ state: "current", leads: true });
    expect((await northboundOf(agent)).rows).toBeGreaterThanOrEqual(SIZE.pods);
    expect(lineOf(agent, "northboundLost")).toHaveLength(1);
    expect(lineOf(agent, "northboundFollowed")).toHaveLength(1);
    expect(await northboundChanges(agent)).toHaveLength(1);

    // A change of the database is what wakes it: the slow tick is an hour away.
    await server.nbctl("lr-policy-del", "ovn_cluster_router", "100", "ip4.src == 10.244.2.3");
    await until(async () => (await policies()).length === SIZE.pods, "the row is back", 10_000);

    await server.kill();
    const gone = await agent.when(({ ready }) => !ready, "it says that it is not ready");
    expect(gone.held).toBe(2);
    writeFileSync(join(settings["EGRESSIP_MANIFESTS"] as string, "more.yaml"), pod(SIZE.pods, SIZE));
    const listed = () => world.exec(world.node, "ipset", ["save"]);
    await until(async () => (await listed()).includes("10.244.2.22 "), "the new pod is in the set", 10_000);
    await server.start();
    await agent.ready();
    await until(
      async () => (await policies()).length === SIZE.pods + 1,
      "the new pod's row is there",
      10_000,
    );
    expect(lineOf(agent, "northboundLost")).toHaveLength(2);
    expect(lineOf(agent, "northboundFollowed")).toHaveLength(2);

    const { node } = locksOf("egressip-agent", "node1");
    const other = await openBareClient(server.endpoint);
    expect((await other.ask(request("lock", [node])))["result"]).toEqual({ locked: false });
    other.close();
    expect(await agent.stop()).toBe(0);
    const next = await openBareClient(server.endpoint);
    await until(async () => {
      const { result } = await next.ask(request("lock", [node]));
      const { locked } = result as { readonly locked: boolean };
      if (!locked) await next.ask(request("unlock", [node]));
      return locked;
    }, "the lock is free");
    next.close();
    expect(await policies()).toHaveLength(SIZE.pods + 1);
  }, 90_000);

  test("SIGTERM beside a database that stands still", async () => {
    const agent = started();
    await until(() => agent.answers(), "it answers", 20_000);
    await agent.ready();
    process.kill(server.pid, "SIGSTOP");
    expect(await agent.stop()).toBe(0);
    process.kill(server.pid, "SIGCONT");
  }, 60_000);
});

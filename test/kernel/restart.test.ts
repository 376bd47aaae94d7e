// Starting again: a node that is right is written to zero times and notices nothing; one whose agent was killed in the middle
// of its first work is brought to the end by the next start. In: kill -9 at any write, SIGTERM, SIGHUP. Out: packets and dumps.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Lab } from "../lab/lab.ts";
import { nodes } from "../lab/topology.ts";
import { Home } from "../support/agent.ts";
import { unordered } from "../support/agent-dump.ts";
import { Manifests, pod } from "../support/agent-manifests.ts";
import { killedAt } from "../support/killed-agent.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const prefix = `eip${process.pid}`;
const reason = canRunKernelTests();

/** What a start may run: what reads, each as often as it takes to read the host once, the two monitors, and who listens for duplicates. */
const reading = { ip: 4 + 1, ipset: 1, nft: 1 + 1, perl: 1 };
/** These only ever read; how often does not matter here. */
const savers = /^ip6?tables-(?:nft|legacy)-save$/;

describe.skipIf(reason !== undefined)(
  `restart${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let home: Home;
    let manifests: Manifests;
    let untouched: string;
    beforeAll(async () => {
      lab = await Lab.up({ prefix });
      await lab.steer("b1", "node1");
      untouched = await lab.dump("node1");
    });
    beforeEach(async () => {
      [home, manifests] = await Promise.all([Home.of(lab), Manifests.ofExamples()]);
    });
    afterEach(async () => {
      await home.uninstall();
      await Promise.all([home.remove(), manifests.remove()]);
      // Whatever happened to it before.
      expect(await lab.dump("node1")).toBe(untouched);
    });
    afterAll(async () => {
      await lab?.down();
    });

    /** Rules with their handles: one that was written again has another. */
    const handles = async () => (await lab.nodeExec("node1", "nft", ["-s", "-a", "list", "ruleset"])).stdout;

    it("ten times kill -9 and start under traffic with 1 000 pods: nothing written, nothing lost, nothing cut", async () => {
      const many = Array.from({ length: 1_000 }, (_, at) => {
        const addresses = [
          `10.244.${100 + (at >> 8)}.${at & 255}`,
          `fd00:10:244:64::${(at + 1).toString(16)}`,
        ];
        return pod({ name: `many-${at}`, app: "web", node: "node2", addresses });
      });
      await manifests.write("many.yaml", many);
      let agent = await home.start(manifests.directory);
      expect(await agent.lookAgain()).toMatchObject({ pods: 1_003, problems: [] });
      const [before, handlesBefore] = [await lab.dump("node1"), await handles()];

      const senders = [
        lab.sender("a1"),
        lab.sender("a1", { family: 6 }),
        lab.sender("a2"),
        lab.sender("b1", { family: 6 }),
      ];
      const connections = [lab.connection("a1", { family: 6 }), lab.connection("a2"), lab.connection("b1")];
      const traffic = () =>
        Promise.all([...senders.map((one) => one.answers(50)), ...connections.map((one) => one.answers(2))]);
      await traffic();
      const starts: unknown[] = [];
      for (let times = 0; times < 10; times++) {
        await agent.kill();
        await traffic();
        agent = await home.start(manifests.directory);
        const { spawned } = await agent.status();
        const others = Object.entries(spawned).filter(([tool]) => !savers.test(tool));
        starts.push({ spawned: Object.fromEntries(others), changes: await agent.changes() });
        await traffic();
      }
      expect(starts).toEqual(Array(10).fill({ spawned: reading, changes: [] }));
      // And not a moment later either.
      await agent.lookAgain();
      expect(await agent.changes()).toEqual([]);

      const seen = ["sec/10.10.10.50", "sec/fd00:10:10::50", "ext/172.18.0.60", "sec/fd00:10:10::50"];
      for (const [at, result] of (await Promise.all(senders.map((sender) => sender.stop()))).entries())
        expect(result.timeline).toEqual([{ first: 0, last: result.sent - 1, answer: seen[at] }]);
      const results = await Promise.all(connections.map((connection) => connection.stop()));
      expect(results.map(({ broken, sources }) => ({ broken, sources }))).toEqual([
        { broken: false, sources: ["sec/fd00:10:10::50"] },
        { broken: false, sources: ["ext/172.18.0.60"] },
        { broken: false, sources: ["sec/10.10.10.50"] },
      ]);
      expect(await lab.dump("node1")).toBe(before);
      expect(await handles()).toBe(handlesBefore);
      await agent.stop();
    });

    it("kill -9 before, in the middle of and after each write of the first start: the next one completes it", async () => {
      await (await home.start(manifests.directory)).stop();
      const complete = unordered(await lab.dump("node1"));
      await home.uninstall();
      let write = 0;
      for (; ; write++) {
        const moment = (["before", "amid", "after"] as const)[write % 3] ?? "before";
        const killed = await killedAt(home, manifests, write, moment);
        if (!killed) break;
        const agent = await home.start(manifests.directory);
        await agent.lookAgain();
        const what = `killed ${moment} write ${write}`;
        expect(unordered(await lab.dump("node1")), what).toBe(complete);
        expect(await lab.probe("b1", "internet"), what).toEqual({ server: "sec", source: "10.10.10.50" });
        const { exitCode, stdout } = await home.plan(manifests.directory);
        expect({ exitCode, stdout }, what).toEqual({ exitCode: 0, stdout: "nothing to do\n" });
        await agent.stop();
        await home.uninstall();
        expect(await lab.dump("node1"), what).toBe(untouched);
      }
      // Sets, routes, rules of IPv6, the nft table, two iptables, addresses.
      expect(write).toBeGreaterThanOrEqual(7);
    });

    it("SIGTERM ends it and leaves everything in place", async () => {
      const agent = await home.start(manifests.directory);
      const before = await lab.dump("node1");
      const sender = lab.sender("a1");
      await sender.answers(50);
      expect(await agent.stop()).toBe(0);
      await sender.answers(50);
      expect(await lab.dump("node1")).toBe(before);
      const { sent, timeline } = await sender.stop();
      expect(timeline).toEqual([{ first: 0, last: sent - 1, answer: "sec/10.10.10.50" }]);
    });

    it("SIGHUP has it read what nobody tells of", async () => {
      const agent = await home.start(manifests.directory);
      await agent.lookAgain();
      const before = await lab.dump("node1");
      await lab.nodeExec("node1", "ipset", ["del", "egressip4", "10.244.1.3"]);
      expect(await lab.probe("a1", "internet")).toEqual({ server: "ext", source: nodes.node1.eth0[4] });
      await agent.lookAgain();
      expect(await lab.dump("node1")).toBe(before);
      expect(await lab.probe("a1", "internet")).toEqual({ server: "sec", source: "10.10.10.50" });
      await agent.stop();
    });

    it("no process of a killed agent stays behind", async () => {
      const processes = async () => {
        const { stdout } = await lab.nodeExec("node1", "ip", ["netns", "pids", lab.namespace("node1")]);
        return stdout.split("\n").filter(Boolean).length;
      };
      const before = await processes();
      const agent = await home.start(manifests.directory);
      expect(await processes()).toBeGreaterThan(before);
      await agent.kill();
      // Its monitors find out when they have something to say.
      const [address, table] = ["192.0.2.9/32 dev lo", "nft 'add table ip x; delete table ip x'"];
      const script = `ip address add ${address}; ip address del ${address}; ${table}`;
      const alone = async () => {
        await lab.nodeExec("node1", "sh", ["-ec", script]);
        return (await processes()) <= before;
      };
      await until(alone, "its monitors and tools ended");
    });
  },
);

// An egress IP moves between two nodes on one network: nobody there is ever answered by two, whoever of the two agents is slow, ended
// or has something else failing. At once means: no frame of the old MAC after the first of the new one. Also who announces what it has
// found (BL-35, BL-38, BL-39, BL-40). In: real frames, asked for every 5 ms. Out: who claimed the address, in order.
import { chmod, mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { Lab } from "../lab/lab.ts";
import { families, type NodeName } from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { Manifests } from "../support/agent-manifests.ts";
import { type Claims, watchClaims } from "../support/claims.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { assignProd, egress, secondLink } from "../support/second-network.ts";
import { until } from "../support/until.ts";

const prefix = `eip${process.pid}`;
const reason = canRunKernelTests();

const onLink = { 4: `${egress[4]}/32`, 6: `${egress[6]}/128` } as const;

/** Also a machine with other work has the neighbours know by then. */
const NEIGHBOURS_KNOW_MS = 1_000;

const MOVES = 50;

describe.skipIf(reason !== undefined)(
  `hand-over${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let manifests: Manifests;
    let homes: Readonly<Record<NodeName, Home>>;
    const macs = { node1: "", node2: "" };
    beforeAll(async () => {
      lab = await Lab.up({ prefix });
      for (const node of ["node1", "node2"] as const) macs[node] = (await secondLink(lab, node)).mac;
    });
    beforeEach(async () => {
      homes = { node1: await Home.of(lab, "node1"), node2: await Home.of(lab, "node2") };
      manifests = await Manifests.ofExamples();
      await assignTo("node1");
    });
    afterEach(async () => {
      for (const home of Object.values(homes)) {
        await home.uninstall();
        await home.remove();
      }
      await manifests.remove();
      await lab.unsteer("a1");
    });
    afterAll(async () => {
      await lab?.down();
    });

    /** Both agents watch the same folder. */
    const assignTo = (node: NodeName | undefined) => assignProd(manifests, node);
    const other = (node: NodeName): NodeName => (node === "node1" ? "node2" : "node1");

    /** sec has an entry for the addresses, of which it is not sure. */
    const remember = (node: NodeName) =>
      Promise.all(
        families.map((family) =>
          run("ip", [
            ...["-n", lab.namespace("sec"), "neigh", "replace", egress[family]],
            ...["lladdr", macs[node], "dev", "lan", "nud", "stale"],
          ]),
        ),
      );
    const believed = async (family: 4 | 6): Promise<string | undefined> => {
      const { stdout } = await run("ip", [
        ...["-n", lab.namespace("sec"), "-json"],
        ...["neigh", "show", egress[family], "dev", "lan"],
      ]);
      const [entry] = JSON.parse(stdout) as { lladdr?: string }[];
      return entry?.lladdr;
    };
    const untilBelieved = (node: NodeName, deadlineMs = NEIGHBOURS_KNOW_MS) =>
      until(
        async () => (await Promise.all(families.map(believed))).every((mac) => mac === macs[node]),
        `sec takes ${node} for the owner`,
        deadlineMs,
      );
    const addressesOf = async (node: NodeName): Promise<readonly string[]> => {
      const { stdout } = await run("ip", ["-n", lab.namespace(node), "-brief", "address", "show", "eth1"]);
      return families.flatMap((family) =>
        (stdout.split(/\s+/).includes(onLink[family]) ? [family] : []).map(String),
      );
    };
    /** Node by node as they claimed the addresses, and what each of these times must have had. */
    const nodesOf = (claims: readonly Claims[]) =>
      claims.map(({ mac }) => (mac === macs.node1 ? "node1" : mac === macs.node2 ? "node2" : mac));
    const alternating = (first: NodeName, times: number) =>
      Array.from({ length: times }, (_, at) => (at % 2 === 0 ? first : other(first)));
    const perls = async (agent: Agent) => (await agent.status()).spawned["perl"] ?? 0;

    it(`moves ${MOVES} times: no two answer for it at once, neighbours follow within a second, nothing else leaves`, async () => {
      const agents = {
        node1: await homes.node1.start(manifests.directory),
        node2: await homes.node2.start(manifests.directory),
      };
      await remember("node1");
      const leaks = await lab.watchLeaks();
      const senders = families.map((family) => lab.sender("a1", { family, fresh: true, rate: 200 }));
      const answered = () =>
        Promise.all(senders.map((sender, at) => sender.answers(3, egress[families[at] ?? 4], 10_000)));
      await answered();
      const watch = await watchClaims(lab, egress);
      let node: NodeName = "node1";
      for (let move = 0; move < MOVES; move++) {
        // While the series of announcements is still going on, in the middle of a frame too.
        const before = await perls(agents[node]);
        await until(
          async () => (await perls(agents[node])) >= before + (move % 3),
          "announcements go on",
          10_000,
        );
        node = other(node);
        // As OVN should: to the other node only while that one gives it, meanwhile a1 waits at home.
        if (node === "node1") await lab.steer("a1", node);
        await assignTo(node);
        await agents[node].serves(egress[4], egress[6]);
        await untilBelieved(node);
        await lab.steer("a1", node);
        await answered();
      }
      const claims = await watch.stop();
      for (const family of families) {
        expect(nodesOf(claims[family])).toEqual(alternating("node1", MOVES + 1));
        // Each was asked and answered, and each but the first told everybody.
        expect(claims[family].filter(({ answers }) => answers === 0)).toEqual([]);
        expect(claims[family].slice(1).filter(({ announcements }) => announcements === 0)).toEqual([]);
      }
      expect(await leaks.stop()).toEqual([]);
      for (const [at, sender] of senders.entries())
        expect([...(await sender.stop()).bySource.keys()]).toEqual([`sec/${egress[families[at] ?? 4]}`]);
      await Promise.all(Object.values(agents).map((agent) => agent.stop()));
    });

    it("the old node's agent is slow: the new one asks, and waits until it has let go", async () => {
      const [one, two] = [
        await homes.node1.start(manifests.directory),
        await homes.node2.start(manifests.directory),
      ];
      await remember("node1");
      const watch = await watchClaims(lab, egress);
      const before = await perls(two);
      let meanwhile: readonly string[] = [];
      await one.paused(async () => {
        await assignTo("node2");
        // It was answered twice; asking a third time it still has not taken anything.
        await until(async () => (await perls(two)) >= before + 3, "it asks for the third time");
        meanwhile = await addressesOf("node2");
      });
      await two.serves(egress[4], egress[6]);
      await untilBelieved("node2");
      const claims = await watch.stop();
      expect(meanwhile).toEqual([]);
      for (const family of families) expect(nodesOf(claims[family])).toEqual(["node1", "node2"]);
      expect(two.said).not.toContain("addressAnswered");
      await Promise.all([one.stop(), two.stop()]);
    });

    it.each(["its northbound database is away", "its sets cannot be written"])(
      "the old node has something else failing (%s): it lets go all the same, and of nothing else",
      async (what) => {
        const tools = join(homes.node1.directory, "tools");
        await mkdir(tools);
        const { stdout: ipset } = await run("sh", ["-c", "command -v ipset"]);
        const failing = `#!/bin/sh\n[ "$1" != restore ] || [ ! -e ${tools}/fail ] || exit 1\nexec ${ipset.trim()} "$@"\n`;
        await writeFile(join(tools, "ipset"), failing);
        await chmod(join(tools, "ipset"), 0o755);
        const flags = what.includes("northbound")
          ? { "ovn-nb": `unix:${homes.node1.directory}/nobody.sock` }
          : {};
        const one = await homes.node1.spawn(manifests.directory, flags, {
          PATH: `${tools}:${process.env["PATH"]}`,
        });
        const two = await homes.node2.start(manifests.directory);
        await one.when(({ held }) => held === 2, "it holds the addresses");
        await until(async () => (await addressesOf("node1")).length === 2, "node1 has the addresses", 10_000);
        await remember("node1");
        await writeFile(join(tools, "fail"), "");
        const rules = async () =>
          (await lab.dump("node1")).split("\n").filter((line) => /SNAT|fwmark/.test(line));
        const before = await rules();
        expect(before.length).toBeGreaterThan(2);
        const watch = await watchClaims(lab, egress);
        await assignTo("node2");
        await two.serves(egress[4], egress[6]);
        await untilBelieved("node2");
        const claims = await watch.stop();
        for (const family of families) expect(nodesOf(claims[family])).toEqual(["node1", "node2"]);
        expect(two.said).not.toContain("addressAnswered");
        const { failures } = await one.when(
          ({ held, failures: of }) => held === 0 && of.length > 0,
          "it fails",
        );
        expect(failures.map(({ backend }) => backend)).not.toContain("addresses");
        expect(await addressesOf("node1")).toEqual([]);
        // What leads packets stays until it is known that none are led here.
        expect(await rules()).toEqual(before);
        await Promise.all([one.stop(), two.stop()]);
      },
    );

    it("status is cleared and at once given to the other node (BL-40): one answers, then the other", async () => {
      const [one, two] = [
        await homes.node1.start(manifests.directory),
        await homes.node2.start(manifests.directory),
      ];
      await remember("node1");
      const watch = await watchClaims(lab, egress);
      await assignTo(undefined);
      await assignTo("node2");
      await two.serves(egress[4], egress[6]);
      await untilBelieved("node2");
      const claims = await watch.stop();
      for (const family of families) expect(nodesOf(claims[family])).toEqual(["node1", "node2"]);
      await Promise.all([one.stop(), two.stop()]);
    });

    it("the old node's agent was killed (BL-38): the new one takes it in the end and says who answers; the next start lets go before anything else", async () => {
      const one = await homes.node1.start(manifests.directory);
      const two = await homes.node2.start(manifests.directory);
      await one.kill();
      expect(await addressesOf("node1")).toEqual(["4", "6"]);
      await remember("node1");
      await assignTo("node2");
      await two.serves(egress[4], egress[6]);
      await untilBelieved("node2");
      const said = two.said.split("\n").filter((line) => line.includes("addressAnswered"));
      expect(said).toHaveLength(1);
      for (const family of families) expect(said[0]).toContain(egress[family]);
      expect(said[0]).toContain(macs.node1);

      const again = await homes.node1.start(manifests.directory);
      expect(await addressesOf("node1")).toEqual([]);
      expect((await again.changes())[0]).toMatch(
        /^== withdraw announce\nstop .*\nstop .*\n\n== withdraw addresses\nip address del 10\.10\.10\.50\/32 dev eth1\n/,
      );
      const watch = await watchClaims(lab, egress);
      await two.lookAgain();
      const claims = await watch.stop();
      for (const family of families) expect(nodesOf(claims[family])).toEqual(["node2"]);
      await Promise.all([again.stop(), two.stop()]);
    });

    it("found on its link, and the manifests cannot be read (BL-39): neither announced nor withdrawn, until they can", async () => {
      const first = await homes.node1.start(manifests.directory);
      await first.kill();
      const away = `${manifests.directory}.away`;
      const startUnread = async () => {
        await rename(manifests.directory, away);
        const agent = await homes.node1.spawn(manifests.directory);
        const watch = await watchClaims(lab, egress);
        await agent.when(({ error }) => error !== undefined, "it cannot read the manifests");
        expect(await addressesOf("node1")).toEqual(["4", "6"]);
        return { agent, watch };
      };

      // They say that it is this node's: it stays, and nothing is written.
      const ours = await startUnread();
      const quiet = await ours.watch.stop();
      for (const family of families)
        expect(quiet[family]).toEqual([{ mac: macs.node1, answers: expect.any(Number), announcements: 0 }]);
      await rename(away, manifests.directory);
      await ours.agent.ready();
      // Its ownership was in doubt and is confirmed: the neighbours are told (BL-35). Nothing else.
      expect(await ours.agent.changes()).toEqual([
        expect.stringMatching(/^== establish announce\nannounce .*\nannounce .*\n$/),
      ]);
      await ours.agent.kill();

      // They say that it is another's: it goes, and was never announced.
      const theirs = await startUnread();
      await rename(away, manifests.directory);
      await assignTo("node2");
      await theirs.agent.when(({ held, ready }) => ready && held === 0, "it holds nothing");
      const claims = await theirs.watch.stop();
      for (const family of families)
        expect(claims[family]).toEqual([{ mac: macs.node1, answers: expect.any(Number), announcements: 0 }]);
      expect(await addressesOf("node1")).toEqual([]);
      expect((await theirs.agent.changes())[0]).toMatch(/^== withdraw announce\n/);
      await theirs.agent.stop();
    });

    it("on the new node's link already (BL-35): announced when the assignment says so, not before, though nothing is added", async () => {
      const one = await homes.node1.start(manifests.directory);
      await assignTo("node2");
      await one.when(({ held }) => held === 0, "node1 lets go");
      await lab.nodeExec("node2", "ip", ["address", "add", onLink[4], "dev", "eth1"]);
      await lab.nodeExec("node2", "ip", [
        ...["address", "add", onLink[6], "dev", "eth1"],
        ...["nodad", "noprefixroute", "preferred_lft", "0"],
      ]);
      await remember("node1");
      const two = await homes.node2.start(manifests.directory);
      await untilBelieved("node2");
      expect((await two.changes()).join("\n")).not.toContain("address replace");
      await Promise.all([one.stop(), two.stop()]);
    });
  },
);

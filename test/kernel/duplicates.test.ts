// Somebody else answers for an egress IP that this node gives: heard, found by asking, said as a Problem with his MAC, answered
// with an announcement, and forgotten when he is gone. In: node2 without an agent as the stranger. Out: status of node1's agent.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { createSender } from "../../lib/frames/index.ts";
import { garp, linkLocalFromMac, unsolicitedNa } from "../../lib/frames/pure.ts";
import { Lab } from "../lab/lab.ts";
import { families, type NodeName } from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { egressIP, Manifests } from "../support/agent-manifests.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { assignProd, egress, secondLink } from "../support/second-network.ts";
import { until } from "../support/until.ts";

const prefix = `eid${process.pid}`;
const reason = canRunKernelTests();

const macOfNobody = "02:00:00:00:00:99";
/** Frames of a series, each sent by a process of its own. */
const SERIES = 6;

describe.skipIf(reason !== undefined)(
  `duplicates${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let manifests: Manifests;
    let homes: Readonly<Record<NodeName, Home>>;
    const macs = { node1: "", node2: "" };
    let index = 0;
    beforeAll(async () => {
      lab = await Lab.up({ prefix });
      for (const node of ["node1", "node2"] as const) {
        const { mac, ifindex } = await secondLink(lab, node);
        macs[node] = mac;
        index = ifindex;
      }
    });
    beforeEach(async () => {
      homes = { node1: await Home.of(lab, "node1"), node2: await Home.of(lab, "node2") };
      manifests = await Manifests.ofExamples();
      await assignTo("node1");
    });
    afterEach(async () => {
      await leaves().catch(() => {});
      for (const home of Object.values(homes)) {
        await home.uninstall();
        await home.remove();
      }
      await manifests.remove();
    });
    afterAll(async () => {
      await lab?.down();
    });

    const assignTo = (node: NodeName) => assignProd(manifests, node);
    const stranger = (...lines: readonly string[]) =>
      run("ip", ["-n", lab.namespace("node2"), "-batch", "-"], { input: `${lines.join("\n")}\n` });
    /** Without a word: only who asks will know. */
    const comes = () =>
      stranger(`address add ${egress[4]}/32 dev eth1`, `address add ${egress[6]}/128 dev eth1 nodad`);
    const leaves = () =>
      stranger(`address del ${egress[4]}/32 dev eth1`, `address del ${egress[6]}/128 dev eth1`);
    const claims = () => [
      garp(macs.node2, egress[4]),
      unsolicitedNa(macs.node2, linkLocalFromMac(macs.node2), egress[6]),
    ];
    const strangerSends = (frames: readonly Uint8Array[]) =>
      createSender((...command) => lab.nodeExec("node2", ...command)).send(
        frames.map((frame) => ({ ifindex: index, frame })),
      );

    const nobodySends = async (frames: readonly Uint8Array[]) => {
      const { stdout } = await lab.exec("sec", "ip", ["-json", "link", "show", "lan"]);
      const [{ ifindex }] = JSON.parse(stdout) as [{ ifindex: number }];
      const sender = createSender((...command) => lab.exec("sec", ...command));
      await sender.send(frames.map((frame) => ({ ifindex, frame })));
    };

    const duplicates = ({ problems }: { readonly problems: readonly { readonly text: string }[] }) =>
      problems.filter(({ text }) => text.includes("is also answered for")).map(({ text }) => text);
    const said = families.map(
      (family) =>
        `${egress[family]}: is also answered for on eth1 by MAC; two hosts have this address - find that host by its MAC, and take the address away there`,
    );
    const named = (agent: Agent) =>
      agent.when((status) => duplicates(status).length === 2, "both duplicates are named", 15_000);
    const forgotten = async (agent: Agent) => {
      await agent.lookAgain();
      return agent.when((status) => duplicates(status).length === 0, "the duplicates are forgotten", 15_000);
    };
    const counted = async (agent: Agent) =>
      ((await agent.counters()) as { duplicateClaims: Readonly<Record<string, number>> }).duplicateClaims;
    const spawned = async (agent: Agent) => {
      const {
        spawned: { perl = 0 },
      } = await agent.status();
      return perl;
    };
    /**
     * The question before the address was taken, the listener, the whole series, and the question at the end of the grace:
     * what comes after is for another reason.
     */
    const settled = (agent: Agent) =>
      agent.when(
        ({ spawned: { perl = 0 } }) => perl >= SERIES + 3,
        "it has announced, and has asked whether somebody else is there",
        15_000,
      );
    const listeners = async (): Promise<readonly string[]> => {
      const { stdout } = await run("ip", ["netns", "pids", lab.namespace("node1")]);
      const lines = await Promise.all(
        stdout.split("\n").map(async (pid) => {
          if (pid === "") return "";
          const { stdout: line } = await run("ps", ["-o", "args=", "-p", pid], { okExitCodes: [0, 1] });
          return line.includes("sub command") ? pid : "";
        }),
      );
      return lines.filter((pid) => pid !== "");
    };
    const believed = async (family: 4 | 6): Promise<string | undefined> => {
      const where = ["-n", lab.namespace("sec"), "-json", "neigh", "show", egress[family]];
      const [entry] = JSON.parse((await run("ip", where)).stdout) as { lladdr?: string }[];
      return entry?.lladdr;
    };
    const untilBelieved = (node: NodeName) =>
      until(
        async () => (await Promise.all(families.map(believed))).every((mac) => mac === macs[node]),
        `sec takes ${node} for the owner`,
        10_000,
      );
    const secKnows = async () => {
      for (const family of families)
        await run("ip", [
          ...["-n", lab.namespace("sec"), "neigh", "replace", egress[family]],
          ...["lladdr", macs.node1, "dev", "lan", "nud", "stale"],
        ]);
    };

    it("a silent one is found by asking once it is here, and is forgotten when it does not answer", async () => {
      await comes();
      const agent = await homes.node1.start(manifests.directory);
      const status = await named(agent);
      expect(duplicates(status)).toEqual(said.map((text) => text.replace("MAC", macs.node2)));
      expect(agent.said).toMatch(/"mac":"[0-9a-f:]+","event":"duplicateSeen"/);
      // Still there: still said.
      await agent.lookAgain();
      expect(duplicates(await agent.lookAgain())).toHaveLength(2);
      await leaves();
      await forgotten(agent);
      expect(agent.said).toContain("duplicateGone");
      await agent.stop();
    });

    it("one that announces is named, and the neighbours come back to us", async () => {
      const agent = await homes.node1.start(manifests.directory);
      await settled(agent);
      expect(duplicates(await agent.status())).toEqual([]);
      await secKnows();
      await comes();
      await strangerSends(claims());
      await untilBelieved("node2");
      await untilBelieved("node1");
      await named(agent);
      const counts = await counted(agent);
      expect(new Set(Object.keys(counts))).toEqual(new Set([egress[4], egress[6]]));
      await leaves();
      await forgotten(agent);
      await agent.stop();
    });

    it("a storm of claims costs a series of announcements and a few lines", async () => {
      await manifests.write("egressips.yaml", [egressIP("prod", { addresses: [egress[4]], app: "web" })]);
      const agent = await homes.node1.start(manifests.directory);
      await settled(agent);
      const ours = `ether src ${macs.node1} and arp[14:4] == 0x0a0a0a32 and arp[24:4] == 0x0a0a0a32`;
      const capture = await lab.captureFrames("sec", "lan", ours);
      const before = await spawned(agent);
      const from = performance.now();
      await strangerSends(Array.from({ length: 10_000 }, () => garp(macs.node2, egress[4])));
      await agent.when((status) => duplicates(status).length === 1, "the duplicate is named", 15_000);
      await until(async () => (await spawned(agent)) >= before + SERIES, "the series is over", 15_000);
      const seconds = Math.ceil((performance.now() - from) / 1000);
      const frames = await capture.stop();
      // One series, and the next one no sooner than ten seconds after it began. The last frame may be under way.
      expect(frames.length).toBeGreaterThanOrEqual(SERIES - 1);
      expect(frames.length).toBeLessThanOrEqual(SERIES * Math.ceil(seconds / 10));
      expect((await spawned(agent)) - before).toBeLessThanOrEqual(SERIES * Math.ceil(seconds / 10));
      for (const count of Object.values(await counted(agent))) expect(count).toBeLessThanOrEqual(seconds + 1);
      await agent.stop();
    });

    it("nobody else: looking again and again starts nothing; without an egress IP nothing listens", async () => {
      const agent = await homes.node1.start(manifests.directory);
      await settled(agent);
      const before = await spawned(agent);
      for (let times = 0; times < 3; times++) await agent.lookAgain();
      expect(await spawned(agent)).toBe(before);
      expect(await listeners()).toHaveLength(1);
      await manifests.write("egressips.yaml", []);
      await agent.serves();
      await until(async () => (await listeners()).length === 0, "the listener is gone");
      await agent.stop();
    });

    it("the listener ends with the agent, however that ends", async () => {
      for (const end of ["stop", "kill"] as const) {
        const agent = await homes.node1.start(manifests.directory);
        await until(async () => (await listeners()).length === 1, "it listens");
        await agent[end]();
        await until(async () => (await listeners()).length === 0, `no listener after ${end}`);
      }
      expect(await listeners()).toEqual([]);
    });

    it("a move to another agent is no duplicate, on either side", async () => {
      const one = await homes.node1.start(manifests.directory);
      const two = await homes.node2.start(manifests.directory);
      await settled(one);
      for (const node of ["node2", "node1", "node2"] as const) {
        await assignTo(node);
        await (node === "node1" ? one : two).serves(egress[4], egress[6]);
        await (node === "node1" ? two : one).serves();
      }
      // By the time that a third one is believed in, who had it before would have been.
      await until(
        async () => {
          await nobodySends([garp(macOfNobody, egress[4])]);
          return two.said.includes("duplicateSeen");
        },
        "the third one is named",
        15_000,
      );
      const seen = [one, two].flatMap(({ said: lines }) =>
        lines.split("\n").filter((line) => line.includes("duplicateSeen")),
      );
      expect(seen.map((line) => (JSON.parse(line) as { mac: string }).mac)).toEqual([macOfNobody]);
      await Promise.all([one.stop(), two.stop()]);
    });
  },
);

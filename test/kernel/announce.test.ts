// Who answers for an egress IP, as the neighbours on its network see it: frames to the byte, neighbour entries, moving to
// another node with two agents running. In: captures in `sec`. Out: frames of lib/frames.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { garp, linkLocalFromMac, unsolicitedNa } from "../../lib/frames/pure.ts";
import { Lab } from "../lab/lab.ts";
import { families, type NodeName, nodes } from "../lab/topology.ts";
import { Home } from "../support/agent.ts";
import { Manifests } from "../support/agent-manifests.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { assignProd, egress, secondLink } from "../support/second-network.ts";
import { until } from "../support/until.ts";

const prefix = `eip${process.pid}`;
const reason = canRunKernelTests();

const macOfNobody = "02:00:00:00:00:99";

describe.skipIf(reason !== undefined)(
  `announce${reason === undefined ? "" : ` (not here: ${reason})`}`,
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
      await forget();
    });
    afterEach(async () => {
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

    /** sec believes that somebody who is not there has the egress IP. */
    const forget = async () => {
      for (const family of families)
        await run("ip", [
          ...["-n", lab.namespace("sec"), "neigh", "replace", egress[family]],
          ...["lladdr", macOfNobody, "dev", "lan", "nud", "stale"],
        ]);
    };
    const believed = async (family: 4 | 6): Promise<string | undefined> => {
      const { stdout } = await run("ip", [
        "-n",
        lab.namespace("sec"),
        "-json",
        "neigh",
        "show",
        egress[family],
      ]);
      const [entry] = JSON.parse(stdout) as { lladdr?: string }[];
      return entry?.lladdr;
    };
    const untilBelieved = (node: NodeName) =>
      until(
        async () => (await Promise.all(families.map(believed))).every((mac) => mac === macs[node]),
        `sec takes ${node} for the owner`,
        10_000,
      );

    const announcements = (node: NodeName): Readonly<Record<4 | 6, string>> => ({
      4: Buffer.from(garp(macs[node], egress[4])).toString("hex"),
      6: Buffer.from(unsolicitedNa(macs[node], linkLocalFromMac(macs[node]), egress[6])).toString("hex"),
    });
    /** Everything that says who has the egress IP: ARP with it as sender, advertisements with it as target. */
    const captureClaims = () => {
      const arp = "arp[14:4] == 0x0a0a0a32";
      const na = "ip6[40] == 136 and ip6[48:4] == 0xfd000010 and ip6[60:4] == 0x00000050";
      return lab.captureFrames("sec", "lan", `(arp and ${arp}) or (icmp6 and ${na})`);
    };
    const hex = (frames: readonly Uint8Array[]) => frames.map((frame) => Buffer.from(frame).toString("hex"));

    it("gained: frames as they have to be (BL-36), and a neighbour's old entry goes", async () => {
      const claims = await captureClaims();
      const agent = await homes.node1.start(manifests.directory);
      await untilBelieved("node1");
      const frames = hex(await claims.stop());
      const expected = announcements("node1");
      expect(new Set(frames)).toEqual(new Set([expected[4], expected[6]]));
      await agent.stop();
    });

    it("its link comes up again: announced again; a restart with the address in place: not a frame", async () => {
      const first = await homes.node1.start(manifests.directory);
      await untilBelieved("node1");
      await first.kill();

      await forget();
      const quiet = await captureClaims();
      const agent = await homes.node1.start(manifests.directory);
      await agent.lookAgain();
      expect(hex(await quiet.stop())).toEqual([]);
      expect(await Promise.all(families.map(believed))).toEqual([macOfNobody, macOfNobody]);

      const claims = await captureClaims();
      const eth1 = (...lines: readonly string[]) =>
        run("ip", ["-n", lab.namespace("node1"), "-batch", "-"], { input: `${lines.join("\n")}\n` });
      await eth1("link set eth1 down");
      await agent.when(({ problems }) => problems.some(({ text }) => text.includes("eth1")), "eth1 is down");
      await eth1(
        "link set eth1 up",
        `address replace ${nodes.node1.eth1[6]}/64 dev eth1 nodad`,
        "route replace default via 10.10.10.1 dev eth1 metric 500",
        "route replace default via fd00:10:10::1 dev eth1 metric 500",
      );
      await untilBelieved("node1");
      const expected = announcements("node1");
      expect(new Set(hex(await claims.stop()))).toEqual(new Set([expected[4], expected[6]]));
      await agent.stop();
    });

    it("moves to another node: the neighbours follow, and the old node answers for it no more", async () => {
      const [one, two] = [
        await homes.node1.start(manifests.directory),
        await homes.node2.start(manifests.directory),
      ];
      await untilBelieved("node1");
      const connection = lab.connection("a1");
      await connection.answers(3);
      await connection.stop();

      await lab.steer("a1", "node2");
      await assignTo("node2");
      await Promise.all([one.serves(), two.serves(egress[4], egress[6])]);
      await untilBelieved("node2");
      for (const family of families)
        expect(await lab.probe("a1", "internet", "tcp", family)).toEqual({
          server: "sec",
          source: egress[family],
        });

      // From here on everybody has to ask; node1 is as silent as if it never had it.
      const claims = await captureClaims();
      await run("ip", ["-n", lab.namespace("sec"), "neigh", "flush", "dev", "lan"]);
      await lab.probeAll(
        families.map((family) => ({
          from: "sec",
          to: { ...egress, port: 9 },
          protocol: "udp",
          family,
        })),
        500,
      );
      await untilBelieved("node2");
      // Ethernet source of each frame.
      const senders = new Set(
        (await claims.stop()).map((frame) => Buffer.from(frame.subarray(6, 12)).toString("hex")),
      );
      expect([...senders]).toEqual([macs.node2.replaceAll(":", "")]);
      expect(await lab.dump("node1")).not.toContain(egress[4]);
      await lab.unsteer("a1");
      await Promise.all([one.stop(), two.stop()]);
    });
  },
);

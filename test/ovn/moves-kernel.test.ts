// While an egress IP that kernels lead moves between three nodes of one northbound database (known-faults BL-21): what other nodes
// lead to a kernel that does not give it yet, or not any more, does not leave there with the pod's own address. New flows from a pod
// of each node, in both families, a thousand a second of them all; each frame that was seen on the networks outside, answered or not.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { parseCounters } from "../../lib/nftables/pure.ts";
import type { Capture } from "../lab/capture.ts";
import type { Sender } from "../lab/sender.ts";
import { type Family, families } from "../lab/topology.ts";
import { lines, named, noLab, plan, podOf } from "../ovn-lab/expected.ts";
import type { OvnUpOptions } from "../ovn-lab/lab.ts";
import type { OvnNode } from "../ovn-lab/topology.ts";
import { egressIP, writeFolder } from "../support/agent-manifests.ts";
import { OvnStage } from "../support/ovn-stage.ts";
import { until } from "../support/until.ts";

const pods = ["a1", "b1", "c1"] as const;
const nodes = ["node1", "node2", "node3"] as const satisfies readonly OvnNode[];
const nodeAt = (move: number): OvnNode => nodes[move % nodes.length] ?? "node1";
const MOVES = 15;
/** Of each stream, of which there are six. */
const RATE = 170;
const ANSWERED_MS = 20_000;

const configs: readonly (Required<Pick<OvnUpOptions, "gateway">> & {
  readonly name: string;
  readonly prod: Readonly<Record<Family, string>>;
  readonly server: string;
})[] = [
  {
    name: "local gateway, the primary network",
    gateway: "local",
    prod: { 4: "172.18.0.50", 6: "fd00:172:18::50" },
    server: "ext",
  },
  {
    name: "shared gateway, the second network",
    gateway: "shared",
    prod: { 4: "10.10.10.50", 6: "fd00:10:10::50" },
    server: "sec",
  },
];

const why = noLab();

describe.skipIf(why !== undefined).each(configs)(named("moves between kernels: $name", why), (config) => {
  const { gateway, prod, server } = config;
  const given = (node: OvnNode) => ({ addresses: [prod[4], prod[6]], app: "web", node });
  let stage: OvnStage;
  let leaks: Capture<string[]>;
  let senders: readonly { readonly pod: string; readonly family: Family; readonly sender: Sender }[];

  beforeAll(async () => {
    stage = await OvnStage.up({ prefix: `mvk${process.pid}`, gateway, interconnect: false, nodes: 3 });
    await stage.start();
  });
  beforeEach(async () => {
    await stage.assign({ prod: given("node1") });
    leaks = await stage.lab.watchLeaks();
    senders = pods.flatMap((pod) =>
      families.map((family) => ({
        pod,
        family,
        sender: stage.lab.sender(pod, { family, fresh: true, rate: RATE }),
      })),
    );
    await answered();
  });
  afterEach(async () => {
    await Promise.all(senders.map(({ sender }) => sender.stop().catch(() => undefined)));
    await leaks.stop().catch(() => undefined);
  });
  afterAll(() => stage?.down());

  const answered = (from: readonly string[] = pods) =>
    Promise.all(
      senders
        .filter(({ pod }) => from.includes(pod))
        .map(({ sender, family }) => sender.answers(20, prod[family], ANSWERED_MS)),
    );
  /** Without waiting for anybody. */
  const give = (node: OvnNode) =>
    writeFolder(stage.manifests, "egressips.yaml", [egressIP("prod", given(node))]);
  /** By the kernel, since an agent may be paused. Its table is made anew with each egress IP that comes or goes. */
  const unclaimed = async (node: OvnNode) => {
    const { stdout } = await stage.lab.nodeExec(node, "nft", ["list", "table", "inet", "egressip"]);
    return parseCounters(stdout)
      .filter(({ name }) => name === "egressip-arrived")
      .reduce((sum, { packets }) => sum + packets, 0);
  };
  /** How many policies lead pods to a node's kernel, in both families. */
  const led = async (node: OvnNode) => {
    const policies = await stage.lab.nbctl("node1", "lr-policy-list", "ovn_cluster_router");
    const hops = families.map((family) => ` ${plan(node)["ovn-k8s-mp0"][family]} `);
    return policies
      .split("\n")
      .filter((line) => /^ *100 /.test(line) && hops.some((hop) => `${line} `.includes(hop))).length;
  };
  const aSecond = async () => {
    const [{ sender }] = senders as [(typeof senders)[number]];
    const sent = await sender.sent();
    await until(async () => (await sender.sent()) > sent + RATE, "a second of packets");
  };
  /** Nothing was seen but the egress IP. */
  const clean = async () => {
    for (const { family, sender } of senders) {
      const { bySource } = await sender.stop();
      expect([...bySource.keys()]).toEqual([`${server}/${prod[family]}`]);
    }
    // That its socket is gone is a pod's own answer to an answer that came too late; OVN does not translate it.
    expect((await leaks.stop()).filter((line) => !line.includes("ICMP"))).toEqual([]);
  };

  it(`nothing leaves with another address, ${MOVES} times`, async () => {
    for (let move = 1; move <= MOVES; move++) {
      await stage.assign({ prod: given(nodeAt(move)) });
      await answered();
    }
    await clean();
  });

  it("nor at the node that gains it, while its agent is behind the others", async () => {
    await stage.agent("node2").paused(async () => {
      const before = await unclaimed("node2");
      await give("node2");
      await until(async () => (await led("node2")) === 4, "others lead there", ANSWERED_MS);
      await stage.lab.syncHv();
      await aSecond();
      expect(await unclaimed("node2")).toBeGreaterThan(before + RATE);
    });
    await stage.settled();
    await answered();
    await clean();
  });

  it("nor at the node that loses it, while the agent of a pod's node leads there still", async () => {
    await stage.agent("node3").paused(async () => {
      await give("node2");
      await stage.agent("node1").when(({ held }) => held === 0, "it gives it no more");
      await answered(["b1"]);
      expect(await led("node1")).toBe(2);
      const before = await unclaimed("node1");
      await aSecond();
      expect(await unclaimed("node1")).toBeGreaterThan(before + RATE);
      // As `counters` says it.
      expect(await stage.agent("node1").counters()).toMatchObject({
        dropped: { unclaimed: expect.toSatisfy((packets: number) => packets > before + RATE) },
      });
    });
    await stage.settled();
    await answered();
    await clean();
  });

  it("and what somebody else translates passes, as of an EgressService, and answers to who came in", async () => {
    const { lab } = stage;
    const other = podOf(lab, "b2");
    const [hop, own] = [plan("node1")["ovn-k8s-mp0"], plan("node1")["br-ex"]];
    const policies = families.map((family) => ({ family, match: `ip${family}.src == ${other[family]}` }));
    for (const { family, match } of policies)
      await lab.nbctl("node1", "lr-policy-add", "ovn_cluster_router", "101", match, "reroute", hop[family]);
    const translate = (op: "-I" | "-D") =>
      families.map(
        (family) =>
          `${family === 4 ? "iptables" : "ip6tables"} -t nat ${op} POSTROUTING -s ${other[family]} -o br-ex -j SNAT --to-source ${own[family]}`,
      );
    await lab.nodeExec("node1", "sh", ["-ec", translate("-I").join("\n")]);
    await lab.syncHv();
    const before = await unclaimed("node1");
    try {
      expect(await lab.view(["b2"], ["ext"])).toEqual(lines("b2", "ext", "ext", own));
      expect(await unclaimed("node1")).toBe(before);
    } finally {
      for (const { match } of policies)
        await lab.nbctl("node1", "lr-policy-del", "ovn_cluster_router", "101", match);
      await lab.nodeExec("node1", "sh", ["-ec", translate("-D").join("\n")]);
    }
    await clean();
  });
});

// While egress IPs move between three nodes of one northbound database: connections that begin in that moment leave with one, or
// not at all, and one node at a time answers for each. New connections from a pod of each node, in both families and protocols, a
// thousand a second of them all; each frame that was seen outside, answered or not.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { byCodeUnit } from "../../agent/model/names.ts";
import type { Capture } from "../lab/capture.ts";
import type { Sender } from "../lab/sender.ts";
import { type Family, families, serverPort } from "../lab/topology.ts";
import { patchPortOf } from "../ovn-lab/bridge.ts";
import { named, noLab, plan, podOf } from "../ovn-lab/expected.ts";
import type { OvnNode } from "../ovn-lab/topology.ts";
import type { Home } from "../support/agent.ts";
import { egressIP, writeFolder } from "../support/agent-manifests.ts";
import { type Attempts, beginConnections } from "../support/attempts.ts";
import { watchClaims } from "../support/claims.ts";
import { OvnStage } from "../support/ovn-stage.ts";
import { until } from "../support/until.ts";

const prod = { 4: "172.18.0.50", 6: "fd00:172:18::50" };
const other = { 4: "172.18.0.51", 6: "fd00:172:18::51" };
const given = (node: OvnNode) => ({ addresses: [prod[4], prod[6]], app: "web", node });
const pods = ["a1", "b1", "c1"] as const;
const nodes = ["node1", "node2", "node3"] as const satisfies readonly OvnNode[];
const nodeAt = (move: number): OvnNode => nodes[move % nodes.length] ?? "node1";
const MOVES = 20;
const EXCHANGES = 10;
/** Of each stream, of which there are twelve. */
const RATE = 85;
/** A busy machine has the neighbours find out by then where an IPv6 address is that OVN has not announced. */
const ANSWERED_MS = 20_000;

interface Traffic {
  /** Of datagrams. */
  readonly senders: readonly { readonly sender: Sender }[];
  /** That each gets so many answers more. */
  answered(count?: number, from?: readonly (typeof pods)[number][], of?: readonly Family[]): Promise<unknown>;
  /** Sources of all that was seen outside. */
  stop(): Promise<readonly string[]>;
}

async function begin({ lab }: OvnStage): Promise<Traffic> {
  const internet = lab.destination("internet");
  const to = `(dst host ${internet[4]} or dst host ${internet[6]}) and dst port ${internet.port}`;
  // Of TCP the first packet: what follows it is on its connection's way.
  const first = "(udp or (ip and tcp[13] & 2 != 0) or (ip6 proto 6 and ip6[53] & 2 != 0))";
  const capture: Capture<string[]> = await lab.capture("ext", "lan", `${to} and ${first}`);
  const attempts: Attempts[] = [];
  const senders = pods.flatMap((pod) =>
    families.map((family) => {
      const far = { address: internet[family], port: internet.port };
      attempts.push(beginConnections(lab.namespace(pod), far, RATE));
      return { pod, family, sender: lab.sender(pod, { family, fresh: true, rate: RATE }) };
    }),
  );
  return {
    senders,
    answered: (count = 20, from = pods, of = families) =>
      Promise.all(
        senders
          .filter(({ pod, family }) => from.includes(pod) && of.includes(family))
          .map(({ sender }) => sender.answers(count, undefined, ANSWERED_MS)),
      ),
    stop: async () => {
      await Promise.all([...attempts, ...senders.map(({ sender }) => sender)].map((one) => one.stop()));
      const lines = await capture.stop();
      const seen = lines.flatMap((line) => / IP6? (\S+)\.\d+ > /.exec(line)?.[1] ?? []);
      return [...new Set(seen)].sort(byCodeUnit);
    },
  };
}

const reason = noLab();

describe.skipIf(reason !== undefined)(named("moves with one database for all nodes", reason), () => {
  let stage: OvnStage;
  let traffic: Traffic;
  beforeAll(async () => {
    stage = await OvnStage.up({
      prefix: `mvc${process.pid}`,
      gateway: "shared",
      interconnect: false,
      nodes: 3,
    });
    await stage.start();
  });
  beforeEach(async () => {
    await stage.assign({ prod: given("node1") });
    traffic = await begin(stage);
    await traffic.answered();
  });
  afterEach(() => traffic.stop().catch(() => undefined));
  afterAll(() => stage?.down());

  /** Without waiting for anybody. */
  const give = (node: OvnNode) =>
    writeFolder(stage.manifests, "egressips.yaml", [egressIP("prod", given(node))]);
  const only = [prod[4], prod[6]];

  it(`no connection leaves with another address, and no two nodes answer at once, ${MOVES} times`, async () => {
    const claims = await watchClaims(stage.lab, prod, "ext");
    for (let move = 1; move <= MOVES; move++) {
      await stage.assign({ prod: given(nodeAt(move)) });
      await traffic.answered();
    }
    const macs = Array.from({ length: MOVES + 1 }, (_, move) => plan(nodeAt(move)).bridgeMac);
    const claimed = await claims.stop();
    expect(await traffic.stop()).toEqual(only);
    for (const family of families) expect(claimed[family].map(({ mac }) => mac)).toEqual(macs);
  });

  it("nor while the agent of the node that had it is stopped for a while", async () => {
    await stage.agent("node1").paused(async () => {
      await give("node2");
      // Its own pod is led by its own policy, and leaves with the egress IP as before.
      await until(async () => (await leadsTo(stage, "node2")) === 4, "it is given elsewhere", 20_000);
      await stage.lab.syncHv();
      // Of IPv6 the server asks whom it knows, and he goes on answering for as long as his agent is stopped.
      await traffic.answered(20, ["b1", "c1"], [4]);
    });
    await stage.settled();
    await traffic.answered();
    expect(await traffic.stop()).toEqual(only);
  });

  it("nor while the agent of a node whose pods are led there does not run; what goes on is translated when it is back", async () => {
    const steady = families.map((family) => ({
      family,
      sender: stage.lab.sender("c1", { family, rate: 50 }),
    }));
    const translated = () =>
      Promise.all(steady.map(({ family, sender }) => sender.answers(20, prod[family], ANSWERED_MS)));
    await translated();
    await stage.agent("node3").kill();
    await give("node2");
    await traffic.answered(20, ["a1", "b1"]);
    // Its pod is still led to where it cannot leave any more.
    const [{ sender }] = steady as [(typeof steady)[number]];
    const sent = await sender.sent();
    await until(async () => (await sender.sent()) > sent + 50, "a second of packets");
    expect(await leadsTo(stage, "node1")).toBe(2);
    // No connection of that time is tied to the node's address.
    await give("node1");
    await translated();
    await Promise.all(steady.map((one) => one.sender.stop()));
    const home = stage.homes.get("node3") as Home;
    stage.agents.set("node3", await home.start(stage.manifests, stage.flagsOf("node3")));
    await traffic.answered();
    expect(await traffic.stop()).toEqual(only);
  });

  it("and replies of another node's pod pass, to whom the router has balanced", async () => {
    // Of one that is selected the replies have a mark (QoS 103), with which nothing gets into a tunnel of this lab.
    const vip = "172.18.0.90";
    const { lab } = stage;
    const nb = (...words: readonly string[]) => lab.nbctl("node1", ...words);
    const port = await lab.tool("node1", "ovs-vsctl", "get", "interface", patchPortOf("node1"), "ofport");
    const flow = `priority=60,in_port=1,tcp,nw_dst=${vip},actions=output:${port.trim()}`;
    await lab.tool("node1", "ovs-ofctl", "add-flow", "br-ex", flow);
    await nb("lb-add", "balanced", `${vip}:${serverPort}`, `${podOf(lab, "b2")[4]}:${serverPort}`);
    await nb("lr-lb-add", "GR_node1", "balanced");
    await nb("set", "Logical_Router", "GR_node1", "options:lb_force_snat_ip=router_ip");
    for (const node of ["node1", "node2"] as const) {
      await stage.assign({ prod: given(node) });
      const outcome = await lab.probe("ext", { 4: vip, 6: "", port: serverPort });
      expect(outcome).toEqual({ server: "pod b2", source: plan("node1").join[4] });
    }
  });

  it.each(nodes)("nor while the flows of %s follow later than anybody waits", async (node) => {
    const controller = stage.lab.daemon(node, "ovn-controller");
    await controller.pause();
    try {
      await give("node2");
      await until(async () => (await leadsTo(stage, "node2")) === 6, "it is given elsewhere", 20_000);
      const { sender } = traffic.senders[0] as Traffic["senders"][number];
      const sent = await sender.sent();
      await until(async () => (await sender.sent()) > sent + RATE, "a second of packets");
    } finally {
      await controller.resume();
    }
    await stage.settled();
    await traffic.answered();
    expect(await traffic.stop()).toEqual(only);
  });

  // Last: what was begun with the other address goes on with it where its port is used once more.
  it(`nor where two nodes exchange the addresses of one EgressIP, ${EXCHANGES} times`, async () => {
    const pairs = [prod, other];
    const both = (at: number) => ({
      prod: {
        addresses: pairs.flatMap((pair) => families.map((family) => pair[family])),
        app: "web",
        node: pairs.flatMap((_, of) => families.map(() => nodeAt((at + of) % 2))),
      },
    });
    await stage.assign(both(0));
    await traffic.answered();
    const watches = await Promise.all(pairs.map((pair) => watchClaims(stage.lab, pair, "ext")));
    for (let exchange = 1; exchange <= EXCHANGES; exchange++) {
      await stage.assign(both(exchange));
      await traffic.answered();
    }
    const claimed = await Promise.all(watches.map((watch) => watch.stop()));
    const seen = [...only, other[4], other[6]].sort(byCodeUnit);
    expect(await traffic.stop()).toEqual(seen);
    for (const [of, claims] of claimed.entries())
      for (const family of families)
        expect(claims[family].map(({ mac }) => mac)).toEqual(
          Array.from({ length: EXCHANGES + 1 }, (_, exchange) => plan(nodeAt((exchange + of) % 2)).bridgeMac),
        );
  });
});

/** How many policies lead pods to a node's gateway router, in both families. */
async function leadsTo({ lab }: OvnStage, node: OvnNode): Promise<number> {
  const policies = await lab.nbctl("node1", "lr-policy-list", "ovn_cluster_router");
  const { join } = plan(node);
  return policies
    .split("\n")
    .filter((line) => /^ *100 /.test(line) && families.some((family) => line.includes(` ${join[family]}`)))
    .length;
}

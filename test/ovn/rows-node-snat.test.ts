// Clusters that give each pod an SNAT row of its own (`--disable-snat-multiple-gws`): it is there if and only if the pod is on
// that node and no egress IP of its family serves it there (known-faults BL-10, BL-12), from whichever state to whichever.
import { describe, expect, test } from "vitest";
import type { KubernetesObject } from "../../agent/model/objects.ts";
import { egressIP, namespace, objects, pod } from "../agent/make.ts";
import { ovnNodePlans, ovnPod } from "../ovn-lab/topology.ts";
import { type NorthboundAgent, openNorthboundAgent, settle } from "../support/northbound-agent.ts";
import { hostOf, labNodes, nodeNames } from "../support/northbound-scene.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { printForeign, shortRows } from "../support/northbound-tables.ts";

const web = nodeNames.map((node) => pod(`shop/${node}`, [addressOf(node, 4), addressOf(node, 6)], { node }));

function addressOf(node: (typeof nodeNames)[number], family: 4 | 6): string {
  return ovnPod("web", node, 3)[family];
}

const labPods = nodeNames.map((node) => ovnPod(`web-${node}`, node, 3));
const open = (interconnect = true) =>
  NorthboundServer.open({ cluster: { disableSnatMultipleGws: true, interconnect }, pods: labPods });

/** Where each of two addresses is, if anywhere; never both of one object on one node. */
type State = readonly [string | undefined, string | undefined];
const places = [undefined, ...nodeNames];
const states: readonly State[] = places.flatMap((a) =>
  places.filter((b) => a === undefined || a !== b).map((b): State => [a, b]),
);
const at = ([a, b]: State) => ({
  ...(a === undefined ? {} : { "172.18.0.51": a }),
  ...(b === undefined ? {} : { "172.18.0.52": b }),
});
/** One object with both addresses, or an older and a younger one with an address each. */
const asOne = (state: State) => [
  egressIP("prod", { at: at(state), requested: ["172.18.0.51", "172.18.0.52"] }),
];
const asTwo = ([a, b]: State) => [
  egressIP("prod", { at: at([a, undefined]), requested: ["172.18.0.51"] }),
  egressIP("more", { at: at([undefined, b]), requested: ["172.18.0.52"], created: "2026-01-02T00:00:00Z" }),
];

/** The formula. The older of two objects speaks for every pod. */
function plain(nodes: readonly (typeof nodeNames)[number][], serving: ReadonlySet<string | undefined>) {
  return nodes
    .flatMap((node) =>
      ([4, 6] as const)
        .filter((family) => family === 6 || !serving.has(node))
        .map((family) => `snat GR_${node} ${addressOf(node, family)} ${ovnNodePlans[node]["br-ex"][family]}`),
    )
    .sort();
}

const snats = async (server: NorthboundServer) =>
  (await shortRows(server)).filter((row) => row.startsWith("snat"));

describe("from each state of two egress IPs on three nodes to each other one", () => {
  test.each([
    ["of one object", asOne, (state: State) => new Set(state)],
    ["of two objects", asTwo, ([first]: State) => new Set([first])],
  ])(
    "%s, a database for each node",
    async (_, made, serving) => {
      await using server = await open();
      await using agent = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
      for (const from of states)
        for (const to of states)
          for (const state of [from, to]) {
            await agent.round(objects(...labNodes(), namespace("shop"), ...web, ...made(state)));
            expect(await snats(server)).toEqual(plain(["node1"], serving(state)));
          }
      expect(await agent.round()).toBe("");
    },
    120_000,
  );

  test("of one object, one database for all", async () => {
    await using server = await open(false);
    await using one = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
    await using two = openNorthboundAgent(
      server.endpoint,
      { snatPerPod: true, node: "node2" },
      hostOf("node2"),
    );
    await using three = openNorthboundAgent(
      server.endpoint,
      { snatPerPod: true, node: "node3" },
      hostOf("node3"),
    );
    await one.session.whenCurrent();
    const agents: readonly NorthboundAgent[] = [one, two, three];
    // Each removed in either order, and put back in either.
    for (const full of states)
      for (const [a, b] of [[full[0], undefined] as const, [undefined, full[1]] as const])
        for (const state of [full, [a, b] as State, [undefined, undefined] as State]) {
          const all = objects(...labNodes({ zone: "global" }), namespace("shop"), ...web, ...asOne(state));
          expect(await settle(agents, all)).toBe(true);
          expect(await snats(server)).toEqual(plain(nodeNames, new Set(state)));
        }
  }, 120_000);
});

const here = egressIP("prod", { at: { "172.18.0.51": "node1" } });
const round = (agent: NorthboundAgent, ...all: readonly KubernetesObject[]) =>
  agent.round(objects(...labNodes(), namespace("shop"), ...all));
const [own = pod("shop/none")] = web;
const first = [
  "snat GR_node1 10.244.1.3 172.18.0.11",
  "snat GR_node1 fd00:10:244:1::3 fd00:172:18::11",
] as const;

describe("a pod's own SNAT row", () => {
  test("is not made for a pod that has ended while it was served (O-34)", async () => {
    await using server = await open();
    await using agent = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
    await round(agent, own, here);
    await round(agent, { ...own, finished: true, running: false }, here);
    expect(await shortRows(server)).toEqual([first[1]]);
    expect(await agent.round()).toBe("");
  });

  test.each([
    ["IPv4", "172.18.0.51", [first[1]]],
    ["IPv6", "fd00:172:18::51", [first[0]]],
  ])("of the other family stays with an %s egress IP (O-35)", async (_, address, left) => {
    await using server = await open();
    await using agent = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
    await round(agent, own, egressIP("prod", { at: { [address]: "node1" } }));
    expect(await snats(server)).toEqual(left);
  });

  test("stays with an egress IP that the kernel gives, and in local gateway mode", async () => {
    await using server = await open();
    await using agent = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
    await round(agent, own, egressIP("prod", { at: { "10.10.10.51": "node1" } }));
    expect(await snats(server)).toEqual(first);
    await agent.close();
    await using local = openNorthboundAgent(
      server.endpoint,
      { snatPerPod: true, gatewayMode: "local" },
      hostOf("node1"),
    );
    await round(local, own, here);
    expect(await snats(server)).toEqual(first);
    expect(await shortRows(server)).toContain("policy 10.244.1.3 10.244.1.2 pkt_mark=1009");
  });

  test("that OVN-Kubernetes made once more beside ours goes again, and is not made twice when ours goes", async () => {
    await using server = await open();
    await using agent = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
    await round(agent, own, here);
    const insert = JSON.stringify([
      "OVN_Northbound",
      {
        op: "insert",
        table: "NAT",
        "uuid-name": "again",
        row: { type: "snat", external_ip: "172.18.0.11", logical_ip: "10.244.1.3" },
      },
      {
        op: "mutate",
        table: "Logical_Router",
        where: [["name", "==", "GR_node1"]],
        mutations: [["nat", "insert", ["named-uuid", "again"]]],
      },
    ]);
    await server.client("transact", insert);
    await agent.round();
    expect(await snats(server)).toEqual([first[1]]);
    await server.client("transact", insert);
    await round(agent, own);
    expect(await snats(server)).toEqual(first);
  });

  test("is not made while a second NAT row of ours for the same address goes", async () => {
    await using server = await open();
    await using agent = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
    await round(agent, own, here);
    const ids = { "k8s.ovn.org/owner-controller": "egressip-agent", "k8s.ovn.org/owner-type": "EgressIP" };
    await server.client(
      "transact",
      JSON.stringify([
        "OVN_Northbound",
        {
          op: "insert",
          table: "NAT",
          "uuid-name": "twice",
          row: {
            type: "snat",
            external_ip: "172.18.0.51",
            logical_ip: "10.244.1.3",
            logical_port: "k8s-node1",
            external_ids: ["map", Object.entries({ ...ids, "egressip-agent/node": "node1" })],
          },
        },
        {
          op: "mutate",
          table: "Logical_Router",
          where: [["name", "==", "GR_node1"]],
          mutations: [["nat", "insert", ["named-uuid", "twice"]]],
        },
      ]),
    );
    const text = await agent.round();
    expect(text).toContain("(duplicate)");
    expect(text).not.toContain("leaves as its node again");
    expect(await snats(server)).toEqual([first[1]]);
    expect(await agent.round()).toBe("");
  });

  test("is given to a pod that has neither, whoever took it and whenever", async () => {
    await using server = await open();
    {
      await using agent = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
      await round(agent, own, here);
    }
    // Somebody takes ours while no agent runs, and the egress IP goes.
    await server.nbctl("lr-nat-del", "GR_node1", "snat", "10.244.1.3");
    await using agent = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
    await round(agent, own);
    expect(await shortRows(server)).toEqual(first);
    await server.nbctl("lr-nat-del", "GR_node1", "snat", "fd00:10:244:1::3");
    await agent.round();
    expect(await shortRows(server)).toEqual(first);
    expect(await agent.round()).toBe("");
  });

  test("is not given beside somebody else's for the same address", async () => {
    await using server = await open();
    await server.nbctl("lr-nat-del", "GR_node1", "snat", "10.244.1.3");
    await server.nbctl("lr-nat-add", "GR_node1", "snat", "172.18.0.99", "10.244.1.3");
    await using agent = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
    await round(agent, own);
    expect(await snats(server)).toEqual(["snat GR_node1 10.244.1.3 172.18.0.99", first[1]]);
    expect(await agent.round()).toBe("");
  });

  test("comes back when the agent leaves for good, and not when it hands its rows over", async () => {
    await using server = await open();
    const others = await printForeign(server, "egressip-agent");
    await using agent = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
    await round(agent, ...web, here);
    await agent.leave(true);
    expect(await snats(server)).toEqual([
      "snat GR_node1 10.244.1.3 172.18.0.51",
      "snat GR_node1 10.244.2.3 172.18.0.51",
      "snat GR_node1 10.244.3.3 172.18.0.51",
      first[1],
    ]);
    await agent.close();
    await using back = openNorthboundAgent(
      server.endpoint,
      { snatPerPod: true, adopt: true },
      hostOf("node1"),
    );
    await round(back, ...web, here);
    await back.leave();
    expect(await shortRows(server)).toEqual(first);
    // Handed over with the rows, and the reference's for good.
    const without = (text: string) =>
      text
        .replaceAll(/^Address_Set .*"node-ips".*\n?/gm, "")
        .replaceAll(/^NAT .*10\.244\.1\.3.*\n?/gm, "")
        .replaceAll(/^Logical_Router .*GR_node1.*\n?/gm, "");
    expect(without(await printForeign(server, "egressip-agent"))).toBe(without(others));
  });
});

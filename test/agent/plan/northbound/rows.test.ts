// What the decision tables do not say: where nothing is known of a node, who is held back, and what all nodes of a zone share.
import { describe, expect, it } from "vitest";
import type { Row } from "../../../../agent/model/northbound.ts";
import type { Settings } from "../../../../agent/model/settings.ts";
import { factsOf, labNode, labNodes, planOf, withNats } from "../../../support/northbound-scene.ts";
import { cidr, egressIP, namespace, pod } from "../../make.ts";

const web = pod("shop/web", ["10.244.1.3"]);
const away = pod("shop/away", ["10.244.2.3"], { node: "node2" });
const shop = namespace("shop");
const at = (address: string, node: string) => egressIP("prod", { at: { [address]: node } });

describe("the way to another node of the own zone", () => {
  // Its agent decides by its links; ours has nothing but annotations, and must come to the same.
  it.each<[string, Parameters<typeof labNode>[1], string, string]>([
    ["by its primary network", {}, "172.18.0.51", "100.64.0.3"],
    ["by another network", {}, "10.10.10.51", "10.244.2.2"],
    ["without the annotation, by its own address", { primary: [] }, "172.18.0.51", "100.64.0.3"],
    ["without the annotation, another network", { primary: [] }, "10.10.10.51", "10.244.2.2"],
    [
      "without the annotation for this family alone",
      { primary: labNode("node2").primary.filter(({ family }) => family === 6) },
      "172.18.0.51",
      "100.64.0.3",
    ],
    [
      "without any annotation: nowhere it could be told",
      { primary: [], hostCidrs: [], podSubnets: [] },
      "172.18.0.51",
      "drop",
    ],
  ])("%s", (_, of, address, hop) => {
    const nodes = [labNode("node1", { zone: "all" }), labNode("node2", { zone: "all", ...of })];
    const facts = withNats(factsOf("node1", "central"), ["10.244.1.3"]);
    const { text } = planOf([...nodes, shop, at(address, "node2"), web], facts);
    expect(text).toBe(`policy 10.244.1.3 ${hop}\nserved 10.244.1.3`);
  });
});

describe("the way to another node's gateway router in the same database", () => {
  const nodes = [labNode("node1", { zone: "all" }), labNode("node2", { zone: "all" })];
  const all = [...nodes, shop, at("172.18.0.51", "node2"), web];
  it("is not taken before that node's agent has written the NAT row: it would give the node's address", () => {
    const { text } = planOf(all, factsOf("node1", "central"));
    expect(text).toBe("policy 10.244.1.3 drop\nserved 10.244.1.3");
    expect(planOf(all, withNats(factsOf("node1", "central"), ["10.244.1.4"])).text).toBe(text);
    expect(planOf(all, withNats(factsOf("node1", "central"), ["10.244.1.3"], ["node3"])).text).toBe(text);
  });
  it("is not asked for where the egress IP leaves through that node's kernel", () => {
    const { text } = planOf(all, factsOf("node1", "central"), { gatewayMode: "local" });
    expect(text).toBe("policy 10.244.1.3 10.244.2.2\nserved 10.244.1.3");
  });
});

describe("a pod whose EgressIP has nowhere to go", () => {
  const nowhere: readonly (readonly [string, ReturnType<typeof egressIP>, Parameters<typeof factsOf>[2]])[] =
    [
      ["no address is assigned", egressIP("prod", { requested: ["172.18.0.50"] }), {}],
      ["it is on a node that nobody knows", at("172.18.0.50", "node9"), {}],
      ["it is a node's address", at("172.18.0.12", "node1"), {}],
      ["no link of this node hosts it", at("192.0.2.1", "node1"), {}],
      ["this node's gateway router has no address yet", at("172.18.0.50", "node1"), { gateways: new Map() }],
      ["this node's management port has none", at("10.10.10.50", "node1"), { management: {} }],
    ];
  it.each(nowhere)("is held back: %s", (_, by, topology) => {
    const { text } = planOf([...labNodes(), shop, by, web], factsOf("node1", "zones", topology));
    expect(text.split("\n").filter((row) => !row.startsWith("nat"))).toEqual([
      "policy 10.244.1.3 drop",
      "served 10.244.1.3",
    ]);
  });
  it.each(nowhere)("has no policy where node addresses are preferred: %s", (_, by, topology) => {
    const { text } = planOf([...labNodes(), shop, by, web], factsOf("node1", "zones", topology), {
      whenUnready: "node-ip",
    });
    expect(text).not.toContain("policy");
  });

  it("one family alone", () => {
    const both = pod("shop/web", ["10.244.1.3", "fd00:10:244:1::3"]);
    const by = egressIP("prod", {
      at: { "172.18.0.50": "node1" },
      requested: ["172.18.0.50", "fd00:172:18::50"],
    });
    const { text } = planOf([...labNodes(), shop, by, both], factsOf("node1", "zones"));
    expect(text.split("\n")).toEqual([
      "nat GR_node1 10.244.1.3 172.18.0.50",
      "policy 10.244.1.3 100.64.0.2",
      "policy fd00:10:244:1::3 drop",
      "served 10.244.1.3 fd00:10:244:1::3",
    ]);
  });
});

describe("a pod of another zone that is sent here", () => {
  it.each<[string, ReturnType<typeof egressIP>, Parameters<typeof factsOf>[2], Partial<Settings>, string]>([
    ["and cannot be given what it is sent for", at("172.18.0.12", "node1"), {}, {}, "policy 10.244.2.3 drop"],
    [
      "and cannot be led to the kernel",
      at("10.10.10.50", "node1"),
      { management: {} },
      {},
      "policy 10.244.2.3 drop",
    ],
    ["and may leave as a node then", at("172.18.0.12", "node1"), {}, { whenUnready: "node-ip" }, ""],
    [
      "and is given it by the gateway router",
      at("172.18.0.50", "node1"),
      {},
      {},
      "nat GR_node1 10.244.2.3 172.18.0.50",
    ],
    ["in the other family alone", at("fd00:172:18::50", "node1"), {}, {}, ""],
  ])("%s", (_, by, topology, of, text) => {
    expect(planOf([...labNodes(), shop, by, away], factsOf("node1", "zones", topology), of).text).toBe(text);
  });
});

describe("two pods with one address", () => {
  it("are one row, of the one whose EgressIP is older", () => {
    const { text } = planOf(
      [
        ...labNodes(),
        shop,
        namespace("play"),
        egressIP("old", {
          at: { "172.18.0.50": "node1" },
          podSelector: [{ key: "app", operator: "In", values: ["a"] }],
        }),
        egressIP("new", { at: { "172.18.0.51": "node1" }, created: "2026-02-01T00:00:00Z" }),
        pod("play/one", ["10.244.1.3"]),
        pod("shop/two", ["10.244.1.3"], { labels: { app: "a" } }),
      ],
      factsOf("node1", "zones"),
    );
    expect(text).toBe("nat GR_node1 10.244.1.3 172.18.0.50\npolicy 10.244.1.3 100.64.0.2\nserved 10.244.1.3");
  });
});

describe("what all nodes of a zone share", () => {
  const shared = (
    nodes = labNodes(),
    of: Partial<Settings> = {},
    layout: "zones" | "central" = "zones",
    topology: Parameters<typeof factsOf>[2] = {},
  ) => planOf(nodes, factsOf("node1", layout, topology), of).shared;
  const said = (rows: readonly Row[], table: Row["table"]) =>
    rows
      .filter((row) => row.table === table)
      .map(({ columns, on }) => `${on.join()} ${columns["match"] ?? columns["ip_prefix"]}`);

  it("is there with the families of the cluster's pods alone", () => {
    const four = shared(labNodes(), { clusterNetworks: [cidr("10.244.0.0/16")] });
    expect(JSON.stringify(four)).not.toMatch(/ip6|"v6"|fd00/);
    expect(four).toHaveLength(3 + 3 + 1 + 2 + 2 + 1);
    expect(shared()).toHaveLength(2 * (3 + 3 + 1 + 2 + 2) + 1);
  });

  it("is a mark of replies on each of the zone's switches that is there", () => {
    expect(said(shared(), "QoS").map((text) => text.split(" ")[0])).toEqual(["node1", "node1"]);
    const all = labNodes({ zone: "global" });
    expect(said(shared(all, {}, "central"), "QoS").map((text) => text.split(" ")[0])).toEqual([
      "node1,node2,node3",
      "node1,node2,node3",
    ]);
    const switches = new Map([["node2", "uuid"]]);
    expect(said(shared(all, {}, "central", { switches }), "QoS").map((text) => text.split(" ")[0])).toEqual([
      "node2",
      "node2",
    ]);
    expect(said(shared(all, {}, "central", { switches: new Map() }), "QoS")).toEqual([]);
    expect(said(shared(all, {}, "central", { marksReplies: false }), "QoS")).toEqual([]);
  });

  it("is a route for arrivals where there are other zones, and not beside somebody else's", () => {
    const routes = (...of: Parameters<typeof shared>) => said(shared(...of), "Logical_Router_Static_Route");
    expect(routes()).toEqual(["ovn_cluster_router 10.244.0.0/16", "ovn_cluster_router fd00:10:244::/48"]);
    expect(routes(labNodes({ zone: "global" }), {}, "central")).toEqual([]);
    expect(
      routes(labNodes(), {}, "zones", { sourceRoutes: new Map([["10.244.0.0/16", "100.64.0.9"]]) }),
    ).toEqual(["ovn_cluster_router fd00:10:244::/48"]);
    expect(routes(labNodes(), {}, "zones", { gateways: new Map([["node1", { 4: "100.64.0.2" }]]) })).toEqual([
      "ovn_cluster_router 10.244.0.0/16",
    ]);
  });

  it("takes the join network from the router, and leaves that exemption out where it has none", () => {
    const joins = (join: { 4?: string; 6?: string }) =>
      said(shared(labNodes(), {}, "zones", { join }), "Logical_Router_Policy").filter((text) =>
        /100\.6|fd9/.test(text),
      );
    expect(joins({ 4: "100.65.0.0/16" })).toEqual([
      "ovn_cluster_router ip4.src == 10.244.0.0/16 && ip4.dst == 100.65.0.0/16",
    ]);
    expect(joins({})).toEqual([]);
  });

  it("is nothing, and nothing of pods either, where this node is none of the objects", () => {
    const plan = planOf(
      [...labNodes().slice(1), shop, at("172.18.0.50", "node1"), web],
      factsOf("node1", "zones"),
    );
    expect(plan).toMatchObject({ node: "", text: "", shared: [] });
  });
});

// Rows of egress IPs that leave by another link than the primary network's, in a real northbound database: the policy alone, with
// the mark that tells this host's kernel so; taken over from a reference that has the mark and from one that is older.
import { describe, expect, test } from "vitest";
import type { EgressIP } from "../../agent/model/objects.ts";
import { address, cidr, egressIP, namespace, objects, pod } from "../agent/make.ts";
import { openNorthboundAgent } from "../support/northbound-agent.ts";
import { hostOf, type Layout, labNode, labNodes, nodeNames } from "../support/northbound-scene.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { printRows, readTables, rowsOfOwner, shortRows } from "../support/northbound-tables.ts";

const REFERENCE = "default-network-controller";

const OWNER_KEYS = ["k8s.ovn.org/owner-controller", "k8s.ovn.org/owner-type", "egressip-agent/node"];

const web = pod("shop/web", ["10.244.1.3", "fd00:10:244:1::3"]);
const away = pod("shop/away", ["10.244.2.3", "fd00:10:244:2::3"], { node: "node2" });
const secondary = egressIP("prod", { at: { "10.10.10.50": "node1", "fd00:10:10::50": "node1" } });

const all = (layout: Layout, by: EgressIP) =>
  objects(...labNodes(layout === "central" ? { zone: "global" } : {}), namespace("shop"), by, web, away);

const open = (layout: Layout) => NorthboundServer.open({ cluster: { interconnect: layout === "zones" } });

const policyRows = async (server: NorthboundServer, owner = "egressip-agent") =>
  (await rowsOfOwner(server, owner)).filter(({ columns }) => columns["priority"] === 100);

const web1 = ["10.244.1.3 10.244.1.2", "fd00:10:244:1::3 fd00:10:244:1::2"];
const away1 = ["10.244.2.3 10.244.1.2", "fd00:10:244:2::3 fd00:10:244:1::2"];
const led = (policies: readonly string[]) => policies.map((text) => `policy ${text} pkt_mark=1009`);
const served = ["served 10.244.1.3", "served fd00:10:244:1::3"];

describe.each(["shared", "local"] as const)("%s gateway", (gatewayMode) => {
  test("a pod here, and one of another zone that arrives here, are led to this kernel, marked (B.4.4)", async () => {
    await using server = await open("zones");
    await using agent = openNorthboundAgent(server.endpoint, { gatewayMode }, hostOf("node1"));
    await agent.round(all("zones", secondary));
    expect(new Set(await shortRows(server))).toEqual(new Set([...led([...web1, ...away1]), ...served]));
    expect(await agent.round()).toBe("");
  });

  test("in one database for all each pod's own node writes the policy: marked to its own kernel, not to another's", async () => {
    await using server = await open("central");
    const agents = nodeNames
      .slice(0, 2)
      .map((node) => openNorthboundAgent(server.endpoint, { gatewayMode, node }, hostOf(node)));
    await agents[0]?.leads();
    for (const agent of agents) await agent.round(all("central", secondary));
    expect(new Set(await shortRows(server))).toEqual(
      new Set([
        ...led(web1),
        ...away1.map((text) => `policy ${text}`),
        ...served,
        "served 10.244.2.3",
        "served fd00:10:244:2::3",
      ]),
    );
    for (const agent of agents) await agent.close();
  });
});

test("the row is the reference's, byte for byte (B.4.1, I.1)", async () => {
  await using server = await open("zones");
  await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
  await agent.round(all("zones", secondary));
  const [row] = (await policyRows(server)).filter(
    ({ columns }) => columns["match"] === "ip6.src == fd00:10:244:2::3",
  );
  const { _version, ...columns } = row?.columns ?? {};
  expect({ on: row?.on, ...columns }).toMatchObject({
    on: ["ovn_cluster_router"],
    action: "reroute",
    match: "ip6.src == fd00:10:244:2::3",
    nexthops: "fd00:10:244:1::2",
    options: { pkt_mark: "1009" },
    priority: 100,
    external_ids: {
      "ip-family": "ip6",
      "k8s.ovn.org/id": "egressip-agent:EgressIP:100:prod_shop/away:ip6:default",
      "k8s.ovn.org/name": "prod_shop/away",
      "k8s.ovn.org/owner-controller": "egressip-agent",
      "k8s.ovn.org/owner-type": "EgressIP",
      network: "default",
      priority: "100",
    },
  });
  expect(
    (await readTables(server, ["NAT"])).filter((nat) => JSON.stringify(nat).includes("10.10.10")),
  ).toEqual([]);
});

describe("a change of the way", () => {
  const only4 = (at: Readonly<Record<string, string>>) => all("zones", egressIP("prod", { at }));
  const ways: readonly (readonly [string, Readonly<Record<string, string>>, string])[] = [
    [
      "this kernel and another node",
      { "10.10.10.50": "node1", "10.10.10.51": "node2" },
      "10.244.1.2,100.88.0.3",
    ],
    ["another node", { "10.10.10.51": "node2" }, "100.88.0.3"],
    ["the own gateway router", { "172.18.0.50": "node1" }, "100.64.0.2"],
  ];
  test.each(ways)("to %s and back is one update of the same row", async (_, at, hops) => {
    await using server = await open("zones");
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    const local = async () =>
      (await policyRows(server)).filter(({ columns }) => columns["match"] === "ip4.src == 10.244.1.3");
    /** What was done to it, mark and hops at once. */
    const done = (text: string) =>
      text.split("\n").filter((line) => line.includes('"ip4.src == 10.244.1.3"'));
    await agent.round(only4({ "10.10.10.50": "node1" }));
    const [before] = await local();
    for (let time = 0; time < 2; time++) {
      await agent.round(only4(at));
      expect(await shortRows(server)).toContain(`policy 10.244.1.3 ${hops}`);
      const back = done(await agent.round(only4({ "10.10.10.50": "node1" })));
      expect(back).toEqual([expect.stringMatching(/^update .* options=\{\} -> \{pkt_mark=1009\}/)]);
      expect(await shortRows(server)).toContain("policy 10.244.1.3 10.244.1.2 pkt_mark=1009");
      expect((await local()).map(({ uuid }) => uuid)).toEqual([before?.uuid]);
    }
  });

  // Both NICs have addresses of 172.18.0.0/16, and what the node calls its primary network grows and shrinks.
  test("by the primary network's prefix alone: the gateway router gives it, with its NAT row, or the kernel does", async () => {
    await using server = await open("zones");
    const host = hostOf("node1");
    const more = address("eth1", "172.18.1.11/24");
    await using agent = openNorthboundAgent(
      server.endpoint,
      {},
      { ...host, network: { ...host.network, addresses: [...host.network.addresses, more] } },
    );
    const by = egressIP("prod", { at: { "172.18.1.50": "node1" } });
    const withPrefix = (length: 16 | 24) => {
      const primary = [cidr(`172.18.0.11/${length}`)];
      const node1 = labNode("node1", { primary, hostCidrs: [...primary, cidr("172.18.1.11/24")] });
      return objects(node1, namespace("shop"), by, web);
    };
    for (let time = 0; time < 2; time++) {
      await agent.round(withPrefix(24));
      expect(await shortRows(server)).toEqual(["policy 10.244.1.3 10.244.1.2 pkt_mark=1009", ...served]);
      const sent = agent.transactions;
      await agent.round(withPrefix(16));
      expect(await shortRows(server)).toEqual([
        "nat GR_node1 10.244.1.3 172.18.1.50",
        "policy 10.244.1.3 100.64.0.2",
        ...served,
      ]);
      expect(agent.transactions - sent).toBe(1);
    }
  });
});

describe("rows of a previous owner", () => {
  test.each([
    ["with the mark", ["map", [["pkt_mark", "1009"]]], ""],
    ["of before there was a mark", ["map", []], "{}"],
    ["with another mark", ["map", [["pkt_mark", "50000"]]], "{pkt_mark=50000}"],
  ])("%s become ours with one update each, and stay the rows they were", async (_, options, before) => {
    await using server = await open("zones");
    {
      await using previous = openNorthboundAgent(
        server.endpoint,
        { northboundOwner: REFERENCE },
        hostOf("node1"),
      );
      await previous.round(all("zones", secondary));
    }
    const theirs = await policyRows(server, REFERENCE);
    expect(theirs).toHaveLength(4);
    // As the reference writes them: routes without ids, and no row says by which node.
    const made = (await rowsOfOwner(server, REFERENCE)).map(({ table, uuid, columns }) => {
      const at = { table, where: [["_uuid", "==", ["uuid", uuid]]] };
      const keys = table === "Logical_Router_Static_Route" ? OWNER_KEYS : ["egressip-agent/node"];
      const without = { op: "mutate", ...at, mutations: [["external_ids", "delete", ["set", keys]]] };
      const steers = columns["priority"] === 100;
      return steers ? [without, { op: "update", ...at, row: { options } }] : [without];
    });
    await server.client("transact", JSON.stringify(["OVN_Northbound", ...made.flat()]));
    await using agent = openNorthboundAgent(server.endpoint, { adopt: true }, hostOf("node1"));
    const steering = (await agent.round(all("zones", secondary)))
      .split("\n")
      .filter((line) => line.includes("priority=100"));
    expect(steering.map((line) => line.replace(/ .*/, ""))).toEqual(["update", "update", "update", "update"]);
    expect(steering.every((line) => line.includes(`options=${before} -> {pkt_mark=1009}`))).toBe(
      before !== "",
    );
    expect((await policyRows(server)).map(({ uuid }) => uuid).sort()).toEqual(
      theirs.map(({ uuid }) => uuid).sort(),
    );
    await using fresh = await open("zones");
    await using other = openNorthboundAgent(fresh.endpoint, {}, hostOf("node1"));
    await other.round(all("zones", secondary));
    expect(printRows(await policyRows(server))).toBe(printRows(await policyRows(fresh)));
    expect(await agent.round()).toBe("");
    // And back as they are: whoever goes on with them knows the mark, or does not mind it.
    await agent.leave(true);
    expect(printRows(await policyRows(server, REFERENCE))).toContain('"pkt_mark":"1009"');
  });
});

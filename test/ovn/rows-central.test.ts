// One northbound database for all nodes and an agent on each: every agent writes its own node's rows, what all share is there
// once, and nobody takes away what is another's. Who leads cleans up after nodes that are gone, and hands the lock on.
import { describe, expect, test } from "vitest";
import type { Objects } from "../../agent/model/build.ts";
import { byCodeUnit } from "../../agent/model/names.ts";
import { locksOf } from "../../agent/model/northbound-locks.ts";
import type { KubernetesObject } from "../../agent/model/objects.ts";
import { egressIP, namespace, objects, pod } from "../agent/make.ts";
import { type NorthboundAgent, openNorthboundAgent, settle as settled } from "../support/northbound-agent.ts";
import { hostOf, labNode, labNodes, nodeNames } from "../support/northbound-scene.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import {
  type DatabaseRow,
  printForeign,
  printRows,
  rowsOfOwner,
  shortRows,
} from "../support/northbound-tables.ts";
import { until } from "../support/until.ts";

const OWNER = "egressip-agent";
const central = { zone: "global", transit: [] } as const;
const pods = nodeNames.map((node, at) =>
  pod(`shop/on-${node}`, [`10.244.${at + 1}.3`, `fd00:10:244:${at + 1}::3`], { node }),
);
const egressIPs = [egressIP("prod", { at: { "172.18.0.51": "node1", "172.18.0.52": "node2" } })];
const cluster = (...more: readonly KubernetesObject[]) =>
  objects(...labNodes(central), namespace("shop"), ...egressIPs, ...pods, ...more);
const all = cluster();

const open = () => NorthboundServer.open({ cluster: { interconnect: false } });
const agentOf = (server: NorthboundServer, node: (typeof nodeNames)[number], of = {}, now?: () => number) =>
  openNorthboundAgent(server.endpoint, { node, ...of }, hostOf(node), now === undefined ? {} : { now });

async function settle(agents: readonly NorthboundAgent[], to: Objects = all): Promise<void> {
  if (!(await settled(agents, to))) throw new Error("they keep undoing each other's work");
}

const steered = [
  "nat GR_node1 10.244.1.3 172.18.0.51",
  "nat GR_node1 10.244.2.3 172.18.0.51",
  "nat GR_node1 10.244.3.3 172.18.0.51",
  "nat GR_node2 10.244.1.3 172.18.0.52",
  "nat GR_node2 10.244.2.3 172.18.0.52",
  "nat GR_node2 10.244.3.3 172.18.0.52",
  "policy 10.244.1.3 100.64.0.2,100.64.0.3",
  "policy 10.244.2.3 100.64.0.2,100.64.0.3",
  "policy 10.244.3.3 100.64.0.2,100.64.0.3",
];
const served = pods.flatMap(({ addresses }) => addresses.map((address) => `served ${address}`));
const whole = [...steered, ...served].sort(byCodeUnit);

const ofNode = (rows: readonly DatabaseRow[], node: string) =>
  rows.filter(({ columns }) => JSON.stringify(columns).includes(`"egressip-agent/node":"${node}"`));
const ofAll = (rows: readonly DatabaseRow[]) =>
  rows.filter(({ columns }) => !JSON.stringify(columns).includes("egressip-agent/node"));
/** All but sets of pods. */
const withoutServed = (rows: readonly DatabaseRow[]) =>
  rows.filter(
    ({ columns }) => !/egressip-(served-pods|arriving-pods_node\d):v/.test(JSON.stringify(columns)),
  );
/** Of a node's gateway router, which the reference does not have. */
const isGuard = ({ columns }: DatabaseRow) =>
  /EIP-(Mark-Selected|Drop-Un\w+(-\w+)?)_node|egressip-arriving-pods_node\d:v/.test(JSON.stringify(columns));

describe("three agents", () => {
  test("write what one alone could not: each its own rows, what all share once", async () => {
    await using server = await open();
    const others = await printForeign(server, OWNER);
    await using one = agentOf(server, "node1");
    await using two = agentOf(server, "node2");
    await using three = agentOf(server, "node3");
    await settle([one, two, three]);
    expect(await shortRows(server)).toEqual(whole);
    const rows = await rowsOfOwner(server, OWNER);
    const own = (node: string) => ofNode(rows, node).filter((row) => !isGuard(row));
    expect(nodeNames.map((node) => own(node).length)).toEqual([4, 4, 1]);
    // Of each family a set, two policies of the gateway router, and an ACL of the switch behind it.
    for (const node of nodeNames)
      expect(
        ofNode(rows, node)
          .filter(isGuard)
          .map(({ table, on }) => [table, ...on].join(" "))
          .sort(),
      ).toEqual([
        ...Array<string>(2).fill(`ACL ext_${node}`),
        ...Array<string>(2).fill("Address_Set"),
        ...Array<string>(4).fill(`Logical_Router_Policy GR_${node}`),
      ]);
    // Sets, exemptions, marks of replies that every switch refers to; no route, for nobody arrives from another zone.
    expect(
      ofAll(rows)
        .map(({ table }) => table)
        .sort(),
    ).toEqual([
      ...Array<string>(4).fill("Address_Set"),
      ...Array<string>(7).fill("Logical_Router_Policy"),
      ...Array<string>(2).fill("QoS"),
    ]);
    expect(rows.filter(({ table }) => table === "QoS").map(({ on }) => on.join())).toEqual([
      "node1,node2,node3",
      "node1,node2,node3",
    ]);
    expect(await printForeign(server, OWNER)).toBe(others);
    const before = [one, two, three].map(({ transactions }) => transactions);
    await settle([one, two, three]);
    expect([one, two, three].map(({ transactions }) => transactions)).toEqual(before);
  });

  test("who loses an egress IP takes its NAT rows away first, with what leads its pods to them and lets others' in", async () => {
    await using server = await open();
    await using one = agentOf(server, "node1");
    await using two = agentOf(server, "node2");
    const at = (node: string) =>
      objects(
        ...labNodes(central),
        namespace("shop"),
        egressIP("prod", { at: { "172.18.0.51": node } }),
        ...pods,
      );
    await settle([one, two], at("node1"));
    const lines = (await one.round(at("node2"))).split("\n").filter(Boolean);
    expect(lines.map((line) => line.split(" ").slice(0, 2).join(" "))).toEqual([
      "== withdraw",
      "update Logical_Router_Policy",
      "update Address_Set",
      ...Array<string>(3).fill("delete NAT"),
    ]);
    expect(lines[1]).toContain("action=reroute -> drop");
    expect(lines[2]).toContain("-10.244.2.3 -10.244.3.3");
  });

  test("come to the same rows whoever is first, also with the exemptions still to come", async () => {
    const printed = async (order: readonly number[]) => {
      await using server = await open();
      await using one = agentOf(server, "node1");
      await using two = agentOf(server, "node2");
      await using three = agentOf(server, "node3");
      const agents = [one, two, three];
      for (const agent of agents) await agent.session.whenCurrent();
      await settle(order.map((at) => agents[at] as NorthboundAgent));
      return printRows(await rowsOfOwner(server, OWNER));
    };
    const forwards = await printed([0, 1, 2]);
    expect(await printed([2, 1, 0])).toBe(forwards);
    expect(await printed([1, 2, 0])).toBe(forwards);
  });

  test("who does not lead steers nobody before the exemptions are there", async () => {
    await using server = await open();
    await using leader = agentOf(server, "node1");
    await leader.session.whenCurrent();
    await using two = agentOf(server, "node2");
    await expect(two.round(all)).rejects.toThrow(
      /^waiting for rows that all nodes share: .* and \d+ more; the agent that has the zone's lock writes them/,
    );
    expect(await shortRows(server)).toEqual([]);
    await settle([leader, two]);
    expect(await shortRows(server)).toContain("policy 10.244.2.3 100.64.0.2,100.64.0.3");
  });

  test("one pod's end is one agent's business for its policy, and the egress nodes' for its NAT rows", async () => {
    await using server = await open();
    await using one = agentOf(server, "node1");
    await using two = agentOf(server, "node2");
    await using three = agentOf(server, "node3");
    await settle([one, two, three]);
    const before = await rowsOfOwner(server, OWNER);
    const gone = objects(...labNodes(central), namespace("shop"), ...egressIPs, ...pods.slice(0, 2));
    await settle([one, two, three], gone);
    expect(await shortRows(server)).toEqual(whole.filter((row) => !/10\.244\.3\.3|244:3::3/.test(row)));
    const after = await rowsOfOwner(server, OWNER);
    const left = withoutServed(after);
    expect(left).toEqual(withoutServed(before).filter(({ uuid }) => left.some((row) => row.uuid === uuid)));
  });

  test.each([
    ["says nothing of its pods' networks", "rtos-node1", { podSubnets: [] }],
    [
      "says nothing at all",
      "rtos-node1",
      { podSubnets: [], hostCidrs: [], primary: [], internalAddresses: [] },
    ],
    ["says nothing, and whose port is not there", "elsewhere", { podSubnets: [] }],
  ])("a node that %s does not take the others' members away (BL-18)", async (_, port, of) => {
    await using server = await open();
    const rename = {
      op: "update",
      table: "Logical_Router_Port",
      where: [["name", "==", "rtos-node1"]],
      row: { name: port },
    };
    await server.client("transact", JSON.stringify(["OVN_Northbound", rename]));
    await using one = agentOf(server, "node1");
    await using two = agentOf(server, "node2");
    const to = objects(
      labNode("node1", { ...central, ...of }),
      labNode("node2", central),
      namespace("shop"),
      egressIP("prod", { at: { "172.18.0.52": "node2" } }),
      ...pods.slice(0, 2),
    );
    await settle([one, two], to);
    expect(await shortRows(server)).toEqual([
      "nat GR_node2 10.244.1.3 172.18.0.52",
      "nat GR_node2 10.244.2.3 172.18.0.52",
      "policy 10.244.1.3 100.64.0.3",
      "policy 10.244.2.3 100.64.0.3",
      ...served.filter((row) => !row.includes("244.3.") && !row.includes("244:3")).sort(),
    ]);
  });

  test("take over the reference's rows, each those of its own node", async () => {
    await using server = await open();
    {
      // As the reference has them: without the key that says whose they are.
      await using one = agentOf(server, "node1", { northboundOwner: "default-network-controller" });
      await using two = agentOf(server, "node2", { northboundOwner: "default-network-controller" });
      await using three = agentOf(server, "node3", { northboundOwner: "default-network-controller" });
      await settle([one, two, three]);
    }
    const written = await rowsOfOwner(server, "default-network-controller");
    await server.client(
      "transact",
      JSON.stringify(["OVN_Northbound", ...written.filter(isGuard).flatMap(removal)]),
    );
    const before = await rowsOfOwner(server, "default-network-controller");
    expect(before).toHaveLength(written.length - nodeNames.length * 8);
    const strip = before.map(({ table, uuid }) => ({
      op: "mutate",
      table,
      where: [["_uuid", "==", ["uuid", uuid]]],
      mutations: [["external_ids", "delete", ["set", ["egressip-agent/node"]]]],
    }));
    await server.client("transact", JSON.stringify(["OVN_Northbound", ...strip]));
    await using one = agentOf(server, "node1", { adopt: true });
    await using two = agentOf(server, "node2", { adopt: true });
    await using three = agentOf(server, "node3", { adopt: true });
    await settle([one, two, three]);
    const after = await rowsOfOwner(server, OWNER);
    // The set of nodes' addresses is not theirs alone to give (reference B.2).
    const uuidsOf = (rows: typeof before) =>
      rows
        .flatMap((row) => (JSON.stringify(row).includes('"node-ips"') || isGuard(row) ? [] : [row.uuid]))
        .sort();
    expect(uuidsOf(after)).toEqual(uuidsOf(before));
    expect(await shortRows(server)).toEqual(whole);
    const own = (node: string) => ofNode(after, node).filter((row) => !isGuard(row));
    expect(nodeNames.map((node) => own(node).length)).toEqual([4, 4, 1]);
  });
});

/** A row without a parent goes by itself. */
const removal = ({ table, uuid, on }: DatabaseRow): readonly object[] => {
  if (table === "Address_Set") return [{ op: "delete", table, where: [["_uuid", "==", ["uuid", uuid]]] }];
  const [of, column] = table === "ACL" ? ["Logical_Switch", "acls"] : ["Logical_Router", "policies"];
  return on.map((name) => ({
    op: "mutate",
    table: of,
    where: [["name", "==", name]],
    mutations: [[column, "delete", ["uuid", uuid]]],
  }));
};

describe("a node that is gone", () => {
  const without3 = objects(
    ...labNodes(central).slice(0, 2),
    namespace("shop"),
    ...egressIPs,
    ...pods.slice(0, 2),
  );
  const left = whole.filter((row) => !/10\.244\.3\.3|244:3::3/.test(row));

  test("is cleaned up after by the one that leads, when the grace is over", async () => {
    await using server = await open();
    let time = 0;
    const now = () => time;
    await using one = agentOf(server, "node1", {}, now);
    await one.leads();
    await using two = agentOf(server, "node2", {}, now);
    {
      await using three = agentOf(server, "node3", {}, now);
      await settle([one, two, three]);
    }
    // NAT rows of the pod that went with it are their writers' business, and go at once.
    const orphans = [
      "policy 10.244.3.3 100.64.0.2,100.64.0.3",
      "served 10.244.3.3",
      "served fd00:10:244:3::3",
    ];
    await settle([one, two], without3);
    expect(await shortRows(server)).toEqual([...left, ...orphans].sort(byCodeUnit));
    time += 299_000;
    await settle([one, two], without3);
    expect(await shortRows(server)).toEqual([...left, ...orphans].sort(byCodeUnit));
    time += 1_000;
    expect(await two.round(without3)).toBe("");
    expect(await one.round(without3)).toContain("(gone-node)");
    expect(await shortRows(server)).toEqual(left);
    expect(ofNode(await rowsOfOwner(server, OWNER), "node3")).toEqual([]);
    await settle([one, two], without3);
  });

  test("also where nobody has anything else to do", async () => {
    await using server = await open();
    let time = 0;
    await using one = agentOf(server, "node1", {}, () => time);
    await one.leads();
    {
      await using three = agentOf(server, "node3");
      await settle([one, three]);
    }
    const nobody = objects(...labNodes(central).slice(0, 2));
    await settle([one], nobody);
    expect(await shortRows(server)).toHaveLength(3);
    time += 300_000;
    await one.round(nobody);
    expect(await shortRows(server)).toEqual([]);
  });

  test("and comes back in time keeps its rows, also when it goes once more", async () => {
    await using server = await open();
    let time = 0;
    await using one = agentOf(server, "node1", {}, () => time);
    await one.leads();
    {
      await using three = agentOf(server, "node3");
      await settle([one, three]);
    }
    // No agent runs on node2, so no way leads there.
    const orphan = "policy 10.244.3.3 100.64.0.2";
    await settle([one], without3);
    time += 290_000;
    await settle([one], all);
    time += 5_000;
    await settle([one], without3);
    time += 290_000;
    await settle([one], without3);
    expect(await shortRows(server)).toContain(orphan);
    time += 10_000;
    await settle([one], without3);
    expect(await shortRows(server)).not.toContain(orphan);
  });
});

describe("an agent that leaves", () => {
  test("hands the lock of the zone on, and the next one writes what all share", async () => {
    await using server = await open();
    const one = agentOf(server, "node1");
    await one.session.whenCurrent();
    await using two = agentOf(server, "node2");
    await settle([one, two]);
    const rows = printRows(withoutServed(await rowsOfOwner(server, OWNER)));
    await one.close();
    await two.leads();
    await settle([two]);
    expect(printRows(withoutServed(await rowsOfOwner(server, OWNER)))).toBe(rows);
    // It leads indeed: what is broken of what all share is put right by it.
    await server.nbctl("lr-policy-del", "ovn_cluster_router", "102", "pkt.mark == 42");
    expect(await two.round()).toContain("pkt.mark == 42");
    expect(printRows(withoutServed(await rowsOfOwner(server, OWNER)))).toBe(rows);
  });

  test.each([
    ["who leads", [0, 1, 2]],
    ["who follows", [2, 1, 0]],
  ])("for good, %s first, takes its own rows and members, and the last one everything", async (_, order) => {
    await using server = await open();
    const others = await printForeign(server, OWNER);
    const agents = nodeNames.map((node) => agentOf(server, node));
    for (const agent of agents) await agent.session.whenCurrent();
    await settle(agents);
    const before = await rowsOfOwner(server, OWNER);
    let rest = [...agents];
    for (const at of order) {
      const leaving = agents[at] as NorthboundAgent;
      rest = rest.filter((agent) => agent !== leaving);
      if (rest.length === 0) await leaving.leads();
      await leaving.leave();
      await leaving.close();
      const rows = await rowsOfOwner(server, OWNER);
      expect(ofNode(rows, `node${at + 1}`)).toEqual([]);
      if (rest.length > 0) {
        expect(withoutServed(ofAll(rows))).toEqual(withoutServed(ofAll(before)));
        const still = rest.map((agent) => agent.settings.node);
        for (const node of still) expect(ofNode(rows, node)).toEqual(ofNode(before, node));
        const members = (await shortRows(server)).filter((row) => row.startsWith("served"));
        expect(members).toEqual(
          served
            .filter((row) =>
              still.some(
                (node) => row.includes(`244.${node.at(-1)}.`) || row.includes(`244:${node.at(-1)}:`),
              ),
            )
            .sort(),
        );
      } else expect(rows).toEqual([]);
    }
    expect(await printForeign(server, OWNER)).toBe(others);
  });

  test("without a word, and a second agent of the same node: it waits, and says why", async () => {
    await using server = await open();
    const first = agentOf(server, "node1");
    await first.round(all);
    await using second = agentOf(server, "node1");
    expect(await second.round(cluster(pod("shop/more", ["10.244.1.9"])))).toBe("");
    expect(second.last?.snapshot.problems.map(({ text }) => text).join()).toContain(
      "another agent has the lock",
    );
    await first.close();
    const { node } = locksOf(OWNER, "node1");
    await until(() => second.session.locks.get(node) === "held", "the second one has the lock of the node");
    await second.round();
    expect(await shortRows(server)).toContain("policy 10.244.1.9 100.64.0.2");
  });
});

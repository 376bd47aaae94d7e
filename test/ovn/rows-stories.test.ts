// The reference's situations (section G, group O) played on a real northbound database: what a cluster does one step after the
// other, and the rows of pods after each. One agent for node1, or a new one where the story says that it was down.
import { describe, expect, test } from "vitest";
import type { KubernetesObject } from "../../agent/model/objects.ts";
import type { Settings } from "../../agent/model/settings.ts";
import { cidr, egressIP, namespace, objects, pod } from "../agent/make.ts";
import { openNorthboundAgent } from "../support/northbound-agent.ts";
import { hostOf, labNode, labNodes } from "../support/northbound-scene.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { printRows, readTables, rowsOfOwner, shortRows } from "../support/northbound-tables.ts";

interface Step {
  /** Other objects than those that are always there. */
  readonly objects: readonly KubernetesObject[];
  /** Another process takes over before this step. */
  readonly restart?: true;
  /** In place of the three nodes. */
  readonly nodes?: readonly KubernetesObject[];
  readonly rows: string;
}

type Story = [title: string, steps: readonly Step[], of?: Partial<Settings>];

const web = pod("shop/web", ["10.244.1.3", "fd00:10:244:1::3"], { labels: { app: "web" } });
const away = pod("shop/away", ["10.244.2.3"], { node: "node2" });
const prod = (at: Readonly<Record<string, string>>, of: Parameters<typeof egressIP>[1] = {}) =>
  egressIP("prod", { at, ...of });
const here = prod({ "172.18.0.50": "node1" });
const there = prod({ "172.18.0.50": "node2" });
const here6 = prod({ "fd00:172:18::50": "node1" });
const ofWeb = { podSelector: [{ key: "app", operator: "In", values: ["web"] }] } as const;

const served = "served 10.244.1.3; served fd00:10:244:1::3";
const rowsHere = `nat GR_node1 10.244.1.3 172.18.0.50; policy 10.244.1.3 100.64.0.2; ${served}`;
const rowsHere6 = `nat GR_node1 fd00:10:244:1::3 fd00:172:18::50; policy fd00:10:244:1::3 fd98::2; ${served}`;
const rowsThere = `policy 10.244.1.3 100.88.0.3; ${served}`;
const nothing = "";

const stories: readonly Story[] = [
  [
    "O-9: a node's update that has nothing to do with egress IPs",
    [
      { objects: [here, web], rows: rowsHere },
      {
        objects: [here, web],
        nodes: [...labNodes().slice(0, 2), labNode("node3", { uid: "another" })],
        rows: rowsHere,
      },
    ],
  ],
  [
    "O-10: the egress IP moves, and a pod comes afterwards",
    [
      { objects: [here], rows: nothing },
      { objects: [there], rows: nothing },
      { objects: [there, web], rows: rowsThere },
    ],
  ],
  [
    "O-12: the egress node is deleted, one of two and the only one",
    [
      {
        objects: [prod({ "172.18.0.50": "node1", "172.18.0.51": "node2" }), web],
        rows: `nat GR_node1 10.244.1.3 172.18.0.50; policy 10.244.1.3 100.64.0.2,100.88.0.3; ${served}`,
      },
      {
        objects: [prod({ "172.18.0.50": "node1", "172.18.0.51": "node2" }), web],
        nodes: [labNode("node1")],
        rows: rowsHere,
      },
      { objects: [there, web], nodes: [labNode("node1")], rows: `policy 10.244.1.3 drop; ${served}` },
    ],
  ],
  [
    "O-13: the node of an egress IP on another network is deleted",
    [
      { objects: [prod({ "10.10.10.50": "node2" }), web], rows: rowsThere },
      {
        objects: [prod({ "10.10.10.50": "node2" }), web],
        nodes: [labNode("node1")],
        rows: served,
      },
    ],
    { whenUnready: "node-ip" },
  ],
  [
    "O-14: an IPv6 pod's label stops matching",
    [
      { objects: [prod({ "fd00:172:18::50": "node1" }, ofWeb), web], rows: rowsHere6 },
      { objects: [prod({ "fd00:172:18::50": "node1" }, ofWeb), { ...web, labels: {} }], rows: nothing },
    ],
  ],
  [
    "O-15: a pod comes with its address and is updated",
    [
      { objects: [here, web], rows: rowsHere },
      { objects: [here, { ...web, labels: { app: "web", more: "so" } }], rows: rowsHere },
    ],
  ],
  [
    "O-16, O-17: a pod comes without an address; gets one; another is deleted before",
    [
      { objects: [here, { ...web, addresses: [], running: false }], rows: nothing },
      { objects: [here, web], rows: rowsHere },
      { objects: [here, web, pod("shop/soon", [], { running: false })], rows: rowsHere },
      { objects: [here, web], rows: rowsHere },
    ],
  ],
  [
    "O-18, O-22: the EgressIP is deleted, made again, deleted",
    [
      { objects: [here6, web], rows: rowsHere6 },
      { objects: [web], rows: nothing },
      { objects: [here6, web], rows: rowsHere6 },
      { objects: [web], rows: nothing },
    ],
  ],
  [
    "O-19, O-20: a namespace's label stops matching, with pods and with one that never had an address",
    [
      {
        objects: [
          prod(
            { "172.18.0.50": "node1" },
            { namespaceSelector: [{ key: "team", operator: "In", values: ["a"] }] },
          ),
          namespace("shop", { team: "a" }),
          web,
          pod("shop/soon", [], { running: false }),
        ],
        rows: rowsHere,
      },
      {
        objects: [
          prod(
            { "172.18.0.50": "node1" },
            { namespaceSelector: [{ key: "team", operator: "In", values: ["a"] }] },
          ),
          namespace("shop", { team: "b" }),
          web,
          pod("shop/soon", [], { running: false }),
        ],
        rows: nothing,
      },
    ],
  ],
  [
    "O-21: of two addresses one is replaced",
    [
      {
        objects: [prod({ "172.18.0.50": "node1", "172.18.0.51": "node2" }), web],
        rows: `nat GR_node1 10.244.1.3 172.18.0.50; policy 10.244.1.3 100.64.0.2,100.88.0.3; ${served}`,
      },
      {
        objects: [prod({ "172.18.0.50": "node1", "172.18.0.52": "node3" }), web],
        rows: `nat GR_node1 10.244.1.3 172.18.0.50; policy 10.244.1.3 100.64.0.2,100.88.0.4; ${served}`,
      },
    ],
  ],
  [
    "O-25, O-26, BL-03: a pod is made anew with another address, also while the agent is down",
    [
      { objects: [here, web], rows: rowsHere },
      {
        objects: [here, { ...web, uid: "second", addresses: ["10.244.1.7"] }],
        rows: "nat GR_node1 10.244.1.7 172.18.0.50; policy 10.244.1.7 100.64.0.2; served 10.244.1.7",
      },
      { objects: [here, { ...web, uid: "third" }], restart: true, rows: rowsHere },
    ],
  ],
  [
    "O-27: three EgressIPs select one pod; the one that counts is deleted, a restart in between",
    [
      {
        objects: [
          here,
          egressIP("second", { at: { "172.18.0.51": "node1" }, created: "2026-01-02T00:00:00Z" }),
          web,
        ],
        rows: rowsHere,
      },
      {
        objects: [
          egressIP("third", { at: { "172.18.0.52": "node1" }, created: "2026-01-03T00:00:00Z" }),
          egressIP("second", { at: { "172.18.0.51": "node1" }, created: "2026-01-02T00:00:00Z" }),
          web,
        ],
        rows: rowsHere.replace("0.50", "0.51"),
      },
      {
        objects: [
          egressIP("third", { at: { "172.18.0.52": "node1" }, created: "2026-01-03T00:00:00Z" }),
          web,
        ],
        restart: true,
        rows: rowsHere.replace("0.50", "0.52"),
      },
    ],
  ],
  [
    "O-27: what counts stops selecting the pod, and the next one takes over",
    [
      {
        objects: [
          prod({ "172.18.0.50": "node1" }, ofWeb),
          egressIP("second", { at: { "172.18.0.51": "node1" }, created: "2026-01-02T00:00:00Z" }),
          web,
        ],
        rows: rowsHere,
      },
      {
        objects: [
          prod({ "172.18.0.50": "node1" }, ofWeb),
          egressIP("second", { at: { "172.18.0.51": "node1" }, created: "2026-01-02T00:00:00Z" }),
          { ...web, labels: {} },
        ],
        rows: rowsHere.replace("0.50", "0.51"),
      },
    ],
  ],
  [
    "O-28: nowhere to go is held back until the status arrives",
    [
      {
        objects: [prod({}, { requested: ["172.18.0.50"] }), web],
        rows: `policy 10.244.1.3 drop; ${served}`,
      },
      { objects: [here, web], rows: rowsHere },
      {
        objects: [prod({}, { requested: ["172.18.0.50"] }), web],
        rows: `policy 10.244.1.3 drop; ${served}`,
      },
    ],
  ],
  [
    "O-28: or leaves with its node's address, as told",
    [
      { objects: [prod({}, { requested: ["172.18.0.50"] }), web], rows: nothing },
      { objects: [here, web], rows: rowsHere },
      { objects: [prod({}, { requested: ["172.18.0.50"] }), web], rows: nothing },
    ],
    { whenUnready: "node-ip" },
  ],
  [
    "O-29: an egress IP that is a node's address is given to nobody; pods of other nodes that are sent here are held back",
    [
      {
        objects: [prod({ "172.18.0.12": "node1" }), web, away],
        rows: `policy 10.244.1.3 drop; policy 10.244.2.3 drop; ${served}`,
      },
      { objects: [prod({ "172.18.0.50": "node1" }), web], rows: rowsHere },
    ],
  ],
  [
    "O-29: and has no row at all where that is not asked for",
    [{ objects: [prod({ "172.18.0.12": "node1" }), web, away], rows: served }],
    { whenUnready: "node-ip" },
  ],
  [
    "O-30, BL-04: while the agent was down the egress IP moved and pods were made anew",
    [
      { objects: [here, web, away], rows: `nat GR_node1 10.244.2.3 172.18.0.50; ${rowsHere}` },
      {
        objects: [
          there,
          { ...web, uid: "second", addresses: ["10.244.1.9"] },
          { ...away, addresses: ["10.244.2.9"] },
        ],
        restart: true,
        rows: "policy 10.244.1.9 100.88.0.3; served 10.244.1.9",
      },
    ],
  ],
  [
    "O-31: while the agent was down the pod was deleted",
    [
      { objects: [here, web], rows: rowsHere },
      { objects: [here], restart: true, rows: nothing },
    ],
  ],
  [
    "O-33, BL-02: a pod that has ended has no rows, nor has who gets its address",
    [
      { objects: [here, { ...web, finished: true, running: false }], rows: nothing },
      { objects: [here, web], rows: rowsHere },
      { objects: [here, { ...web, finished: true, running: false }], rows: nothing },
      {
        objects: [here, { ...web, finished: true, running: false }, pod("play/heir", ["10.244.1.3"])],
        restart: true,
        rows: nothing,
      },
    ],
  ],
  [
    "BL-15: a pod of unknown address keeps its rows, over a restart, and until it has another address or is gone",
    [
      { objects: [here, web], rows: rowsHere },
      { objects: [here, { ...web, addresses: [] }], rows: rowsHere },
      { objects: [here, { ...web, addresses: [] }], restart: true, rows: rowsHere },
      {
        objects: [here, { ...web, addresses: ["10.244.1.7"] }],
        rows: "nat GR_node1 10.244.1.7 172.18.0.50; policy 10.244.1.7 100.64.0.2; served 10.244.1.7",
      },
      {
        objects: [here, { ...web, addresses: [] }],
        rows: "nat GR_node1 10.244.1.7 172.18.0.50; policy 10.244.1.7 100.64.0.2; served 10.244.1.7",
      },
      { objects: [here, { ...web, addresses: [], running: false, finished: true }], rows: nothing },
    ],
  ],
  [
    "BL-15: not when its EgressIP is gone, or another one speaks for it, nor when somebody else has the address",
    [
      { objects: [here, web], rows: rowsHere },
      { objects: [{ ...web, addresses: [] }], rows: nothing },
      { objects: [here, web], rows: rowsHere },
      {
        objects: [
          prod({ "172.18.0.50": "node1" }, { namespaceSelector: [{ key: "team", operator: "Exists" }] }),
          { ...web, addresses: [] },
        ],
        rows: nothing,
      },
      { objects: [here, web], rows: rowsHere },
      {
        objects: [here, { ...web, addresses: [] }, pod("play/heir", ["10.244.1.3"])],
        rows: nothing,
      },
    ],
  ],
  [
    "BL-17: a host-network pod, and one that has a node's address whatever it says, have no rows",
    [
      {
        objects: [
          here,
          pod("shop/host", ["172.18.0.11"], { hostNetwork: true }),
          pod("shop/odd", ["172.18.0.12"]),
        ],
        rows: nothing,
      },
    ],
  ],
  [
    "BL-18: a node without annotations is left out, and nothing else is",
    [
      {
        objects: [prod({ "172.18.0.50": "node1", "172.18.0.51": "node2" }), web],
        nodes: [
          labNode("node1"),
          labNode("node2", { transit: [], hostCidrs: [], primary: [], podSubnets: [] }),
        ],
        rows: rowsHere,
      },
    ],
  ],
];

describe("one after the other", () => {
  test.each(stories)("%s", async (_title, steps, of = {}) => {
    await using server = await NorthboundServer.open();
    const open = () => openNorthboundAgent(server.endpoint, of, hostOf("node1"));
    let agent = open();
    try {
      for (const { objects: now, nodes = labNodes(), restart, rows } of steps) {
        if (restart) {
          await agent.close();
          agent = open();
        }
        const namespaces = now.some(({ kind }) => kind === "Namespace") ? [] : [namespace("shop")];
        await agent.round(objects(...nodes, ...namespaces, ...now));
        expect((await shortRows(server)).join("; ")).toBe(rows.split("; ").sort().join("; "));
        // A second round, in this process and as the database is now, writes nothing.
        const before = agent.transactions;
        await agent.round();
        expect(agent.transactions).toBe(before);
      }
    } finally {
      await agent.close();
    }
  });
});

test("O-24: a node gains and loses an address, and the set of node addresses follows in place", async () => {
  await using server = await NorthboundServer.open();
  await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
  const nodeIps = async () => {
    const rows = await readTables(server, ["Address_Set"]);
    const found = rows.filter(({ columns }) => JSON.stringify(columns).includes("EgressIP:node-ips"));
    return found.map(({ uuid, columns }) => [uuid, [columns["addresses"] ?? []].flat().length] as const);
  };
  await agent.round(objects(...labNodes()));
  const before = await nodeIps();
  const more = [...labNode("node2").hostCidrs, cidr("192.0.2.12/24")];
  await agent.round(
    objects(...labNodes().slice(0, 1), labNode("node2", { hostCidrs: more }), labNode("node3")),
  );
  const after = await nodeIps();
  expect(before.map(([, count]) => count).sort()).toEqual([6, 6]);
  expect(after.map(([, count]) => count).sort()).toEqual([6, 7]);
  expect(after.map(([uuid]) => uuid)).toEqual(before.map(([uuid]) => uuid));
  await agent.round(objects(...labNodes()));
  expect(await nodeIps()).toEqual(before);
});

test("O-18: rows that all share outlive the last EgressIP, and are what they were before the first", async () => {
  await using server = await NorthboundServer.open();
  await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
  await agent.round(objects(...labNodes(), namespace("shop"), web));
  const before = await rowsOfOwner(server, "egressip-agent");
  await agent.round(objects(...labNodes(), namespace("shop"), web, here));
  await agent.round(objects(...labNodes(), namespace("shop"), web));
  expect(printRows(await rowsOfOwner(server, "egressip-agent"))).toBe(printRows(before));
});

test("BL-03: there is no moment with both addresses of a pod that was made anew", async () => {
  await using server = await NorthboundServer.open();
  await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
  await agent.round(objects(...labNodes(), namespace("shop"), here, web));
  const second = { ...web, uid: "second", addresses: ["10.244.1.7", "fd00:10:244:1::7"] };
  const text = await agent.round(objects(...labNodes(), namespace("shop"), here, second));
  // What comes and what goes is one transaction; only the address that has no row of its own goes in another.
  expect(
    text.split("\n\n").map((step) => step.replaceAll(/( \S+)? (priority|type|name)=\S+| *#.*$/gm, "")),
  ).toEqual([
    [
      "== establish northbound",
      'delete Logical_Router_Policy match="ip4.src == 10.244.1.3" action=reroute nexthops=[100.64.0.2]',
      'insert Logical_Router_Policy match="ip4.src == 10.244.1.7" action=reroute nexthops=[100.64.0.2]',
      "delete NAT external_ip=172.18.0.50 logical_ip=10.244.1.3 logical_port=k8s-node1 options={stateless=false}",
      "insert NAT external_ip=172.18.0.50 logical_ip=10.244.1.7 logical_port=k8s-node1 options={stateless=false}",
      "update +10.244.1.7 -10.244.1.3",
      "update +fd00:10:244:1::7",
    ].join("\n"),
    "== retire northbound\nupdate -fd00:10:244:1::3\n",
  ]);
});

test("O-32: a NAT row with another node's port is put right in place", async () => {
  await using server = await NorthboundServer.open();
  await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
  await agent.round(objects(...labNodes(), namespace("shop"), here, web));
  const before = await rowsOfOwner(server, "egressip-agent");
  const [nat] = (await readTables(server, ["NAT"])).filter(
    ({ columns }) => columns["external_ip"] === "172.18.0.50",
  );
  const damage = JSON.stringify([
    "OVN_Northbound",
    {
      op: "update",
      table: "NAT",
      where: [["_uuid", "==", ["uuid", nat?.uuid]]],
      row: { logical_port: "k8s-node2" },
    },
  ]);
  await server.client("transact", damage);
  await agent.round();
  const after = await rowsOfOwner(server, "egressip-agent");
  expect(printRows(after)).toBe(printRows(before));
  expect(after.map(({ uuid }) => uuid)).toEqual(before.map(({ uuid }) => uuid));
});

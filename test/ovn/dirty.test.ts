// A start on a northbound database in which something is wrong: one pass puts it right, the second writes nothing, and what is
// somebody else's stays as it is, uuid and version too (known-faults BL-01, BL-06, and others of their kind).
import { describe, expect, test } from "vitest";
import { egressIP, namespace, objects, pod } from "../agent/make.ts";
import { openNorthboundAgent } from "../support/northbound-agent.ts";
import {
  copyOf,
  idsOf,
  type Operation,
  refer,
  set,
  update,
  whereUuid,
} from "../support/northbound-damage.ts";
import { hostOf, labNodes } from "../support/northbound-scene.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import {
  type DatabaseRow,
  printForeign,
  printRows,
  readTables,
  rowsOfOwner,
} from "../support/northbound-tables.ts";

const OWNER = "egressip-agent";

/** Two next hops of which the numbers sort otherwise than the text: 100.64.0.2 here, 100.88.0.10 and 100.88.0.9 elsewhere. */
const [one, two, three] = labNodes();
const nodes = [
  one,
  {
    ...two,
    transit: two?.transit.map((cidr) => ({
      ...cidr,
      address: cidr.family === 4 ? "100.88.0.10" : "fd97::a",
    })),
  },
  {
    ...three,
    transit: three?.transit.map((cidr) => ({
      ...cidr,
      address: cidr.family === 4 ? "100.88.0.9" : "fd97::9",
    })),
  },
] as ReturnType<typeof labNodes>;
const all = objects(
  ...nodes,
  namespace("shop"),
  egressIP("prod", { at: { "172.18.0.50": "node1", "172.18.0.51": "node2", "172.18.0.52": "node3" } }),
  pod("shop/web", ["10.244.1.3"]),
  pod("shop/other", ["10.244.1.4"]),
  pod("shop/away", ["10.244.2.3"], { node: "node2" }),
);

type Find = (table: string, text: string) => DatabaseRow;
interface Damage {
  readonly title: string;
  readonly operations: (find: Find) => readonly Operation[];
  /** The pass writes nothing. */
  readonly quiet?: true;
  /** Rows that do not say any more that they are ours become ours again. */
  readonly reclaims?: true;
}

const policy = (find: Find) => find("Logical_Router_Policy", "10.244.1.3");
const nat = (find: Find) => find("NAT", "10.244.1.3");
const exemption = (find: Find) => find("Logical_Router_Policy", "EIP-No-Reroute-Pod-To-Node:ip4");

const damages: readonly Damage[] = [
  {
    title: "stale next hops (BL-01 a)",
    operations: (find) => [update(policy(find), { nexthops: set("100.64.0.3", "100.64.0.9") })],
  },
  {
    title: "the right next hops in another order (BL-01 b)",
    operations: (find) => [
      update(policy(find), { nexthops: set("100.88.0.9", "100.64.0.2", "100.88.0.10") }),
    ],
    quiet: true,
  },
  {
    title: "a next hop more (BL-01 c)",
    operations: (find) => [
      update(policy(find), { nexthops: set("100.64.0.2", "100.88.0.9", "100.88.0.10", "100.88.0.99") }),
    ],
  },
  {
    title: "a next hop less",
    operations: (find) => [update(policy(find), { nexthops: set("100.64.0.2") })],
  },
  { title: "two policies of one pod (BL-01 d, BL-06)", operations: (find) => copyOf(policy(find)) },
  {
    title: "two policies of one pod, both wrong",
    operations: (find) => [
      ...copyOf(policy(find), "ovn_cluster_router", { nexthops: set("100.64.0.7") }),
      update(policy(find), { nexthops: set("100.64.0.8") }),
    ],
  },
  {
    title: "three NAT rows of one pod (BL-06)",
    operations: (find) => [...copyOf(nat(find)), ...copyOf(nat(find))],
  },
  { title: "two exemptions", operations: (find) => copyOf(exemption(find)) },
  {
    title: "two exemptions for replies",
    operations: (find) => copyOf(find("Logical_Router_Policy", "pkt.mark == 42")),
  },
  { title: "two marks of replies", operations: (find) => copyOf(find("QoS", "ip4.src")) },
  {
    title: "two routes of arrivals",
    operations: (find) => copyOf(find("Logical_Router_Static_Route", "egressip-agent")),
  },
  {
    title: "another action",
    operations: (find) => [update(policy(find), { action: "drop", nexthops: set() })],
  },
  {
    title: "a mark on a policy that has none",
    operations: (find) => [update(policy(find), { options: ["map", [["pkt_mark", "50000"]]] })],
  },
  {
    title: "no mark on the exemption that has one",
    operations: (find) => [update(exemption(find), { options: ["map", []] })],
  },
  {
    title: "another egress IP in a NAT row",
    operations: (find) => [update(nat(find), { external_ip: "172.18.0.99" })],
  },
  {
    title: "a wrong port in a NAT row (O-32)",
    operations: (find) => [update(nat(find), { logical_port: "k8s-node2" })],
  },
  {
    title: "no port in a NAT row",
    operations: (find) => [update(nat(find), { logical_port: set() })],
  },
  {
    title: "another type, options and match of a NAT row",
    operations: (find) => [
      update(nat(find), { type: "dnat_and_snat", options: ["map", [["stateless", "true"]]], match: "ip4" }),
    ],
  },
  {
    title: "a NAT row on the wrong router",
    operations: (find) => [
      refer("NAT", "GR_node1", "delete", ["uuid", nat(find).uuid]),
      refer("NAT", "ovn_cluster_router", "insert", ["uuid", nat(find).uuid]),
    ],
  },
  {
    title: "a NAT row on two routers",
    operations: (find) => [refer("NAT", "ovn_cluster_router", "insert", ["uuid", nat(find).uuid])],
  },
  {
    title: "a policy on the wrong router",
    operations: (find) => [
      refer("Logical_Router_Policy", "ovn_cluster_router", "delete", ["uuid", policy(find).uuid]),
      refer("Logical_Router_Policy", "GR_node1", "insert", ["uuid", policy(find).uuid]),
    ],
  },
  {
    title: "an exemption on two routers",
    operations: (find) => [
      refer("Logical_Router_Policy", "GR_node1", "insert", ["uuid", exemption(find).uuid]),
    ],
  },
  {
    title: "a mark of replies on another switch as well",
    operations: (find) => [refer("QoS", "join", "insert", ["uuid", find("QoS", "ip4.src").uuid])],
  },
  {
    title: "a match that says nothing",
    operations: (find) => [update(policy(find), { match: "ip4.src == " })],
  },
  {
    title: "a match of an address that is none",
    operations: (find) => [update(policy(find), { match: "ip4.src == 10.244.1.300" })],
  },
  {
    title: "a match of the wrong family",
    operations: (find) => [update(policy(find), { match: "ip6.src == 10.244.1.3" })],
  },
  {
    title: "a match of an exemption that was edited",
    operations: (find) => [update(exemption(find), { match: "ip4.dst == 192.0.2.1" })],
  },
  {
    title: "a match of a pair of networks that was edited",
    operations: (find) => [
      update(find("Logical_Router_Policy", "Pod-To-Pod:ip4"), { match: "ip4.dst == 192.0.2.1" }),
    ],
  },
  {
    title: "rows of a pod that is gone (O-31)",
    operations: (find) => [
      ...copyOf(policy(find), "ovn_cluster_router", { match: "ip4.src == 10.244.1.99" }),
      ...copyOf(nat(find), "GR_node1", { logical_ip: "10.244.1.99" }),
    ],
  },
  {
    title: "a route to where a gateway router was",
    operations: (find) => [
      update(find("Logical_Router_Static_Route", "egressip-agent"), { nexthop: "100.64.0.77" }),
    ],
  },
  {
    title: "ids of another pod on a row",
    operations: (find) => [
      update(policy(find), { external_ids: idsOf(find("Logical_Router_Policy", "10.244.1.4")) }),
    ],
  },
  {
    title: "members that nobody serves, and one less",
    operations: (find) => [
      update(find("Address_Set", "egressip-served-pods:v4"), { addresses: set("10.244.1.3", "10.244.1.99") }),
    ],
  },
  {
    title: "members of the wrong family, and such as are no addresses",
    operations: (find) => [
      update(find("Address_Set", "egressip-served-pods:v4"), {
        addresses: set("10.244.1.3", "10.244.1.4", "fd00:10:244:1::99", "nobody", "a:b"),
      }),
    ],
  },
  {
    title: "node addresses that are none",
    operations: (find) => [update(find("Address_Set", "node-ips:v6"), { addresses: set("fd00::1") })],
  },
  {
    title: "ids of another set on one",
    operations: (find) => [
      update(find("Address_Set", "node-ips:v4"), {
        external_ids: idsOf(find("Address_Set", "egressip-served-pods:v6")),
      }),
    ],
  },
  {
    title: "a set that lost its ids, and one that says it is somebody's",
    operations: (find) => [
      update(find("Address_Set", "node-ips:v4"), { external_ids: ["map", []] }),
      update(find("Address_Set", "egressip-served-pods:v4"), {
        external_ids: [
          "map",
          [
            ["k8s.ovn.org/owner-controller", "somebody"],
            ["k8s.ovn.org/owner-type", "EgressIP"],
          ],
        ],
      }),
    ],
    reclaims: true,
  },
  {
    title: "the other feature's set without ids",
    operations: (find) => [
      update(find("Address_Set", "egresssvc-served-pods:v6"), { external_ids: ["map", []] }),
    ],
    quiet: true,
  },
  {
    title: "a set that is gone",
    operations: (find) => [
      {
        op: "delete",
        table: "Address_Set",
        where: whereUuid(find("Address_Set", "egressip-served-pods:v4")),
      },
    ],
  },
  {
    title: "another's keys in external_ids of ours",
    operations: (find) => [
      {
        op: "mutate",
        table: "NAT",
        where: whereUuid(nat(find)),
        mutations: [["external_ids", "insert", ["map", [["somebody", "was here"]]]]],
      },
    ],
    quiet: true,
  },
  {
    title: "everything of ours gone but for the sets",
    operations: () => [
      { op: "update", table: "Logical_Router", where: [["name", "==", "GR_node1"]], row: { nat: set() } },
      {
        op: "update",
        table: "Logical_Router",
        where: [["name", "==", "ovn_cluster_router"]],
        row: { policies: set() },
      },
    ],
  },
];

describe("one pass to right, the second writes nothing", () => {
  test.each(damages)("$title", async ({ operations, quiet, reclaims }) => {
    await using server = await NorthboundServer.open();
    let right = "";
    {
      await using before = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
      await before.round(all);
      right = printRows(await rowsOfOwner(server, OWNER));
    }
    const rows = await readTables(server);
    const find: Find = (table, text) => {
      const found = rows.find((row) => row.table === table && JSON.stringify(row).includes(text));
      if (found === undefined) throw new Error(`no row of ${table} with ${text}`);
      return found;
    };
    const reply = await server.client("transact", JSON.stringify(["OVN_Northbound", ...operations(find)]));
    expect(reply).not.toContain("error");
    const others = await printForeign(server, OWNER);

    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    const text = await agent.round(all);
    expect(text === "").toBe(quiet === true);
    const after = printRows(await rowsOfOwner(server, OWNER));
    if (quiet) expect(after.replaceAll('"somebody":"was here"', "").replaceAll("},,", "},")).not.toBe("");
    else expect(after).toBe(right);
    if (!reclaims) expect(await printForeign(server, OWNER)).toBe(others);
    const before = agent.transactions;
    expect(await agent.round()).toBe("");
    expect(agent.transactions).toBe(before);
    // What it took to get there is what was wrong: rows that were right are the rows they were.
    const kept = await readTables(server);
    const untouched = rows.filter(({ uuid }) => kept.some((row) => row.uuid === uuid));
    expect(untouched.length).toBeGreaterThan(20);
  });
});

test("what was broken is repaired in place where that can be", async () => {
  await using server = await NorthboundServer.open();
  await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
  await agent.round(all);
  const before = await rowsOfOwner(server, OWNER);
  await server.client(
    "transact",
    JSON.stringify([
      "OVN_Northbound",
      ...before.flatMap((row) =>
        row.table === "NAT"
          ? [update(row, { external_ip: "172.18.0.98" })]
          : row.table === "Logical_Router_Policy" && row.columns["priority"] === 100
            ? [update(row, { nexthops: set("192.0.2.1") })]
            : [],
      ),
    ]),
  );
  await agent.round();
  const after = await rowsOfOwner(server, OWNER);
  expect(printRows(after)).toBe(printRows(before));
  expect(after.map(({ uuid }) => uuid).sort()).toEqual(before.map(({ uuid }) => uuid).sort());
});

// Rows in a real northbound database: byte for byte those of the reference (J.4), what a change costs, and what stays in place.
import { describe, expect, test } from "vitest";
import { byCodeUnit } from "../../agent/model/names.ts";
import { locksOf } from "../../agent/model/northbound-locks.ts";
import type { KubernetesObject } from "../../agent/model/objects.ts";
import { operationsFor } from "../../agent/sync/northbound/operations.ts";
import { address, bareHost, cidr, egressIP, namespace, network, node, objects, pod } from "../agent/make.ts";
import { Transaction } from "../ovn-lab/transaction.ts";
import { openNorthboundAgent } from "../support/northbound-agent.ts";
import { hostOf, labNode } from "../support/northbound-scene.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import {
  type DatabaseRow,
  printForeign,
  printRows,
  readTables,
  rowsOfOwner,
  shortRows,
} from "../support/northbound-tables.ts";

const REFERENCE = "default-network-controller";

/** The rows of reference J.4: node1 is the egress node, 10.128.0.15 its pod. */
const golden = {
  node: node("node1", {
    internalAddresses: ["192.168.126.12"],
    hostCidrs: [cidr("192.168.126.12/24")],
    primary: [cidr("192.168.126.12/24")],
    zone: "node1",
    transit: [cidr("100.88.0.2/16")],
    podSubnets: [cidr("10.128.0.0/24")],
  }),
  host: {
    ...bareHost,
    network: { ...network, addresses: [address("eth0", "192.168.126.12/24")] },
  },
};

async function goldenServer(): Promise<NorthboundServer> {
  const server = await NorthboundServer.open({ rows: false });
  const rows = new Transaction();
  const port = (name: string, network: string) =>
    rows.insert("Logical_Router_Port", { name, mac: "0a:58:64:40:00:02", networks: [network] });
  rows.insert("Logical_Router", {
    name: "ovn_cluster_router",
    ports: [port("rtoj-ovn_cluster_router", "100.64.0.1/16")],
  });
  rows.insert("Logical_Router", { name: "GR_node1", ports: [port("rtoj-GR_node1", "100.64.0.2/16")] });
  const management = rows.insert("Logical_Switch_Port", {
    name: "k8s-node1",
    addresses: "0a:58:0a:80:00:02 10.128.0.2",
  });
  rows.insert("Logical_Switch", { name: "node1", ports: [management] });
  await server.transact(rows);
  return server;
}

function ids(of: Readonly<Record<string, string>>) {
  return { "k8s.ovn.org/owner-controller": REFERENCE, "k8s.ovn.org/owner-type": "EgressIP", ...of };
}

function exemption(name: string, match: string, family = "ip4", options?: Readonly<Record<string, string>>) {
  return {
    on: ["ovn_cluster_router"],
    table: "Logical_Router_Policy",
    columns: {
      action: "allow",
      external_ids: ids({
        "ip-family": family,
        "k8s.ovn.org/id": `${REFERENCE}:EgressIP:102:${name}:${family}:default`,
        "k8s.ovn.org/name": name,
        network: "default",
        priority: "102",
      }),
      match,
      ...(options === undefined ? {} : { options }),
      priority: 102,
    },
  };
}

function set(name: string, id: string, of: Readonly<Record<string, string>>, addresses?: unknown) {
  return {
    on: [],
    table: "Address_Set",
    columns: {
      ...(addresses === undefined ? {} : { addresses }),
      external_ids: { ...of, "k8s.ovn.org/id": id },
      name,
    },
  };
}

test("rows are the reference's, byte for byte, but for the key that says whose agent wrote them (J.4)", async () => {
  await using server = await goldenServer();
  const settings = {
    northboundOwner: REFERENCE,
    clusterNetworks: [cidr("10.128.0.0/14")],
    managementPort: "ovn-k8s-mp0",
  };
  await using agent = openNorthboundAgent(server.endpoint, settings, golden.host);
  await agent.round(
    objects(
      golden.node,
      namespace("ns1"),
      pod("ns1/p1", ["10.128.0.15"]),
      egressIP("egressip", { at: { "192.168.126.101": "node1" } }),
    ),
  );
  const tables = ["Logical_Router_Policy", "NAT", "QoS", "Logical_Router_Static_Route", "Address_Set"];
  const rows = await readTables(server, [...tables, "Logical_Router", "Logical_Switch"]);
  const written = rows
    .filter(({ table }) => tables.includes(table))
    .map(({ uuid: _, columns: { _version, ...columns }, ...row }) => ({ ...row, columns }));
  const name = "egressip_ns1/p1";
  const expected = [
    {
      on: ["ovn_cluster_router"],
      table: "Logical_Router_Policy",
      columns: {
        action: "reroute",
        external_ids: ids({
          "egressip-agent/node": "node1",
          "ip-family": "ip4",
          "k8s.ovn.org/id": `${REFERENCE}:EgressIP:100:${name}:ip4:default`,
          "k8s.ovn.org/name": name,
          network: "default",
          priority: "100",
        }),
        match: "ip4.src == 10.128.0.15",
        nexthops: "100.64.0.2",
        priority: 100,
      },
    },
    exemption("EIP-No-Reroute-Pod-To-Pod", "ip4.src == 10.128.0.0/14 && ip4.dst == 10.128.0.0/14"),
    exemption("EIP-No-Reroute-Pod-To-Join", "ip4.src == 10.128.0.0/14 && ip4.dst == 100.64.0.0/16"),
    exemption(
      "EIP-No-Reroute-Pod-To-Node",
      "(ip4.src == $a8519615025667110816 || ip4.src == $a13607449821398607916) && ip4.dst == $a712973235162149816",
      "ip4",
      { pkt_mark: "1008" },
    ),
    exemption("EIP-No-Reroute-reply-traffic", "pkt.mark == 42", "ip"),
    {
      on: ["GR_node1"],
      table: "NAT",
      columns: {
        external_ids: ids({
          "egressip-agent/node": "node1",
          "ip-family": "ip4",
          "k8s.ovn.org/id": `${REFERENCE}:EgressIP:${name}:ip4`,
          "k8s.ovn.org/name": name,
        }),
        external_ip: "192.168.126.101",
        logical_ip: "10.128.0.15",
        logical_port: "k8s-node1",
        options: { stateless: "false" },
        type: "snat",
      },
    },
    {
      on: ["node1"],
      table: "QoS",
      columns: {
        action: { mark: 42 },
        direction: "from-lport",
        external_ids: ids({
          "ip-family": "ip4",
          "k8s.ovn.org/id": `${REFERENCE}:EgressIP:103:EgressIP-Mark-Reply-Traffic:ip4:default`,
          "k8s.ovn.org/name": "EgressIP-Mark-Reply-Traffic",
          network: "default",
          priority: "103",
        }),
        match: "ip4.src == $a8519615025667110816 && ct.trk && ct.rpl",
        priority: 103,
      },
    },
    {
      on: ["ovn_cluster_router"],
      table: "Logical_Router_Static_Route",
      columns: {
        external_ids: ids({}),
        ip_prefix: "10.128.0.0/14",
        nexthop: "100.64.0.2",
        policy: "src-ip",
      },
    },
    set(
      "a712973235162149816",
      `${REFERENCE}:EgressIP:node-ips:v4:default`,
      ids({ "ip-family": "v4", "k8s.ovn.org/name": "node-ips", network: "default" }),
      "192.168.126.12",
    ),
    set(
      "a8519615025667110816",
      `${REFERENCE}:EgressIP:egressip-served-pods:v4:default`,
      ids({ "ip-family": "v4", "k8s.ovn.org/name": "egressip-served-pods", network: "default" }),
      "10.128.0.15",
    ),
    set("a13607449821398607916", `${REFERENCE}:EgressService:egresssvc-served-pods:v4`, {
      ...ids({ "ip-family": "v4", "k8s.ovn.org/name": "egresssvc-served-pods" }),
      "k8s.ovn.org/owner-type": "EgressService",
    }),
  ];
  // What the schema itself fills in.
  const plain = (all: readonly object[]) =>
    all
      .map((row) => JSON.stringify(row, (_, part) => sorted(part)))
      .map((text) => text.replaceAll(/"(allowed|exempted)_\w+":\[\],?|"bandwidth":\{\},?/g, ""))
      .sort();
  expect(plain(written.map(withoutDefaults))).toEqual(plain(expected));
});

function sorted(part: unknown): unknown {
  if (typeof part !== "object" || part === null || Array.isArray(part)) return part;
  return Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Columns that nobody wrote have the schema's default, an empty text or zero. */
function withoutDefaults<R extends { readonly columns: object }>(row: R): R {
  const said = Object.entries(row.columns).filter(([, value]) => value !== "" && value !== 0);
  return { ...row, columns: Object.fromEntries(said) };
}

describe("several cluster networks", () => {
  test("each is exempt towards each, in its family, and has a route and a way to the join network (J.3)", async () => {
    await using server = await NorthboundServer.open();
    const networks = ["10.244.0.0/16", "10.200.0.0/16", "fd00:10:244::/48", "fd00:10:200::/48"];
    await using agent = openNorthboundAgent(
      server.endpoint,
      { clusterNetworks: networks.map(cidr) },
      hostOf("node1"),
    );
    await agent.round(objects(labNode("node1")));
    const rows = await rowsOfOwner(server, "egressip-agent");
    const matches = rows
      .map(({ columns }) => String(columns["match"]))
      .filter((match) => !/[$(]|mark|inport/.test(match));
    const v4 = networks.slice(0, 2);
    const v6 = networks.slice(2);
    const pairs = (family: 4 | 6, from: readonly string[], to: readonly string[]) =>
      from.flatMap((a) => to.map((b) => `ip${family}.src == ${a} && ip${family}.dst == ${b}`));
    expect(matches.filter((match) => match !== "undefined").sort()).toEqual(
      [...pairs(4, v4, [...v4, "100.64.0.0/16"]), ...pairs(6, v6, [...v6, "fd98::/64"])].sort(byCodeUnit),
    );
    const routes = rows.flatMap(({ columns }) => ("ip_prefix" in columns ? [columns["ip_prefix"]] : []));
    expect(routes.sort()).toEqual([...networks].sort(byCodeUnit));
    expect(await agent.round()).toBe("");
  });
});

/** node1 of three zones, and its objects. */
const here = (...more: readonly KubernetesObject[]) =>
  objects(...(["node1", "node2", "node3"] as const).map((name) => labNode(name)), namespace("shop"), ...more);

describe("a change", () => {
  const web = pod("shop/web", ["10.244.1.3", "fd00:10:244:1::3"]);
  const two = (first: string, second = "172.18.0.51") => [
    egressIP("one", {
      at: { [first]: "node1" },
      podSelector: [{ key: "app", operator: "In", values: ["one"] }],
    }),
    egressIP("two", {
      at: { [second]: "node1" },
      podSelector: [{ key: "app", operator: "In", values: ["two"] }],
    }),
    pod("shop/one", ["10.244.1.3"], { labels: { app: "one" } }),
    pod("shop/two", ["10.244.1.4"], { labels: { app: "two" } }),
  ];

  test("of an egress IP happens in place, and the rows of others stay as they are (BL-13, BL-23)", async () => {
    await using server = await NorthboundServer.open();
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    await agent.round(here(...two("172.18.0.50")));
    const before = await rowsOfOwner(server, "egressip-agent");
    await agent.round(here(...two("172.18.0.60")));
    const after = await rowsOfOwner(server, "egressip-agent");
    const changed = after.filter((row) => !before.some((old) => JSON.stringify(old) === JSON.stringify(row)));
    expect(agent.transactions).toBe(2);
    expect(after.map(({ uuid }) => uuid).sort()).toEqual(before.map(({ uuid }) => uuid).sort());
    expect(changed.map(({ columns }) => columns["external_ip"])).toEqual(["172.18.0.60"]);
    expect(agent.committed.map(({ op }) => op)).toEqual(["update"]);
  });

  test("of one of two egress IPs' deletion leaves the other's row untouched (BL-13)", async () => {
    await using server = await NorthboundServer.open();
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    await agent.round(here(...two("172.18.0.50")));
    const uuidOf = async () =>
      (await readTables(server, ["NAT"])).find(({ columns }) => columns["external_ip"] === "172.18.0.51");
    const before = await uuidOf();
    const [, ...left] = two("172.18.0.50");
    await agent.round(here(...left));
    expect(await uuidOf()).toEqual(before);
    expect(await shortRows(server)).toEqual([
      "nat GR_node1 10.244.1.4 172.18.0.51",
      "policy 10.244.1.4 100.64.0.2",
      "served 10.244.1.4",
    ]);
  });

  test("of a pod with both families and one egress IP touches that family alone, twenty times over (BL-10)", async () => {
    await using server = await NorthboundServer.open({ cluster: { disableSnatMultipleGws: true } });
    const stranger = new Transaction();
    // Also one with the node's own address: it says whose it is.
    for (const external_ip of ["172.18.0.77", "172.18.0.11"]) {
      const external_ids = { "k8s.ovn.org/owner-controller": "somebody" };
      const nat = stranger.insert("NAT", {
        type: "snat",
        external_ip,
        logical_ip: "10.244.1.3",
        external_ids,
      });
      stranger.change("Logical_Router", "GR_node1", "nat", "insert", nat);
    }
    await server.transact(stranger);
    await using agent = openNorthboundAgent(server.endpoint, { snatPerPod: true }, hostOf("node1"));
    await agent.round(here(web));
    const nats = async () =>
      (await readTables(server, ["NAT", "Logical_Router"])).filter(({ table }) => table === "NAT");
    const isOwn = ({ columns }: DatabaseRow) =>
      columns["logical_ip"] === "10.244.1.3" && !JSON.stringify(columns).includes("somebody");
    const others = async () => (await nats()).filter((row) => !isOwn(row));
    const own = async () => (await nats()).filter(isOwn).map(({ columns }) => columns["external_ip"]);
    const before = await others();
    expect(before).toHaveLength(9);
    const withIt = here(web, egressIP("prod", { at: { "172.18.0.50": "node1" } }));
    for (let time = 0; time < 20; time++) {
      expect(await own()).toEqual(["172.18.0.11"]);
      await agent.round(withIt);
      expect(await own()).toEqual(["172.18.0.50"]);
      await agent.round(here(web));
    }
    expect(await own()).toEqual(["172.18.0.11"]);
    // Its other family's row, other pods' and the stranger's: the rows they were, uuid and version.
    expect(await others()).toEqual(before);
  });

  test("of one pod among ten thousand is one transaction of as many operations as with ten", async () => {
    const all = (count: number) =>
      here(
        egressIP("prod", { at: { "172.18.0.50": "node1" } }),
        ...Array.from({ length: count }, (_, at) =>
          pod(`shop/web-${at}`, [`10.244.${128 + (at >> 8)}.${at & 255}`]),
        ),
      );
    const operationsFor1More = async (count: number) => {
      await using server = await NorthboundServer.open();
      await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
      await agent.round(all(count));
      await agent.round();
      const before = agent.transactions;
      await agent.round(all(count + 1));
      const { topology } = (await agent.read()).northbound;
      expect(agent.transactions - before).toBe(1);
      expect(await agent.round()).toBe("");
      const operations = operationsFor(
        agent.committed,
        topology,
        locksOf("egressip-agent", "node1"),
        "node1",
      );
      return operations.map((operation) => operation.op);
    };
    const few = await operationsFor1More(10);
    // One lock, two parents that must still be there, two rows and their references, one member, one comment.
    expect(few).toEqual([
      "assert",
      "wait",
      "wait",
      "insert",
      "insert",
      "mutate",
      "mutate",
      "mutate",
      "comment",
    ]);
    expect(await operationsFor1More(10_000)).toEqual(few);
  });
});

test("rows do not depend on the order of anything that comes in", async () => {
  const all: readonly KubernetesObject[] = [
    labNode("node1"),
    labNode("node2"),
    labNode("node3"),
    namespace("shop"),
    namespace("play"),
    egressIP("a", { at: { "172.18.0.50": "node1", "172.18.0.51": "node2", "fd00:172:18::50": "node3" } }),
    egressIP("b", { at: { "10.10.10.50": "node1" }, created: "2026-01-02T00:00:00Z" }),
    ...Array.from({ length: 9 }, (_, at) =>
      pod(`${at % 2 === 0 ? "shop" : "play"}/p${at}`, [`10.244.1.1${at}`, `fd00:10:244:1::1${at}`]),
    ),
  ];
  const printed = async (order: readonly KubernetesObject[]) => {
    await using server = await NorthboundServer.open();
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    const text = await agent.round(objects(...order));
    return { text, rows: printRows(await rowsOfOwner(server, "egressip-agent")) };
  };
  const forwards = await printed(all);
  const backwards = await printed([...all].reverse());
  expect(backwards).toEqual(forwards);
  expect(forwards.rows).toContain("10.244.1.18");
});

test("what is not ours stays as it is, uuid and version too", async () => {
  await using server = await NorthboundServer.open({ cluster: { disableSnatMultipleGws: true } });
  const before = await printForeign(server, "egressip-agent");
  await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
  await agent.round(
    here(pod("shop/web", ["10.244.1.3"]), egressIP("prod", { at: { "172.18.0.50": "node1" } })),
  );
  expect(await printForeign(server, "egressip-agent")).toBe(before);
  await agent.leave();
  expect(await printForeign(server, "egressip-agent")).toBe(before);
  expect(await rowsOfOwner(server, "egressip-agent")).toEqual([]);
});

// The OVN lab without any agent: what must be true of it before a test with an agent means anything. Then an egress IP whose
// rows are made by hand, which shows that the lab carries one: who answers for it, what a server sees, what fails without a row.
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { type Family, families } from "../lab/topology.ts";
import { namespacesOf, takeDown } from "../ovn-lab/down.ts";
import { OvnLab, type OvnUpOptions } from "../ovn-lab/lab.ts";
import { hashed } from "../ovn-lab/northbound.ts";
import { type OvnNode, ovnNodePlans, ovnNodes } from "../ovn-lab/topology.ts";
import { complaint, Transaction } from "../ovn-lab/transaction.ts";
import { noOvn, type OvnSuite } from "../support/ovn-programs.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const prefix = `ovn${process.pid}`;
const reasonFor = (suite: OvnSuite) => canRunKernelTests() ?? noOvn(suite);
const reason = reasonFor("trixie");
const named = (what: string, why: string | undefined) =>
  why === undefined ? what : `${what} (not here: ${why})`;

/** What `view` gives when everybody sees the same server and sources by family. */
function lines(
  from: string,
  to: string,
  server: string,
  sources: Readonly<Record<Family, string>>,
): string[] {
  return ["tcp", "udp"].flatMap((protocol) =>
    families.map((family) => `${from} ${to} ${protocol} ${family}: ${server} saw ${sources[family]}`),
  );
}

const plan = (node: OvnNode) => ovnNodePlans[node];
const podOf = (lab: OvnLab, name: string) => {
  const pod = lab.pods.find((other) => other.name === name);
  if (pod === undefined) throw new Error(`no pod ${name}`);
  return pod;
};

/** Everything that a cluster does by itself, in one lab. */
async function behavesAsCluster(lab: OvnLab): Promise<void> {
  const leaks = await lab.watchLeaks();
  const askers = ["a1", "a3", "b1", ...(lab.nodes.length > 2 ? ["c1"] : [])];
  const servers = ["a4", "b2"];
  const seen = await lab.view(askers, ["ext", "internet", ...servers, ...lab.nodes]);
  const expected = askers.flatMap((from) => {
    const pod = podOf(lab, from);
    return [
      ...["ext", "internet"].flatMap((to) => lines(from, to, "ext", plan(pod.node)["br-ex"])),
      ...servers.flatMap((to) => lines(from, to, `pod ${to}`, pod)),
      // The own node sees the pod, another one sees the pod's node.
      ...lab.nodes.flatMap((node) =>
        lines(from, node, node, node === pod.node ? pod : plan(pod.node)["br-ex"]),
      ),
    ];
  });
  expect(seen).toEqual(expected);
  expect(await lab.view(["node1"], ["ext", ...servers, "node2"])).toEqual([
    ...lines("node1", "ext", "ext", plan("node1")["br-ex"]),
    ...servers.flatMap((to) => lines("node1", to, `pod ${to}`, plan("node1")["ovn-k8s-mp0"])),
    ...lines("node1", "node2", "node2", plan("node1")["br-ex"]),
  ]);
  expect(await leaks.stop()).toEqual([]);
}

const address = { 4: "172.18.0.60", 6: "fd00:172:18::60" } as const;
const clusterNetwork = { 4: "10.244.0.0/16", 6: "fd00:10:244::/48" } as const;

/** Rows that an agent on the egress node would write for a pod, but for what `deliverRemote` does. */
async function give(lab: OvnLab, egress: OvnNode, name: string): Promise<void> {
  const pod = podOf(lab, name);
  const sameZone = !lab.cluster.interconnect || pod.node === egress;
  for (const family of families) {
    const next = sameZone ? plan(egress).join[family] : plan(egress).transit[family];
    const match = `ip${family}.src == ${pod[family]}`;
    await lab.nbctl(pod.node, "lr-policy-add", "ovn_cluster_router", "100", match, "reroute", next);
    await lab.nbctl(egress, "lr-nat-add", `GR_${egress}`, "snat", address[family], pod[family]);
  }
  await lab.syncHv();
}

/** Without it OVN drops other zones' pods before it looks at any policy: none of its routes matches them. */
async function deliverRemote(lab: OvnLab, egress: OvnNode): Promise<void> {
  for (const family of families) {
    const route = [clusterNetwork[family], plan(egress).join[family]];
    await lab.nbctl(egress, "--policy=src-ip", "lr-route-add", "ovn_cluster_router", ...route);
  }
  await lab.syncHv(egress);
}

async function everythingLeavesAsTheEgressIP(
  lab: OvnLab,
  egress: OvnNode,
  pods: readonly string[],
): Promise<void> {
  const seen = await lab.view(pods, ["ext", "internet"]);
  expect(seen).toEqual(
    pods.flatMap((pod) => ["ext", "internet"].flatMap((to) => lines(pod, to, "ext", address))),
  );
  for (const family of families) expect(await lab.whoHas(address[family])).toEqual([plan(egress).bridgeMac]);
}

describe("what rows are made of", () => {
  test("a set's name is a hash of its id", () => {
    expect(hashed("default-network-controller:EgressIP:node-ips:v4:default")).toBe("a712973235162149816");
    expect(hashed("default-network-controller:EgressService:egresssvc-served-pods:v6")).toBe(
      "a13607452020421864338",
    );
  });

  test("a transaction is RFC 7047's JSON, and says what was refused", () => {
    const rows = new Transaction();
    const port = rows.insert("Logical_Switch_Port", { name: "p", options: { a: "b" } });
    rows.insert("Logical_Switch", { name: "s", ports: [port], acls: [] });
    rows.change("Logical_Switch", "t", "ports", "delete", port);
    expect(JSON.parse(rows.text("OVN_Northbound"))).toEqual([
      "OVN_Northbound",
      {
        op: "insert",
        table: "Logical_Switch_Port",
        row: { name: "p", options: ["map", [["a", "b"]]] },
        "uuid-name": "row1",
      },
      {
        op: "insert",
        table: "Logical_Switch",
        row: { name: "s", ports: ["set", [["named-uuid", "row1"]]], acls: ["set", []] },
        "uuid-name": "row2",
      },
      {
        op: "mutate",
        table: "Logical_Switch",
        where: [["name", "==", "t"]],
        mutations: [["ports", "delete", ["named-uuid", "row1"]]],
      },
    ]);
    expect(complaint('[{"uuid":["uuid","x"]},{"count":1}]')).toBeUndefined();
    expect(complaint('[{"error":"constraint violation","details":"no p"},null]')).toBe(
      "constraint violation: no p",
    );
  });
});

describe.skipIf(reason !== undefined)(named("an OVN lab, a zone for each node", reason), () => {
  let lab: OvnLab;
  beforeAll(async () => {
    lab = await OvnLab.up({ prefix });
  });
  afterAll(async () => {
    await lab.down();
  });

  test("behaves as a cluster", async () => {
    await behavesAsCluster(lab);
  });

  test("each node has databases of its own, at paths that a socket may have", async () => {
    const sockets = lab.nodes.flatMap((node) => [
      lab.nbSocket(node),
      lab.sbSocket(node),
      lab.ovsSocket(node),
    ]);
    expect(new Set(sockets).size).toBe(6);
    expect(sockets.filter((path) => !existsSync(path) || path.length >= 107)).toEqual([]);
    expect((await lab.nbctl("node2", "get", "NB_Global", ".", "name")).trim()).toBe("node2");
  });

  test("pods of both nodes leave by an egress IP, by rows made by hand", async () => {
    const leaks = await lab.watchLeaks();
    expect(await lab.whoHas(address[4])).toEqual([]);
    expect(await lab.whoHas(address[6])).toEqual([]);
    await give(lab, "node2", "b1");
    await everythingLeavesAsTheEgressIP(lab, "node2", ["b1"]);
    await give(lab, "node2", "a1");
    expect(await lab.probe("a1", "ext", "udp", 4, 300)).toEqual({ failed: "no answer within 300 ms" });
    await deliverRemote(lab, "node2");
    await everythingLeavesAsTheEgressIP(lab, "node2", ["b1", "a1"]);
    expect(await lab.view(["a2", "b2"], ["internet"])).toEqual([
      ...lines("a2", "internet", "ext", plan("node1")["br-ex"]),
      ...lines("b2", "internet", "ext", plan("node2")["br-ex"]),
    ]);
    expect(await leaks.stop()).toEqual([]);
  });

  test("a mark of a policy reaches br-ex: a pod with an egress IP is the node to another node", async () => {
    const { "br-ex": own } = plan("node2");
    for (const family of families) {
      const match = `ip${family}.src == ${podOf(lab, "b1")[family]} && ip${family}.dst == ${plan("node1")["br-ex"][family]}`;
      await lab.nbctl("node2", "lr-policy-add", "ovn_cluster_router", "102", match, "allow", "pkt_mark=1008");
    }
    await lab.syncHv("node2");
    expect(await lab.view(["b1"], ["node1", "ext"])).toEqual([
      ...lines("b1", "node1", "node1", own),
      ...lines("b1", "ext", "ext", address),
    ]);
  });

  test("a mark of a policy reaches the kernel behind the management port", async () => {
    const ruleset = `table inet marks {
      chain seen { type filter hook prerouting priority -300; iifname "ovn-k8s-mp0" meta mark 0x801003f1 counter; }
    }
    `;
    await lab.nodeExec("node2", "nft", ["-f", "-"], { input: ruleset });
    const mark = String(0x801003f1);
    for (const family of families) {
      const match = `ip${family}.src == ${podOf(lab, "b2")[family]}`;
      const next = plan("node2")["ovn-k8s-mp0"][family];
      await lab.nbctl(
        "node2",
        "lr-policy-add",
        "ovn_cluster_router",
        "100",
        match,
        "reroute",
        next,
        `pkt_mark=${mark}`,
      );
    }
    await lab.syncHv("node2");
    for (const family of families) await lab.probe("b2", "internet", "udp", family, 100);
    const { stdout } = await lab.nodeExec("node2", "nft", ["list", "table", "inet", "marks"]);
    expect(stdout).toContain("packets 2 ");
    await lab.nbctl(
      "node2",
      "lr-policy-del",
      "ovn_cluster_router",
      "100",
      `ip4.src == ${podOf(lab, "b2")[4]}`,
    );
    await lab.nbctl(
      "node2",
      "lr-policy-del",
      "ovn_cluster_router",
      "100",
      `ip6.src == ${podOf(lab, "b2")[6]}`,
    );
    await lab.nodeExec("node2", "nft", ["delete", "table", "inet", "marks"]);
    await lab.syncHv("node2");
  });

  test("many new connections: every datagram is answered, before and after an egress IP moves", async () => {
    const sender = lab.sender("a1", { fresh: true, to: "ext" });
    await sender.answers(300, address[4]);
    await lab.nbctl("node1", "lr-policy-del", "ovn_cluster_router");
    await sender.answers(300, plan("node1")["br-ex"][4]);
    const { sent, answered, timeline } = await sender.stop();
    expect(answered).toBe(sent);
    expect(timeline.map(({ answer }) => answer)).toEqual([
      `ext/${address[4]}`,
      `ext/${plan("node1")["br-ex"][4]}`,
    ]);
  });

  test("the Northbound text stays the same until somebody writes, with UUIDs also when a row is made anew", async () => {
    const [before, exact] = [await lab.northbound("node1"), await lab.northbound("node1", { uuids: true })];
    await lab.view(["a2"], ["internet", "b2"]);
    await lab.syncHv();
    expect(await lab.northbound("node1")).toBe(before);
    expect(await lab.northbound("node1", { uuids: true })).toBe(exact);
    const nat = ["snat", "10.244.0.0/16"] as const;
    await lab.nbctl("node1", "lr-nat-del", "GR_node1", ...nat);
    expect(await lab.northbound("node1")).not.toBe(before);
    await lab.nbctl("node1", "lr-nat-add", "GR_node1", "snat", "172.18.0.11", "10.244.0.0/16");
    const found = ["--bare", "--columns=_uuid", "find", "NAT", "logical_ip=10.244.0.0/16"];
    const id = (await lab.nbctl("node1", ...found)).trim();
    await lab.nbctl("node1", "set", "NAT", id, "options:stateless=false");
    expect(await lab.northbound("node1")).toBe(before);
    expect(await lab.northbound("node1", { uuids: true })).not.toBe(exact);
    const only = await lab.northbound("node1", {
      only: (table, row) => table === "NAT" && row["type"] === "snat",
    });
    expect(only.match(/^NAT /gm)).toHaveLength(2);
  });

  test("a pod comes and goes while the lab is up", async () => {
    const before = await Promise.all(
      ovnNodes.slice(0, 2).map((node) => lab.northbound(node, { uuids: true })),
    );
    const pod = await lab.addPod("a9", "node1", 9, { namespace: "play", app: "web", serves: true });
    expect(await lab.view(["a9"], ["internet", "b2"])).toEqual([
      ...lines("a9", "internet", "ext", plan("node1")["br-ex"]),
      ...lines("a9", "b2", "pod b2", pod),
    ]);
    expect(await lab.view(["b2", "a1"], ["a9"])).toEqual([
      ...lines("b2", "a9", "pod a9", podOf(lab, "b2")),
      ...lines("a1", "a9", "pod a9", podOf(lab, "a1")),
    ]);
    expect(await lab.northbound("node2")).toContain(pod[4]);
    await expect(lab.addPod("a9", "node1", 10)).rejects.toThrow(/cannot be called/);
    await lab.removePod("a9");
    expect(
      await Promise.all(ovnNodes.slice(0, 2).map((node) => lab.northbound(node, { uuids: true }))),
    ).toEqual(before);
    expect(await namespacesOf(prefix)).not.toContain(`${prefix}-a9`);
  });

  test("a northd that hangs writes nothing further, and catches up", async () => {
    const northd = lab.daemon("node1", "northd");
    await northd.pause();
    await lab.nbctl("node1", "lr-policy-add", "ovn_cluster_router", "100", "ip4.src == 10.244.1.4", "drop");
    expect(await lab.probe("a2", "ext")).toHaveProperty("source");
    await northd.resume();
    await lab.syncHv("node1");
    expect(await lab.probe("a2", "ext", "udp", 4, 100)).toEqual({ failed: "no answer within 100 ms" });
    await lab.nbctl("node1", "lr-policy-del", "ovn_cluster_router", "100", "ip4.src == 10.244.1.4");
    await lab.syncHv("node1");
  });

  test("a Northbound server that dies comes back with its rows, and packets go on meanwhile", async () => {
    const before = await lab.northbound("node1", { uuids: true });
    const server = lab.daemon("node1", "nb");
    const sender = lab.sender("a2", { rate: 200 });
    await sender.answers(10);
    await server.kill();
    await expect(server.pid()).rejects.toThrow(/does not run/);
    await expect(lab.nbctl("node1", "--timeout=1", "show")).rejects.toThrow(/ovn-nbctl/);
    await sender.answers(20);
    await server.start();
    expect(await lab.northbound("node1", { uuids: true })).toBe(before);
    await lab.syncHv("node1");
    const { sent, answered } = await sender.stop();
    expect(answered).toBe(sent);
  });

  test("a node without its uplink is cut off, and back with it", async () => {
    await lab.uplink("node1", "down");
    expect(await lab.probe("a1", "ext", "udp", 4, 200)).toHaveProperty("failed");
    expect(await lab.probe("a1", "b2", "udp", 4, 200)).toHaveProperty("failed");
    expect(await lab.probe("a1", "a4")).toHaveProperty("source");
    await lab.uplink("node1", "up");
    const answered = await until(async () => {
      const outcome = await lab.probe("a1", "b2", "udp", 6, 200);
      return "source" in outcome && outcome;
    }, "a1 reaches b2 again");
    expect(answered).toEqual({ server: "pod b2", source: podOf(lab, "a1")[6] });
  });

  test("its manifests are the examples' objects, with OVN-Kubernetes' annotations", async () => {
    const folder = await mkdtemp(join(tmpdir(), "egressip-manifests-"));
    await lab.writeManifests(folder);
    const read = async (file: string) =>
      parseAllDocuments(await readFile(file, "utf8")).map((document) => document.toJS());
    const examples = new URL("../../packaging/examples/", import.meta.url).pathname;
    expect((await readdir(folder)).sort()).toEqual(["namespaces.yaml", "nodes.yaml", "pods.yaml"]);
    const pods = await read(join(folder, "pods.yaml"));
    for (const pod of pods) {
      expect(pod.metadata.annotations["k8s.ovn.org/pod-networks"]).toContain(pod.status.podIP);
      delete pod.metadata.annotations;
    }
    expect(pods).toEqual(await read(join(examples, "pods.yaml")));
    expect(await read(join(folder, "namespaces.yaml"))).toEqual(
      await read(join(examples, "namespaces.yaml")),
    );
    await rm(folder, { recursive: true });
    const { "br-ex": primary, join: joined, transit, bridgeMac } = plan("node2");
    const annotations = Object.fromEntries(
      Object.entries(lab.nodeAnnotations("node2")).map(([key, value]) => [
        key.replace("k8s.ovn.org/", ""),
        value,
      ]),
    );
    const parsed = (key: string) => JSON.parse(annotations[key] ?? "");
    expect(annotations["zone-name"]).toBe("node2");
    expect(annotations["node-id"]).toBe("3");
    expect(parsed("node-subnets")).toEqual({ default: ["10.244.2.0/24", "fd00:10:244:2::/64"] });
    expect(parsed("l3-gateway-config").default).toMatchObject({ mode: "shared", "mac-address": bridgeMac });
    // What the annotations say is what the Northbound database has.
    const rows = await lab.northbound("node2");
    expect(rows).toContain(`networks=[${joined[4]}/16, ${joined[6]}/64]`);
    expect(parsed("node-gateway-router-lrp-ifaddrs").default).toEqual({
      ipv4: `${joined[4]}/16`,
      ipv6: `${joined[6]}/64`,
    });
    expect(await lab.northbound("node1")).toContain(`nexthop=${transit[4]}`);
    expect(parsed("node-transit-switch-port-ifaddr").ipv4).toBe(`${transit[4]}/16`);
    expect(rows).toContain(`chassis=${annotations["node-chassis-id"]}`);
    expect(parsed("node-primary-ifaddr")).toEqual({ ipv4: `${primary[4]}/24`, ipv6: `${primary[6]}/64` });
  });

  test("a lab of the same prefix is refused, and another process can take it up", async () => {
    await expect(OvnLab.up({ prefix })).rejects.toThrow(/already/);
    const attached = await OvnLab.attach(prefix);
    expect(await attached.probe("b1", "internet", "tcp", 6)).toEqual({ server: "ext", source: address[6] });
    attached.detach();
    await expect(OvnLab.attach(`${prefix}q`)).rejects.toThrow(/there is no lab/);
  });
});

/** With an egress IP by hand in each: on node2, for a pod there and one of node1. */
const others: readonly OvnUpOptions[] = [
  { interconnect: false, nodes: 3 },
  { gateway: "local", backend: "legacy", nodes: 3 },
  { interconnect: false, gateway: "local" },
  { suite: "bookworm" },
  { suite: "sid" },
];

describe.each(others)("an OVN lab of other options (%o)", (options) => {
  const why = reasonFor(options.suite ?? "trixie") ?? reason;
  test.skipIf(why !== undefined)(named("behaves as a cluster, and carries an egress IP", why), async () => {
    await using lab = await OvnLab.up({ prefix: `${prefix}z`, ...options });
    await behavesAsCluster(lab);
    await give(lab, "node2", "b1");
    await give(lab, "node2", "a1");
    if (lab.cluster.interconnect) await deliverRemote(lab, "node2");
    await everythingLeavesAsTheEgressIP(lab, "node2", ["b1", "a1"]);
  });
});

describe.skipIf(reason !== undefined)(named("an OVN lab with a NAT row for each pod", reason), () => {
  let lab: OvnLab;
  beforeAll(async () => {
    lab = await OvnLab.up({ prefix: `${prefix}z`, disableSnatMultipleGws: true });
  });
  afterAll(async () => {
    await lab.down();
  });

  test("behaves as a cluster, for a pod that comes later too", async () => {
    await behavesAsCluster(lab);
    const before = await lab.northbound("node2", { uuids: true });
    await lab.addPod("b9", "node2", 9);
    expect(await lab.view(["b9"], ["internet"])).toEqual(
      lines("b9", "internet", "ext", plan("node2")["br-ex"]),
    );
    await lab.removePod("b9");
    expect(await lab.northbound("node2", { uuids: true })).toBe(before);
  });

  test("br-ex lets a local pod out as it is that has no row, and drops another node's", async () => {
    const leaks = await lab.watchLeaks();
    await lab.nbctl("node2", "lr-nat-del", "GR_node2", "snat", podOf(lab, "b1")[4]);
    await deliverRemote(lab, "node2");
    const [match, next] = [`ip4.src == ${podOf(lab, "a1")[4]}`, plan("node2").transit[4]];
    await lab.nbctl("node1", "lr-policy-add", "ovn_cluster_router", "100", match, "reroute", next);
    await lab.syncHv();
    expect(await lab.probe("a1", "ext", "udp", 4, 200)).toHaveProperty("failed");
    const flows = await lab.tool("node2", "ovs-ofctl", "dump-flows", "br-ex");
    expect(flows).toMatch(/n_packets=1,.* priority=104,ip,.*nw_src=10\.244\.0\.0\/16 actions=drop/);
    expect(await lab.probe("b1", "ext", "udp", 4, 200)).toHaveProperty("failed");
    const sources = (await leaks.stop()).map((line) => / IP ([\d.]+)\.\d+ > /.exec(line)?.[1]);
    expect([...new Set(sources)]).toEqual([podOf(lab, "b1")[4]]);
  });
});

describe.skipIf(reason !== undefined)(named("an OVN lab of one family", reason), () => {
  test.each(families)("IPv%d", async (family) => {
    await using lab = await OvnLab.up({ prefix: `${prefix}z`, families: [family] });
    const ofNode = plan("node1")["br-ex"][family];
    expect(await lab.view(["a1"], ["internet", "b2"])).toEqual([
      `a1 internet tcp ${family}: ext saw ${ofNode}`,
      `a1 internet udp ${family}: ext saw ${ofNode}`,
      `a1 b2 tcp ${family}: pod b2 saw ${podOf(lab, "a1")[family]}`,
      `a1 b2 udp ${family}: pod b2 saw ${podOf(lab, "a1")[family]}`,
    ]);
    const other = family === 4 ? "fd00:10:244" : "10.244.";
    expect(await lab.northbound("node1")).not.toContain(`ip_prefix=${other}`);
    expect(lab.nodeAnnotations("node1")["k8s.ovn.org/node-subnets"]).not.toContain(other);
  });
});

describe.skipIf(reason !== undefined)(named("taking an OVN lab down", reason), () => {
  test("by its prefix alone leaves no namespace, no process and no file", async () => {
    const other = `${prefix}y`;
    const forgotten = await OvnLab.up({ prefix: other });
    const pids = await Promise.all(
      (["nb", "northd", "vswitchd", "ovn-controller"] as const).map((name) =>
        forgotten.daemon("node1", name).pid(),
      ),
    );
    const folder = forgotten.nbSocket("node1").split("/").slice(0, -2).join("/");
    await takeDown(other);
    // They are dead, and gone once init has taken note.
    await until(() => pids.every((pid) => !existsSync(`/proc/${pid}`)), "its daemons are gone");
    expect(await namespacesOf(other)).toEqual([]);
    expect(existsSync(folder)).toBe(false);
  });

  test("that could not be made leaves nothing either", async () => {
    const other = `${prefix}x`;
    // As if a program were missing: the folder is there, the socket in it cannot be.
    await expect(OvnLab.up({ prefix: `${other}${"x".repeat(80)}` })).rejects.toThrow(/too long/);
    await expect(OvnLab.up({ prefix: other, backend: "neither" as "nft" })).rejects.toThrow(/neither/);
    expect(await namespacesOf(other)).toEqual([]);
    expect(existsSync(join(tmpdir(), other))).toBe(false);
  });
});

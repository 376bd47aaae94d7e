// The OVN lab without any agent: what must be true of it before a test with an agent means anything. Then an egress IP whose
// rows are made by hand, which shows that the lab carries one: who answers for it, what a server sees, what fails without a row.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { families } from "../lab/topology.ts";
import { lines, named, noLab, plan, podOf } from "../ovn-lab/expected.ts";
import { OvnLab, type OvnUpOptions } from "../ovn-lab/lab.ts";
import type { OvnNode } from "../ovn-lab/topology.ts";
import { until } from "../support/until.ts";

const prefix = `ovn${process.pid}`;
const reason = noLab();

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

  test("a node and its gateway router have one MAC address, and both hear what is for it", async () => {
    // The router has to ask anew, and the answer to it is remembered by the datapath when the node asks.
    await lab.sbctl("node1", "--all", "destroy", "MAC_Binding");
    await lab.syncHv("node1");
    await Promise.all(families.map((family) => lab.probe("a1", "ext", "udp", family)));
    const server = [await lab.whoHas("172.18.0.100", "node1"), await lab.whoHas("fd00:172:18::100", "node1")];
    expect(server).toEqual([[expect.any(String)], server[0]]);
    expect(await lab.view(["node1", "a1"], ["ext"])).toEqual([
      ...lines("node1", "ext", "ext", plan("node1")["br-ex"]),
      ...lines("a1", "ext", "ext", plan("node1")["br-ex"]),
    ]);
  });

  test("what is synchronised is what the next packet meets", async () => {
    const policy = ["ovn_cluster_router", "100", "ip4.src == 10.244.1.4"];
    for (let round = 0; round < 5; round++) {
      expect(await lab.probe("a2", "ext", "udp")).toHaveProperty("source");
      await lab.nbctl("node1", "lr-policy-add", ...policy, "drop");
      await lab.syncHv("node1");
      expect(await lab.probe("a2", "ext", "udp", 4, 60)).toHaveProperty("failed");
      await lab.nbctl("node1", "lr-policy-del", ...policy);
      await lab.syncHv("node1");
    }
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
    expect(await lab.view(["b1"], ["node1", "node2", "ext"])).toEqual([
      ...lines("b1", "node1", "node1", own),
      ...lines("b1", "node2", "node2", podOf(lab, "b1")),
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

  test("an address that has moved is announced: a neighbour that knew it knows the new node", async () => {
    const [given, pod] = ["172.18.0.61", "10.244.9.9"];
    await lab.nbctl("node2", "lr-nat-add", "GR_node2", "snat", given, pod);
    await lab.syncHv("node2");
    expect(await lab.whoHas(given)).toEqual([plan("node2").bridgeMac]);
    await lab.nbctl("node2", "lr-nat-del", "GR_node2", "snat", pod);
    await lab.nbctl("node1", "lr-nat-add", "GR_node1", "snat", given, pod);
    await until(async () => {
      const { stdout } = await lab.exec("ext", "ip", ["neigh", "show", given, "dev", "lan"]);
      return stdout.includes(plan("node1").bridgeMac);
    }, "ext knows that node1 has the address");
    await lab.nbctl("node1", "lr-nat-del", "GR_node1", "snat", pod);
    // Of IPv6 addresses OVN announces none.
    const port = ["--bare", "--columns=nat_addresses", "find", "Port_Binding", "logical_port=etor-GR_node2"];
    const announced = await lab.sbctl("node2", ...port);
    expect(announced).toContain(address[4]);
    expect(announced).not.toContain(address[6]);
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
  const why = noLab(options.suite) ?? reason;
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

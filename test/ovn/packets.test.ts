// What leaves with which source when OVN carries the packets: pods on the node that has their egress IP and elsewhere, several
// addresses at once, addresses that move, and everything that must stay as it was without the agent.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { byCodeUnit } from "../../agent/model/names.ts";
import { type Family, families, outside } from "../lab/topology.ts";
import type { OvnUpOptions } from "../ovn-lab/lab.ts";
import { type OvnNode, ovnNodePlans } from "../ovn-lab/topology.ts";
import { noOvn, type OvnSuite } from "../support/ovn-programs.ts";
import { OvnStage } from "../support/ovn-stage.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const primary = { 4: "172.18.0.50", 6: "fd00:172:18::50" };
const second = { 4: "172.18.0.51", 6: "fd00:172:18::51" };
const secondary = { 4: "10.10.10.50", 6: "fd00:10:10::50" };

type Pair = Readonly<Record<Family, string>>;

/** `prod` selects pods of namespace shop with app web: a1 on node1, b1 on node2, c1 on node3. */
const prod = (address: Pair, node: string) => ({
  prod: { addresses: [address[4], address[6]], app: "web", node },
});

/** What `view` gives when everybody sees the same server and sources by family. */
function lines(from: string, to: string, server: string, source: Pair): string[] {
  return ["tcp", "udp"].flatMap((protocol) =>
    families.map((family) => `${from} ${to} ${protocol} ${family}: ${server} saw ${source[family]}`),
  );
}

const nodeAddress = (node: "node1" | "node2" | "node3") => ovnNodePlans[node]["br-ex"];

/**
 * From everybody to everything inside, and from those that nobody selects to the outside. How a packet is refused depends on
 * how many were just before.
 */
async function unchanged(stage: OvnStage): Promise<string[]> {
  return (await everything(stage)).map((line) =>
    line.includes(" saw ") ? line : line.replace(/: .*/, ": nothing"),
  );
}

async function everything({ lab }: OvnStage): Promise<string[]> {
  const nodes = lab.nodes.flatMap((node) => [node, `${node}eth1`, `${node}mp0`]);
  const pods = ["a1", "a2", "b1", ...(lab.nodes.includes("node3") ? ["c1"] : [])];
  return [
    ...(await lab.view(pods, ["a4", "b2", ...nodes])),
    ...(await lab.view(["a2", "a3"], ["ext", "internet"])),
    ...(await lab.view(lab.nodes, ["a4", "b2", "ext", "internet"])),
  ];
}

/** A load balancer on node1's gateway router that keeps the client's address, as for a service of traffic policy Local. */
async function serviceOn({ lab }: OvnStage, vip: Pair): Promise<void> {
  const { pods } = lab;
  const server = pods.find(({ name }) => name === "a4");
  for (const family of families) {
    const at = (address: string, port: number) =>
      family === 4 ? `${address}:${port}` : `[${address}]:${port}`;
    for (const protocol of ["tcp", "udp"]) {
      const name = `service-${protocol}-${family}`;
      await lab.nbctl(
        "node1",
        "lb-add",
        name,
        at(vip[family], 80),
        at(server?.[family] ?? "", 8080),
        protocol,
      );
      await lab.nbctl("node1", "set", "load_balancer", name, "options:skip_snat=true");
      await lab.nbctl("node1", "lr-lb-add", "GR_node1", name);
    }
    // The bridge knows no services: this is what OVN-Kubernetes' flows for them come to.
    const [ip, destination] = family === 4 ? ["ip", "nw_dst"] : ["ipv6", "ipv6_dst"];
    const port = (
      await lab.tool("node1", "ovs-vsctl", "get", "interface", "patch-br-ex_node1-to-br-int", "ofport")
    ).trim();
    await lab.tool(
      "node1",
      "ovs-ofctl",
      "add-flow",
      "br-ex",
      `cookie=0x5e11,priority=300,in_port=1,${ip},${destination}=${vip[family]},actions=output:${port}`,
    );
  }
  await lab.syncHv();
}

interface Config extends OvnUpOptions {
  readonly name: string;
  readonly suite: OvnSuite;
}

const configs: readonly Config[] = [
  { name: "shared gateway, interconnect", suite: "trixie", gateway: "shared", interconnect: true, nodes: 3 },
  { name: "shared gateway, central", suite: "trixie", gateway: "shared", interconnect: false, nodes: 3 },
  { name: "local gateway, interconnect", suite: "trixie", gateway: "local", interconnect: true },
  { name: "local gateway, central", suite: "trixie", gateway: "local", interconnect: false },
  {
    name: "local gateway, interconnect, strict reverse path filter",
    suite: "trixie",
    gateway: "local",
    interconnect: true,
    rpFilter: 1,
  },
  {
    name: "shared gateway, interconnect, an SNAT row a pod",
    suite: "trixie",
    gateway: "shared",
    interconnect: true,
    disableSnatMultipleGws: true,
  },
  {
    name: "shared gateway, interconnect, OVN 23.03",
    suite: "bookworm",
    gateway: "shared",
    interconnect: true,
  },
  { name: "shared gateway, interconnect, newest OVN", suite: "sid", gateway: "shared", interconnect: true },
];

describe.each(configs)("$name", (config) => {
  const reason = canRunKernelTests() ?? noOvn(config.suite);
  if (reason !== undefined) {
    it.skip(`not here: ${reason}`, () => {});
    return;
  }
  let stage: OvnStage;
  let before: string[];

  beforeAll(async () => {
    stage = await OvnStage.up({ ...config, prefix: `pkt${process.pid}` });
    before = await unchanged(stage);
    await stage.start();
  });
  afterAll(() => stage?.down());

  /**
   * A host keeps what it has just heard of an address for a second, whatever it hears then (neigh.locktime); OVN says it again.
   * IPv6 ones it does not say at all: who has them is asked for.
   */
  const heard = (node: OvnNode) =>
    until(
      async () => {
        const { stdout } = await stage.lab.exec("ext", "ip", ["neigh", "show", primary[4], "dev", "lan"]);
        return !stdout.includes("lladdr") || stdout.includes(ovnNodePlans[node].bridgeMac);
      },
      `ext knows ${primary[4]} at ${node}`,
      20_000,
    );

  it("leaves everything as it is before there is an egress IP", async () => {
    await stage.assign({});
    expect(await unchanged(stage)).toEqual(before);
    expect(await stage.lab.view(["a1"], ["ext"])).toEqual(lines("a1", "ext", "ext", nodeAddress("node1")));
  });

  it("gives the egress IP to pods on its node and elsewhere, and to nobody else", async () => {
    await stage.assign(prod(primary, "node1"));
    expect(await stage.lab.view(["a1", "b1"], ["ext", "internet"])).toEqual([
      ...lines("a1", "ext", "ext", primary),
      ...lines("a1", "internet", "ext", primary),
      ...lines("b1", "ext", "ext", primary),
      ...lines("b1", "internet", "ext", primary),
    ]);
    expect(await unchanged(stage)).toEqual(before);
  });

  it("answers for the address on the network it is of, with the node's MAC", async () => {
    for (const family of families)
      expect(await stage.lab.whoHas(primary[family])).toEqual([ovnNodePlans.node1.bridgeMac]);
  });

  it("moves new connections when the status changes, and the answers with them", async () => {
    await stage.assign(prod(primary, "node2"));
    expect(await stage.lab.view(["a1", "b1"], ["internet"])).toEqual([
      ...lines("a1", "internet", "ext", primary),
      ...lines("b1", "internet", "ext", primary),
    ]);
    for (const family of families)
      expect(await stage.lab.whoHas(primary[family])).toEqual([ovnNodePlans.node2.bridgeMac]);
    expect(await unchanged(stage)).toEqual(before);
  });

  it("shares connections between two addresses on two nodes", async () => {
    await stage.assign({
      prod: {
        addresses: [primary[4], primary[6], second[4], second[6]],
        app: "web",
        node: ["node1", "node1", "node2", "node2"],
      },
    });
    for (const family of families) {
      const seen = new Set<string>();
      await until(async () => {
        const outcome = await stage.lab.probe("b1", "internet", "tcp", family);
        if (!("failed" in outcome)) seen.add(outcome.source);
        return seen.size === 2;
      }, "connections from both addresses");
      expect([...seen].sort(byCodeUnit)).toEqual([primary[family], second[family]]);
    }
  });

  it("gives an address of another network of the node's", async () => {
    await stage.assign(prod(secondary, "node1"));
    expect(await stage.lab.view(["a1", "b1"], ["sec", "internet"])).toEqual([
      ...lines("a1", "sec", "sec", secondary),
      ...lines("a1", "internet", "sec", secondary),
      ...lines("b1", "sec", "sec", secondary),
      ...lines("b1", "internet", "sec", secondary),
    ]);
    expect(await unchanged(stage)).toEqual(before);
  });

  // QoS rows of OVN 23.03 cannot mark replies. In local gateway mode the kernel knows them.
  if (config.gateway === "shared" && config.suite !== "bookworm")
    it("answers clients that came in by another node than the egress IP's the way they came", async () => {
      // a4 is a server on node1, and what it begins itself leaves by node2.
      await stage.assign({ prod: { addresses: [primary[4], primary[6]], app: "server", node: "node2" } });
      await heard("node2");
      expect(await stage.lab.view(["a4"], ["ext"])).toEqual(lines("a4", "ext", "ext", primary));
      const vip = { 4: "172.18.0.90", 6: "fd00:172:18::90" };
      await serviceOn(stage, vip);
      for (const family of families)
        for (const protocol of ["tcp", "udp"] as const)
          expect(await stage.lab.probe("ext", { ...vip, port: 80 }, protocol, family)).toEqual({
            server: "pod a4",
            source: outside.ext.server[family],
          });
    });

  it("writes nothing when it is started again", async () => {
    await stage.assign(prod(primary, "node1"));
    await heard("node1");
    const dumps = async () =>
      (await Promise.all(stage.zones.map((node) => stage.lab.northbound(node, { uuids: true })))).join("\n");
    const rows = await dumps();
    await Promise.all([...stage.agents.values()].map((agent) => agent.stop()));
    expect(await stage.lab.view(["a1", "b1"], ["ext"])).toEqual([
      ...lines("a1", "ext", "ext", primary),
      ...lines("b1", "ext", "ext", primary),
    ]);
    await stage.start();
    expect(await dumps()).toBe(rows);
    for (const agent of stage.agents.values())
      expect((await agent.changes()).filter((text) => text.includes("northbound"))).toEqual([]);
  });

  it("is gone when it is uninstalled", async () => {
    for (const [node, home] of stage.homes) {
      await stage.agent(node).stop();
      await home.uninstall(...stage.leaveFlags(node));
    }
    await stage.lab.syncHv();
    expect(await unchanged(stage)).toEqual(before);
    expect(await stage.lab.view(["a1"], ["ext"])).toEqual(lines("a1", "ext", "ext", nodeAddress("node1")));
    for (const node of stage.zones) expect(await stage.lab.northbound(node)).not.toContain("egressip-agent");
  });
});

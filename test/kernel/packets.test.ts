// What leaves a node with which source, by real packets: selected pods, pods that are not, everything inside the cluster,
// and connections that come in. In every lab: iptables nft and legacy, rp_filter 0, 1 and 2, both families, TCP and UDP.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { Lab } from "../lab/lab.ts";
import {
  type Destination,
  type DestinationName,
  families,
  type NodeName,
  nodes,
  outside,
  type PodName,
  podNames,
  pods,
} from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { egressIP, Manifests } from "../support/agent-manifests.ts";
import { canRunKernelTests } from "../support/privileged.ts";

const prefix = `eip${process.pid}`;

const prod = { 4: "10.10.10.50", 6: "fd00:10:10::50" };
const billing = { 4: "172.18.0.60", 6: "fd00:172:18::60" };
const play = { 4: "10.10.10.51", 6: "fd00:10:10::51" };
const served = [prod, billing, play].flatMap((egress) => [egress[4], egress[6]]);

// An external address of a service (known-faults BL-32): for kube-proxy, on the node, though outside for everybody else.
const external = { 4: "172.18.0.200", 6: "fd00:172:18::200", port: 80 };

/** What `view` gives when everybody sees the same server and sources by family. */
function lines(from: string, to: string, server: string, sources: { 4: string; 6: string }): string[] {
  return ["tcp", "udp"].flatMap((protocol) =>
    families.map((family) => `${from} ${to} ${protocol} ${family}: ${server} saw ${sources[family]}`),
  );
}

const insideTheCluster: readonly (DestinationName | Destination)[] = [
  external,
  "a4",
  "b2",
  "service",
  "nodePort1",
  "nodePort2",
  "clusterPort1",
  "clusterPort2",
  "node1eth0",
  "node1eth1",
  "node2eth0",
  "node2eth1",
];

/** From every pod to everything that keeps its source; the API server is asked by TCP alone. */
async function viewInside(lab: Lab): Promise<string[]> {
  const api = podNames.flatMap((from) =>
    families.map((family) => ({ from, to: "api", protocol: "tcp", family }) as const),
  );
  const [seen, outcomes] = [await lab.view(podNames, insideTheCluster), await lab.probeAll(api)];
  return [
    ...seen,
    ...api.map(({ from, family }, at) => `${from} api ${family}: ${JSON.stringify(outcomes[at])}`),
  ];
}

async function addExternal(lab: Lab, backend: "nft" | "legacy"): Promise<void> {
  for (const family of families) {
    const [words, to] = [`-d ${external[family]} -p`, pods.a4[family]];
    const target = `${family === 4 ? to : `[${to}]`}:8080`;
    const rules = ["tcp", "udp"].flatMap((protocol) => [
      `-A KUBE-SERVICES ${words} ${protocol} --dport ${external.port} -j KUBE-MARK-MASQ`,
      `-A KUBE-SERVICES ${words} ${protocol} --dport ${external.port} -j DNAT --to-destination ${target}`,
    ]);
    const tool = `${family === 4 ? "iptables" : "ip6tables"}-${backend}-restore`;
    await lab.nodeExec("node1", tool, ["--noflush"], { input: `*nat\n${rules.join("\n")}\nCOMMIT\n` });
  }
}

// Everybody but a3: prod takes a1, a4 and b1, billing a2, play b2. b1 and b2 are on the other node.
async function selectAllButOne(manifests: Manifests): Promise<void> {
  await manifests.label("web", "a4");
  await manifests.write("play.yaml", [
    egressIP("play", { addresses: [play[4], play[6]], app: "server", env: "test" }),
  ]);
}

describe.each([
  { backend: "nft", rpFilter: 0 },
  { backend: "nft", rpFilter: 1 },
  { backend: "nft", rpFilter: 2 },
  { backend: "legacy", rpFilter: 0 },
  { backend: "legacy", rpFilter: 1 },
] as const)("$backend, rp_filter $rpFilter", ({ backend, rpFilter }) => {
  const reason = canRunKernelTests(backend);
  describe.skipIf(reason !== undefined)(
    `packets${reason === undefined ? "" : ` (not here: ${reason})`}`,
    () => {
      let lab: Lab;
      let home: Home;
      let manifests: Manifests;
      let agent: Agent;
      let insideBefore: string[];
      beforeAll(async () => {
        lab = await Lab.up({ prefix, backend, rpFilter });
        home = await Home.of(lab);
        manifests = await Manifests.ofExamples();
        await selectAllButOne(manifests);
        await lab.steer("b1", "node1");
        await lab.steer("b2", "node1");
        await addExternal(lab, backend);
        insideBefore = await viewInside(lab);
        agent = await home.start(manifests.directory);
      });
      afterAll(async () => {
        await agent?.stop();
        await lab?.down();
        await Promise.all([home.remove(), manifests.remove()]);
      });

      it("gives selected pods their egress IP, wherever they run, and no others", async () => {
        expect((await agent.status()).problems).toEqual([]);
        const leaks = await lab.watchLeaks();
        const { node1 } = nodes;
        // prod and play live on eth1, behind which `sec` has the internet's addresses too.
        expect(await lab.view(["a1", "a4", "b1", "b2"], ["internet", "sec"])).toEqual([
          ...["a1", "a4", "b1"].flatMap((from) =>
            ["internet", "sec"].flatMap((to) => lines(from, to, "sec", prod)),
          ),
          ...["internet", "sec"].flatMap((to) => lines("b2", to, "sec", play)),
        ]);
        expect(await lab.view(["a2"], ["internet", "ext"])).toEqual(
          ["internet", "ext"].flatMap((to) => lines("a2", to, "ext", billing)),
        );
        expect(await lab.view(["a3"], ["internet", "ext", "sec"])).toEqual([
          ...lines("a3", "internet", "ext", node1.eth0),
          ...lines("a3", "ext", "ext", node1.eth0),
          ...lines("a3", "sec", "sec", node1.eth1),
        ]);
        expect(await leaks.stop()).toEqual([]);
      });

      it("leaves the source of everything inside the cluster as it is without an agent", async () => {
        const inside = await viewInside(lab);
        expect(inside).toEqual(insideBefore);
        // The comparison would also hold for a cluster in which nothing works.
        expect(inside.filter((line) => / saw |"server"/.test(line))).toHaveLength(inside.length);
        expect(inside.filter((line) => served.some((address) => line.includes(address)))).toEqual([]);
      });

      it("lets connections in to served pods, answered from the address that was dialled", async () => {
        // A probe takes an answer only from the address it asked (both protocols: its socket is connected).
        const { server } = outside.ext;
        expect(await lab.view(["ext"], ["nodePort1", "nodePort2", "clusterPort1"])).toEqual([
          ...lines("ext", "nodePort1", "pod a4", server),
          ...lines("ext", "nodePort2", "pod b2", server),
          ...lines("ext", "clusterPort1", "pod a4", nodes.node1["ovn-k8s-mp0"]),
        ]);
        // Many, so that none is lost to a neighbour entry that just happened to be there.
        const many = Array.from({ length: 25 }, () =>
          (["tcp", "udp"] as const).flatMap((protocol) =>
            families.map((family) => ({ from: "ext", to: "nodePort1", protocol, family }) as const),
          ),
        ).flat();
        const outcomes = await lab.probeAll(many, 3_000);
        expect(outcomes).toEqual(many.map(({ family }) => ({ server: "pod a4", source: server[family] })));
      });

      it("lets a node's own processes connect to served pods and services", async () => {
        const port = (node: NodeName) => nodes[node]["ovn-k8s-mp0"];
        const reach = (node: NodeName, to: string, pod: PodName) => lines(node, to, `pod ${pod}`, port(node));
        expect(await lab.view(["node1", "node2"], ["a4", "b2", "service"])).toEqual(
          (["node1", "node2"] as const).flatMap((node) => [
            ...reach(node, "a4", "a4"),
            ...reach(node, "b2", "b2"),
            ...reach(node, "service", "a4"),
          ]),
        );
      });

      it("needs nothing more: a second look changes nothing", async () => {
        await agent.lookAgain();
        const before = await agent.changes();
        await agent.lookAgain();
        expect(await agent.changes()).toEqual(before);
      });
    },
  );
});

const reason = canRunKernelTests();
describe.skipIf(reason !== undefined)(
  `connections${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let home: Home;
    let manifests: Manifests;
    beforeAll(async () => {
      lab = await Lab.up({ prefix });
    });
    beforeEach(async () => {
      home = await Home.of(lab);
      manifests = await Manifests.ofExamples();
    });
    afterEach(async () => {
      await home.uninstall();
      await Promise.all([home.remove(), manifests.remove()]);
    });
    afterAll(async () => {
      await lab?.down();
    });

    const selectA3 = async (agent: Agent) => {
      await manifests.edit("namespaces.yaml", "play", ({ metadata }) => {
        metadata.labels = { env: "prod" };
      });
      await agent.when(({ ready, pods: count }) => ready && count === 4, "a3 is selected too");
    };

    it.each(families)(
      "keep: what was open keeps its source, what is new has the egress IP (IPv%i)",
      async (family) => {
        const agent = await home.start(manifests.directory);
        const before = lab.connection("a3", { family });
        await before.answers(5);
        await selectA3(agent);
        const after = lab.connection("a3", { family });
        await Promise.all([before.answers(20), after.answers(20)]);
        const node = `ext/${nodes.node1.eth0[family]}`;
        expect(await before.stop()).toMatchObject({ broken: false, sources: [node] });
        expect(await after.stop()).toMatchObject({ broken: false, sources: [`sec/${prod[family]}`] });
        await agent.stop();
      },
    );

    it.each(families)(
      "cut: what was open ends and is opened anew with the egress IP (IPv%i)",
      async (family) => {
        const agent = await home.start(manifests.directory, { "existing-connections": "cut" });
        const [connection, datagrams] = [lab.connection("a3", { family }), lab.sender("a3", { family })];
        await Promise.all([connection.answers(5), datagrams.answers(5)]);
        await selectA3(agent);
        await datagrams.answers(20, prod[family]);
        const { broken, sources } = await connection.stop();
        expect({ broken, sources }).toEqual({ broken: true, sources: [`ext/${nodes.node1.eth0[family]}`] });
        // One socket, so one flow until it was cut; then the node's address never again.
        const { timeline } = await datagrams.stop();
        const answers = timeline.flatMap(({ answer }) => answer ?? []);
        expect(answers).toEqual([`ext/${nodes.node1.eth0[family]}`, `sec/${prod[family]}`]);
        expect(await lab.probe("a3", "internet", "tcp", family)).toEqual({
          server: "sec",
          source: prod[family],
        });
        await agent.stop();
      },
    );

    it("a connection lives through a restart, also when its egress IP was changed and is no longer new", async () => {
      const agent = await home.start(manifests.directory);
      const connection = lab.connection("a1");
      await connection.answers(5);
      expect(await agent.stop()).toBe(0);
      await connection.answers(5);
      const next = await home.start(manifests.directory);
      await connection.answers(5);
      expect(await connection.stop()).toMatchObject({ broken: false, sources: [`sec/${prod[4]}`] });
      await next.stop();
    });
  },
);

// A router in the way with a smaller MTU: `sec` leads to this address over a link to `ext`, whose server listens on it.
const beyond = { 4: "203.0.113.80", 6: "2001:db8:52::80" };
const smallMtu = 1_300;

async function addBeyond(lab: Lab): Promise<void> {
  const [sec, ext] = [lab.namespace("sec"), lab.namespace("ext")];
  const batch = (namespace: string, lines: readonly string[]) =>
    run("ip", ["-n", namespace, "-batch", "-"], { input: `${lines.join("\n")}\n` });
  await batch(sec, [
    // Only this end is smaller, or the server would tell by its MSS what the pod has to find out.
    `link add beyond mtu ${smallMtu} type veth peer name beyond mtu 1500 netns ${ext}`,
    "address add 203.0.113.1/24 dev beyond",
    "address add 2001:db8:52::1/64 dev beyond nodad",
    "link set beyond up",
  ]);
  await batch(ext, [
    `address add ${beyond[4]}/24 dev beyond`,
    `address add ${beyond[6]}/64 dev beyond nodad`,
    "link set beyond up",
    `route add ${prod[4]}/32 via 203.0.113.1`,
    `route add ${prod[6]}/128 via 2001:db8:52::1`,
  ]);
  const forwarding = ["ipv4/conf/all", "ipv6/conf/all"].map((of) => `echo 1 >/proc/sys/net/${of}/forwarding`);
  await lab.exec("sec", "sh", ["-ec", forwarding.join("\n")]);
}

/** Sends one long line and prints the answer; perl, for it has to run in the pod. */
const upload = `
use strict; use Socket qw(:all);
my ($address, $port, $bytes) = @ARGV;
alarm 30;
my $family = $address =~ /:/ ? AF_INET6 : AF_INET;
my $packed = inet_pton($family, $address);
my $far = $family == AF_INET ? pack_sockaddr_in($port, $packed) : pack_sockaddr_in6($port, $packed);
socket(my $socket, $family, SOCK_STREAM, 0) or die "socket: $!";
connect($socket, $far) or die "connect: $!";
my $left = "x" x $bytes . "\\n";
while (length $left) { substr($left, 0, syswrite($socket, $left) // die "write: $!") = "" }
sysread($socket, my $answer, 4096) or die "read: $!";
print $answer;
`;

describe.skipIf(reason !== undefined)("a smaller MTU beyond the egress link", () => {
  it("a large upload gets through, and the pod is told in terms of its own address", async () => {
    await using lab = await Lab.up({ prefix });
    const [home, manifests] = await Promise.all([Home.of(lab), Manifests.ofExamples()]);
    await addBeyond(lab);
    const agent = await home.start(manifests.directory);
    const errors = await lab.captureFrames("a1", "eth0", "(icmp[0] == 3 and icmp[1] == 4) or ip6[40] == 2");
    for (const family of families) {
      const { stdout } = await lab.exec("a1", "perl", ["-e", upload, beyond[family], "8080", "1000000"]);
      expect(stdout).toBe(`ext saw ${prod[family]}\n`);
    }
    const quoted = (await errors.stop()).map((frame) => {
      // Ethernet 14, IPv4 20 or IPv6 40, ICMP 8; then the packet that was too big, whose source is at 12 or 8.
      const bytes = Buffer.from(frame);
      return bytes.readUInt16BE(12) === 0x0800
        ? bytes.subarray(42 + 12, 42 + 16).join(".")
        : bytes.subarray(62 + 8, 62 + 24).toString("hex");
    });
    // fd00:10:244:1::3
    expect(new Set(quoted)).toEqual(new Set([pods.a1[4], "fd000010024400010000000000000003"]));
    await agent.stop();
    await Promise.all([home.remove(), manifests.remove()]);
  });
});

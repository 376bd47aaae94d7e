// The lab without any agent: what must be true of it before a test with an agent means anything.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canRunKernelTests } from "../support/privileged.ts";
import { namespacesOf, takeDown } from "./down.ts";
import { Lab } from "./lab.ts";
import { families, nodeNames, nodes, type PodName, podNames, pods } from "./topology.ts";

const prefix = `eip${process.pid}`;
const reason = canRunKernelTests();
const noLegacy = canRunKernelTests("legacy");

/** What `view` gives when everybody sees the same server and sources by family. */
function lines(from: string, to: string, server: string, sources: { 4: string; 6: string }): string[] {
  return ["tcp", "udp"].flatMap((protocol) =>
    families.map((family) => `${from} ${to} ${protocol} ${family}: ${server} saw ${sources[family]}`),
  );
}

const nodeOf = (pod: PodName) => nodes[pods[pod].node];

describe.skipIf(reason !== undefined)(`lab${reason === undefined ? "" : ` (not here: ${reason})`}`, () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await Lab.up({ prefix });
  });
  afterAll(async () => {
    await lab.down();
  });

  test("a pod leaves with its node's address, and no pod address gets out", async () => {
    const leaks = await lab.watchLeaks();
    const seen = await lab.view(podNames, ["internet", "sec"]);
    expect(seen).toEqual(
      podNames.flatMap((pod) => [
        ...lines(pod, "internet", "ext", nodeOf(pod).eth0),
        ...lines(pod, "sec", "sec", nodeOf(pod).eth1),
      ]),
    );
    expect(await leaks.stop()).toEqual([]);
  });

  test("pod to pod keeps the source, on one node and across", async () => {
    expect(await lab.view(podNames, ["a4", "b2"])).toEqual(
      podNames.flatMap((pod) => [
        ...lines(pod, "a4", "pod a4", pods[pod]),
        ...lines(pod, "b2", "pod b2", pods[pod]),
      ]),
    );
  });

  test("service, API and node ports work", async () => {
    const { node1, node2 } = nodes;
    expect(await lab.view(["a1", "node1"], ["service", "clusterPort1"])).toEqual(
      ["a1", "node1"].flatMap((from) =>
        ["service", "clusterPort1"].flatMap((to) => lines(from, to, "pod a4", node1["ovn-k8s-mp0"])),
      ),
    );
    expect(await lab.view(["a1"], ["nodePort1", "nodePort2"])).toEqual([
      ...lines("a1", "nodePort1", "pod a4", node1["ovn-k8s-mp0"]),
      ...lines("a1", "nodePort2", "pod b2", node1.eth0),
    ]);
    const client = { 4: "172.18.0.100", 6: "fd00:172:18::100" };
    expect(await lab.view(["ext"], ["nodePort1", "clusterPort2"])).toEqual([
      ...lines("ext", "nodePort1", "pod a4", client),
      ...lines("ext", "clusterPort2", "pod b2", node2["ovn-k8s-mp0"]),
    ]);
    for (const family of families)
      expect(await lab.probe("b1", "api", "tcp", family)).toEqual({
        server: "ext",
        source: node2.eth0[family],
      });
  });

  test("a probe that is not answered says why, within its deadline", async () => {
    const nobody = { 4: "198.51.100.80", 6: "2001:db8:51::80", port: 9 };
    expect(await lab.probe("a1", nobody, "tcp", 4)).toEqual({ failed: "Connection refused" });
    expect(await lab.probe("a1", nobody, "udp", 6)).toEqual({ failed: "Connection refused" });
    await lab.exec("ext", "ip", ["address", "del", "198.51.100.80/32", "dev", "lo"]);
    const outcome = await lab.probe("a1", "internet", "udp", 4, 100);
    await lab.exec("ext", "ip", ["address", "add", "198.51.100.80/32", "dev", "lo"]);
    expect(outcome).toEqual({ failed: "no answer within 100 ms" });
  });

  test.each([
    { fresh: false, family: 4 },
    { fresh: true, family: 4 },
    { fresh: true, family: 6 },
  ] as const)("an undisturbed sender gets all answers (%o)", async (options) => {
    const sender = lab.sender("a1", options);
    await sender.answers(300);
    const { sent, answered, bySource, timeline } = await sender.stop();
    const answer = `ext/${nodes.node1.eth0[options.family]}`;
    expect(sent).toBeGreaterThanOrEqual(300);
    expect(answered).toBe(sent);
    expect([...bySource]).toEqual([[answer, sent]]);
    expect(timeline).toEqual([{ first: 0, last: sent - 1, answer }]);
  });

  test("a fresh sender's datagrams each are a flow", async () => {
    await lab.nodeExec("node1", "conntrack", ["-F"]);
    const sender = lab.sender("a2", { fresh: true, rate: 2_000 });
    await sender.answers(200);
    const { sent } = await sender.stop();
    const { stdout } = await lab.nodeExec("node1", "conntrack", ["-L", "-p", "udp", "-s", pods.a2[4]]);
    const ports = new Set(
      [...stdout.matchAll(/src=10\.244\.1\.4 dst=198\.51\.100\.80 sport=(\d+)/g)].map(String),
    );
    expect(ports.size).toBe(sent);
  });

  test("steering moves what a pod starts to the other node, to the datagram and back", async () => {
    const sender = lab.sender("a1", { fresh: true });
    await sender.answers(50);
    await lab.steer("a1", "node2", [4]);
    await sender.answers(50, nodes.node2.eth0[4]);
    expect(await lab.probe("a1", "internet", "tcp", 6)).toEqual({
      server: "ext",
      source: nodes.node1.eth0[6],
    });
    await lab.unsteer("a1");
    await sender.answers(1, nodes.node1.eth0[4]);
    const { timeline } = await sender.stop();
    expect(timeline.map(({ answer }) => answer)).toEqual([
      "ext/172.18.0.11",
      "ext/172.18.0.12",
      "ext/172.18.0.11",
    ]);
  });

  test("a steered pod still reaches the cluster, and its replies go back as they came", async () => {
    await lab.steer("a4", "node2");
    const seen = await lab.view(["a4"], ["internet", "b2", "service"]);
    const cameIn = await lab.view(["ext"], ["nodePort1"]);
    await lab.unsteer("a4");
    expect(seen).toEqual([
      ...lines("a4", "internet", "ext", nodes.node2.eth0),
      ...lines("a4", "b2", "pod b2", pods.a4),
      ...lines("a4", "service", "pod a4", nodes.node1["ovn-k8s-mp0"]),
    ]);
    expect(cameIn).toEqual(lines("ext", "nodePort1", "pod a4", { 4: "172.18.0.100", 6: "fd00:172:18::100" }));
  });

  test("a connection lives until its path goes, and says that it broke", async () => {
    const lives = lab.connection("a1", { intervalMs: 1 });
    const breaks = lab.connection("a2", { family: 6, intervalMs: 1 });
    await Promise.all([lives.answers(20), breaks.answers(20)]);
    // Another node has no connection tracking entry for it: the server sees a stranger and resets.
    await lab.steer("a2", "node2");
    await lives.answers(20);
    const [alive, broken] = [await lives.stop(), await breaks.stop()];
    await lab.unsteer("a2");
    expect(alive).toEqual({
      exchanged: expect.any(Number),
      broken: false,
      why: undefined,
      sources: ["ext/172.18.0.11"],
    });
    expect(alive.exchanged).toBeGreaterThanOrEqual(40);
    expect(broken.broken).toBe(true);
    expect(broken.sources).toEqual(["ext/fd00:172:18::11"]);
  });

  test("a capture has every packet up to stop(), as lines and as frames", async () => {
    const [text, frames] = await Promise.all([
      lab.capture("node1", "eth0", "icmp or icmp6 or udp port 8080"),
      lab.captureFrames("ext", "node1", "udp dst port 8080"),
    ]);
    await lab.probe("a1", "internet", "udp", 4);
    const seen = await text.stop();
    expect(
      seen.filter((line) => /IP 172\.18\.0\.11\.\d+ > 198\.51\.100\.80\.8080: UDP/.test(line)),
    ).toHaveLength(1);
    const [frame = new Uint8Array(), ...others] = await frames.stop();
    expect(others).toEqual([]);
    // Ethernet (14), IPv4 (20), UDP (8) and "probe".
    expect(Buffer.from(frame.subarray(42)).toString()).toBe("probe");
    expect(Buffer.from(frame.subarray(26, 30)).join(".")).toBe("172.18.0.11");
  });

  test("a capture that cannot start says what tcpdump said", async () => {
    await expect(lab.capture("node1", "eth7", "ip")).rejects.toThrow(/eth7/);
  });

  test("the leak watch sees a pod address outside", async () => {
    const leaks = await lab.watchLeaks();
    const masquerade = ["POSTROUTING", "-s", "10.244.0.0/16", "!", "-d", "10.244.0.0/16", "-o", "eth0"];
    const rule = (verb: string) =>
      lab.nodeExec("node1", "iptables-nft", ["-t", "nat", verb, ...masquerade, "-j", "MASQUERADE"]);
    await rule("-D");
    expect(await lab.probe("a1", "internet", "udp", 4, 100)).toHaveProperty("failed");
    await rule("-A");
    const found = await leaks.stop();
    expect(found.length).toBeGreaterThan(0);
    expect(found.every((line) => line.startsWith("ext: ") && line.includes("10.244.1.3."))).toBe(true);
  });

  test("a dump is the same until something changes", async () => {
    const before = await lab.dump("node1");
    await lab.view(["a1"], ["internet", "service"]);
    await lab.nodeExec("node1", "iptables-nft", ["-t", "mangle", "-L"]);
    await lab.nodeExec("node1", "iptables-legacy-restore", ["--noflush"], { input: "*mangle\nCOMMIT\n" });
    expect(await lab.dump("node1")).toBe(before);
    const changes: [string, string[]][] = [
      ["ip", ["address", "add", "10.10.10.50/32", "dev", "eth1"]],
      ["ip", ["rule", "add", "fwmark", "7", "lookup", "7"]],
      ["ip", ["-6", "route", "add", "blackhole", "default", "table", "7"]],
      ["ipset", ["create", "seven", "hash:ip"]],
      ["ip6tables-legacy", ["-t", "mangle", "-A", "FORWARD", "-j", "ACCEPT"]],
      ["sh", ["-c", "echo 2 >/proc/sys/net/ipv4/conf/eth1/rp_filter"]],
    ];
    const seen = new Set([before]);
    for (const [command, args] of changes) {
      await lab.nodeExec("node1", command, args);
      seen.add(await lab.dump("node1"));
    }
    expect(seen.size).toBe(1 + changes.length);
  });

  test("a lab of the same prefix is refused, one beside it is the same to the byte", async () => {
    await expect(Lab.up({ prefix })).rejects.toThrow(/already/);
    const beside = await Lab.up({ prefix: `${prefix}x` });
    const names = new RegExp(`${prefix}x?-`, "g");
    expect((await beside.dump("node2")).replace(names, "")).toBe(
      (await lab.dump("node2")).replace(names, ""),
    );
    await beside.down();
    expect(await namespacesOf(`${prefix}x`)).toEqual([]);
    expect(await lab.probe("a1", "internet")).toEqual({ server: "ext", source: "172.18.0.11" });
  });

  test("taking down by prefix alone leaves no namespace and no process", async () => {
    const other = `${prefix}y`;
    const forgotten = await Lab.up({ prefix: other });
    const sender = forgotten.sender("a1");
    await sender.answers(10);
    const { stdout } = await forgotten.exec("ext", "ip", ["netns", "pids", forgotten.namespace("ext")]);
    await takeDown(other);
    await expect(sender.stop()).rejects.toThrow(/client in .* ended/);
    const [server = ""] = stdout.split("\n");
    expect(() => process.kill(Number(server), 0)).toThrow(/ESRCH/);
    expect(await namespacesOf(other)).toEqual([]);
  });
});

describe.skipIf(noLegacy !== undefined)("lab with other options", () => {
  test.each([
    { backend: "legacy", rpFilter: 0 },
    { backend: "nft", rpFilter: 1 },
    { backend: "legacy", rpFilter: 2 },
  ] as const)("works the same (%o)", async (options) => {
    await using lab = await Lab.up({ prefix: `${prefix}z`, ...options });
    await lab.steer("a2", "node2");
    expect(await lab.view(["a1", "a2", "b1"], ["internet"])).toEqual([
      ...lines("a1", "internet", "ext", nodes.node1.eth0),
      ...lines("a2", "internet", "ext", nodes.node2.eth0),
      ...lines("b1", "internet", "ext", nodes.node2.eth0),
    ]);
    expect(await lab.view(["a1"], ["service"])).toEqual(
      lines("a1", "service", "pod a4", nodes.node1["ovn-k8s-mp0"]),
    );
    for (const node of nodeNames) {
      const text = await lab.dump(node);
      expect(text).toContain(`ipv4/conf/ovn-k8s-mp0/rp_filter:${options.rpFilter}`);
      expect(text.split(`== iptables-${options.backend}-save\n`)[1]).toMatch(/^\*filter/);
    }
  });
});

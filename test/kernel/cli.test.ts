// Every command on a real node: what it prints, how it ends, and what it does when iptables is not as one would wish.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { RunResult } from "../../lib/exec/index.ts";
import { Lab } from "../lab/lab.ts";
import { Home } from "../support/agent.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { holdLock } from "../support/xtables-lock.ts";

const program = path.join(import.meta.dirname, "../../agent/main.ts");

const manifests = (...egressIPs: readonly string[]) => `
apiVersion: v1
kind: Node
metadata:
  name: node1
  uid: node1
  annotations:
    k8s.ovn.org/node-primary-ifaddr: '{"ipv4":"172.18.0.11/24","ipv6":"fd00:172:18::11/64"}'
    k8s.ovn.org/host-cidrs: '["172.18.0.11/24","10.10.10.11/24","fd00:172:18::11/64","fd00:10:10::11/64"]'
status: {addresses: [{type: InternalIP, address: 172.18.0.11}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, uid: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: a1, namespace: shop, uid: a1}
spec: {nodeName: node1}
status: {phase: Running, podIPs: [{ip: 10.244.1.3}, {ip: "fd00:10:244:1::3"}]}
---
apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata: {name: web, uid: web, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {egressIPs: ${JSON.stringify(egressIPs)}, namespaceSelector: {}}
status: {items: ${JSON.stringify(egressIPs.map((address) => ({ node: "node1", egressIP: address })))}}
`;

const why = canRunKernelTests();
const whyLegacy = canRunKernelTests("legacy");

/** A node of its own, with a folder of manifests and a home for the agent's state. */
class Bench implements AsyncDisposable {
  readonly lab: Lab;
  readonly home: Home;
  readonly folder: string;

  private constructor(lab: Lab, home: Home, folder: string) {
    this.lab = lab;
    this.home = home;
    this.folder = folder;
  }

  static async up(suffix: string, backend: "nft" | "legacy" = "nft"): Promise<Bench> {
    const lab = await Lab.up({ prefix: `ea${process.pid}${suffix}`, backend });
    const bench = new Bench(lab, await Home.of(lab), await mkdtemp(path.join(tmpdir(), "egressip-cli-")));
    await bench.want("10.10.10.50", "fd00:10:10::50");
    return bench;
  }

  want(...egressIPs: readonly string[]): Promise<void> {
    return writeFile(path.join(this.folder, "all.yaml"), manifests(...egressIPs));
  }

  /** `egressip-agent WORDS…` on the node. */
  agent(words: readonly string[], enter: readonly string[] = []): Promise<RunResult> {
    const [command = "", ...args] = [...enter, process.execPath, program, ...words];
    return this.lab.nodeExec("node1", command, args, { okExitCodes: [0, 1, 2, 78], timeoutMs: 60_000 });
  }

  once(flags: Readonly<Record<string, string>> = {}, enter: readonly string[] = []): Promise<RunResult> {
    return this.agent([...this.home.words("run", this.folder, flags).slice(1), "--once"], enter);
  }

  plan(...more: readonly string[]): Promise<RunResult> {
    return this.agent([...this.home.words("plan", this.folder).slice(1), ...more]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.lab.down();
    await this.home.remove();
    await rm(this.folder, { recursive: true });
  }
}

describe.skipIf(why !== undefined)(
  `commands on a node${why === undefined ? "" : ` (skipped: ${why})`}`,
  () => {
    let bench: Bench;
    beforeAll(async () => {
      bench = await Bench.up("c");
    });
    afterAll(async () => {
      await bench[Symbol.asyncDispose]();
    });

    it("plan says what run does, run does it, and then there is nothing to do", async () => {
      const before = await bench.lab.dump("node1");
      const planned = await bench.plan();
      expect([planned.exitCode, planned.stderr]).toEqual([2, ""]);
      expect(await bench.lab.dump("node1")).toBe(before);
      expect(await bench.once()).toEqual({ exitCode: 0, stdout: "", stderr: "" });
      expect(await bench.plan()).toEqual({ exitCode: 0, stdout: "nothing to do\n", stderr: "" });
      const done = await bench.lab.dump("node1");
      await bench.once();
      expect(await bench.lab.dump("node1")).toBe(done);
      expect(await bench.lab.probe("a1", "sec", "tcp", 4)).toMatchObject({ source: "10.10.10.50" });
      expect(await bench.lab.probe("a1", "sec", "tcp", 6)).toMatchObject({ source: "fd00:10:10::50" });
    });

    it("facts print this host, and a plan over them is the plan for this host", async () => {
      await bench.want("10.10.10.51");
      const facts = await bench.agent(["facts", "--state-dir", bench.home.stateDirectory]);
      expect([facts.exitCode, facts.stderr]).toEqual([0, ""]);
      const file = path.join(bench.home.directory, "facts.json");
      await writeFile(file, facts.stdout);
      const here = await bench.plan();
      expect(here.exitCode).toBe(2);
      expect(await bench.plan("--host-facts", file)).toEqual(here);
      expect(here.stdout).toContain("--to-source 10.10.10.51");
      await bench.want("10.10.10.50", "fd00:10:10::50");
    });

    it("status, list, explain and changes ask the agent that runs, and a second agent is refused", async () => {
      const agent = await bench.home.start(bench.folder);
      try {
        const asking = ["--debug-socket", bench.home.debugSocket];
        const packetWords = ["--from", "shop/a1", "--to", "[2001:db8:51::80]:8080", "--protocol", "udp"];
        const [status, list, pod, address, packet, nobody, changes, second] = await Promise.all([
          bench.agent(["status", ...asking, "-o", "json"]),
          bench.agent(["list", ...asking]),
          bench.agent(["explain", "shop/a1", ...asking, "-o", "yaml"]),
          bench.agent(["explain", "ip", "10.10.10.50", ...asking]),
          bench.agent(["explain", ...asking, "packet", ...packetWords]),
          bench.agent(["explain", "no/body", ...asking]),
          bench.agent(["changes", ...asking, "-o", "json"]),
          bench.agent(bench.home.words("run", bench.folder).slice(1)),
        ]);
        for (const answer of [status, list, pod, address, packet, nobody, changes])
          expect([answer.exitCode, answer.stderr]).toEqual([0, ""]);
        expect(JSON.parse(status.stdout)).toMatchObject({
          node: "node1",
          mode: "local",
          ready: true,
          held: 2,
          unready: 0,
          pods: 1,
          problems: [],
        });
        expect(list.stdout).toMatch(/^EGRESSIP +ADDRESS +STATE/);
        expect(list.stdout).toMatch(/^web +10\.10\.10\.50 +serving +eth1 /m);
        expect(parse(pod.stdout)).toMatchObject({
          version: 1,
          accounts: [{ verdict: { outcome: "leaves", link: "eth1", source: "10.10.10.50" } }, {}],
        });
        expect(address.stdout).toContain("  => given here: this node gives it, by eth1\n");
        expect(packet.stdout).toContain("  => leaves by eth1 as fd00:10:10::50, with the egress IP of web\n");
        expect(nobody.stdout).toContain("why not: no pod of this name is among the objects");
        expect(JSON.parse(changes.stdout)).toEqual([]);
        expect([second.exitCode, second.stdout + second.stderr]).toEqual([
          1,
          expect.stringContaining("another egressip-agent is running on this host"),
        ]);
        expect((await agent.status()).ready).toBe(true);
      } finally {
        expect(await agent.stop()).toBe(0);
      }
    });

    it("uninstall takes everything away that is ours, twice with the same end", async () => {
      const fresh = await Bench.up("d");
      await using _fresh = fresh;
      const before = await fresh.lab.dump("node1");
      await fresh.once();
      expect(await fresh.lab.dump("node1")).not.toBe(before);
      const first = await fresh.home.uninstall();
      expect(first.stdout).toMatch(/^== retire /);
      expect(await fresh.lab.dump("node1")).toBe(before);
      expect(await fresh.home.uninstall()).toEqual({ exitCode: 0, stdout: "", stderr: "" });
    });
  },
);

describe.skipIf(why !== undefined)(
  `a native nft rule beside ours (BL-62)${why === undefined ? "" : ` (skipped: ${why})`}`,
  () => {
    const natRules = async ({ lab }: Bench) =>
      (await lab.nodeExec("node1", "iptables-nft", ["-t", "nat", "-S", "EGRESSIP-SNAT"])).stdout;
    const native = (bench: Bench, verb: "add" | "insert", table: string, chain: string) =>
      bench.lab.nodeExec("node1", "nft", [
        verb,
        "rule",
        "ip",
        table,
        chain,
        "meta",
        "mark",
        "set",
        "ct",
        "mark",
      ]);

    it.each([
      ["add", "nat", "POSTROUTING"],
      ["insert", "nat", "POSTROUTING"],
      ["add", "filter", "FORWARD"],
      ["insert", "mangle", "PREROUTING"],
    ] as const)(
      "%s rule ip %s %s: an egress IP that changes is changed, once, and pods leave with it",
      async (verb, table, chain) => {
        const bench = await Bench.up("n");
        await using _bench = bench;
        await bench.once();
        await native(bench, verb, table, chain);
        expect((await bench.lab.nodeExec("node1", "iptables-nft-save", [])).stdout).toContain(
          `Table \`${table}' is incompatible`,
        );
        if (verb === "add")
          expect(await bench.plan()).toEqual({ exitCode: 0, stdout: "nothing to do\n", stderr: "" });
        await bench.want("10.10.10.61", "fd00:10:10::50");
        expect(await bench.once()).toEqual({ exitCode: 0, stdout: "", stderr: "" });
        expect(await natRules(bench)).toContain("--to-source 10.10.10.61");
        expect(await natRules(bench)).not.toContain("10.10.10.50");
        expect(await bench.plan()).toEqual({ exitCode: 0, stdout: "nothing to do\n", stderr: "" });
        expect(await bench.lab.probe("a1", "sec", "tcp", 4)).toMatchObject({ source: "10.10.10.61" });
        const parent = (await bench.lab.nodeExec("node1", "nft", ["list", "chain", "ip", table, chain]))
          .stdout;
        expect(parent).toContain("meta mark set ct mark");
      },
    );
  },
);

describe.skipIf(whyLegacy !== undefined)(
  `iptables-legacy${whyLegacy === undefined ? "" : ` (skipped: ${whyLegacy})`}`,
  () => {
    it("with the lock held: what needs no lock is done, why the rest is not is said, and when it is free it is done (BL-58)", async () => {
      const bench = await Bench.up("l", "legacy");
      await using _bench = bench;
      await using lock = await holdLock();
      const held = await bench.once({ "iptables-backend": "legacy" }, lock.enter);
      expect(held.exitCode).toBe(1);
      expect(held.stdout).toMatch(/^iptables: ip6?tables-legacy-restore .*: exit status 4: /);
      expect(held.stdout).toContain("Another app is currently holding the xtables lock");
      expect((await bench.lab.nodeExec("node1", "ipset", ["list", "-n"])).stdout).toContain("egressip4");
      await lock.release();
      expect(await bench.once({ "iptables-backend": "legacy" }, lock.enter)).toEqual({
        exitCode: 0,
        stdout: "",
        stderr: "",
      });
      expect(await bench.lab.probe("a1", "sec", "tcp", 4)).toMatchObject({ source: "10.10.10.50" });
    });

    it("with an empty legacy table beside nft: a warning, no failure (BL-61)", async () => {
      const bench = await Bench.up("w");
      await using _bench = bench;
      await bench.lab.nodeExec("node1", "iptables-legacy", ["-t", "nat", "-L"]);
      expect(await bench.once()).toEqual({ exitCode: 0, stdout: "", stderr: "" });
      expect(await bench.plan()).toEqual({ exitCode: 0, stdout: "nothing to do\n", stderr: "" });
      expect(await bench.lab.probe("a1", "sec", "tcp", 4)).toMatchObject({ source: "10.10.10.50" });
    });
  },
);

// A start on a host full of what an earlier agent has left, and nothing of it wanted: 5,000 of what comes by pods and routes, 200
// egress IPs of each family (known-faults BL-74: start-up hung with more leftovers than a channel held).
// In: a dirty node. Out: the node as it would be.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { Lab } from "../lab/lab.ts";
import { families } from "../lab/topology.ts";
import { Home } from "../support/agent.ts";
import { Manifests } from "../support/agent-manifests.ts";
import { canRunKernelTests } from "../support/privileged.ts";

const reason = canRunKernelTests();
const MANY = 5_000;
const EGRESS_IPS = 200;

describe.skipIf(reason !== undefined)(
  `leftovers${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let home: Home;
    let manifests: Manifests;
    beforeAll(async () => {
      lab = await Lab.up({ prefix: `eip${process.pid}` });
      [home, manifests] = await Promise.all([Home.of(lab), Manifests.ofExamples()]);
    });
    afterAll(async () => {
      await lab?.down();
      await Promise.all([home?.remove(), manifests?.remove()]);
    });

    const lines = (of: (n: number, a: number, b: number) => string, length = MANY) =>
      `${Array.from({ length }, (_, n) => of(n, n >> 8, n & 255)).join("\n")}\n`;
    const inside = (command: string, args: readonly string[], input: string) =>
      run("ip", ["netns", "exec", lab.namespace("node1"), command, ...args], { input, timeoutMs: 60_000 });

    /**
     * What no round of today would have made, but a former one may have: other egress IPs, pods and routes. Its marks are those of
     * the last links, since a mark that something still carries is not given anew, and the comparison is to the byte.
     */
    async function litter(): Promise<void> {
      const addresses: { link: string; address: string }[] = [];
      for (const family of families) {
        const six = family === 6;
        const network = (a: number, b: number) => (six ? `2001:db8:${a}:${b}::/64` : `203.${a}.${b}.0/24`);
        const egress = (a: number, b: number) =>
          six ? `fd00:10:10::9:${a + 1}:${b + 1}` : `10.11.${a}.${b}`;
        const pod = (a: number, b: number) => (six ? `fd00:10:244:9::${a}:${b}` : `10.244.${64 + a}.${b}`);
        const ip = ["-force", `-${family}`, "-batch", "-"];
        await inside(
          "ip",
          ip,
          lines((_, a, b) => `route add ${network(a, b)} dev eth1 table 1004 proto 233`),
        );
        await inside(
          "ip",
          ip,
          lines((n) => `rule add fwmark ${n + 1} lookup 1004 pref 6000 protocol 233`),
        );
        await inside(
          "ip",
          ip,
          lines((_, a, b) => `address add ${egress(a, b)}/${six ? "128 nodad" : "32"} dev eth1`, EGRESS_IPS),
        );
        for (let n = 0; n < EGRESS_IPS; n++)
          addresses.push({ link: "eth1", address: egress(n >> 8, n & 255) });
        await inside(
          "ipset",
          ["restore"],
          `create egressip${family} hash:ip family ${six ? "inet6" : "inet"} hashsize 16384 maxelem 1048576 skbinfo\n${lines(
            (n, a, b) =>
              `add egressip${family} ${pod(a, b)} skbmark 0x${(0x700 + (n & 255)).toString(16)}00000/0x7ff00000`,
          )}`,
        );
        const snat = lines(
          (n, a, b) =>
            `-A EGRESSIP-SNAT -o eth1 -m mark --mark 0x7${n.toString(16).padStart(7, "0")}/0x7fffffff -j SNAT --to-source ${egress(a, b)}`,
          EGRESS_IPS,
        );
        const tool = six ? "ip6tables-nft-restore" : "iptables-nft-restore";
        await inside(tool, ["--noflush"], `*nat\n:EGRESSIP-SNAT - [0:0]\n${snat}COMMIT\n`);
      }
      await mkdir(home.stateDirectory, { recursive: true });
      await writeFile(join(home.stateDirectory, "intent.json"), JSON.stringify({ addresses, sysctls: {} }));
    }

    it("they are gone when the first round is done, and all that is wanted is there (BL-74)", {
      timeout: 240_000,
    }, async () => {
      const clean = await home.start(manifests.directory);
      await clean.lookAgain();
      const right = await lab.dump("node1");
      await clean.stop();
      await home.uninstall();
      await litter();
      const agent = await home.spawn(manifests.directory);
      await agent.when(({ ready }) => ready, "a round without failures", 120_000);
      await agent.lookAgain();
      // Chains that others' tools list in the order in which they were made.
      const linesOf = (dump: string) => dump.split("\n").sort(byCodeUnit);
      expect(linesOf(await lab.dump("node1"))).toEqual(linesOf(right));
      expect((await agent.status()).problems).toEqual([]);
      for (const family of families)
        expect(await lab.probe("a1", "internet", "tcp", family)).toHaveProperty("source");
      await agent.stop();
      expect((await home.plan(manifests.directory)).exitCode).toBe(0);
    });
  },
);

const byCodeUnit = (a: string, b: string) => (a < b ? -1 : 1);

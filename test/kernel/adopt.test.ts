// From OVN-Kubernetes' own shape of egress IPs in the kernel to ours and back, under a thousand new flows a second from each pod
// and connections that were open before: none lost, none with another source, and nothing left of what was before.
import { afterEach, beforeEach, describe, expect, it, onTestFailed } from "vitest";
import type { Connection } from "../lab/connection.ts";
import { Lab } from "../lab/lab.ts";
import type { Sender, SenderOptions } from "../lab/sender.ts";
import { type Family, families, nodes } from "../lab/topology.ts";
import { Home } from "../support/agent.ts";
import { unordered } from "../support/agent-dump.ts";
import { egressIP, Manifests } from "../support/agent-manifests.ts";
import { killedAt } from "../support/killed-agent.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { programReference } from "../support/reference.ts";

const prefix = `eip${process.pid}`;

type Pair = Readonly<Record<Family, string>>;
const web: Pair = { 4: "10.10.10.50", 6: "fd00:10:10::50" };
const billing: Pair = { 4: "10.10.10.51", 6: "fd00:10:10::51" };
/** Of an EgressIP that was deleted while nobody looked: only the annotation tells of it. */
const forgotten: Pair = { 4: "10.10.10.58", 6: "fd00:10:10::58" };

const selected = ["a1", "b1", "a2"] as const;
/** b1 is of the other node, and steered here. */
const served: Readonly<Record<(typeof selected)[number], Pair>> = { a1: web, b1: web, a2: billing };

/** Who opens a thousand flows a second. */
const fresh = new Set(["a1 IPv4", "a2 IPv6"]);

interface Traffic {
  /** Each has had this many more answers, each connection has exchanged something. What happens now has this name. */
  goesOn(now: string): Promise<void>;
  /** Every datagram was answered, with one source; every connection is alive and kept its own. */
  stop(): Promise<void>;
}

async function startTraffic(lab: Lab, amount: "much" | "little" = "much"): Promise<Traffic> {
  const senders: { readonly what: string; readonly answer: string; readonly sender: Sender }[] = [];
  const connections: { readonly what: string; readonly answer: string; readonly connection: Connection }[] =
    [];
  onTestFailed(async () => {
    await Promise.allSettled([
      ...senders.map(({ sender }) => sender.stop()),
      ...connections.map(({ connection }) => connection.stop()),
    ]);
  });
  for (const pod of selected)
    for (const family of families) {
      const [what, answer] = [`${pod} IPv${family}`, `sec/${served[pod][family]}`];
      // One after the other, and new flows of one pod for an egress IP: two pods that take the same port of it at the same
      // moment race for it, and the kernel drops who loses.
      const send = async (how: string, options: SenderOptions) => {
        const sender = lab.sender(pod, { family, ...options });
        senders.push({ what: `${what}, ${how}`, answer, sender });
        await sender.answers(1);
      };
      const connect = async (how: string, intervalMs: number) => {
        const connection = lab.connection(pod, { family, intervalMs });
        connections.push({ what: `${what}, ${how}`, answer, connection });
        await connection.answers(1);
      };
      await send("one flow", { rate: 100 });
      await connect("busy", 10);
      if (amount === "little") continue;
      if (fresh.has(what)) await send("new flows", { fresh: true });
      // Says nothing while it is switched.
      await connect("idle", 1500);
    }
  const moments: string[] = [];
  return {
    goesOn: async (now) => {
      await Promise.all([
        ...senders.map(({ sender, answer }) =>
          sender.answers(amount === "much" ? 100 : 20, answer.slice("sec/".length), 20_000),
        ),
        ...connections.map(({ connection }) => connection.answers(1, 20_000)),
      ]);
      const sent = await Promise.all(
        senders.map(async ({ what, sender }) => `${what} ${await sender.sent()}`),
      );
      moments.push(`${now}, when sent were: ${sent.join("; ")}`);
    },
    stop: async () => {
      const results = await Promise.all(senders.map(({ sender }) => sender.stop()));
      const tcp = await Promise.all(connections.map(({ connection }) => connection.stop()));
      const seen = [
        ...senders.map(({ what }, at) => [what, results[at]?.timeline] as const),
        ...connections.map(({ what }, at) => [what, tcp[at]?.why ?? tcp[at]?.sources] as const),
      ];
      const wanted = [
        ...senders.map(({ what, answer }, at) => [
          what,
          [{ first: 0, last: (results[at]?.sent ?? 0) - 1, answer }],
        ]),
        ...connections.map(({ what, answer }) => [what, [answer]]),
      ];
      expect(seen, moments.join("\n")).toEqual(wanted);
    },
  };
}

/** The examples with both egress IPs on eth1, and what the node's annotation says of them and of one more. */
async function makeManifests(): Promise<Manifests> {
  const manifests = await Manifests.ofExamples();
  await manifests.write("egressips.yaml", [
    egressIP("prod", { addresses: [web[4], web[6]], app: "web" }),
    egressIP("billing", { addresses: [billing[4], billing[6]], app: "billing" }),
  ]);
  await manifests.edit("nodes.yaml", "node1", ({ metadata }) => {
    const listed = [web, billing, forgotten].flatMap((pair) => [pair[4], pair[6]]);
    metadata["annotations"] = {
      ...(metadata["annotations"] as object),
      "k8s.ovn.org/secondary-host-egress-ips": JSON.stringify(listed),
    };
  });
  return manifests;
}

/** Others' part of the table that its egress IPs are in too. */
const strangersTable = `table inet ovn-kubernetes {
  map egress-service-snat-v4 { type ipv4_addr : ipv4_addr; elements = { 10.244.9.9 : 192.0.2.1 } }
  chain egress-ip-of-others {
    type nat hook postrouting priority srcnat + 1; policy accept;
    snat ip to ip saddr map @egress-service-snat-v4
  }
}
`;

/** Of nobody's shape: another table, another selector, a protocol of their own; no pods, or no table of a link's. */
const strangers: Readonly<Record<Family, readonly string[]>> = {
  4: [
    "rule add from 192.0.2.7 lookup 1004 pref 6000",
    "rule add from 10.244.1.75 to 192.0.2.9 lookup 1004 pref 6000",
    "rule add from 10.244.1.76 iif eth0 lookup 1004 pref 6000",
    "rule add from 10.244.1.77 lookup 7777 pref 6000",
    "rule add from 10.244.1.78 lookup 1004 pref 6000 protocol 99",
    "rule add from 10.244.1.79 lookup 1004 pref 5998",
    "route add 192.0.2.0/24 via 10.10.10.1 dev eth1 table 1004 proto static",
    "route add 192.0.2.0/24 dev eth0 table 1003",
    "address add 10.10.10.79/32 dev eth1",
  ],
  6: ["rule add from 2001:db8:9::7 lookup 1004 pref 6000", "address add fd00:10:10::79/128 dev eth1 nodad"],
};

async function addStrangers(lab: Lab): Promise<void> {
  await lab.nodeExec("node1", "nft", ["-f", "-"], { input: strangersTable });
  for (const family of families) {
    const input = `${strangers[family].join("\n")}\n`;
    await lab.nodeExec("node1", "ip", [`-${family}`, "-batch", "-"], { input });
  }
}

/** Without the lab's stand-in for OVN. */
function hostOf(dump: string): string {
  return dump.replace(/^table inet of-ovn \{\n(?:\t.*\n|\n)*?\}\n/m, "");
}

/** The order of addresses says when each came, and nodad how; neither matters any more. */
function settled(dump: string): string {
  return unordered(hostOf(dump)).replaceAll(" nodad", "").split("\n").sort().join("\n");
}

const ours = /^.*(?:egressip|proto 233|0x1000|EGRESSIP).*$/gim;

const cases = (["base", "new"] as const).flatMap((shape) =>
  ([0, 1] as const).flatMap((rpFilter) =>
    (shape === "base" && rpFilter === 1 ? (["nft", "legacy"] as const) : (["nft"] as const)).map(
      (backend) => ({ shape, rpFilter, backend }),
    ),
  ),
);

describe.each(cases)(
  "$shape shape, rp_filter $rpFilter, iptables-$backend",
  ({ shape, rpFilter, backend }) => {
    const reason = canRunKernelTests(backend);
    describe.skipIf(reason !== undefined)(
      `adopt${reason === undefined ? "" : ` (not here: ${reason})`}`,
      () => {
        let lab: Lab;
        let home: Home;
        let manifests: Manifests;
        beforeEach(async () => {
          lab = await Lab.up({ prefix, rpFilter, backend });
          await lab.steer("b1", "node1");
          // Asks for a MAC by its address in that network, as a router does: by another one the strict filter drops the question.
          await lab.exec("sec", "sh", ["-c", "echo 2 >/proc/sys/net/ipv4/conf/lan/arp_announce"]);
          [home, manifests] = await Promise.all([Home.of(lab), makeManifests()]);
          await addStrangers(lab);
        });
        afterEach(async () => {
          await lab.down();
          await Promise.all([home.remove(), manifests.remove()]);
        });

        it("to ours and back: nothing lost, no other source, nothing left of what was before", {
          timeout: 120_000,
        }, async () => {
          const alone = await home.start(manifests.directory);
          await alone.lookAgain();
          await alone.stop();
          const wanted = settled(await lab.dump("node1"));
          await home.uninstall();

          await programReference(lab, shape, { ...served, a3: forgotten }, { backend, led: served });
          const leaks = await lab.watchLeaks();
          const there = await startTraffic(lab);
          await there.goesOn("to ours");
          const agent = await home.spawn(manifests.directory, { adopt: "true" });
          // Tens of thousands of flows to be marked, on a machine that also makes them.
          await agent.when(({ ready }) => ready, "it has taken over", 60_000);
          await agent.lookAgain();
          await there.goesOn("ours");
          await there.stop();
          expect(settled(await lab.dump("node1"))).toBe(wanted);
          expect(await lab.probe("a3", "internet")).toEqual({ server: "ext", source: nodes.node1.eth0[4] });
          expect((await agent.status()).problems).toEqual([]);
          await agent.stop();
          for (const adopt of ["true", "false"]) {
            const { stdout } = await home.plan(manifests.directory, { adopt });
            expect(stdout).toBe("nothing to do\n");
          }
          const again = await home.start(manifests.directory, { adopt: "true" });
          await again.lookAgain();
          expect(await again.changes()).toEqual([]);
          await again.stop();

          const back = await startTraffic(lab);
          await back.goesOn("both");
          await programReference(lab, shape, served, { backend });
          await back.goesOn("to theirs");
          await home.uninstall("--hand-back");
          await back.goesOn("theirs");
          await back.stop();
          const after = await lab.dump("node1");
          expect(after.match(ours) ?? []).toEqual([]);
          for (const address of [web, billing].flatMap((pair) => [pair[4], pair[6]]))
            expect(after).toContain(` ${address}/`);
          expect((await home.uninstall("--hand-back")).stdout).toBe("");
          expect(await lab.dump("node1")).toBe(after);
          expect(await leaks.stop()).toEqual([]);
        });
      },
    );
  },
);

const reason = canRunKernelTests();
describe.skipIf(reason !== undefined)(`adopt${reason === undefined ? "" : ` (not here: ${reason})`}`, () => {
  it.each(["base", "new"] as const)(
    "kill -9 before, in the middle of and after each write of taking over the %s shape: the next start completes it, nothing lost",
    {
      timeout: 300_000,
    },
    async (shape) => {
      await using lab = await Lab.up({ prefix, rpFilter: 1 });
      await lab.steer("b1", "node1");
      await lab.exec("sec", "sh", ["-c", "echo 2 >/proc/sys/net/ipv4/conf/lan/arp_announce"]);
      const [home, manifests] = await Promise.all([Home.of(lab), makeManifests()]);
      try {
        await addStrangers(lab);
        const adopt = { adopt: "true" };
        await programReference(lab, shape, served);
        const first = await home.start(manifests.directory, adopt);
        await first.lookAgain();
        await first.stop();
        const wanted = settled(await lab.dump("node1"));
        let write = 0;
        for (; ; write++) {
          const moment = (["before", "amid", "after"] as const)[write % 3] ?? "before";
          const what = `killed ${moment} write ${write}`;
          await programReference(lab, shape, served);
          await home.uninstall("--hand-back");
          const traffic = await startTraffic(lab, "little");
          await traffic.goesOn(what);
          const killed = await killedAt(home, manifests, write, moment, adopt);
          await traffic.goesOn("killed");
          const agent = await home.start(manifests.directory, adopt);
          await agent.lookAgain();
          await traffic.goesOn("completed");
          await traffic.stop();
          expect(settled(await lab.dump("node1")), what).toBe(wanted);
          expect((await home.plan(manifests.directory, adopt)).stdout, what).toBe("nothing to do\n");
          await agent.stop();
          if (!killed) break;
        }
        // Sets, routes and rules, the nft table, both iptables, marks, addresses; and what retires.
        expect(write).toBeGreaterThanOrEqual(10);
      } finally {
        await Promise.all([home.remove(), manifests.remove()]);
      }
    },
  );
});

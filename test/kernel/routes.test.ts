// The table of a link under a running agent: it follows main, it is shared by the egress IPs of its link, it ends in a blackhole.
// Real packets; the slow tick is an hour away. known-faults BL-69 and BL-71, and what K-6 and K-7 measured.
import { afterAll, beforeAll, describe, expect, it, onTestFailed, onTestFinished } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { Lab } from "../lab/lab.ts";
import type { Sender } from "../lab/sender.ts";
import { type Family, families, nodes, type PodName, podNetworks } from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { egressIP, Manifests } from "../support/agent-manifests.ts";
import { isAsBefore } from "../support/as-before.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const prefix = `eip${process.pid}`;
const reason = canRunKernelTests();
const { node1 } = nodes;

/** A second router of the second network: the same server by a link of its own, so that frames tell which one was taken. */
const second = { 4: "10.10.10.2", 6: "fd00:10:10::2", mac: "02:e1:00:03:63:01" } as const;
const destination = { 4: "198.51.100.80/32", 6: "2001:db8:51::80/128" } as const;
const held = { 4: "10.10.10.50", 6: "fd00:10:10::50" } as const;
/** What the examples have served. */
const examples = ["10.10.10.50", "fd00:10:10::50", "172.18.0.60", "fd00:172:18::60"] as const;

describe.skipIf(reason !== undefined)(
  `routes of a link${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let home: Home;
    let manifests: Manifests;
    let agent: Agent;
    let before: string;

    const ip = (place: "node1" | "sec", ...lines: readonly string[]) =>
      run("ip", ["-n", lab.namespace(place), "-batch", "-"], { input: `${lines.join("\n")}\n` });
    const table = async (family: Family) => {
      const words = ["-n", lab.namespace("node1"), `-${family}`, "route", "show", "table", "1004"];
      const { stdout } = await run("ip", words, { okExitCodes: [0, 2] });
      return stdout.split("\n").map((line) => line.trim());
    };
    const oneByOne = (family: Family, line: string) =>
      run("ip", ["-n", lab.namespace("node1"), `-${family}`, ...line.split(" ")]);
    const heals = () => isAsBefore(lab, "node1", before);

    beforeAll(async () => {
      lab = await Lab.up({ prefix });
      await ip(
        "sec",
        `link add port2 index 77 type veth peer name lan2 address ${second.mac}`,
        "link set port2 master switch",
        `address add ${second[4]}/32 dev lan2`,
        `address add ${second[6]}/128 dev lan2 nodad preferred_lft 0`,
        "link set port2 up",
        "link set lan2 up",
      );
      // Each router answers for itself.
      await lab.exec("sec", "sh", ["-c", "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore"]);
      [home, manifests] = await Promise.all([Home.of(lab), Manifests.ofExamples()]);
      agent = await home.start(manifests.directory);
      await agent.lookAgain();
      before = await lab.dump("node1");
    });
    afterAll(async () => {
      await agent?.stop();
      await lab?.down();
      await Promise.all([home?.remove(), manifests?.remove()]);
    });

    /** MAC addresses that the packets of these senders are sent to now. */
    async function routersOf(sender: Sender, family: Family): Promise<readonly string[]> {
      const filter = `${family === 4 ? "ip" : "ip6"} and udp dst port 8080 and src host ${held[family]}`;
      const capture = await lab.captureFrames("sec", "node1", filter);
      await sender.answers(10, held[family]);
      const macs = (await capture.stop()).map((frame) =>
        [...frame.slice(0, 6)].map((octet) => octet.toString(16).padStart(2, "0")).join(":"),
      );
      return [...new Set(macs)];
    }

    it("packets follow a route that is added, changed and removed in main, and none leaves in another way", async () => {
      const [first] = (await lab.exec("sec", "cat", ["/sys/class/net/lan/address"])).stdout.split("\n");
      const leaks = await lab.watchLeaks();
      const senders = families.map((family) => ({ family, sender: lab.sender("a1", { family }) }));
      onTestFailed(async () => {
        await Promise.all(senders.map(({ sender }) => sender.stop()));
      });
      const take = (mac: string | undefined) =>
        Promise.all(
          senders.map(({ family, sender }) =>
            until(
              async () => (await routersOf(sender, family)).join() === mac,
              `IPv${family} packets go to ${mac}`,
            ),
          ),
        );
      const each = (words: (family: Family) => string) => ip("node1", ...families.map(words));
      await take(first);
      await each((family) => `route add ${destination[family]} via ${second[family]} dev eth1 metric 9`);
      await take(second.mac);
      const own = { 4: "10.10.10.100", 6: "fd00:10:10::100" };
      await each((family) => `route change ${destination[family]} via ${own[family]} dev eth1 metric 9`);
      await take(first);
      await each((family) => `route replace ${destination[family]} via ${second[family]} dev eth1 metric 9`);
      await take(second.mac);
      await each((family) => `route del ${destination[family]} metric 9`);
      await take(first);
      for (const { family, sender } of senders)
        expect([...(await sender.stop()).bySource.keys()]).toEqual([`sec/${held[family]}`]);
      expect(await leaks.stop()).toEqual([]);
      await heals();
    });

    it.each<[string, Family, readonly string[], readonly string[]]>([
      [
        "metric, MTU and onlink",
        4,
        ["route add 203.0.113.0/24 via 192.0.2.9 dev eth1 onlink metric 7 mtu 1400"],
        ["203.0.113.0/24 via 192.0.2.9 dev eth1 proto 233 metric 7 onlink mtu 1400"],
      ],
      [
        "no preferred source, and the scope that the kernel gives it",
        4,
        ["route add 203.0.113.0/24 dev eth1 src 10.10.10.11", "route add 203.0.114.0/24 dev eth1 scope host"],
        ["203.0.113.0/24 dev eth1 proto 233 scope link", "203.0.114.0/24 dev eth1 proto 233 scope link"],
      ],
      [
        "of several next hops those over the link",
        4,
        [
          "route add 203.0.113.0/24 nexthop via 172.18.0.1 dev eth0 nexthop via 10.10.10.1 dev eth1 weight 3",
          "route add 203.0.114.0/24 nexthop via 10.10.10.2 dev eth1 weight 2 nexthop via 10.10.10.1 dev eth1",
        ],
        [
          "203.0.113.0/24 via 10.10.10.1 dev eth1 proto 233",
          "203.0.114.0/24 proto 233",
          "nexthop via 10.10.10.2 dev eth1 weight 2",
          "nexthop via 10.10.10.1 dev eth1 weight 1",
        ],
      ],
      [
        "an IPv6 next hop of an IPv4 route",
        4,
        ["route add 203.0.113.0/24 via inet6 fe80::1 dev eth1"],
        ["203.0.113.0/24 via inet6 fe80::1 dev eth1 proto 233"],
      ],
      [
        "every default of the link by its metric",
        4,
        [
          "route add default via 10.10.10.2 dev eth1 metric 50",
          "route add default dev eth1 metric 900",
          "route add default via 172.18.0.1 dev eth0 metric 70",
        ],
        [
          "default via 10.10.10.2 dev eth1 proto 233 metric 50",
          "default via 10.10.10.1 dev eth1 proto 233 metric 500",
          "default dev eth1 proto 233 scope link metric 900",
        ],
      ],
      [
        "one of a destination that main has for some packets in another way",
        4,
        [
          "route add 203.0.113.0/24 via 10.10.10.1 dev eth1",
          "route add 203.0.113.0/24 tos 0x10 via 10.10.10.2",
        ],
        ["203.0.113.0/24 via 10.10.10.1 dev eth1 proto 233"],
      ],
      [
        "link-local next hops, metric and MTU",
        6,
        ["route add 2001:db8:77::/64 via fe80::9 dev eth1 metric 7 mtu 1400"],
        ["2001:db8:77::/64 via fe80::9 dev eth1 proto 233 metric 7 mtu 1400 pref medium"],
      ],
      [
        "of several next hops those over the link",
        6,
        [
          "route add 2001:db8:77::/64 nexthop via fd00:172:18::1 dev eth0 nexthop via fe80::1 dev eth1",
          "route add 2001:db8:78::/64 nexthop via fe80::1 dev eth1 nexthop via fe80::2 dev eth1 weight 2",
        ],
        [
          "2001:db8:77::/64 via fe80::1 dev eth1 proto 233 metric 1024 pref medium",
          "2001:db8:78::/64 proto 233 metric 1024 pref medium",
          "nexthop via fe80::1 dev eth1 weight 1",
          "nexthop via fe80::2 dev eth1 weight 2",
        ],
      ],
      [
        "one of two for the same destination and metric, which a table cannot hold side by side without being asked",
        6,
        [
          "route add 2001:db8:77::/64 from fd00:10:10::/64 via fe80::2 dev eth1",
          "route add 2001:db8:77::/64 via fe80::1 dev eth1",
        ],
        ["2001:db8:77::/64 via fe80::1 dev eth1 proto 233 metric 1024 pref medium"],
      ],
      ["the network of link-local addresses", 6, [], ["fe80::/64 dev eth1 proto 233 metric 256 pref medium"]],
    ])("keeps %s (IPv%i), and a second look changes nothing", async (_, family, added, wanted) => {
      for (const line of added) await oneByOne(family, line);
      onTestFinished(async () => {
        for (const line of added.toReversed()) await oneByOne(family, line.replace("add", "del"));
        await heals();
      });
      const told = new Set(wanted.map((line) => line.split(" ")[0]));
      const about = async () =>
        (await table(family)).filter((line) => told.has(line.split(" ")[0])).sort(byCodeUnit);
      const sorted = [...wanted].sort(byCodeUnit);
      await until(
        async () => (await about()).join("\n") === sorted.join("\n"),
        "they are in the table",
      ).catch(() => undefined);
      expect(await about()).toEqual(sorted);
      await agent.ready();
      const changes = await agent.changes();
      const status = await agent.lookAgain();
      expect(await agent.changes()).toEqual(changes);
      expect(status.contention).toEqual([]);
      expect(await lab.probe("a1", "internet", "tcp", family)).toMatchObject({ source: held[family] });
    });

    it("a link that goes down takes the routes, the blackhole holds its packets, and they are back with it (K-6, K-7)", async () => {
      const nothing = await lab.watchLeaks();
      const asNode = await lab.capture(
        "ext",
        "any",
        `udp dst port 8080 and (src host ${node1.eth0[4]} or src host ${node1.eth0[6]})`,
      );
      const senders = families.map((family) => lab.sender("a1", { family, fresh: true }));
      onTestFailed(async () => {
        await Promise.all(senders.map((sender) => sender.stop()));
      });
      await Promise.all(senders.map((sender) => sender.answers(10)));
      await ip("node1", "link set eth1 down");
      for (const family of families)
        await until(
          async () => (await table(family)).filter((line) => line.includes("eth1")).length === 0,
          "no route over the link is left",
        );
      // K-7: the kernel brings none of them back. Nobody else does either, until here.
      for (const family of families)
        expect((await table(family)).find((line) => line.startsWith("blackhole default"))).toBeDefined();
      await ip("node1", "link set eth1 up");
      await until(
        async () => (await table(4)).includes("default dev eth1 proto 233 scope link"),
        "a default is there although nobody has put one into main",
      );
      // IPv6 loses its addresses too, and with them what made this the link of the egress IP.
      await ip(
        "node1",
        `address replace ${node1.eth1[6]}/64 dev eth1 nodad`,
        "route replace default via 10.10.10.1 dev eth1 metric 500",
        "route replace default via fd00:10:10::1 dev eth1 metric 500",
      );
      await Promise.all(senders.map((sender, at) => sender.answers(10, held[families[at] ?? 4], 10_000)));
      for (const [at, sender] of senders.entries())
        expect([...(await sender.stop()).bySource.keys()]).toEqual([`sec/${held[families[at] ?? 4]}`]);
      expect(await asNode.stop()).toEqual([]);
      expect(await nothing.stop()).toEqual([]);
      await heals();
    });

    it("no packet goes in circles (BL-71)", async () => {
      const pods = `dst net ${podNetworks[4]} or dst net ${podNetworks[6]}`;
      const [expired, inA1, returned] = await Promise.all([
        lab.capture("node1", "any", "icmp[icmptype] == 11 or (icmp6 and ip6[40] == 3)"),
        lab.capture("a1", "any", "icmp[icmptype] == 11 or (icmp6 and ip6[40] == 3)"),
        lab.capture("sec", "any", pods),
      ]);
      expect(await lab.view(["a1"], ["internet", "sec"])).toEqual([
        ...["internet", "sec"].flatMap((to) =>
          ["tcp", "udp"].flatMap((protocol) =>
            families.map((family) => `a1 ${to} ${protocol} ${family}: sec saw ${held[family]}`),
          ),
        ),
      ]);
      expect(await expired.stop()).toEqual([]);
      expect(await inA1.stop()).toEqual([]);
      // A reply that followed the link's default would be seen here, on its way out again.
      expect(await returned.stop()).toEqual([]);
    });

    const three: readonly {
      readonly pod: PodName;
      readonly app: string;
      readonly 4: string;
      readonly 6: string;
    }[] = [
      { pod: "a1", app: "web", 4: "10.10.10.50", 6: "fd00:10:10::50" },
      { pod: "a2", app: "billing", 4: "10.10.10.51", 6: "fd00:10:10::51" },
      { pod: "a4", app: "server", 4: "10.10.10.52", 6: "fd00:10:10::52" },
    ];
    const orders = [
      [0, 1, 2],
      [0, 2, 1],
      [1, 0, 2],
      [1, 2, 0],
      [2, 0, 1],
      [2, 1, 0],
    ] as const;

    it("three egress IPs of one link are deleted in each order, and those that stay do not notice (BL-69)", {
      timeout: 120_000,
    }, async () => {
      const write = (which: readonly number[]) =>
        manifests.write(
          "egressips.yaml",
          which.map((at) => {
            const of = three[at] as (typeof three)[number];
            return egressIP(`e${at}`, { addresses: [of[4], of[6]], app: of.app });
          }),
        );
      const serves = (which: readonly number[]) =>
        agent.serves(...which.flatMap((at) => families.map((family) => three[at]?.[family] as string)));
      for (const order of orders) {
        await write([0, 1, 2]);
        await serves([0, 1, 2]);
        const leaks = await lab.watchLeaks();
        const streams = three.flatMap(({ pod, ...egress }, at) =>
          families.map((family) => ({
            at,
            family,
            egress: egress[family],
            sender: lab.sender(pod, { family, fresh: true, rate: 300 }),
          })),
        );
        onTestFailed(async () => {
          await Promise.all(streams.map(({ sender }) => sender.stop()));
        });
        const answered = (left: readonly number[]) =>
          Promise.all(
            streams.map(({ at, family, egress, sender }) =>
              sender.answers(10, left.includes(at) ? egress : node1.eth0[family], 10_000),
            ),
          );
        await answered([0, 1, 2]);
        for (const [gone] of order.entries()) {
          const left = order.slice(gone + 1);
          await write(left);
          await serves(left);
          await answered(left);
        }
        for (const { at, family, egress, sender } of streams) {
          const { timeline } = await sender.stop();
          // With its own until it was deleted, and not one packet lost before that; then as the node.
          const answers = timeline.flatMap(({ answer }) => answer ?? []);
          expect([...new Set(answers)], `${order.join()}: ${at}`).toEqual([
            `sec/${egress}`,
            `ext/${node1.eth0[family]}`,
          ]);
          expect(answers.filter((answer) => answer === `sec/${egress}`)).toHaveLength(1);
          expect(timeline[0]?.answer).toBe(`sec/${egress}`);
        }
        expect(await leaks.stop()).toEqual([]);
        for (const family of families) expect((await table(family)).join("")).toBe("");
      }
      await manifests.remove();
      manifests = await Manifests.ofExamples();
      await agent.stop();
      agent = await home.start(manifests.directory);
      await agent.serves(...examples);
    });
  },
);

const byCodeUnit = (a: string, b: string) => (a < b ? -1 : 1);

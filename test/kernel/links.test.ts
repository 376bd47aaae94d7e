// Which link gives an egress IP is asked again whenever links, addresses or prefixes change, while the agent runs: what was on
// the old link goes, what the new one needs comes, and no packet leaves with a wrong source in between (known-faults BL-48).

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { Lab } from "../lab/lab.ts";
import type { Sender } from "../lab/sender.ts";
import { type Family, families, nodes } from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { unordered } from "../support/agent-dump.ts";
import { Manifests } from "../support/agent-manifests.ts";
import { isAsBefore } from "../support/as-before.ts";
import { canMakeLinks, canRunKernelTests, type LinkKind } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const prefix = `eip${process.pid}`;
const reason = canRunKernelTests();
const { node1 } = nodes;
const held = { 4: "10.10.10.50", 6: "fd00:10:10::50" } as const;
const examples = [held[4], held[6], "172.18.0.60", "fd00:172:18::60"] as const;

const addresses = (link: string) => [
  `address replace ${node1.eth1[4]}/24 dev ${link}`,
  `address replace ${node1.eth1[6]}/64 dev ${link} nodad`,
  `route replace default via 10.10.10.1 dev ${link} metric 500`,
  `route replace default via fd00:10:10::1 dev ${link} metric 500`,
];
const noAddresses = (link: string) => [
  `address del ${node1.eth1[4]}/24 dev ${link}`,
  `address del ${node1.eth1[6]}/64 dev ${link}`,
];

describe.skipIf(reason !== undefined)(
  `links that change${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let home: Home;
    let manifests: Manifests;
    let agent: Agent;
    let before: string;

    const ip = (place: "node1" | "sec", ...lines: readonly string[]) =>
      run("ip", ["-n", lab.namespace(place), "-batch", "-"], { input: `${lines.join("\n")}\n` });
    const shell = (script: string) => lab.nodeExec("node1", "sh", ["-ec", script]);
    /** One more link of node1 into the second network; `port` is its end in the switch, or what stands between. */
    const joinSecond = async (name: string, number: number, between: readonly string[] = []) => {
      const mac = (end: number) => `02:e1:00:04:0${number}:0${end}`;
      await ip(
        "sec",
        `link add ${name}p index ${600 + number} address ${mac(1)} type veth peer name ${name} index ${60 + number} address ${mac(2)} netns ${lab.namespace("node1")}`,
        ...(between.length > 0 ? between : [`link set ${name}p master switch`]),
        `link set ${name}p up`,
      );
      await ip("node1", `link set ${name} up`);
    };

    beforeAll(async () => {
      lab = await Lab.up({ prefix });
      // Two links in one network: each answers for its own addresses alone.
      await shell("echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore");
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

    const heals = () => isAsBefore(lab, "node1", before);

    /** Where the node has the egress IPs of a1, what of ours names which link, and what a1's packets are seen with. */
    async function isOn(link: string, number: number): Promise<void> {
      const holders = async (family: Family) => {
        const words = ["-n", lab.namespace("node1"), "-json", "address", "show", "to", held[family]];
        const found = JSON.parse((await run("ip", words)).stdout) as readonly { readonly ifname?: string }[];
        return found.flatMap(({ ifname }) => ifname ?? []).join();
      };
      for (const family of families)
        await until(
          async () => (await holders(family)) === link,
          `IPv${family}: it is on ${link} alone`,
          10_000,
        );
      await agent.serves(...examples);
      const ours = async () =>
        (await lab.dump("node1"))
          .split("\n")
          .filter((line) => /EGRESSIP-SNAT .*SNAT|proto(col)? 233/.test(line));
      const others = async () => (await ours()).filter((line) => namesAnotherLink(line, link, number));
      await until(
        async () => (await others()).length === 0,
        "nothing of the former link is left",
        10_000,
      ).catch(async () => expect(await others()).toEqual([]));
      expect(
        (await ours()).filter((line) => line.includes(`SNAT`) && line.includes(` ${link} `)),
      ).toHaveLength(2);
      const answered = async () => "source" in (await lab.probe("a1", "internet", "udp", 4, 300));
      await until(answered, "a1 gets out");
      expect(await lab.view(["a1"], ["internet", "sec"])).toEqual(
        ["internet", "sec"].flatMap((to) =>
          ["tcp", "udp"].flatMap((protocol) =>
            families.map((family) => `a1 ${to} ${protocol} ${family}: sec saw ${held[family]}`),
          ),
        ),
      );
    }

    /** Every second link of the primary network is eth0's business. */
    const namesAnotherLink = (line: string, link: string, number: number) => {
      const [, named] = /(?:dev|-o) (\S+)/.exec(line) ?? [];
      const [, table] = /(?:table|lookup) (\d+)/.exec(line) ?? [];
      return (
        (named !== undefined && ![link, "eth0", "ovn-k8s-mp0", "lo"].includes(named)) ||
        (table !== undefined && ![String(1000 + number), "1003"].includes(table))
      );
    };

    describe("under traffic", () => {
      let leaks: Awaited<ReturnType<Lab["watchLeaks"]>>;
      let asNode: Awaited<ReturnType<Lab["capture"]>>;
      let senders: readonly Sender[];
      beforeEach(async () => {
        const own = `src host ${node1.eth0[4]} or src host ${node1.eth0[6]}`;
        [leaks, asNode] = await Promise.all([
          lab.watchLeaks(),
          lab.capture("ext", "any", `udp dst port 8080 and (${own})`),
        ]);
        senders = families.map((family) => lab.sender("a1", { family, fresh: true }));
        await Promise.all(senders.map((sender) => sender.answers(10)));
      });
      afterEach(async () => {
        await Promise.all(senders.map((sender, at) => sender.answers(10, held[families[at] ?? 4], 10_000)));
        for (const [at, sender] of senders.entries())
          expect([...(await sender.stop()).bySource.keys()]).toEqual([`sec/${held[families[at] ?? 4]}`]);
        expect(await asNode.stop()).toEqual([]);
        expect(await leaks.stop()).toEqual([]);
        await heals();
      });

      it("its network moves to another link and back", async () => {
        await joinSecond("eth2", 2);
        await ip("node1", ...noAddresses("eth1"), ...addresses("eth2"));
        await isOn("eth2", 62);
        await ip("node1", ...noAddresses("eth2"), ...addresses("eth1"));
        await isOn("eth1", 4);
        await ip("node1", "link del eth2");
      });

      it("another link gets a longer prefix for it, which then becomes a shorter one", async () => {
        await joinSecond("eth3", 3);
        await ip(
          "node1",
          "address add 10.10.10.13/26 dev eth3",
          "address add fd00:10:10::4d/122 dev eth3 nodad",
          "route add 10.10.10.100 dev eth3",
          "route add fd00:10:10::100 dev eth3",
          "route add 198.51.100.80 via 10.10.10.100 dev eth3 metric 9",
          "route add 2001:db8:51::80 via fd00:10:10::100 dev eth3 metric 9",
        );
        await isOn("eth3", 63);
        await ip(
          "node1",
          "address del 10.10.10.13/26 dev eth3",
          "address del fd00:10:10::4d/122 dev eth3",
          "address add 10.10.10.13/16 dev eth3",
          "address add fd00:10:10::4d/48 dev eth3 nodad",
        );
        await isOn("eth1", 4);
        await ip("node1", "link del eth3");
      });

      it("the link is named otherwise, and back", async () => {
        await ip("node1", "link set eth1 name lan1");
        await isOn("lan1", 4);
        await ip("node1", "link set lan1 name eth1");
        await isOn("eth1", 4);
        // The kernel numbers the labels of a link that it renames: made anew, it has its plain one again.
        await ip("node1", `address del ${held[4]}/32 dev eth1`);
      });

      it("the link is deleted, and made anew with the same index", async () => {
        const { stdout } = await run("ip", ["-n", lab.namespace("node1"), "-json", "link", "show", "eth1"]);
        const [{ address }] = JSON.parse(stdout) as [{ address: string }];
        await ip("node1", "link del eth1");
        await agent.when(({ held: count }) => count === 2, "what lived on eth1 is unready");
        await ip(
          "sec",
          `link add node1 index 401 address 02:e1:00:03:01:01 type veth peer name eth1 index 4 address ${address} netns ${lab.namespace("node1")}`,
          "link set node1 master switch",
          "link set node1 up",
        );
        await ip("node1", "link set eth1 up", ...addresses("eth1"));
        await isOn("eth1", 4);
      });
    });

    it("the node's primary network is said to be another one: in local gateway mode only the record is another", async () => {
      const changes = await agent.changes();
      await agent.lookAgain();
      for (const primary of [
        { ipv4: "10.10.10.11/24", ipv6: "fd00:10:10::11/64" },
        { ipv4: "172.18.0.11/24", ipv6: "fd00:172:18::11/64" },
      ]) {
        const { rounds } = await agent.status();
        await sayPrimary(primary);
        await agent.when((status) => status.rounds > rounds, "a round");
        await isOn("eth1", 4);
      }
      // Of which addresses the annotation is: nothing that packets meet.
      const since = (await agent.changes()).filter((text) => !changes.includes(text));
      expect(since.flatMap((text) => [...text.matchAll(/^== (.*)$/gm)].map(([, block]) => block))).toEqual([
        "establish record",
        "retire record",
        "establish record",
        "retire record",
      ]);
      await heals();
    });

    it("the same in shared gateway mode: the kernel's part goes, its pods are held back until OVN has them, and it comes back", async () => {
      await agent.stop();
      agent = await home.start(manifests.directory, { "gateway-mode": "shared" });
      onTestFinished(async () => {
        await agent.stop();
        agent = await home.start(manifests.directory);
        await heals();
      });
      const shared = async () => unordered(await lab.dump("node1"));
      await agent.lookAgain();
      const secondary = await shared();
      const leaks = await lab.watchLeaks();
      // What ext sees of a2's is OVN's, not this kernel's: only a1 is looked at.
      const senders = families.map((family) => lab.sender("a1", { family, fresh: true }));
      await Promise.all(senders.map((sender, at) => sender.answers(10, held[families[at] ?? 4])));
      await sayPrimary({ ipv4: "10.10.10.11/24", ipv6: "fd00:10:10::11/64" });
      const own = (text: string) =>
        text.split("\n").filter((line) => /proto 233|lookup 1004|10\.10\.10\.50|::50/.test(line));
      await until(
        async () => own(await shared()).filter((line) => !line.includes("1003")).length === 0,
        "nothing of it is left",
      );
      expect(await lab.probe("a1", "internet", "udp", 4, 300)).toHaveProperty("failed");
      await sayPrimary({ ipv4: "172.18.0.11/24", ipv6: "fd00:172:18::11/64" });
      await Promise.all(senders.map((sender, at) => sender.answers(10, held[families[at] ?? 4], 10_000)));
      for (const [at, sender] of senders.entries())
        expect([...(await sender.stop()).bySource.keys()]).toEqual([`sec/${held[families[at] ?? 4]}`]);
      expect(await leaks.stop()).toEqual([]);
      await until(async () => (await shared()) === secondary, "the node is as it was", 10_000);
    });

    function sayPrimary(primary: { readonly ipv4: string; readonly ipv6: string }): Promise<void> {
      return manifests.edit("nodes.yaml", "node1", ({ metadata }) => {
        Object.assign(metadata["annotations"] as object, {
          "k8s.ovn.org/node-primary-ifaddr": JSON.stringify(primary),
        });
      });
    }

    interface Case {
      readonly kind: LinkKind;
      readonly link: string;
      readonly number: number;
      /** Between the link and the switch of the second network, where it is not its port. */
      readonly between?: readonly string[];
      readonly make: readonly string[];
      readonly unmake: readonly string[];
    }
    const cases: readonly Case[] = [
      {
        kind: "bridge",
        link: "br1",
        number: 80,
        make: ["link add br1 index 80 type bridge", "link set eth4 master br1"],
        unmake: ["link del br1"],
      },
      {
        kind: "macvlan",
        link: "mv1",
        number: 81,
        make: ["link add mv1 index 81 link eth4 type macvlan mode bridge"],
        unmake: ["link del mv1"],
      },
      {
        kind: "vlan",
        link: "eth4.5",
        number: 82,
        between: [
          "link add link eth4p name eth4p5 type vlan id 5",
          "link set eth4p5 master switch",
          "link set eth4p5 up",
        ],
        make: ["link add eth4.5 index 82 link eth4 type vlan id 5"],
        unmake: ["link del eth4.5"],
      },
      {
        kind: "bond",
        link: "bond1",
        number: 83,
        make: [
          "link add bond1 index 83 type bond mode active-backup miimon 10",
          "link set eth4 down",
          "link set eth4 master bond1",
          "link set eth4 up",
        ],
        unmake: ["link del bond1"],
      },
    ];

    describe.each(cases)("a $kind", ({ kind, link, number, between, make, unmake }) => {
      const missing = canMakeLinks(kind);
      it.skipIf(missing !== undefined)(
        `is a link like others${missing === undefined ? "" : ` (not here: ${missing})`}`,
        async () => {
          await joinSecond("eth4", 4, between);
          await ip("node1", ...make, `link set ${link} up`);
          await ip("node1", ...noAddresses("eth1"), ...addresses(link));
          await isOn(link, number);
          // It goes without a word of warning, and its network is back on the other one.
          await ip("node1", ...unmake, "link del eth4", ...addresses("eth1"));
          await isOn("eth1", 4);
          await heals();
        },
      );
    });

    it("a port of a bridge does not host, and says so", async () => {
      await ip("node1", "link add br2 type bridge", "link set br2 up", "link set eth1 master br2");
      const said = "link eth1 is a port of br2: its addresses have to be on br2";
      await agent.when(({ problems }) => problems.some(({ text }) => text.includes(said)), said);
      expect(await lab.probe("a1", "internet", "udp", 4, 300)).toHaveProperty("failed");
      await ip("node1", "link set eth1 nomaster", "link del br2");
      await isOn("eth1", 4);
      await heals();
    });

    it("what stands before the rules of ours takes replies: why those of a VRF's link stand before l3mdev", async () => {
      // A policy rule in the place of the kernel's l3mdev, and a table like that of a VRF which has a default route.
      const theirs = families.flatMap((family) => [
        `rule add iif eth1 lookup 10 pref 1000`,
        `route add default via ${family === 4 ? "10.10.10.1" : "fd00:10:10::1"} dev eth1 table 10`,
      ]);
      const both = (lines: readonly string[], how: (line: string) => string) =>
        Promise.all(
          families.map((family, at) =>
            run("ip", ["-n", lab.namespace("node1"), `-${family}`, "-batch", "-"], {
              input: `${lines
                .slice(2 * at, 2 * at + 2)
                .map(how)
                .join("\n")}\n`,
            }),
          ),
        );
      const astray = await lab.capture("sec", "any", "dst net 10.244.0.0/16 or dst net fd00:10:244::/48");
      await both(theirs, (line) => line);
      for (const family of families)
        expect(await lab.probe("a1", "internet", "udp", family, 300)).toHaveProperty("failed");
      const ours = "rule add fwmark 0x10000000/0x78000000 lookup 1004 pref 999";
      for (const family of families)
        await run("ip", ["-n", lab.namespace("node1"), `-${family}`, ...ours.split(" ")]);
      for (const family of families)
        expect(await lab.probe("a1", "internet", "udp", family)).toMatchObject({ source: held[family] });
      for (const family of families)
        await run("ip", [
          "-n",
          lab.namespace("node1"),
          `-${family}`,
          ...ours.replace("add", "del").split(" "),
        ]);
      await both(theirs, (line) => line.replace("add", "del"));
      // What went astray was on its way out of eth1 again, with the server's source: the leak guard drops that.
      expect(await astray.stop()).toEqual([]);
      await heals();
    });

    const noVrf = canMakeLinks("vrf");
    it.skipIf(noVrf !== undefined)(
      `a link that is enslaved to a VRF and freed again while the agent runs${noVrf === undefined ? "" : ` (not here: ${noVrf})`}`,
      async () => {
        await ip(
          "node1",
          "link add blue index 90 type vrf table 10",
          "link set blue up",
          "route add unreachable default table 10 metric 4278198272",
          "link set eth1 master blue",
          ...addresses("eth1").filter((line) => line.startsWith("address")),
          "route replace default via 10.10.10.1 dev eth1 table 10",
          "route replace default via fd00:10:10::1 dev eth1 table 10",
        );
        const rules = async (family: Family) =>
          (await run("ip", ["-n", lab.namespace("node1"), `-${family}`, "rule", "show", "pref", "999"]))
            .stdout;
        for (const family of families)
          await until(
            async () => (await rules(family)).includes("lookup 1004"),
            "its rule is before l3mdev's",
          );
        await isOn("eth1", 4);
        await ip("node1", "link set eth1 nomaster", "link del blue", ...addresses("eth1"));
        for (const family of families)
          await run("ip", ["-n", lab.namespace("node1"), `-${family}`, "rule", "del", "pref", "1000"]);
        await isOn("eth1", 4);
        await heals();
      },
    );
  },
);

// What keeps a hosting link from doing its work, one setting at a time: packets fail, the problem is named with its values, the
// setting is put right, the problem goes and packets flow. And what the kernel makes of rp_filter, arp_ignore and arp_filter.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Lab } from "../lab/lab.ts";
import { type Family, nodes, outside } from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { Manifests } from "../support/agent-manifests.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const prefix = `eip${process.pid}`;
const reason = canRunKernelTests();

const prod = { 4: "10.10.10.50", 6: "fd00:10:10::50" } as const;
const { node1 } = nodes;
const gateways = outside.sec.gateway;
/** Something the kernel must not answer is waited for so long. */
const silenceMs = 400;

const to = (path: string, value: number) => `echo ${value} >/proc/sys/net/${path}`;
const conf = (link: string, name: string, value: number) => to(`ipv4/conf/${link}/${name}`, value);

describe.skipIf(reason !== undefined)(
  `problems of a hosting link${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let home: Home;
    let manifests: Manifests;
    let agent: Agent;

    const sh = async (place: "node1" | "sec", ...lines: readonly string[]) =>
      (await lab.exec(place, "sh", ["-ec", lines.join("\n")])).stdout.trim();
    const macOf = (place: "node1" | "sec", link: string) => sh(place, `cat /sys/class/net/${link}/address`);
    /** Who is on eth1: to ask for it the node would have to say who it is. */
    const introduce = async () => {
      const mac = await macOf("sec", "lan");
      const known = [gateways[4], outside.sec.server[4]];
      const lines = known.map((of) => `ip neighbour replace ${of} lladdr ${mac} dev eth1 nud permanent`);
      await sh("node1", ...lines);
    };

    beforeAll(async () => {
      lab = await Lab.up({ prefix });
      [home, manifests] = await Promise.all([Home.of(lab), Manifests.ofExamples()]);
      // Who has the egress IP is to be learned by asking alone, and not by being told: not by announcements, nor by the node's
      // own requests, whose sender is the egress IP where that is the source of the packet.
      await sh(
        "sec",
        "nft add table arp told",
        "nft add chain arp told in '{ type filter hook input priority 0; }'",
        `nft add rule arp told in arp operation request arp saddr ip ${prod[4]} drop`,
      );
      await introduce();
      await sh("sec", to("ipv4/neigh/lan/retrans_time_ms", 100), to("ipv4/neigh/lan/mcast_solicit", 1));
      // As a router does: it asks and answers as who it is on the link, and not as what is behind it.
      await sh("sec", conf("all", "arp_ignore", 1), conf("all", "arp_announce", 2));
      agent = await home.start(manifests.directory);
    });
    afterAll(async () => {
      await agent?.stop();
      await lab?.down();
      await Promise.all([home?.remove(), manifests?.remove()]);
    });

    /** Of the egress IP on eth1. */
    const named = async (family: Family) => {
      const { problems } = await agent.lookAgain();
      const start = `${prod[family]}: `;
      return problems.flatMap(({ text }) => (text.startsWith(start) ? [text.slice(start.length)] : []));
    };
    const forget = () =>
      sh(
        "sec",
        ...[4, 6].map((family) => `ip -${family} neighbour flush dev lan to ${prod[family as Family]}`),
      );
    const reach = async (where: "internet" | "sec", family: Family, deadlineMs?: number) => {
      await forget();
      return lab.probe("a1", where, "tcp", family, deadlineMs);
    };
    const seen = (family: Family) => ({ server: "sec", source: prod[family] });

    const arp = "or ARP requests for the egress IP are not answered";
    const elsewhere = "ip route add 10.10.10.0/25 dev eth0";
    const notElsewhere = "ip route del 10.10.10.0/25 dev eth0";
    const ledBy = "table main leads to 10.10.10.0/25 by eth0";

    it.each<{
      what: string;
      family?: Family;
      where?: "internet" | "sec";
      broken: readonly string[];
      mended: readonly string[];
      text: string;
    }>([
      {
        what: "forwarding off on the hosting link",
        broken: [conf("eth1", "forwarding", 0)],
        mended: [conf("eth1", "forwarding", 1)],
        text: "net.ipv4.conf.eth1.forwarding is 0 and must be 1, or nothing is forwarded with the egress IP; see --manage-forwarding",
      },
      {
        what: "forwarding off on the management port",
        broken: [conf("ovn-k8s-mp0", "forwarding", 0)],
        mended: [conf("ovn-k8s-mp0", "forwarding", 1)],
        text: "net.ipv4.conf.ovn-k8s-mp0.forwarding is 0 and must be 1, or nothing that pods send is forwarded",
      },
      {
        what: "forwarding of IPv6 off",
        family: 6,
        broken: [to("ipv6/conf/all/forwarding", 0)],
        mended: [to("ipv6/conf/all/forwarding", 1)],
        text: "net.ipv6.conf.all.forwarding is 0 and must be 1, or nothing is forwarded with the egress IP",
      },
      {
        what: "IPv6 off on the management port",
        family: 6,
        broken: [to("ipv6/conf/ovn-k8s-mp0/disable_ipv6", 1)],
        mended: [
          to("ipv6/conf/ovn-k8s-mp0/disable_ipv6", 0),
          `ip address add ${node1["ovn-k8s-mp0"][6]}/64 dev ovn-k8s-mp0 nodad`,
          `ip route add fd00:10:244::/48 via ${node1.gateway[6]} dev ovn-k8s-mp0`,
        ],
        text: "net.ipv6.conf.ovn-k8s-mp0.disable_ipv6 is 1 and must be 0, or nothing that pods send by IPv6 gets in",
      },
      {
        what: "IPv6 off on the hosting link",
        family: 6,
        broken: [to("ipv6/conf/eth1/disable_ipv6", 1)],
        mended: [
          to("ipv6/conf/eth1/disable_ipv6", 0),
          `ip address add ${node1.eth1[6]}/64 dev eth1 nodad`,
          `ip route add default via ${gateways[6]} dev eth1 metric 500`,
        ],
        text: `no link of this node has an address whose network contains ${prod[6]}; k8s.ovn.org/host-cidrs has ${node1.eth1[6]}/64, which no link has now, or only as a secondary, deprecated or floating address; net.ipv6.conf.eth1.disable_ipv6 is 1 and must be 0 where it is to be hosted`,
      },
      ...(["all", "eth1"] as const).flatMap((of) => [
        {
          what: `arp_ignore 8 on ${of}`,
          broken: [conf(of, "arp_ignore", 8)],
          mended: [conf(of, "arp_ignore", 0)],
          text: `net.ipv4.conf.${of}.arp_ignore is 8 and must be 0 to 3, ${arp}`,
        },
        {
          what: `arp_filter on ${of}, and main leads to that network by another link`,
          where: "sec" as const,
          broken: [elsewhere, conf(of, "arp_filter", 1)],
          mended: [conf(of, "arp_filter", 0)],
          text: `net.ipv4.conf.${of}.arp_filter is 1 and must be 0, ${arp}: ${ledBy}`,
        },
        {
          what: `strict rp_filter on ${of}, and main leads to that network by another link`,
          where: "sec" as const,
          broken: [elsewhere, conf(of, "rp_filter", 1)],
          mended: [conf(of, "rp_filter", 0)],
          text: `net.ipv4.conf.${of}.rp_filter is 1 (strict) and must be 0 or 2, ${arp}: ${ledBy}`,
        },
      ]),
      {
        what: "no IPv4 route over the link",
        broken: [`ip route del default via ${gateways[4]} dev eth1`, "ip route del 10.10.10.0/24 dev eth1"],
        mended: [
          `ip route add 10.10.10.0/24 dev eth1 src ${node1.eth1[4]}`,
          `ip route add default via ${gateways[4]} dev eth1 metric 500`,
        ],
        text: "link eth1 has no IPv4 route in table main and needs one, to its network or by a gateway: what is not on the link itself is not reached",
      },
      {
        what: "no IPv6 route over the link",
        family: 6,
        broken: [`ip route del default via ${gateways[6]} dev eth1`, "ip route del fd00:10:10::/64 dev eth1"],
        mended: [
          "ip route add fd00:10:10::/64 dev eth1",
          `ip route add default via ${gateways[6]} dev eth1 metric 500`,
        ],
        text: "link eth1 has no IPv6 route in table main and needs one, to its network or by a gateway: what is not on the link itself is not reached",
      },
    ])("$what", async ({ family = 4, where = "internet", broken, mended, text }) => {
      expect(await named(family)).toEqual([]);
      await sh("node1", ...broken);
      try {
        expect(await named(family)).toEqual([text]);
        expect(await reach(where, family, silenceMs)).toHaveProperty("failed");
      } finally {
        await sh("node1", ...mended);
      }
      expect(await named(family)).toEqual([]);
      // What remains is harmless by itself.
      if (broken.includes(elsewhere)) {
        expect(await reach(where, family)).toEqual(seen(family));
        await sh("node1", notElsewhere);
      }
      for (const mended of ["sec", "internet"] as const)
        expect(await reach(mended, family)).toEqual(seen(family));
    });

    it("no carrier", async () => {
      await sh("sec", "ip link set node1 down");
      await agent.when(({ problems }) => problems.length > 0, "the carrier is gone");
      expect(await named(4)).toEqual(["link eth1 is without carrier: nothing can leave with it"]);
      expect(await reach("internet", 4, silenceMs)).toHaveProperty("failed");
      await sh("sec", "ip link set node1 up");
      await agent.when(({ problems }) => problems.length === 0, "the carrier is back");
      const answered = async () => "source" in (await reach("internet", 4));
      await until(answered, "the internet answers");
      expect(await reach("internet", 4)).toEqual(seen(4));
    });

    describe("who is told where the egress IP is", () => {
      /** Asks anew, as this sender. */
      const answers = async (sender: string) => {
        await sh("sec", `ip route replace ${prod[4]}/32 dev lan src ${sender}`);
        await forget();
        await lab.probe("sec", { ...prod, port: 9 }, "udp", 4, silenceMs);
        return (await sh("sec", `ip neighbour show ${prod[4]} dev lan`)).includes("lladdr");
      };
      const both = async () => [await answers(outside.sec.server[4]), await answers("198.51.100.80")];
      beforeAll(() => sh("sec", conf("all", "arp_announce", 0)));
      afterAll(() => sh("sec", `ip route del ${prod[4]}/32 dev lan`, conf("all", "arp_announce", 2)));

      // A neighbour of the link's network, and one that asks as somebody from elsewhere.
      it.each([
        [0, 0, [true, true]],
        [1, 0, [true, true]],
        // The node's own address is of the same network as the asker, and that is enough for a /32 beside it.
        [2, 0, [true, false]],
        [0, 2, [true, false]],
        [3, 0, [true, true]],
        [7, 0, [true, true]],
        [8, 0, [false, false]],
        [0, 8, [false, false]],
        [8, 9, [true, true]],
      ])("arp_ignore: all %i, link %i", async (all, link, told) => {
        await sh("node1", conf("all", "arp_ignore", all), conf("eth1", "arp_ignore", link));
        expect(await both()).toEqual(told);
        await sh("node1", conf("all", "arp_ignore", 0), conf("eth1", "arp_ignore", 0));
      });

      it.each([
        ["arp_filter 0, rp_filter 2", [conf("eth1", "rp_filter", 2)], [true, true]],
        ["arp_filter 1", [conf("eth1", "arp_filter", 1)], [true, false]],
        ["rp_filter 1", [conf("eth1", "rp_filter", 1)], [true, false]],
      ] as const)("%s where main leads to the network by the link", async (_, lines, told) => {
        await sh("node1", ...lines);
        expect(await both()).toEqual(told);
        expect(await named(4)).toEqual([]);
        await sh("node1", conf("eth1", "arp_filter", 0), conf("eth1", "rp_filter", 0));
      });
    });

    describe("rp_filter, all and link (known-faults K-8, BL-70)", () => {
      const mark = conf("all", "src_valid_mark", 0);
      const dropped = "or replies that come in by eth1 are dropped";
      const needs = (of: string) =>
        `net.ipv4.conf.all.src_valid_mark is 0 and must be 1 while net.ipv4.conf.${of}.rp_filter is 1 (strict), ${dropped}`;
      beforeAll(async () => {
        // Who asks for the egress IP, and from where, is looked at above.
        await sh(
          "sec",
          `ip neighbour replace ${prod[4]} lladdr ${await macOf("node1", "eth1")} dev lan nud permanent`,
        );
      });
      afterAll(async () => {
        await sh("sec", `ip neighbour del ${prod[4]} dev lan`);
        await sh("node1", conf("all", "rp_filter", 0), conf("eth1", "rp_filter", 0));
      });
      // A reply comes in by eth1, to whose sender main leads by eth0.
      const reply = (deadlineMs?: number) => lab.probe("a1", "internet", "tcp", 4, deadlineMs);

      it.each(
        [0, 1, 2].flatMap((all) =>
          [0, 1, 2].map((link) => ({ all, link, strict: Math.max(all, link) === 1 })),
        ),
      )("$all and $link", async ({ all, link, strict }) => {
        await sh("node1", conf("all", "rp_filter", all), conf("eth1", "rp_filter", link));
        expect(await named(4)).toEqual([]);
        expect(await reply()).toEqual(seen(4));
        await sh("node1", mark);
        if (!strict) {
          expect(await reply()).toEqual(seen(4));
          // As the agent would, but without its taking it for a fight after so many times.
          await sh("node1", conf("all", "src_valid_mark", 1));
          return;
        }
        expect(await reply(silenceMs)).toHaveProperty("failed");
        const before = agent.said.length;
        // The round that finds it puts it back, so with it the problem is over and only the log still has it.
        expect(await named(4)).toEqual([]);
        const said = agent.said.slice(before);
        expect(said).toContain(needs(all === 1 ? "all" : "eth1"));
        expect(said).toContain("sysctl -w net/ipv4/conf/all/src_valid_mark=1");
        expect(await reply()).toEqual(seen(4));
      });

      it("who keeps setting src_valid_mark back is named, and what that breaks", async () => {
        await sh("node1", conf("all", "rp_filter", 1), conf("eth1", "rp_filter", 0));
        const fought = async () => {
          await sh("node1", mark);
          await agent.lookAgain();
          return (await agent.status()).contention.some(({ line }) => line.includes("src_valid_mark"));
        };
        await until(fought, "the agent gives way");
        await sh("node1", mark);
        expect(await named(4)).toEqual([needs("all")]);
        expect(await reply(silenceMs)).toHaveProperty("failed");
        await agent.when(({ problems }) => problems.length === 0, "it tried again", 30_000);
        expect(await reply()).toEqual(seen(4));
      });
    });

    it.each([
      [0, false],
      [1, true],
    ])(
      "promote_secondaries %i: what goes with an egress IP found before the node's own address (K-4)",
      async (value, stays) => {
        const own = `${node1.eth1[4]}/24`;
        const route = `ip route replace default via ${gateways[4]} dev eth1 metric 500`;
        await sh("node1", conf("eth1", "promote_secondaries", value), `ip address del ${own} dev eth1`);
        expect(await named(4)).toHaveLength(1);
        await sh("node1", `ip address add ${prod[4]}/24 dev eth1`, `ip address add ${own} dev eth1`, route);
        const refused = "is an address of this host, on eth1; an egress IP must be an unused address";
        const danger = `${prod[4]}/24 is the first address of its network on eth1, and net.ipv4.conf.eth1.promote_secondaries is 0 and must be 1, or taking it away takes ${node1.eth1[4]} with it`;
        const texts = await named(4);
        expect(texts.includes(danger)).toBe(!stays);
        expect(texts.filter((text) => text !== danger)).toEqual([refused]);
        await sh("node1", `ip address del ${prod[4]}/24 dev eth1`);
        const left = await sh("node1", "ip -oneline -4 address show dev eth1");
        expect(left.includes(`inet ${own}`)).toBe(stays);
        if (!stays) await sh("node1", `ip address add ${own} dev eth1`);
        await sh("node1", route, conf("eth1", "promote_secondaries", 0));
        // With a link's last address the kernel forgets its neighbours.
        await introduce();
        await agent.when(({ problems }) => problems.length === 0, "it is held again");
        expect(await named(4)).toEqual([]);
        const answered = async () => "source" in (await reach("internet", 4));
        await until(answered, "the internet answers");
        expect(await reach("internet", 4)).toEqual(seen(4));
      },
    );
  },
);

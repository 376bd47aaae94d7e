// Each cause by which a link does not do what an egress IP needs: the text with the value found and the value needed, and the
// settings beside it that are none. What the kernel makes of each of them: test/kernel/link-problems.test.ts.
import { describe, expect, it } from "vitest";
import { type NetworkFacts, NOTHING_RECORDED } from "../../../agent/model/facts.ts";
import { linkProblems, promotionProblem, switchedOff } from "../../../agent/model/link-problems.ts";
import type { Link } from "../../../lib/netlink/pure.ts";
import { address, network, settings } from "../make.ts";

type Sysctls = Readonly<Record<string, string>>;

/** As in the lab and on most hosts: nothing of it is a problem. */
const healthy: Sysctls = Object.fromEntries(
  ["all", "eth0", "eth1", "ovn-k8s-mp0"].flatMap((link) => [
    ...["rp_filter", "arp_ignore", "arp_filter", "promote_secondaries"].map((name) => [
      `net/ipv4/conf/${link}/${name}`,
      "0",
    ]),
    [`net/ipv4/conf/${link}/src_valid_mark`, link === "all" ? "1" : "0"],
    [`net/ipv4/conf/${link}/forwarding`, "1"],
    [`net/ipv6/conf/${link}/forwarding`, "1"],
    [`net/ipv6/conf/${link}/disable_ipv6`, "0"],
  ]),
);

const ours = { addresses: [], sysctls: { "net/ipv4/conf/all/src_valid_mark": "0" } };

interface Given {
  readonly family?: 4 | 6;
  readonly sysctls?: Sysctls;
  readonly record?: typeof ours;
  readonly network?: NetworkFacts;
  readonly link?: Partial<Link>;
  readonly byKernel?: boolean;
  readonly manageForwarding?: boolean;
}

function problems(given: Given): readonly string[] {
  const { family = 4, byKernel = true, manageForwarding = false } = given;
  const facts = given.network ?? network;
  const link = facts.links.find(({ name }) => name === "eth1");
  if (link === undefined) throw new Error("no eth1");
  const placed = { address: family === 4 ? "10.10.10.50" : "fd00:10:10::50", family, byKernel };
  return linkProblems(
    { ...placed, link: { ...link, ...given.link } },
    {
      network: facts,
      sysctls: { ...healthy, ...given.sysctls },
      record: given.record ?? NOTHING_RECORDED,
    },
    { ...settings, manageForwarding },
  );
}

const ipv4 = (link: string, name: string, value: number | string): Sysctls => ({
  [`net/ipv4/conf/${link}/${name}`]: String(value),
});

/** Main leads to the egress IP's network by another link. */
const elsewhere: NetworkFacts = {
  ...network,
  routes: [
    ...network.routes,
    {
      family: 4,
      table: "main",
      type: "unicast",
      destination: "10.10.10.0/25",
      metric: 0,
      protocol: "static",
      hops: [{ gateway: "", link: "eth0", onlink: false, weight: 1 }],
      mtu: 0,
    },
  ],
};

const inTable = (table: string, routes: NetworkFacts["routes"]) =>
  routes.map((route) => ({ ...route, table }));

const unrouted = (family: 4 | 6): NetworkFacts => ({
  ...network,
  routes: network.routes.filter((route) => route.family !== family || route.hops[0]?.link !== "eth1"),
});

describe("problems of a hosting link", () => {
  it.each([4, 6] as const)("a healthy link has none (IPv%i)", (family) => {
    expect(problems({ family })).toEqual([]);
  });

  it.each([4, 6] as const)("what was not read is not known, and no problem (IPv%i)", (family) => {
    const unread = Object.fromEntries(Object.keys(healthy).map((path) => [path, undefined]));
    expect(problems({ family, sysctls: unread as unknown as Sysctls, record: ours })).toEqual([]);
  });

  const unanswered = "or ARP requests for the egress IP are not answered";
  it.each<readonly [string, Given, string]>([
    ["down", { link: { up: false, running: false } }, "link eth1 is down: nothing can leave with it"],
    ["no carrier", { link: { running: false } }, "link eth1 is without carrier: nothing can leave with it"],
    [
      "forwarding of the hosting link",
      { sysctls: ipv4("eth1", "forwarding", 0) },
      "net.ipv4.conf.eth1.forwarding is 0 and must be 1, or nothing is forwarded with the egress IP; see --manage-forwarding",
    ],
    [
      "forwarding of the management port, which is not ours to manage",
      { sysctls: ipv4("ovn-k8s-mp0", "forwarding", 0), manageForwarding: true },
      "net.ipv4.conf.ovn-k8s-mp0.forwarding is 0 and must be 1, or nothing that pods send is forwarded",
    ],
    [
      "forwarding of IPv6",
      { family: 6, sysctls: { "net/ipv6/conf/all/forwarding": "0" }, manageForwarding: true },
      "net.ipv6.conf.all.forwarding is 0 and must be 1, or nothing is forwarded with the egress IP",
    ],
    [
      "forwarding of IPv6, forced by one link of the two",
      {
        family: 6,
        sysctls: { "net/ipv6/conf/all/forwarding": "0", "net/ipv6/conf/eth1/force_forwarding": "1" },
      },
      "net.ipv6.conf.all.forwarding is 0 and must be 1, or nothing is forwarded with the egress IP",
    ],
    [
      "IPv6 off on the management port",
      { family: 6, sysctls: { "net/ipv6/conf/ovn-k8s-mp0/disable_ipv6": "1" } },
      "net.ipv6.conf.ovn-k8s-mp0.disable_ipv6 is 1 and must be 0, or nothing that pods send by IPv6 gets in",
    ],
    ...(["all", "eth1"] as const).flatMap((where): (readonly [string, Given, string])[] => [
      [
        `strict rp_filter of ${where} without src_valid_mark`,
        {
          sysctls: { ...ipv4("all", "src_valid_mark", 0), ...ipv4(where, "rp_filter", 1) },
          record: ours,
        },
        `net.ipv4.conf.all.src_valid_mark is 0 and must be 1 while net.ipv4.conf.${where}.rp_filter is 1 (strict), or replies that come in by eth1 are dropped`,
      ],
      [
        `arp_ignore of ${where}`,
        { sysctls: ipv4(where, "arp_ignore", 8) },
        `net.ipv4.conf.${where}.arp_ignore is 8 and must be 0 to 3, ${unanswered}`,
      ],
      [
        `strict rp_filter of ${where} where main leads elsewhere`,
        { sysctls: ipv4(where, "rp_filter", 1), network: elsewhere },
        `net.ipv4.conf.${where}.rp_filter is 1 (strict) and must be 0 or 2, ${unanswered}: table main leads to 10.10.10.0/25 by eth0`,
      ],
      [
        `arp_filter of ${where} where main leads elsewhere`,
        { sysctls: ipv4(where, "arp_filter", 1), network: elsewhere },
        `net.ipv4.conf.${where}.arp_filter is 1 and must be 0, ${unanswered}: table main leads to 10.10.10.0/25 by eth0`,
      ],
    ]),
    ...([4, 6] as const).map((family): readonly [string, Given, string] => [
      `no route of IPv${family}`,
      { family, network: unrouted(family) },
      `link eth1 has no IPv${family} route in table main and needs one, to its network or by a gateway: what is not on the link itself is not reached`,
    ]),
  ])("%s", (_, given, text) => {
    expect(problems(given)).toEqual([text]);
    // An egress IP of the primary network in shared gateway mode is OVN's: only a dead link concerns it.
    expect(problems({ ...given, byKernel: false })).toEqual(given.link === undefined ? [] : [text]);
  });

  it.each<readonly [string, Given]>([
    [
      "forwarding of the hosting link, managed",
      { sysctls: ipv4("eth1", "forwarding", 0), manageForwarding: true },
    ],
    ["forwarding of another link", { sysctls: ipv4("eth0", "forwarding", 0) }],
    [
      "forwarding of IPv6 by link, which the kernel does not ask",
      { family: 6, sysctls: { "net/ipv6/conf/eth1/forwarding": "0" } },
    ],
    [
      "forwarding of IPv6, forced on both links",
      {
        family: 6,
        sysctls: {
          "net/ipv6/conf/all/forwarding": "0",
          "net/ipv6/conf/eth1/force_forwarding": "1",
          "net/ipv6/conf/ovn-k8s-mp0/force_forwarding": "1",
        },
      },
    ],
    ["strict rp_filter with src_valid_mark", { sysctls: ipv4("all", "rp_filter", 1), record: ours }],
    [
      "strict rp_filter with src_valid_mark of the link alone",
      {
        sysctls: {
          ...ipv4("all", "src_valid_mark", 0),
          ...ipv4("eth1", "src_valid_mark", 1),
          ...ipv4("eth1", "rp_filter", 1),
        },
        record: ours,
      },
    ],
    [
      "strict rp_filter before src_valid_mark was set by us",
      { sysctls: { ...ipv4("all", "src_valid_mark", 0), ...ipv4("eth1", "rp_filter", 1) } },
    ],
    ...(["1 2", "2 1", "2 0", "0 2", "0 0"] as const).map((both): readonly [string, Given] => {
      const [all = "", link = ""] = both.split(" ");
      const rp = { ...ipv4("all", "rp_filter", all), ...ipv4("eth1", "rp_filter", link) };
      return [
        `rp_filter ${both}, all and link`,
        { sysctls: { ...rp, ...ipv4("all", "src_valid_mark", 0) }, record: ours, network: elsewhere },
      ];
    }),
    ...[0, 1, 2, 3, 4, 5, 6, 7, 9].map((value): readonly [string, Given] => [
      `arp_ignore ${value}`,
      { sysctls: ipv4("eth1", "arp_ignore", value) },
    ]),
    [
      "arp_ignore 8 below a higher one",
      { sysctls: { ...ipv4("all", "arp_ignore", 8), ...ipv4("eth1", "arp_ignore", 9) } },
    ],
    ["arp_filter where main leads by the link", { sysctls: ipv4("all", "arp_filter", 1) }],
    ["promote_secondaries off", { sysctls: ipv4("all", "promote_secondaries", 0) }],
    [
      "a link of a VRF, whose network table main does not lead to",
      {
        link: { master: "red", vrf: "100" },
        sysctls: { ...ipv4("all", "rp_filter", 1), ...ipv4("all", "arp_filter", 1) },
        network: { ...elsewhere, routes: [...elsewhere.routes, ...inTable("100", network.routes)] },
      },
    ],
    ["main leads elsewhere, and nothing filters", { network: elsewhere }],
    [
      "a link of a VRF with its routes in the VRF's table",
      {
        link: { master: "red", vrf: "100" },
        network: { ...network, routes: inTable("100", network.routes) },
      },
    ],
  ])("none: %s", (_, given) => {
    expect(problems(given)).toEqual([]);
  });

  it("a network that main has no route to is led to by its default", () => {
    const routes = network.routes.filter(({ destination }) => destination !== "10.10.10.0/24");
    expect(problems({ sysctls: ipv4("eth1", "arp_filter", 1), network: { ...network, routes } })).toEqual([
      `net.ipv4.conf.eth1.arp_filter is 1 and must be 0, ${unanswered}: table main leads to 0.0.0.0/0 by eth0`,
    ]);
  });

  it("of a VRF its table counts, and not main; fe80:: is no way", () => {
    const vrf = { master: "red", vrf: "100" };
    expect(problems({ link: vrf })).toEqual([
      "link eth1 has no IPv4 route in table 100 and needs one, to its network or by a gateway: what is not on the link itself is not reached",
    ]);
    const both = [...network.routes, ...inTable("100", elsewhere.routes)];
    expect(
      problems({ link: vrf, sysctls: ipv4("eth1", "arp_filter", 1), network: { ...network, routes: both } }),
    ).toEqual([
      `net.ipv4.conf.eth1.arp_filter is 1 and must be 0, ${unanswered}: table 100 leads to 10.10.10.0/25 by eth0`,
    ]);
    const [route] = network.routes.filter(({ family, hops }) => family === 6 && hops[0]?.link === "eth1");
    const routes = route === undefined ? [] : [...unrouted(6).routes, { ...route, destination: "fe80::/64" }];
    expect(problems({ family: 6, network: { ...network, routes } })).toHaveLength(1);
  });

  it("names a link with a dot in its name as sysctl takes it", () => {
    const vlan = {
      ...network.links[0],
      name: "eth1.100",
      index: 9,
      up: true,
      running: true,
      master: "",
    } as Link;
    const texts = linkProblems(
      { address: "10.10.10.50", family: 4, link: vlan, byKernel: true },
      { network, sysctls: ipv4("eth1.100", "forwarding", 0), record: NOTHING_RECORDED },
      settings,
    );
    expect(texts[0]).toMatch(/^net\.ipv4\.conf\.eth1\/100\.forwarding is 0/);
  });
});

describe("an egress IP found with a network around it", () => {
  const found = (
    length: number,
    flags: readonly string[],
    others: readonly string[] = ["secondary"],
  ): NetworkFacts => ({
    ...network,
    addresses: [
      address("eth1", `10.10.10.50/${length}`, { flags }),
      address("eth1", "10.10.10.11/24", { flags: others }),
      address("eth1", "10.10.10.12/24", { flags: others }),
      address("eth0", "10.10.10.13/24", { flags: others }),
      address("eth1", "10.10.11.14/24", { flags: others }),
      address("eth1", "10.10.10.15/25", { flags: others }),
    ],
  });
  const danger = (of: NetworkFacts, sysctls: Sysctls = healthy) =>
    promotionProblem("10.10.10.50", { network: of, sysctls, record: NOTHING_RECORDED });

  it("is named with what would go with it (BL-41)", () => {
    expect(danger(found(24, []))).toBe(
      "10.10.10.50/24 is the first address of its network on eth1, and net.ipv4.conf.eth1.promote_secondaries is 0 and must be 1, or taking it away takes 10.10.10.11, 10.10.10.12 with it",
    );
  });

  it("is no danger where it is alone, came later, or others are promoted by either switch", () => {
    expect(danger(found(32, []))).toBeUndefined();
    expect(danger(found(24, ["secondary"], []))).toBeUndefined();
    expect(danger(found(24, [], []))).toBeUndefined();
    expect(danger(network)).toBeUndefined();
    for (const link of ["all", "eth1"])
      expect(danger(found(24, []), { ...healthy, ...ipv4(link, "promote_secondaries", 1) })).toBeUndefined();
    expect(danger(found(24, []), {})).toBeUndefined();
  });
});

it("says where IPv6 is off, of an IPv6 address that no link can host", () => {
  const off = {
    network,
    sysctls: { ...healthy, "net/ipv6/conf/eth1/disable_ipv6": "1" },
    record: NOTHING_RECORDED,
  };
  expect(switchedOff(6, off)).toBe(
    "; net.ipv6.conf.eth1.disable_ipv6 is 1 and must be 0 where it is to be hosted",
  );
  expect(switchedOff(4, off)).toBe("");
  expect(switchedOff(6, { ...off, sysctls: healthy })).toBe("");
});

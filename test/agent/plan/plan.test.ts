// How much a plan is, and what does not depend on what: rules per egress IP, rules per link, entries per pod, and nothing else.
import { describe, expect, it } from "vitest";
import { createBuild } from "../../../agent/model/build.ts";
import type { HostFacts, NetworkFacts } from "../../../agent/model/facts.ts";
import type { KubernetesObject } from "../../../agent/model/objects.ts";
import { entriesOf, sizeOf } from "../../../agent/model/shards.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { nothing, type Plan } from "../../../agent/plan/plan.ts";
import { type Rule, routeWords, ruleWords } from "../../../lib/netlink/pure.ts";
import { bareHost, egressIP, namespace, network, node1, objects, pod, settings } from "../make.ts";

type Given = KubernetesObject;

function planned(all: readonly Given[], of: Partial<typeof settings> = {}, host: HostFacts = bareHost): Plan {
  const with_ = { ...settings, ...of };
  return createMode(with_.gatewayMode).plan(createBuild()(with_, objects(node1, ...all), host));
}

/** N egress IPs, half of them on the second link, each for M pods of its own. */
function many(egress: number, pods: number): readonly Given[] {
  return Array.from({ length: egress }, (_, n) => {
    const network_ = n % 2 === 0 ? "172.18.0" : "10.10.10";
    const at = { [`${network_}.${50 + (n >> 1)}`]: "node1" };
    const selector = [{ key: "team", operator: "In", values: [`t${n}`] }] as const;
    return [
      egressIP(`e${n}`, { at, namespaceSelector: selector }),
      namespace(`n${n}`, { team: `t${n}` }),
      ...Array.from({ length: pods }, (_unused, m) => pod(`n${n}/p${m}`, [`10.244.${n}.${m + 3}`])),
    ];
  }).flat();
}

const rulesIn = (plan: Plan, chain: string) =>
  plan.iptables[4].chains.find((of) => of.chain === chain)?.rules ?? [];

describe("a plan", () => {
  it.each([
    [1, 1],
    [1, 200],
    [20, 1],
    [40, 100],
  ])(
    "for %i egress IPs of %i pods each has one SNAT rule an egress IP, one ip rule a link, one entry a pod",
    (egress, pods) => {
      const plan = planned(many(egress, pods));
      const links = Math.min(egress, 2);
      const rules = plan.iptables[4].chains.flatMap((of) => of.rules);
      expect(rules.filter((rule) => rule.includes("--to-source"))).toHaveLength(egress);
      expect(rulesIn(plan, "EGRESSIP-MARK")).toHaveLength(9);
      expect(rulesIn(plan, "EGRESSIP-GUARD")).toHaveLength(5 + links);
      expect(plan.rules).toHaveLength(links);
      expect(sizeOf(plan.sets.served[4])).toBe(egress * pods);
      expect(plan.addresses.hold).toHaveLength(egress);
      expect(plan.marks).toHaveLength(egress);
      expect(plan.iptables[4].jumps).toHaveLength(3);
      expect(plan.routes.length).toBeLessThanOrEqual(links * 4);
    },
  );

  it("has for IPv6 the same chains, of its own addresses", () => {
    const plan = planned([egressIP("e", { at: { "172.18.0.50": "node1", "fd00:172:18::50": "node1" } })]);
    const chains = (family: 4 | 6) =>
      plan.iptables[family].chains.map(({ table, chain }) => `${table} ${chain}`);
    expect(chains(6)).toEqual(chains(4));
    const snat = (family: 4 | 6) =>
      plan.iptables[family].chains.flatMap(({ rules }) =>
        rules.filter((rule) => rule.includes("SNAT --to-source")),
      );
    expect(snat(4)).toEqual(["-o eth0 -m mark --mark 0x10000000/0x7ff00000 -j SNAT --to-source 172.18.0.50"]);
    expect(snat(6)).toEqual([
      "-o eth0 -m mark --mark 0x10000000/0x7ff00000 -j SNAT --to-source fd00:172:18::50",
    ]);
  });

  it("writes every rule as iptables-save prints it: what is planned is what is read", () => {
    const plan = planned(many(2, 1));
    for (const rule of plan.iptables[4].chains.flatMap(({ rules }) => rules)) {
      expect(rule).not.toMatch(/0x0[0-9a-f]|\/32|--state|[A-F]x| {2}/);
      expect(rule).toMatch(/-j [A-Z]+/);
    }
  });

  it("has the same text whatever the order of the objects", () => {
    const all = [
      ...many(6, 5),
      egressIP("twin", { at: { "172.18.0.90": "node1" }, created: "2026-03-01T00:00:00Z" }),
    ];
    const text = (plan: Plan) =>
      JSON.stringify({
        ...plan,
        sets: {
          ...plan.sets,
          served: Object.fromEntries(
            [...entriesOf(plan.sets.served[4])].sort(([a], [b]) => (a < b ? -1 : 1)),
          ),
        },
      });
    expect(text(planned(all.toReversed()))).toBe(text(planned(all)));
  });

  it("is nothing but addresses to withdraw where no egress IP and no selected pod is", () => {
    const elsewhere = egressIP("e", {
      at: { "172.18.0.50": "node2" },
      namespaceSelector: [{ key: "x", operator: "Exists" }],
    });
    const plan = planned([elsewhere, namespace("shop"), pod("shop/a", ["10.244.1.3"])]);
    const addresses = { hold: [], notHeld: new Set(["172.18.0.50"]), inTurn: new Set(), asks: true };
    expect(plan).toEqual({ ...nothing, addresses });
  });

  it.each([
    ["drop", [["10.244.1.3", ""]], true],
    ["node-ip", [], false],
  ] as const)(
    "with --when-unready=%s holds selected pods without an egress IP back, or not",
    (whenUnready, entries, guarded) => {
      const waiting = egressIP("e", { requested: ["172.18.0.50"] });
      const plan = planned(
        [
          waiting,
          egressIP("other", { at: { "10.10.10.50": "node1" }, created: "2026-02-01T00:00:00Z" }),
          namespace("shop"),
          pod("shop/a", ["10.244.1.3"]),
        ],
        { whenUnready },
      );
      expect([...entriesOf(plan.sets.served[4])]).toEqual(entries);
      expect(
        rulesIn(plan, "EGRESSIP-GUARD").some(
          (rule) => !rule.includes("INVALID") && rule.includes("--match-set egressip4 src"),
        ),
      ).toBe(guarded);
    },
  );

  it("in shared gateway mode leaves primary egress IPs to OVN and takes the others", () => {
    const plan = planned([egressIP("e", { at: { "172.18.0.50": "node1", "10.10.10.50": "node1" } })], {
      gatewayMode: "shared",
    });
    expect(plan.addresses.hold.map(({ address }) => address)).toEqual(["10.10.10.50"]);
  });

  it("gives an address to a link that is down nothing to add, and keeps what is there", () => {
    const links = network.links.map((link) => (link.name === "eth0" ? { ...link, running: false } : link));
    const plan = planned(
      [egressIP("e", { at: { "172.18.0.50": "node1" } })],
      {},
      { ...bareHost, network: { ...network, links } },
    );
    expect(plan.addresses.hold).toEqual([
      { link: "eth0", address: "172.18.0.50", family: 4, addable: false },
    ]);
  });

  it("says --random-fully only where it is asked", () => {
    const snat = (randomFully: boolean) =>
      rulesIn(
        planned([egressIP("e", { at: { "172.18.0.50": "node1" } })], { randomFully }),
        "EGRESSIP-SNAT",
      ).at(-1);
    expect([snat(true)?.endsWith(" --random-fully"), snat(false)?.endsWith(" --random-fully")]).toEqual([
      true,
      false,
    ]);
  });
});

describe("the table of a link", () => {
  const tables = (routes: NetworkFacts["routes"], links = network.links) => {
    const host = { ...bareHost, network: { ...network, routes, links } };
    return planned([egressIP("e", { at: { "10.10.10.50": "node1", "fd00:10:10::50": "node1" } })], {}, host);
  };
  const main = (
    words: Partial<NetworkFacts["routes"][number]> & { readonly link: string; readonly gateway?: string },
  ) => ({
    family: 4 as const,
    table: "main",
    type: "unicast",
    destination: "0.0.0.0/0",
    metric: 0,
    protocol: "dhcp",
    mtu: 0,
    hops: [{ gateway: words.gateway ?? "", link: words.link, onlink: false, weight: 1 }],
    ...words,
  });
  const of4 = (plan: Plan) => plan.routes.filter(({ family }) => family === 4).map(routeWords);

  it("has the link's routes of main, the pods' through the management port, and an end that leads nowhere (BL-69, BL-71)", () => {
    expect(of4(tables(network.routes))).toEqual([
      "0.0.0.0/0 via 10.10.10.1 dev eth1 table 1004 metric 500 proto 233",
      "10.10.10.0/24 dev eth1 table 1004 proto 233",
      "10.244.0.0/16 via 10.244.1.1 dev ovn-k8s-mp0 table 1004 proto 233",
      "blackhole 0.0.0.0/0 table 1004 metric 4294967295 proto 233",
    ]);
  });

  it("has a default of its own where main has none over the link (D.4)", () => {
    expect(of4(tables([]))).toEqual([
      "0.0.0.0/0 dev eth1 table 1004 proto 233",
      "blackhole 0.0.0.0/0 table 1004 metric 4294967295 proto 233",
    ]);
    expect(
      tables([])
        .routes.filter(({ family }) => family === 6)
        .map(routeWords),
    ).toEqual([
      "::/0 dev eth1 table 1004 metric 1024 proto 233",
      "blackhole ::/0 table 1004 metric 4294967295 proto 233",
    ]);
  });

  it("has only the way to nowhere while the link is down (K-7)", () => {
    const links = network.links.map((link) => (link.name === "eth1" ? { ...link, running: false } : link));
    expect(of4(tables([], links))).toEqual(["blackhole 0.0.0.0/0 table 1004 metric 4294967295 proto 233"]);
  });

  it("takes of a multipath route the hops over the link, keeps onlink, metric and MTU, and no route of another table or kind", () => {
    const hops = [
      { gateway: "172.18.0.1", link: "eth0", onlink: false, weight: 2 },
      { gateway: "10.10.10.1", link: "eth1", onlink: true, weight: 3 },
    ];
    const routes = [
      main({ link: "eth1", destination: "192.0.2.0/24", metric: 7, mtu: 1400, hops }),
      main({ link: "eth1", destination: "198.51.100.0/24", table: "77" }),
      main({ link: "eth1", destination: "203.0.113.0/24", type: "blackhole", hops: [] }),
    ];
    expect(of4(tables(routes))[0]).toBe(
      "192.0.2.0/24 via 10.10.10.1 dev eth1 onlink table 1004 metric 7 proto 233 mtu 1400",
    );
    expect(of4(tables(routes))).toHaveLength(3);
  });

  it("does not send the world to the management port, though main does", () => {
    expect(of4(tables([main({ link: "ovn-k8s-mp0", gateway: "10.244.1.1" })])).join("\n")).not.toContain(
      "ovn-k8s-mp0",
    );
  });

  it("has one of several routes that main tells apart and a table of ours cannot, whatever the order of listing", () => {
    const two = [
      main({ link: "eth1", family: 6, destination: "::/0", metric: 1024, gateway: "fe80::2" }),
      main({ link: "eth1", family: 6, destination: "::/0", metric: 1024, gateway: "fe80::1" }),
      main({ link: "eth1", family: 6, destination: "::/0", metric: 512, gateway: "fe80::3" }),
    ];
    for (const routes of [two, two.toReversed()]) {
      const words = tables(routes)
        .routes.filter(({ family, type }) => family === 6 && type === "unicast")
        .map(routeWords);
      expect(words.sort()).toEqual([
        "::/0 via fe80::1 dev eth1 table 1004 metric 1024 proto 233",
        "::/0 via fe80::3 dev eth1 table 1004 metric 512 proto 233",
      ]);
    }
  });

  it("has no route of the link for what is the pods', whatever its metric", () => {
    const ours = network.routes.filter(({ hops }) => hops[0]?.link === "ovn-k8s-mp0");
    const theirs = ["10.244.0.0/16", "10.244.1.0/25", "10.244.7.9"].map((destination) =>
      main({ link: "eth1", destination, metric: 3 }),
    );
    const wider = main({ link: "eth1", destination: "10.0.0.0/8" });
    expect(of4(tables([...ours, ...theirs, wider]))).toEqual([
      "10.0.0.0/8 dev eth1 table 1004 proto 233",
      "0.0.0.0/0 dev eth1 table 1004 proto 233",
      "10.244.0.0/16 via 10.244.1.1 dev ovn-k8s-mp0 table 1004 proto 233",
      "blackhole 0.0.0.0/0 table 1004 metric 4294967295 proto 233",
    ]);
  });

  describe("of a link that is enslaved to a VRF", () => {
    const links = network.links.map((link) =>
      link.name === "eth1" ? { ...link, master: "blue", vrf: "10" } : link,
    );
    const l3mdev = (family: 4 | 6, priority: number): Rule => ({
      family,
      priority,
      table: "",
      protocol: "",
      selector: "l3mdev",
    });
    const planOf = (rules: readonly Rule[], routes: NetworkFacts["routes"] = []) => {
      const host = { ...bareHost, network: { ...network, routes, links, rules } };
      return planned(
        [egressIP("e", { at: { "10.10.10.50": "node1", "fd00:10:10::50": "node1" } })],
        {},
        host,
      );
    };
    const preferences = (...rules: readonly Rule[]) =>
      planOf(rules).rules.map(({ family, priority }) => `${family} ${priority}`);

    it("has the routes of the VRF's table and none of main's over that link, and the pods' of main", () => {
      const routes = [
        main({ link: "eth1", gateway: "10.10.10.1", table: "10" }),
        main({ link: "eth2", destination: "192.0.2.0/24", table: "10" }),
        main({ link: "", table: "10", type: "unreachable", metric: 4278198272, hops: [] }),
        main({ link: "eth1", destination: "203.0.113.0/24" }),
        main({ link: "ovn-k8s-mp0", destination: "10.244.0.0/16", gateway: "10.244.1.1" }),
      ];
      expect(of4(planOf([], routes))).toEqual([
        "0.0.0.0/0 via 10.10.10.1 dev eth1 table 1004 proto 233",
        "10.244.0.0/16 via 10.244.1.1 dev ovn-k8s-mp0 table 1004 proto 233",
        "blackhole 0.0.0.0/0 table 1004 metric 4294967295 proto 233",
      ]);
    });

    it("is led to before the kernel asks the VRF's table, of each family where that stands", () => {
      expect(preferences(l3mdev(4, 1000), l3mdev(6, 1000))).toEqual(["4 999", "6 999"]);
      expect(preferences(l3mdev(4, 500), l3mdev(4, 1000), l3mdev(6, 2000))).toEqual(["4 499", "6 1999"]);
    });

    it("is led to where others are when nothing or something later asks the VRF's table", () => {
      expect(preferences()).toEqual(["4 6000", "6 6000"]);
      expect(preferences(l3mdev(4, 32765), l3mdev(6, 0))).toEqual(["4 6000", "6 0"]);
    });

    it("does not change where the rules of other links stand", () => {
      const host = { ...bareHost, network: { ...network, links, rules: [l3mdev(4, 1000)] } };
      const at = { "10.10.10.50": "node1", "172.18.0.50": "node1" };
      const { rules } = planned([egressIP("e", { at })], {}, host);
      expect(rules.map(({ table, priority }) => `${table} ${priority}`)).toEqual(["1003 6000", "1004 999"]);
    });
  });

  it("is led to by one rule a family", () => {
    expect(tables(network.routes).rules.map((rule) => `${rule.family} ${ruleWords(rule)}`)).toEqual([
      "4 fwmark 0x10000000/0x78000000 lookup 1004 pref 6000 protocol 233",
      "6 fwmark 0x10000000/0x78000000 lookup 1004 pref 6000 protocol 233",
    ]);
  });
});

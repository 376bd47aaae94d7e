// What OVN-Kubernetes has in the kernel, taken over and given back: the text of it, what it leaves alone, what it predicts.
import { describe, expect, it } from "vitest";
import { parseFacts, printFacts } from "../../../agent/inputs/facts-text.ts";
import { createBuild } from "../../../agent/model/build.ts";
import type { HostFacts } from "../../../agent/model/facts.ts";
import { translationsOf } from "../../../agent/model/reference.ts";
import type { Settings } from "../../../agent/model/settings.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { handBackHost } from "../../../agent/plan/parts/hand-back.ts";
import { nothing, type Plan } from "../../../agent/plan/plan.ts";
import { createBackends } from "../../../agent/sync/backends.ts";
import { noTools } from "../../../agent/sync/no-tools.ts";
import { carryOut, type Outcome } from "../../../agent/sync/round.ts";
import type { Route, Rule } from "../../../lib/netlink/pure.ts";
import { parseSave } from "../../../lib/node-iptables/pure.ts";
import { address, bareHost, egressIP, namespace, network, node1, objects, pod, settings } from "../make.ts";
import { recordingTools } from "../tools.ts";

const adopting: Settings = { ...settings, adopt: true };

const world = objects(
  { ...node1, secondaryEgressIPs: ["10.10.10.50", "10.10.10.58"] },
  namespace("shop"),
  egressIP("prod", { at: { "10.10.10.50": "node1", "fd00:10:10::50": "node1" } }),
  pod("shop/web", ["10.244.1.3", "fd00:10:244:1::3"]),
);

function rule(family: 4 | 6, selector: string, of: Partial<Rule> = {}): Rule {
  return { family, priority: 6000, table: "1004", protocol: "", selector, ...of };
}

function route(destination: string, gateway = "", of: Partial<Route> = {}): Route {
  return {
    ...{ family: 4, table: "1004", type: "unicast", destination, metric: 0, protocol: "boot", mtu: 0 },
    hops: [{ gateway, link: "eth1", onlink: false, weight: 1 }],
    ...of,
  };
}

const theirRules = [
  rule(4, "from 10.244.1.3"),
  rule(4, "from 10.244.1.9"),
  rule(6, "from fd00:10:244:1::3"),
  rule(4, "fwmark 0x3f0", { priority: 5999, table: "main" }),
];
/** Alike, and not theirs: each differs in one thing. */
const othersRules = [
  rule(4, "from 192.0.2.7"),
  rule(4, "from 10.244.0.0/16"),
  rule(4, "from 10.244.1.3 iif eth0"),
  rule(4, "from 10.244.1.3", { priority: 5998 }),
  rule(4, "from 10.244.1.3", { protocol: "99" }),
  rule(4, "from 10.244.1.3", { table: "1002" }),
  rule(4, "from 10.244.1.3", { table: "7777" }),
  rule(4, "fwmark 0x3f0", { priority: 5998, table: "main" }),
  rule(4, "fwmark 0x3f1", { priority: 5999, table: "main" }),
];
const theirRoutes = [route("0.0.0.0/0", "10.10.10.1"), route("10.10.10.0/24")];
const othersRoutes = [
  route("192.0.2.0/24", "10.10.10.1", { protocol: "static" }),
  route("192.0.2.0/24", "10.10.10.1", { table: "1003" }),
  route("192.0.2.128/25", "", { type: "unreachable", hops: [] }),
];

const masks = "--nfmask 0xffffffff --ctmask 0xffffffff";
const base = {
  4: parseSave(
    [
      "*nat",
      ":POSTROUTING ACCEPT [0:0]",
      ":OTHERS - [0:0]",
      ":OVN-KUBE-EGRESS-IP-MULTI-NIC - [0:0]",
      "-A POSTROUTING -j OVN-KUBE-EGRESS-IP-MULTI-NIC",
      "-A POSTROUTING -j OTHERS",
      "-A OTHERS -s 10.244.1.3/32 -o eth1 -j SNAT --to-source 10.10.10.77",
      "-A OVN-KUBE-EGRESS-IP-MULTI-NIC -s 10.244.1.3/32 -o eth1 -j SNAT --to-source 10.10.10.50",
      "-A OVN-KUBE-EGRESS-IP-MULTI-NIC -s 10.244.1.9/32 -o eth1 -j SNAT --to-source 10.10.10.59",
      "COMMIT",
      "*mangle",
      ":PREROUTING ACCEPT [0:0]",
      `-A PREROUTING -m mark --mark 0x3f0 -j CONNMARK --save-mark ${masks}`,
      `-A PREROUTING -m mark --mark 0x0 -j CONNMARK --restore-mark ${masks}`,
      "COMMIT",
    ].join("\n"),
  ),
  // Without the rule that saves, the one that restores is anybody's.
  6: parseSave(
    `*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -m mark --mark 0x0 -j CONNMARK --restore-mark ${masks}\nCOMMIT`,
  ),
};

const theirHost: HostFacts = {
  ...bareHost,
  iptables: base,
  network: {
    ...network,
    rules: [...theirRules, ...othersRules],
    routes: [...network.routes, ...theirRoutes, ...othersRoutes],
    addresses: [
      ...network.addresses,
      address("eth1", "10.10.10.50/32"),
      address("eth1", "10.10.10.58/32"),
      address("eth1", "10.10.10.59/32"),
      address("eth1", "10.10.10.79/32"),
      address("eth1", "fd00:10:10::50/128"),
    ],
  },
};

const inNft: HostFacts["reference"] = {
  chains: ["egress-ip-sec-filter", "egress-ip-snat"],
  maps: ["egress-ip-snat-v4"],
  translations: [{ family: 4, link: "eth1", address: "10.10.10.59" }],
};

async function round(
  of: Settings,
  host: HostFacts,
): Promise<Outcome & { readonly problems: readonly string[] }> {
  const snapshot = createBuild()(of, world, host);
  const plan = createMode("local").plan(snapshot);
  const outcome = await carryOut(createBackends(noTools), plan, host, { write: false, held: () => false });
  return { ...outcome, problems: snapshot.problems.map(({ text }) => text) };
}

function linesOf({ steps }: Outcome, phase: string, backend = "reference"): readonly string[] {
  return steps
    .filter((step) => step.phase === phase && step.backend === backend)
    .flatMap(({ lines }) => lines);
}

describe("adopt", () => {
  it("marks connections by what they leave with, then takes away what was there, its rules last", async () => {
    const outcome = await round(adopting, theirHost);
    expect(outcome.failures).toEqual([]);
    expect(linesOf(outcome, "establish")).toEqual([
      "conntrack -U -f ipv4 --reply-dst 10.10.10.50 --mark 0x10000000/0x7ff00000",
      "conntrack -U -f ipv6 --reply-dst fd00:10:10::50 --mark 0x10000000/0x7ff00000",
      "ip address replace fd00:10:10::50/128 dev eth1 nodad noprefixroute preferred_lft 0",
    ]);
    expect(linesOf(outcome, "retire")).toEqual([
      "# iptables-restore --noflush",
      "*nat",
      "-D POSTROUTING -j OVN-KUBE-EGRESS-IP-MULTI-NIC",
      "-F OVN-KUBE-EGRESS-IP-MULTI-NIC",
      "-X OVN-KUBE-EGRESS-IP-MULTI-NIC",
      "COMMIT",
      "*mangle",
      `-D PREROUTING -m mark --mark 0x3f0 -j CONNMARK --save-mark ${masks}`,
      `-D PREROUTING -m mark --mark 0x0 -j CONNMARK --restore-mark ${masks}`,
      "COMMIT",
      // 10.10.10.0/24 is ours by now: it stood in the same slot.
      "ip route del 0.0.0.0/0 via 10.10.10.1 dev eth1 table 1004 proto boot",
      "conntrack -D -f ipv4 --reply-dst 10.10.10.59 --zone 0",
      "conntrack -D -f ipv4 --reply-dst 10.10.10.58 --zone 0",
      "ip address del 10.10.10.58/32 dev eth1",
      "ip address del 10.10.10.59/32 dev eth1",
      "ip rule del from 10.244.1.3 lookup 1004 pref 6000",
      "ip rule del from 10.244.1.9 lookup 1004 pref 6000",
      "ip -6 rule del from fd00:10:244:1::3 lookup 1004 pref 6000",
      "ip rule del fwmark 0x3f0 lookup main pref 5999",
    ]);
  });

  it("puts the guard behind what marks, which must not hold back what is served still", async () => {
    const tables = (await round(adopting, theirHost)).steps
      .filter(({ phase, backend }) => phase === "establish" && backend === "iptables")
      .flatMap(({ lines }) => lines.filter((line) => line.startsWith("*")));
    expect(tables).toEqual(["*nat", "*mangle", "*filter", "*nat", "*mangle", "*filter"]);
  });

  it("leaves what is others', and has nothing to do a second time", async () => {
    const first = await round(adopting, theirHost);
    const { rules, routes, addresses } = first.facts.network;
    expect(rules.filter(({ protocol }) => protocol !== "233")).toEqual(othersRules);
    expect(routes.filter(({ table, protocol }) => table !== "main" && protocol !== "233")).toEqual(
      othersRoutes,
    );
    expect(addresses.some((entry) => entry.address === "10.10.10.79")).toBe(true);
    expect(first.facts.iptables[4].get("nat")?.get("OTHERS")?.rules.length).toBe(1);
    expect(first.facts.iptables[6].get("mangle")?.get("PREROUTING")?.rules.length).toBe(2);
    // What is exempt is worked out from addresses that were not recorded yet: once more, and then no more.
    const second = await round(adopting, first.facts);
    expect(second.steps.filter(({ backend }) => backend === "reference")).toEqual([]);
    expect((await round(adopting, second.facts)).steps).toEqual([]);
    expect((await round(settings, second.facts)).steps).toEqual([]);
  });

  it("takes the nft objects away in one transaction, and ends connections of what is not given here", async () => {
    const outcome = await round(adopting, { ...bareHost, reference: inNft });
    expect(linesOf(outcome, "retire")).toEqual([
      "flush chain inet ovn-kubernetes egress-ip-sec-filter",
      "flush chain inet ovn-kubernetes egress-ip-snat",
      "delete chain inet ovn-kubernetes egress-ip-sec-filter",
      "delete chain inet ovn-kubernetes egress-ip-snat",
      "delete map inet ovn-kubernetes egress-ip-snat-v4",
      "conntrack -D -f ipv4 --reply-dst 10.10.10.59 --zone 0",
    ]);
    expect(linesOf(await round(adopting, outcome.facts), "retire")).toEqual([]);
  });

  it("has its own listed in the annotation, and the others withdrawn", async () => {
    const { record } = (await round(adopting, theirHost)).facts;
    expect(record).toMatchObject({
      secondaryHostEgressIPs: ["10.10.10.50", "fd00:10:10::50"],
      withdrawnEgressIPs: ["10.10.10.58"],
    });
  });

  it("takes nothing away in a round in which something failed", async () => {
    const tools = recordingTools();
    tools.fail({ conntrack: "no" });
    const plan = createMode("local").plan(createBuild()(adopting, world, theirHost));
    const outcome = await carryOut(createBackends(tools), plan, theirHost, {
      write: true,
      held: () => false,
    });
    expect(outcome.failures.map(({ backend }) => backend)).toEqual(["reference"]);
    expect(outcome.steps.filter(({ phase }) => phase !== "establish")).toEqual([]);
  });

  it("marks no connection where what acts on marks could not be made", async () => {
    const tools = recordingTools();
    tools.fail({ iptables6: "no" });
    const plan = createMode("local").plan(createBuild()(adopting, world, theirHost));
    await carryOut(createBackends(tools), plan, theirHost, { write: true, held: () => false });
    expect(tools.writes.filter((write) => write.startsWith("conntrack"))).toEqual([]);
  });

  it("does not for a node that is not among the objects", () => {
    const strange = createBuild()(adopting, objects(), theirHost);
    expect(createMode("local").plan(strange).reference).toEqual({ kind: "leave" });
  });
});

describe("without --adopt", () => {
  it("leaves all of it alone and says so", async () => {
    const outcome = await round(settings, theirHost);
    expect(outcome.steps.filter(({ backend }) => backend === "reference")).toEqual([]);
    const there = (rules: readonly Rule[]) => rules.filter(({ protocol }) => protocol !== "233");
    expect(there(outcome.facts.network.rules)).toEqual(there(theirHost.network.rules));
    expect(outcome.problems.filter((text) => text.includes("--adopt"))).toEqual([
      "OVN-Kubernetes gives egress IPs of this agent too: 3 of its rules at priority 6000 lead pods to the same tables, " +
        "its SNAT rules name 1 of the same addresses, and it removes others' rules at that priority; " +
        "turn egress IPs off there, and start once with --adopt true to take over what it has programmed",
    ]);
    expect((await round(adopting, theirHost)).problems.filter((text) => text.includes("--adopt"))).toEqual(
      [],
    );
  });

  it("says nothing of what is not theirs", async () => {
    const host = { ...bareHost, network: { ...network, rules: othersRules } };
    expect((await round(settings, host)).problems).toEqual([]);
  });
});

describe("hand back", () => {
  const uninstall = async (host: HostFacts) => {
    const plan: Plan = { ...nothing, ...handBackHost(host) };
    return carryOut(createBackends(noTools), plan, host, { write: false, held: () => false });
  };

  /** Ours, and beside it all of theirs but for routes, which they find to be there. */
  async function bothHost(): Promise<HostFacts> {
    const { facts } = await round(adopting, theirHost);
    const nat = new Map([...(facts.iptables[4].get("nat") ?? []), ...(base[4].get("nat") ?? [])]);
    const rules = [...facts.network.rules, ...theirRules];
    return {
      ...facts,
      network: { ...facts.network, rules },
      iptables: { ...facts.iptables, 4: new Map([...facts.iptables[4], ["nat", nat]]) },
    };
  }

  it("lets the address stay, connections and routes become theirs, and takes all else of ours away", async () => {
    const outcome = await uninstall(await bothHost());
    expect(outcome.failures).toEqual([]);
    expect(linesOf(outcome, "establish", "routing")).toEqual([
      "ip route replace 0.0.0.0/0 via 10.10.10.1 dev eth1 table 1004 metric 500 proto boot",
      "ip route replace 10.10.10.0/24 dev eth1 table 1004 proto boot",
    ]);
    expect(linesOf(outcome, "retire")).toEqual([
      "conntrack -U -f ipv4 --reply-dst 10.10.10.50 --mark 0x0/0x7ff00000",
    ]);
    // Of the other family they have nothing here.
    expect(linesOf(outcome, "retire", "flows")).toEqual([
      "conntrack -D -f ipv6 --zone 0 --mark 0x10000000/0x78000000",
    ]);
    expect(linesOf(outcome, "retire", "addresses")).toEqual(["ip address del fd00:10:10::50/128 dev eth1"]);
    expect(outcome.facts.record).toEqual({ addresses: [], sysctls: {} });
    expect(outcome.facts.sets.size).toBe(0);
    const kept = outcome.facts.network.routes.filter(({ table }) => table === "1004");
    expect(kept.filter(({ protocol }) => protocol === "233")).toEqual([]);
    expect((await uninstall(outcome.facts)).steps).toEqual([]);
  });

  it("adds no route where they have one to that destination, whatever its metric", async () => {
    const host = await bothHost();
    const routes = [...host.network.routes, route("0.0.0.0/0", "10.10.10.1")];
    const outcome = await uninstall({ ...host, network: { ...host.network, routes } });
    expect(linesOf(outcome, "establish", "routing")).toEqual([
      "ip route replace 10.10.10.0/24 dev eth1 table 1004 proto boot",
    ]);
  });

  it("leaves sysctls as they are, which they need as much", async () => {
    const host = await bothHost();
    const path = "net/ipv4/conf/all/src_valid_mark";
    const recorded = { ...host.record, sysctls: { [path]: "0" } };
    const outcome = await uninstall({ ...host, record: recorded, sysctls: { [path]: "1" } });
    expect(linesOf(outcome, "retire", "sysctls")).toEqual([]);
    expect(outcome.facts.record.sysctls).toEqual({});
  });

  it("is uninstalling where they have programmed nothing", async () => {
    const { facts } = await round(settings, bareHost);
    const plain = await carryOut(createBackends(noTools), nothing, facts, {
      write: false,
      held: () => false,
    });
    expect((await uninstall(facts)).steps).toEqual(plain.steps);
  });
});

describe("facts", () => {
  it("print and parse with what was read of nft, and say nothing of it where nothing was", () => {
    const printed = printFacts({ ...bareHost, reference: inNft });
    expect(parseFacts(printed).reference).toEqual(inNft);
    expect(printFacts(bareHost)).not.toContain("reference");
    expect(parseFacts(printFacts(bareHost)).reference).toBe(bareHost.reference);
  });

  it("tell of each translation once, by chain and by map", () => {
    const translations = translationsOf({ ...theirHost, reference: inNft });
    expect(translations.map(({ address: of }) => of)).toEqual(["10.10.10.50", "10.10.10.59"]);
  });
});

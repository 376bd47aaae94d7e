// The tracer on small made-up hosts: each kind of rule it knows, and what it says of those it does not.
// That it agrees with the kernel is shown by scenarios.test.ts and kernel/scenarios.test.ts with the same packets.
import { describe, expect, test } from "vitest";
import { parseFacts } from "../../agent/inputs/facts-text.ts";
import { leakGuard } from "../../agent/plan/parts/leak-guard.ts";
import { type Packet, trace } from "../../agent/trace.ts";
import { parseRule } from "../../agent/trace-rule.ts";
import type { Step } from "../../agent/trace-step.ts";
import { cidr, settings } from "./make.ts";

const hop = (link: string, gateway = "") => [{ gateway, link, onlink: false, weight: 1 }];
const address = (link: string, family: 4 | 6, text: string, length: number, flags: string[] = []) => ({
  link,
  family,
  address: text,
  length,
  scope: "global",
  label: "",
  flags,
});
const route = (table: string, destination: string, metric: number, hops: unknown[], type = "unicast") => ({
  family: destination.includes(":") ? 6 : 4,
  table,
  type,
  destination,
  metric,
  protocol: "233",
  hops,
  mtu: 0,
});
const rule = (priority: number, table: string, selector: string, family = 4) => ({
  family,
  priority,
  table,
  protocol: "",
  selector,
});

interface Host {
  readonly iptables?: readonly string[];
  readonly rules?: readonly unknown[];
  readonly routes?: readonly unknown[];
  readonly served?: Readonly<Record<string, string>>;
  readonly nft?: string;
  readonly sysctls?: Readonly<Record<string, string>>;
}

/** A host with eth0, eth1 and the pods behind mp0. */
function host({ iptables = [], rules = [], routes = [], served = {}, nft = "", sysctls = {} }: Host) {
  const value = {
    version: 1,
    network: {
      links: [],
      addresses: [
        address("eth0", 4, "172.18.0.11", 24),
        address("eth1", 4, "10.10.10.11", 24),
        address("eth1", 4, "10.10.10.50", 32),
        address("eth1", 6, "fd00:10:10::50", 128, ["deprecated"]),
        address("eth1", 6, "fd00:10:10::11", 64),
        address("mp0", 4, "10.244.1.2", 24),
      ],
      routes: [
        route("main", "0.0.0.0/0", 100, hop("eth0", "172.18.0.1")),
        route("main", "0.0.0.0/0", 500, hop("eth1", "10.10.10.1")),
        route("main", "10.10.10.0/24", 0, hop("eth1")),
        route("main", "10.244.0.0/16", 0, hop("mp0", "10.244.1.1")),
        route("main", "::/0", 100, hop("eth1", "fd00:10:10::1")),
        ...routes,
      ],
      rules: [rule(0, "local", ""), rule(32766, "main", ""), rule(32766, "main", "", 6), ...rules],
    },
    sysctls,
    iptables: { 4: iptables, 6: iptables },
    sets: [
      { name: "egressip4", type: "hash:ip", options: "", members: served },
      { name: "egressip-exempt4", type: "hash:net", options: "", members: { "10.96.0.0/16": "" } },
    ],
    nft: nft.split("\n"),
    record: { addresses: [], sysctls: {} },
    announced: [],
  };
  return parseFacts(JSON.stringify(value));
}

/** `-A CHAIN …` lines of one table, with the chains they need declared. */
function table(name: string, ...rules: readonly string[]): readonly string[] {
  const chains = new Set(rules.flatMap((line) => /^-A (\S+)/.exec(line)?.[1] ?? []));
  const declared = [...chains].map((chain) => `:${chain} ${/^[A-Z]+$/.test(chain) ? "ACCEPT" : "-"} [0:0]`);
  return [`*${name}`, ...declared, ...rules, "COMMIT"];
}

const packet: Packet = { source: "10.244.1.3", destination: "198.51.100.80", from: "mp0" };
const web = { ...packet, protocol: "tcp", port: 80 } as const;

const shown = ({ step, object, found, verdict }: Step) => `${step}: ${object}: ${found} -> ${verdict}`;

const leaves = (link: string, source: string, destination = packet.destination) => ({
  leaves: true,
  link,
  source,
  destination,
});

describe("routes", () => {
  test("the lowest metric of the longest prefix", () => {
    expect(trace(host({}), packet).verdict).toEqual(leaves("eth0", "10.244.1.3"));
    const near = { ...packet, destination: "10.10.10.100" };
    expect(trace(host({}), near).verdict).toEqual(leaves("eth1", "10.244.1.3", "10.10.10.100"));
  });

  test("rules count by priority, not by their place in the list", () => {
    const facts = host({
      rules: [rule(6000, "200", "from 10.244.1.3")],
      routes: [route("200", "0.0.0.0/0", 0, hop("eth1", "10.10.10.1"))],
    });
    expect(trace(facts, packet).verdict).toEqual(leaves("eth1", "10.244.1.3"));
    expect(trace(facts, { ...packet, source: "10.244.1.4" }).verdict).toMatchObject({ link: "eth0" });
  });

  test("a table without a route, and one that throws, lead on to the next; a blackhole ends", () => {
    const by = (type: string) =>
      host({ rules: [rule(6000, "200", "")], routes: [route("200", "0.0.0.0/0", 0, [], type)] });
    expect(trace(host({ rules: [rule(6000, "200", "")] }), packet).verdict).toMatchObject({ link: "eth0" });
    expect(trace(by("throw"), packet).verdict).toMatchObject({ link: "eth0" });
    expect(trace(by("blackhole"), packet).verdict).toEqual({
      leaves: false,
      at: "route",
      why: "blackhole route in table 200",
    });
  });

  test("a selector nobody here knows is said and passed over", () => {
    const traced = trace(host({ rules: [rule(100, "200", "sport 1-2 uidrange 0-9")] }), packet);
    expect(traced.steps).toContainEqual({
      step: "unjudged",
      object: "ip rule 100",
      found: "sport 1-2 uidrange 0-9",
      verdict: "not understood, passed over",
    });
    expect(traced.unjudged).toBe(1);
    expect(traced.verdict).toMatchObject({ link: "eth0" });
  });

  test("what is for this host does not leave", () => {
    expect(trace(host({}), { ...packet, destination: "10.10.10.11" }).verdict).toEqual({
      leaves: false,
      at: "local",
      why: "delivered to this host",
    });
  });
});

describe("rules of somebody else that come first", () => {
  const by = (selector: string, table = "200", routes: readonly unknown[] = []) =>
    trace(host({ rules: [rule(100, table, selector)], routes }), web);
  const by1 = [route("200", "0.0.0.0/0", 0, hop("eth1", "10.10.10.1"))];

  test.each([
    ["to 198.51.100.0/24", "eth1"],
    ["to 203.0.113.0/24", "eth0"],
    ["ipproto tcp", "eth1"],
    ["dport 80-90", "eth1"],
    ["dport 81", "eth0"],
    ["suppress_prefixlength 0", "eth0"],
    ["from 10.244.1.3 ipproto udp", "eth0"],
  ])("%s leads by %s", (selector, link) => {
    const { verdict, unjudged } = by(selector, "200", by1);
    expect([verdict, unjudged]).toEqual([expect.objectContaining({ leaves: true, link }), 0]);
  });

  test.each(["blackhole", "unreachable", "prohibit"])("%s ends it", (action) => {
    expect(by(`from 10.244.1.3 ${action}`, "").verdict).toEqual({
      leaves: false,
      at: "rule",
      why: `${action} rule at 100: from 10.244.1.3 ${action}`,
    });
    expect(by(`from 10.244.1.9 ${action}`, "").verdict).toMatchObject({ leaves: true });
  });

  test("one that is turned round is not judged, and that of VRFs is not for what comes in by no VRF", () => {
    expect(by("not from 10.244.1.9", "200", by1)).toMatchObject({ unjudged: 1, verdict: { link: "eth0" } });
    expect(by("l3mdev", "200", by1)).toMatchObject({ unjudged: 0, verdict: { link: "eth0" } });
  });

  test("what does not fit is passed over without a word, also if the rest of it is not understood", () => {
    expect(by("from 10.244.1.9 sport 7", "200", by1)).toMatchObject({ unjudged: 0 });
  });
});

describe("sysctls of the link that pods come in by", () => {
  const six = { ...packet, source: "fd00:10:244:1::3", destination: "2001:db8:51::80" };
  test.each([
    [packet, { "net/ipv4/conf/mp0/forwarding": "0" }, "forwarding"],
    [six, { "net/ipv6/conf/all/forwarding": "0" }, "forwarding"],
    [six, { "net/ipv6/conf/mp0/disable_ipv6": "1" }, "forwarding"],
    [
      { ...packet, source: "192.0.2.7" },
      { "net/ipv4/conf/all/rp_filter": "1", "net/ipv4/conf/mp0/rp_filter": "0" },
      "reverse-path",
    ],
  ] as const)("%j with %j is dropped at %s", (sent, sysctls, at) => {
    expect(trace(host({ sysctls }), sent).verdict).toMatchObject({ leaves: false, at });
  });

  test.each([
    [packet, { "net/ipv6/conf/all/forwarding": "0", "net/ipv4/conf/eth1/forwarding": "0" }],
    [six, { "net/ipv6/conf/all/forwarding": "0", "net/ipv6/conf/mp0/force_forwarding": "1" }],
    [
      { ...packet, source: "192.0.2.7" },
      { "net/ipv4/conf/all/rp_filter": "1", "net/ipv4/conf/mp0/rp_filter": "2" },
    ],
    [packet, { "net/ipv4/conf/all/rp_filter": "1", "net/ipv4/conf/mp0/rp_filter": "1" }],
  ] as const)("%j with %j goes on", (sent, sysctls) => {
    expect(trace(host({ sysctls }), sent).verdict).toMatchObject({ leaves: true });
  });
});

describe("others' rules", () => {
  test("masquerade takes the link's own address, never an egress IP or a deprecated one", () => {
    const facts = host({
      iptables: table("nat", "-A POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -o eth1 -j MASQUERADE"),
    });
    expect(trace(facts, { ...packet, destination: "10.10.10.100" }).verdict).toMatchObject({
      source: "10.10.10.11",
    });
    expect(trace(facts, packet).verdict).toMatchObject({ source: "10.244.1.3" });
    const six = { source: "fd00:10:244:1::3", destination: "2001:db8:51::80", from: "mp0" };
    const all = host({ iptables: table("nat", "-A POSTROUTING -o eth1 -j MASQUERADE") });
    expect(trace(all, six).verdict).toMatchObject({ source: "fd00:10:10::11" });
  });

  const service = host({
    iptables: table(
      "nat",
      '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
      "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ",
      "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.1.6:8080",
      "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
      "-A POSTROUTING -j KUBE-POSTROUTING",
      "-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN",
      "-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0",
      "-A KUBE-POSTROUTING -j MASQUERADE",
    ),
  });

  test("a service: another destination, routed there, masqueraded as marked", () => {
    const to = { ...web, destination: "10.96.0.10" };
    expect(trace(service, to).verdict).toEqual(leaves("mp0", "10.244.1.2", "10.244.1.6"));
    expect(trace(service, { ...to, port: 81 }).verdict).toMatchObject({ destination: "10.96.0.10" });
    expect(trace(service, { ...to, protocol: "udp" }).verdict).toMatchObject({ destination: "10.96.0.10" });
  });

  test("a policy of DROP, a drop and a reject end it and name the rule", () => {
    const policy = ["*filter", ":FORWARD DROP [0:0]", "COMMIT"];
    expect(trace(host({ iptables: policy }), packet).verdict).toEqual({
      leaves: false,
      at: "chain",
      why: "dropped by FORWARD: policy DROP",
    });
    for (const target of ["DROP", "REJECT --reject-with icmp-port-unreachable"]) {
      const facts = host({ iptables: table("filter", `-A FORWARD -s 10.244.1.3/32 -j ${target}`) });
      expect(trace(facts, packet).verdict).toEqual({
        leaves: false,
        at: "chain",
        why: `dropped by FORWARD: -s 10.244.1.3/32 -j ${target}`,
      });
    }
  });

  test("an ACCEPT ends a base chain even from a chain below it; RETURN goes on above", () => {
    const facts = (target: string) =>
      host({
        iptables: table(
          "filter",
          "-A FORWARD -j OTHER",
          "-A FORWARD -j DROP",
          `-A OTHER -i mp0 -j ${target}`,
          "-A OTHER -j DROP",
        ),
      });
    expect(trace(facts("ACCEPT"), packet).verdict).toMatchObject({ leaves: true });
    expect(trace(facts("RETURN"), packet).verdict).toMatchObject({ leaves: false });
  });

  test("a rule that cannot be judged is counted, unless what is understood of it says no", () => {
    const facts = (source: string) =>
      host({
        iptables: table(
          "filter",
          `-A FORWARD -s ${source} -m statistic --mode random --probability 0.5 -j DROP`,
        ),
      });
    expect(trace(facts("10.244.1.3/32"), packet)).toMatchObject({ unjudged: 1, verdict: { leaves: true } });
    expect(trace(facts("10.244.1.9/32"), packet)).toMatchObject({ unjudged: 0, verdict: { leaves: true } });
    const target = host({ iptables: table("filter", "-A FORWARD -j TEE --gateway 10.0.0.1") });
    expect(trace(target, packet)).toMatchObject({ unjudged: 1, verdict: { leaves: true } });
    const theirs = host({ iptables: table("filter", "-A FORWARD -m set --match-set theirs src -j DROP") });
    expect(trace(theirs, packet)).toMatchObject({ unjudged: 1, verdict: { leaves: true } });
  });

  test("two chains that call each other come to an end", () => {
    const facts = host({
      iptables: table("filter", "-A FORWARD -j ONE", "-A ONE -j OTHER", "-A OTHER -j ONE"),
    });
    expect(trace(facts, packet).verdict).toMatchObject({ leaves: true });
  });
});

describe("our rules", () => {
  const mark = table(
    "mangle",
    "-A PREROUTING -j EGRESSIP-MARK",
    "-A EGRESSIP-MARK -m connmark ! --mark 0x0/0x7ff00000 -j CONNMARK --restore-mark --nfmask 0x7ff00000 --ctmask 0x7ff00000",
    "-A EGRESSIP-MARK -m conntrack ! --ctstate NEW -j RETURN",
    "-A EGRESSIP-MARK -m set --match-set egressip-exempt4 dst -j RETURN",
    "-A EGRESSIP-MARK -j SET --map-set egressip4 src --map-mark",
    "-A EGRESSIP-MARK -m mark ! --mark 0x0/0x7ff00000 -j CONNMARK --save-mark --nfmask 0x7ff00000 --ctmask 0x7ff00000",
  );
  const snat = table(
    "nat",
    "-A POSTROUTING -j EGRESSIP-SNAT",
    "-A EGRESSIP-SNAT -o eth1 -m mark --mark 0x10000000/0x7ff00000 -j SNAT --to-source 10.10.10.50 --random-fully",
  );
  const guard = table(
    "filter",
    "-A FORWARD -j EGRESSIP-GUARD",
    "-A EGRESSIP-GUARD -o mp0 -j RETURN",
    "-A EGRESSIP-GUARD -o eth1 -m connmark --mark 0x10000000/0x78000000 -j RETURN",
    "-A EGRESSIP-GUARD -m connmark ! --mark 0x0/0x7ff00000 -j DROP",
    "-A EGRESSIP-GUARD -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j RETURN",
    "-A EGRESSIP-GUARD -m set --match-set egressip4 src -m set ! --match-set egressip-exempt4 dst -j DROP",
  );
  const steered = {
    served: { "10.244.1.3": "skbmark 0x10000000/0x7ff00000", "10.244.1.4": "" },
    rules: [rule(6000, "1004", "fwmark 0x10000000/0x78000000")],
    routes: [route("1004", "0.0.0.0/0", 0, hop("eth1", "10.10.10.1"))],
  };
  const leak =
    'table inet egressip {\nchain leak {\nmeta mark & 0x7ff00000 == 0x00000000 accept\noifname "mp0" accept\nip saddr 10.10.10.50 accept\ncounter drop comment "egressip-leak"\n}\n}\n';

  test("a served pod leaves with its egress IP, and the steps say why", () => {
    const { verdict, steps, unjudged, nextHop } = trace(
      host({ ...steered, iptables: [...mark, ...guard, ...snat], nft: leak }),
      packet,
    );
    expect(verdict).toEqual(leaves("eth1", "10.10.10.50"));
    expect(unjudged).toBe(0);
    expect(steps.map(shown)).toEqual([
      "set: set egressip4: 10.244.1.3 skbmark 0x10000000/0x7ff00000 -> mark 0x10000000",
      "rule: ip rule 6000: fwmark 0x10000000/0x78000000 -> table 1004 decides",
      "route: table 1004: 0.0.0.0/0 via 10.10.10.1 dev eth1 -> goes on by eth1",
      "guard: filter EGRESSIP-GUARD: -o eth1 -m connmark --mark 0x10000000/0x78000000 -j RETURN -> passes",
      "snat: nat EGRESSIP-SNAT: -o eth1 -m mark --mark 0x10000000/0x7ff00000 -j SNAT --to-source 10.10.10.50 --random-fully -> source 10.10.10.50",
      "leak-guard: nft inet egressip: ip saddr 10.10.10.50 accept -> passes",
    ]);
    expect(nextHop).toBe("10.10.10.1");
  });

  test("one that is selected and not ready is held back, to exempt destinations it is not", () => {
    const facts = host({ ...steered, iptables: [...mark, ...guard, ...snat] });
    const waiting = { ...packet, source: "10.244.1.4" };
    expect(trace(facts, waiting).verdict).toMatchObject({ leaves: false });
    const exempt = trace(facts, { ...waiting, destination: "10.96.0.1" });
    expect(exempt.verdict).toMatchObject({ leaves: true, source: "10.244.1.4" });
    expect(exempt.steps.map(shown)).toContain(
      "exempt: set egressip-exempt4: 10.96.0.0/16 -> 10.96.0.1 is exempt, the pod keeps its usual source",
    );
  });

  test("without the rule the guard drops; without SNAT the leak guard does; without both it is a leak", () => {
    const facts = { ...steered, iptables: [...mark, ...guard] };
    expect(trace(host({ ...facts, rules: [] }), packet).verdict).toMatchObject({ leaves: false });
    expect(trace(host({ ...facts, nft: leak }), packet).verdict).toEqual({
      leaves: false,
      at: "leak-guard",
      why: "dropped by the leak guard: marked, and its source is no egress IP",
    });
    expect(trace(host(facts), packet).verdict).toEqual(leaves("eth1", "10.244.1.3"));
  });

  test("a pod that nobody selects is told so", () => {
    const facts = host({ ...steered, iptables: mark });
    expect(trace(facts, { ...packet, source: "10.244.1.9" }).steps.map(shown)[0]).toBe(
      "set: set egressip4: 10.244.1.9 is not in it -> no EgressIP speaks for it here",
    );
  });
});

describe("another node's pod that is led here", () => {
  const nft = leakGuard({ ...settings, managementPort: "mp0" }, [], [cidr("10.244.1.0/24")]);
  const there = { source: "10.244.2.3", destination: "198.51.100.80", from: "mp0" };
  const unclaimed =
    "dropped by the leak guard: another node led it here, and nothing here gives it an egress IP";

  test.each<[string, Partial<Packet>]>([
    ["this node's own pod", { source: "10.244.1.3" }],
    ["to a service", { destination: "10.96.0.1" }],
    ["by another link", { from: "eth0" }],
    ["to a pod", { destination: "10.244.1.9" }],
    ["no pod's address", { source: "192.0.2.9" }],
  ])("%s passes", (_, packet) => {
    expect(trace(host({ nft }), { ...there, ...packet }).verdict).toMatchObject({ leaves: true });
  });

  test("is dropped with its own address, and passes with one that somebody has translated it to", () => {
    expect(trace(host({ nft }), there).verdict).toEqual({
      leaves: false,
      at: "leak-guard",
      why: unclaimed,
    });
    const masquerade =
      "*nat\n:POSTROUTING ACCEPT\n-A POSTROUTING -s 10.244.2.3/32 -o eth0 -j MASQUERADE\nCOMMIT";
    expect(trace(host({ nft, iptables: masquerade.split("\n") }), there).verdict).toEqual(
      leaves("eth0", "172.18.0.11"),
    );
    expect(trace(host({}), there).verdict).toEqual(leaves("eth0", "10.244.2.3"));
  });
});

describe("what OVN has led here, by its mark", () => {
  const nft = leakGuard({ ...settings, managementPort: "mp0" }, [], []);
  const led = { ...packet, mark: 1009 };
  const masquerade = ["*nat", ":POSTROUTING ACCEPT", "-A POSTROUTING -o eth0 -j MASQUERADE", "COMMIT"];

  test("is dropped where nothing here knows its pod, whoever translates it", () => {
    const why = "dropped by the leak guard: marked, and its source is no egress IP";
    for (const iptables of [[], masquerade])
      expect(trace(host({ nft, iptables }), led).verdict).toEqual({ leaves: false, at: "leak-guard", why });
    expect(trace(host({ nft, iptables: masquerade }), packet).verdict).toMatchObject({ leaves: true });
  });

  test("passes to a service, back to pods, and where it was given another destination", () => {
    for (const destination of ["10.96.0.7", "10.244.2.9"])
      expect(trace(host({ nft }), { ...led, destination }).verdict).toMatchObject({ leaves: true });
    const dnat = [
      "*nat",
      ":PREROUTING ACCEPT",
      "-A PREROUTING -j DNAT --to-destination 203.0.113.9",
      "COMMIT",
    ];
    expect(trace(host({ nft, iptables: dnat }), led).verdict).toMatchObject({ leaves: true });
  });
});

test("a rule's words: negation, modules, quoted text", () => {
  expect(parseRule('! -i mp0 -m comment --comment "a -j b" -m set ! --match-set x dst -g CHAIN')).toEqual({
    text: '! -i mp0 -m comment --comment "a -j b" -m set ! --match-set x dst -g CHAIN',
    conditions: [
      { not: true, module: "", option: "-i", value: "mp0" },
      { not: false, module: "comment", option: "--comment", value: '"a -j b"' },
      { not: true, module: "set", option: "--match-set", value: "x dst" },
    ],
    target: "CHAIN",
    words: [],
  });
});

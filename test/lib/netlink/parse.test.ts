// iproute2's JSON to values and the words back: over what it printed in a namespace, and over any JSON at all.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ParseError,
  parseAddresses,
  parseRoutes,
  parseRules,
  parseVrfs,
  routeSlot,
  routeWords,
  ruleWords,
  withVrfs,
} from "../../../lib/netlink/pure.ts";
import { ADDRESSES, ROUTES, RULES, VRFS } from "./recorded.ts";

describe("parseAddresses", () => {
  const { links, addresses } = parseAddresses(ADDRESSES);

  it("reads links by name, with MAC, state and master", () => {
    expect(links.map(({ name }) => name)).toEqual(["eth0", "eth1", "lo", "peer1"]);
    expect(links[0]).toEqual({
      index: 3,
      name: "eth0",
      mac: "d2:3d:7d:d0:12:15",
      up: true,
      running: true,
      mtu: 1500,
      master: "",
    });
    expect(links[3]?.master).toBe("b0");
  });

  it.each([
    ["NO-CARRIER,BROADCAST,UP", true, false],
    ["BROADCAST,UP,LOWER_UP", true, true],
    ["BROADCAST,LOWER_UP", false, false],
    ["BROADCAST", false, false],
    ["NO-CARRIER,UP,LOWER_UP", true, false],
  ])("reads flags %s as up %s, running %s", (flags, up, running) => {
    const [link] = parseAddresses(JSON.stringify([{ ifname: "x", flags: flags.split(",") }])).links;
    expect([link?.up, link?.running]).toEqual([up, running]);
  });

  it("reads addresses by link, family and text, with what can make one unusable", () => {
    expect(
      addresses.map(({ link, address, length, scope, label, flags }) =>
        [link, `${address}/${length}`, scope, label, ...flags].join(" "),
      ),
    ).toEqual([
      "eth0 172.18.0.11/24 global eth0",
      "eth0 172.18.0.12/24 global eth0 secondary",
      "eth0 172.18.0.50/32 global eth0",
      "eth0 fd00:172:18::11/64 global ",
      "eth0 fd00:172:18::50/128 global  deprecated",
      "eth0 fe80::d03d:7dff:fed0:1215/64 link  tentative",
      "eth1 10.10.10.11/24 global eth1:vip",
      "eth1 10.9.0.1/32 global eth1",
      "eth1 fe80::a010:36ff:fee3:ace7/64 link  tentative",
      "lo 127.0.0.1/8 host lo",
      "lo ::1/128 host ",
      "peer1 fe80::fc61:f3ff:fef4:768c/64 link  tentative",
    ]);
  });
});

describe("VRFs", () => {
  const tables = parseVrfs(VRFS);

  it("are read with their tables, and nothing else is taken for one", () => {
    expect([...tables]).toEqual([
      ["b0", "10"],
      ["mgmt", "1001"],
    ]);
    const bridge =
      '[{"ifname":"br0","linkinfo":{"info_kind":"bridge","info_data":{"table":7}}},{"ifname":"lo"}]';
    expect(parseVrfs(bridge).size).toBe(0);
    // A kernel without VRFs lists nothing.
    expect(parseVrfs("[{},{},{}]").size).toBe(0);
  });

  it("without a table are not guessed around", () => {
    const text = '[{"ifname":"x","linkinfo":{"info_kind":"vrf"}}]';
    expect(() => parseVrfs(text)).toThrow(ParseError);
    expect(() => parseVrfs(text)).toThrow(/VRF without a table/);
  });

  it("tell links that are enslaved to them, or are one, which table is theirs", () => {
    const { links } = parseAddresses(ADDRESSES);
    const own = [...links, { ...links[0], name: "mgmt" }] as typeof links;
    expect(withVrfs(own, tables).map(({ name, vrf }) => `${name} ${vrf}`)).toEqual([
      "eth0 undefined",
      "eth1 undefined",
      "lo undefined",
      "peer1 10",
      "mgmt 1001",
    ]);
  });
});

describe("numbers", () => {
  it("are what iproute2 is asked for, since a host may give names to tables and protocols: the usual names are the same", () => {
    const numeric = `[
      {"type":"1","dst":"default","gateway":"10.10.10.1","dev":"eth1","table":"254","protocol":"16","scope":"0","flags":[]},
      {"type":"2","dst":"10.10.10.11","dev":"eth1","table":"255","protocol":"2","scope":"254","flags":[]},
      {"type":"6","dst":"default","table":"1004","protocol":"233","scope":"0","metric":4294967295,"flags":[]},
      {"type":"1","dst":"10.10.10.0/24","dev":"eth1","table":"10","protocol":"2","scope":"253","flags":[]}]`;
    expect(parseRoutes(numeric).map(routeWords)).toEqual([
      "10.10.10.0/24 dev eth1 table 10 proto kernel",
      "blackhole 0.0.0.0/0 table 1004 metric 4294967295 proto 233",
      "0.0.0.0/0 via 10.10.10.1 dev eth1 table main proto dhcp",
    ]);
    const rules = `[
      {"priority":0,"src":"all","table":"255"},
      {"priority":6010,"src":"192.0.2.9","action":"6"},
      {"priority":6011,"src":"all","table":"1004","protocol":"4"},
      {"priority":6012,"src":"all","ipproto":"ipproto-17","dport":53,"table":"100"},
      {"priority":6013,"src":"all","ipproto":"ipproto-47","table":"100"},
      {"priority":32766,"src":"all","table":"254"}]`;
    expect(parseRules(rules, 4).map(ruleWords)).toEqual([
      "from all lookup local pref 0",
      "from 192.0.2.9 blackhole pref 6010",
      "from all lookup 1004 pref 6011 protocol static",
      "dport 53 ipproto udp lookup 100 pref 6012",
      "ipproto 47 lookup 100 pref 6013",
      "from all lookup main pref 32766",
    ]);
  });
});

describe("parseRoutes", () => {
  it("leaves out what is only for packets of one type of service", () => {
    const of = (more: string) =>
      `[{"type":"unicast","dst":"192.0.2.0/24","gateway":"10.0.0.9","dev":"eth0"${more}}]`;
    expect(parseRoutes(of(""))).toHaveLength(1);
    expect(parseRoutes(of(',"tos":"0x10"'))).toEqual([]);
  });

  const routes = parseRoutes(ROUTES);
  const words = routes.map((route) => `${route.family} ${routeWords(route)}`);

  it("reads every kind of route, and prints it in the words that make it", () => {
    expect(words).toEqual([
      "4 0.0.0.0/0 via 10.10.10.1 dev eth1 onlink table 1003 proto 233 mtu 1400",
      "4 blackhole 0.0.0.0/0 table 1003 metric 4294967295 proto 233",
      "4 throw 203.0.115.0/24 table 1003 proto boot",
      "6 blackhole ::/0 table 1003 metric 4294967295 proto 233",
      "6 ::/0 dev eth1 table 1004 metric 1024 proto 233",
      "6 ::/0 via fe80::1 dev eth1 table 77 metric 1024 proto boot",
      "4 0.0.0.0/0 via 172.18.0.1 dev eth0 table main metric 100 proto boot",
      "4 10.10.10.0/24 dev eth1 table main proto kernel",
      "4 10.9.0.2 dev eth1 table main proto kernel",
      "4 172.18.0.0/24 dev eth0 table main proto kernel",
      "4 192.0.2.0/24 table main proto boot nexthop via 172.18.0.1 dev eth0 weight 2 nexthop via 10.10.10.1 dev eth1 weight 1",
      "4 blackhole 198.51.100.0/24 table main proto boot",
      "4 unreachable 203.0.113.0/24 table main metric 5 proto boot",
      "4 prohibit 203.0.114.0/24 table main proto boot",
      "4 203.0.116.0/24 via inet6 fd00:172:18::1 dev eth0 table main proto boot",
      "4 203.0.117.7 dev eth0 table main proto boot",
      "4 203.0.118.0/24 via 10.10.10.77 dev eth1 table main proto boot mtu 1300",
      "6 2001:db8:1::/48 table main metric 1024 proto boot nexthop via fd00:172:18::1 dev eth0 weight 1 nexthop via fd00:172:18::2 dev eth0 weight 3",
      "6 unreachable 2001:db8:2::/48 table main metric 1024 proto boot",
      "6 2001:db8:3::/48 via fe80::1 dev eth1 onlink table main metric 1024 proto boot",
      "6 2001:db8:4::/48 table main metric 5 proto boot nexthop via fe80::1 dev eth1 weight 1 nexthop via fe80::2 dev eth1 weight 1",
      "6 ::/0 via fd00:172:18::1 dev eth0 table main metric 100 proto boot",
      "6 fd00:172:18::/64 dev eth0 table main metric 256 proto kernel",
      "6 fe80::/64 dev eth0 table main metric 256 proto kernel",
    ]);
  });

  it("gives a single hop the weight that it has without saying", () => {
    expect(routes.filter(({ hops }) => hops.length === 1).every(({ hops }) => hops[0]?.weight === 1)).toBe(
      true,
    );
  });

  it("leaves out what the kernel keeps for itself", () => {
    for (const type of ["local", "broadcast", "multicast"]) expect(ROUTES).toContain(`"type":"${type}"`);
    expect(
      routes.filter(({ type }) => ["local", "broadcast", "multicast", "anycast"].includes(type)),
    ).toEqual([]);
  });

  it("gives routes that replace each other one slot, and others not", () => {
    expect(new Set(routes.map(routeSlot)).size).toBe(routes.length);
    const [route] = routes;
    if (route === undefined) throw new Error("no route");
    const other = { ...route, hops: [], type: "blackhole", protocol: "boot", mtu: 0 };
    expect(routeSlot(other)).toBe(routeSlot(route));
    expect(routeSlot({ ...route, metric: 7 })).not.toBe(routeSlot(route));
  });

  it.each([
    [{ dst: "default", gateway: "fe80::1", dev: "x" }, 6],
    [{ dst: "default", dev: "x", pref: "medium" }, 6],
    [{ dst: "default", dev: "x" }, 4],
    [{ dst: "default", via: { family: "inet6", host: "fe80::1" }, dev: "x" }, 4],
    [{ dst: "default", nexthops: [{ gateway: "fe80::1", dev: "x" }] }, 6],
    [{ type: "blackhole", dst: "default", dev: "lo", pref: "medium" }, 6],
    [{ type: "blackhole", dst: "default" }, 4],
  ])("tells the family of %j", (item, family) => {
    expect(parseRoutes(JSON.stringify([item]))[0]?.family).toBe(family);
  });
});

describe("parseRules", () => {
  it("reads every kind of rule, and prints it in the words that make it", () => {
    expect(parseRules(RULES, 4).map(ruleWords)).toEqual([
      "from all lookup local pref 0",
      "l3mdev pref 1000",
      "fwmark 0x100000/0x7ff00000 lookup 1003 pref 6000 protocol 233",
      "from 10.244.1.3 lookup 1003 pref 6001",
      "from 10.244.0.0/16 to 192.0.2.0/24 lookup 1003 pref 6002",
      "iif eth0 lookup 100 pref 6003",
      "uidrange 0-99 oif eth1 lookup 100 pref 6004",
      "suppress_prefixlength 0 lookup main pref 6005",
      "goto 7000 pref 6006",
      "not fwmark 0xca6c lookup 51820 pref 6007",
      "to 192.0.2.7 tos 0x10 lookup 100 pref 6008",
      "sport 100-200 dport 53 ipproto tcp lookup 100 pref 6009",
      "from 192.0.2.9 blackhole pref 6010",
      "from 192.0.2.10 unreachable pref 6011",
      "suppress_ifgroup 5 lookup 100 pref 6012",
      "nop pref 7000",
      "iif vanished lookup 100 pref 7001",
      "fwmark 0x1 realms 3/4 lookup 5 pref 7002",
      "tun_id 5 lookup 9 pref 7003",
      "fwmark 0x1 prohibit pref 7004",
      "from all lookup main pref 32766",
      "from all lookup default pref 32767",
    ]);
  });

  it("gives only a rule without any condition an empty selector", () => {
    expect(
      parseRules(RULES, 4)
        .filter(({ selector }) => selector === "")
        .map(({ table }) => table),
    ).toEqual(["local", "main", "default"]);
  });

  it.each([
    [{ sport: 5 }, "sport 5"],
    [{ dport_start: 1, dport_end: 9 }, "dport 1-9"],
    [{ flow_to: "4" }, "realms 4"],
    [{ fwmark: "0x0", fwmask: "0xff" }, "fwmark 0x0/0xff"],
    [{ surprise: { a: 1 } }, 'surprise {"a":1}'],
    [{ constructor: 5 }, "constructor 5"],
  ])("reads %j as %j", (item, selector) => {
    expect(
      parseRules(JSON.stringify([{ priority: 1, src: "all", table: "5", ...item }]), 4)[0]?.selector,
    ).toBe(selector);
  });

  it("orders rules by priority, and those of one priority the same way whatever the order they came in", () => {
    const items = JSON.parse(RULES) as unknown[];
    expect(parseRules(JSON.stringify(items.toReversed()), 4)).toEqual(parseRules(RULES, 4));
  });
});

const parsers: readonly (readonly [string, (text: string) => unknown])[] = [
  ["parseAddresses", parseAddresses],
  ["parseRoutes", parseRoutes],
  ["parseRules", (text) => parseRules(text, 6)],
];

describe.each(parsers)("%s", (_, parse) => {
  it.each(["Error: x", "{}", '"text"', "[1", "null"])("does not guess around %j", (text) => {
    expect(() => parse(text)).toThrow(ParseError);
  });

  it.each(["", "\n", "[]", "[{}]", "[{},{}]"])("reads %j as nothing", (text) => {
    expect(Object.values(parse(text) as object).flat()).toEqual([]);
  });

  it("does not guess around an item that lacks what names it", () => {
    expect(() => parse('[{"mtu":1500,"type":"unicast"}]')).toThrow(ParseError);
  });

  it("gives of any JSON a value or a ParseError", () => {
    const key = fc.constantFrom(
      ...[
        "ifname",
        "flags",
        "addr_info",
        "local",
        "family",
        "type",
        "dst",
        "gateway",
        "via",
        "host",
        "nexthops",
      ],
      ...[
        "metrics",
        "mtu",
        "table",
        "priority",
        "src",
        "fwmark",
        "not",
        "action",
        "weight",
        "pref",
        "__proto__",
      ],
    );
    const value = fc.letrec((tie) => ({
      leaf: fc.oneof(
        fc.constantFrom("default", "eth0", "all", "fe80::1", 5, null, true),
        fc.jsonValue({ maxDepth: 1 }),
      ),
      node: fc.oneof(
        { depthSize: "small", withCrossShrink: true },
        tie("leaf"),
        fc.array(tie("node"), { maxLength: 3 }),
        fc.dictionary(key, tie("node"), { maxKeys: 8 }),
      ),
    })).node;
    const items = fc.array(fc.dictionary(key, value, { maxKeys: 8 }), { maxLength: 3 });
    fc.assert(
      fc.property(fc.oneof(items, value), (json) => {
        try {
          expect(parse(JSON.stringify(json))).toBeDefined();
        } catch (error) {
          expect(error).toBeInstanceOf(ParseError);
        }
      }),
      { numRuns: 500 },
    );
  });
});

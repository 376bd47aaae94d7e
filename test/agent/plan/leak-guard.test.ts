// The leak guard's table: what it lets out, and what it lets out besides while an egress IP is leaving.
import { describe, expect, it } from "vitest";
import { leakGuard, lettingOutAlso, sourcesOf } from "../../../agent/plan/parts/leak-guard.ts";
import { cidr, settings } from "../make.ts";

const table = (...accepts: readonly string[]) =>
  [
    "table inet egressip {",
    "chain leak {",
    "type filter hook postrouting priority 300; policy accept;",
    "meta mark & 0x7ff00000 == 0x00000000 meta mark != 0x000003f1 accept",
    'oifname "ovn-k8s-mp0" accept',
    ...accepts,
    "meta mark 0x000003f1 jump unmarked",
    'counter drop comment "egressip-leak"',
    "}",
    "chain unmarked {",
    "ct direction reply accept",
    "ct status dnat accept",
    "ip daddr 10.96.0.0/16 accept",
    "ip6 daddr fd00:10:96::/112 accept",
    "ip daddr 100.64.0.0/16 accept",
    "ip saddr 10.244.0.0/16 return",
    "ip6 saddr fd00:10:244::/48 return",
    "ct state established,related accept",
    "}",
    "}",
    "",
  ].join("\n");

describe("leakGuard", () => {
  it("is the same table whatever nft has to say of it", () => {
    expect(leakGuard(settings, [], [])).toBe(table());
  });
  it("names single addresses and doubled networks as nft does, and no network of everything", () => {
    const exemptNetworks = ["192.0.2.9/32", "10.96.0.0/16", "2001:db8::9/128", "0.0.0.0/0"].map(cidr);
    const lines = leakGuard({ ...settings, exemptNetworks }, [], []).split("\n");
    expect(lines.filter((line) => line.includes("daddr"))).toEqual([
      "ip daddr 10.96.0.0/16 accept",
      "ip6 daddr fd00:10:96::/112 accept",
      "ip daddr 192.0.2.9 accept",
      "ip6 daddr 2001:db8::9 accept",
    ]);
  });
  it("where others lead pods here too, holds those that still have their address behind NAT: five rules, and one more of a network", () => {
    const ownPods = ["10.244.1.0/24", "fd00:10:244:1::/64", "10.244.1.0/24"].map(cidr);
    const lines = leakGuard(settings, [], ownPods).split("\n");
    expect(lines.slice(2, 5)).toEqual([
      "type filter hook postrouting priority 300; policy accept;",
      'iifname "ovn-k8s-mp0" jump arrived',
      "meta mark & 0x7ff00000 == 0x00000000 meta mark != 0x000003f1 accept",
    ]);
    expect(lines.slice(lines.indexOf("chain arrived {"))).toEqual([
      "chain arrived {",
      'oifname "ovn-k8s-mp0" return',
      "ip saddr 10.244.1.0/24 return",
      "ip6 saddr fd00:10:244:1::/64 return",
      "ct direction reply return",
      "ip daddr 10.96.0.0/16 return",
      "ip6 daddr fd00:10:96::/112 return",
      "ip daddr 100.64.0.0/16 return",
      'ip saddr 10.244.0.0/16 counter drop comment "egressip-arrived"',
      'ip6 saddr fd00:10:244::/48 counter drop comment "egressip-arrived"',
      "}",
      "}",
      "",
    ]);
    const others = lines
      .slice(0, lines.indexOf("chain arrived {"))
      .filter((line) => !line.includes("arrived"));
    expect([...others, "}", ""]).toEqual(table().split("\n"));
  });
});

describe("lettingOutAlso", () => {
  const ten = "ip saddr 10.10.10.50 accept";
  const six = "ip6 saddr fd00:10:10::50 accept";
  it.each([
    ["nothing there", table(ten), "", table(ten)],
    ["the same", table(ten, six), table(ten, six), table(ten, six)],
    [
      "another address of the family",
      table(ten),
      table("ip saddr { 10.10.10.9, 10.10.10.60 } accept"),
      table("ip saddr { 10.10.10.9, 10.10.10.50, 10.10.10.60 } accept"),
    ],
    ["a family that is not wanted any more", table(ten), table(ten, six), table(ten, six)],
    ["no address wanted any more", table(), table(ten, six), table(ten, six)],
    ["a table of somebody else's making", table(ten), "table inet egressip {\n}\n", table(ten)],
  ])("%s", (_, wanted, observed, both) => {
    expect(lettingOutAlso(wanted, observed)).toBe(both);
  });
});

describe("sourcesOf", () => {
  it.each([
    ["ip saddr 10.0.0.1 accept", { field: "ip", addresses: ["10.0.0.1"] }],
    ["ip6 saddr { fd00::1, fd00::2 } accept", { field: "ip6", addresses: ["fd00::1", "fd00::2"] }],
    ["ip saddr @pods counter", undefined],
    ["ip saddr 10.0.0.1 drop", undefined],
  ])("%s", (line, expected) => {
    expect(sourcesOf(line)).toEqual(expected);
  });
});

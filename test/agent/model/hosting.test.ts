// Where an egress IP lives: reference A.5 and D.3, case by case.
import { describe, expect, it } from "vitest";
import { candidatesOf, hostingOf } from "../../../agent/model/hosting.ts";
import type { Node } from "../../../agent/model/objects.ts";
import type { Link, LinkAddress } from "../../../lib/netlink/pure.ts";
import { address, cidr, network, node, node1 as published } from "../make.ts";

/** What is published of its addresses is said where a test is about it. */
const node1 = node("node1", { ...published, hostCidrs: [] });

function hosted(
  egress: string,
  of: Node | "unknown" = node1,
  addresses: readonly LinkAddress[] = network.addresses,
  links: readonly Link[] = network.links,
) {
  const hosting = hostingOf(
    egress,
    of === "unknown" ? undefined : of,
    candidatesOf({ ...network, addresses, links }, "ovn-k8s-mp0"),
  );
  return hosting.kind === "nowhere" ? hosting.reason : `${hosting.kind} ${hosting.link}`;
}

const cloud = (...primary: readonly string[]) =>
  node("node1", { cloud: true, primary: primary.map(cidr), internalAddresses: ["172.18.0.11"] });
const nowhere = (egress: string) => `no link of this node has an address whose network contains ${egress}`;

describe("hosting", () => {
  it.each([
    ["in the primary network", "172.18.0.50", "primary eth0"],
    ["in the primary network of the other family", "fd00:172:18::50", "primary eth0"],
    ["in another link's network", "10.10.10.50", "secondary eth1"],
    ["in another link's network, IPv6", "fd00:10:10::50", "secondary eth1"],
    ["in no network", "192.0.2.50", nowhere("192.0.2.50")],
    ["in the pods' network behind the management port", "10.244.1.50", nowhere("10.244.1.50")],
    ["of a loopback", "127.0.0.50", nowhere("127.0.0.50")],
  ])("of an address %s", (_, egress, expected) => {
    expect(hosted(egress)).toBe(expected);
  });

  it.each<[string, readonly LinkAddress[], string]>([
    [
      "the longest prefix",
      [address("a", "10.0.0.1/8"), address("b", "10.10.10.1/24"), address("c", "10.10.0.1/16")],
      "secondary b",
    ],
    [
      "the first of two links with one network",
      [address("a", "10.10.10.1/24"), address("b", "10.10.10.2/24")],
      "secondary a",
    ],
    ["no /32", [address("a", "10.10.10.50/32")], nowhere("10.10.10.50")],
    ["a /31", [address("a", "10.10.10.51/31")], "secondary a"],
    ["no link-local scope", [address("a", "10.10.10.1/24", { scope: "link" })], nowhere("10.10.10.50")],
    [
      "no secondary address",
      [address("a", "10.10.10.1/24", { flags: ["secondary"] })],
      nowhere("10.10.10.50"),
    ],
    [
      "no deprecated address",
      [address("a", "10.10.10.1/24", { flags: ["deprecated"] })],
      nowhere("10.10.10.50"),
    ],
    [
      "no address that somebody else has",
      [address("a", "10.10.10.1/24", { flags: ["dadfailed"] })],
      nowhere("10.10.10.50"),
    ],
    [
      "an address that is still being checked",
      [address("a", "10.10.10.1/24", { flags: ["tentative"] })],
      "secondary a",
    ],
    ["no floating address", [address("a", "10.10.10.1/24", { label: "a:vip" })], nowhere("10.10.10.50")],
    ["an address labelled otherwise", [address("a", "10.10.10.1/24", { label: "a:vip1" })], "secondary a"],
    ["no address of the management port", [address("ovn-k8s-mp0", "10.10.10.1/24")], nowhere("10.10.10.50")],
    [
      "the other address of a link whose first is a floating one",
      [address("a", "10.10.10.2/24", { label: "a:vip" }), address("a", "10.10.10.1/24")],
      "secondary a",
    ],
  ])("takes %s", (_, addresses, expected) => {
    expect(hosted("10.10.10.50", node1, addresses)).toBe(expected);
  });

  it.each([
    ["no /128", "fd00:10:10::50/128", undefined],
    ["a /127", "fd00:10:10::51/127", "secondary a"],
  ])("takes %s", (_, own, expected) => {
    expect(hosted("fd00:10:10::50", node1, [address("a", own)])).toBe(expected ?? nowhere("fd00:10:10::50"));
  });

  it("takes no prefix of one family for an address of the other", () => {
    expect(hosted("fd00:172:18::50", node1, [address("eth0", "172.18.0.11/24")])).toBe(
      "no link of this node has the primary address fd00:172:18::11",
    );
  });

  it.each<[string, Node | "unknown", string, string]>([
    [
      "the annotation's network also where the link's own prefix is longer",
      node("node1", { primary: [cidr("172.18.0.11/16")] }),
      "172.18.5.50",
      "primary eth0",
    ],
    [
      "the primary network before a longer prefix elsewhere",
      node("node1", { primary: [cidr("172.18.0.11/8")] }),
      "172.18.0.50",
      "primary eth0",
    ],
    [
      "no link when none has the primary address",
      node("node1", { primary: [cidr("172.18.0.99/24")] }),
      "172.18.0.50",
      "no link of this node has the primary address 172.18.0.99",
    ],
    [
      "the link of the node's own address for primary when no annotation says",
      node("node1", { internalAddresses: ["172.18.0.11"] }),
      "172.18.0.50",
      "primary eth0",
    ],
    [
      "other links for secondary then",
      node("node1", { internalAddresses: ["172.18.0.11"] }),
      "10.10.10.50",
      "secondary eth1",
    ],
    ["any link for secondary when the node is not known", "unknown", "172.18.0.50", "secondary eth0"],
  ])("takes %s", (_, of, egress, expected) => {
    expect(hosted(egress, of)).toBe(expected);
  });

  it.each([
    ["what its network holds", cloud("172.18.0.0/24"), "172.18.0.50", "primary eth0"],
    [
      "nothing of another link",
      cloud("172.18.0.0/24"),
      "10.10.10.50",
      "outside the network that the cloud gave this node (egress-ipconfig)",
    ],
    [
      "nothing of a family the cloud did not give",
      cloud("172.18.0.0/24"),
      "fd00:172:18::50",
      "outside the network that the cloud gave this node (egress-ipconfig)",
    ],
    [
      "nothing when the annotation could not be read",
      cloud(),
      "172.18.0.50",
      "outside the network that the cloud gave this node (egress-ipconfig)",
    ],
    [
      "nothing when no link is in its network",
      cloud("172.31.0.0/24"),
      "172.31.0.50",
      "no link of this node has the primary address 172.31.0.0",
    ],
  ])("on a cloud node takes %s", (_, of, egress, expected) => {
    expect(hosted(egress, of)).toBe(expected);
  });

  it("goes by the addresses that are there, and by what is published only to say why the node was chosen", () => {
    const of = (...hostCidrs: readonly string[]) => node("node1", { hostCidrs: hostCidrs.map(cidr) });
    expect(hosted("192.0.2.50", of("192.0.2.11/24", "192.0.2.12/25", "10.10.10.11/24"))).toBe(
      `${nowhere("192.0.2.50")}; k8s.ovn.org/host-cidrs has 192.0.2.12/25, which no link has now, or only as a secondary, deprecated or floating address`,
    );
    expect(hosted("10.10.10.50", of("172.18.0.11/24"))).toBe("secondary eth1");
    expect(hosted("10.10.10.50", of("10.10.10.11/28", "172.18.0.11/8"))).toBe("secondary eth1");
  });
});

describe("a link with a master", () => {
  const link = (name: string, of: Partial<Link> = {}): Link => ({
    index: 7,
    name,
    mac: "02:00:00:00:00:07",
    up: true,
    running: true,
    mtu: 1500,
    master: "",
    ...of,
  });
  const on = (links: readonly Link[], ...addresses: readonly LinkAddress[]) =>
    hosted("10.10.10.50", node1, addresses, links);

  it("hosts when that is a VRF", () => {
    const links = [link("a", { master: "blue", vrf: "10" }), link("blue", { index: 8, vrf: "10" })];
    expect(on(links, address("a", "10.10.10.1/24"))).toBe("secondary a");
  });

  it("does not host as a port of a bridge or bond, which may have the same address", () => {
    const links = [link("a", { master: "br1" }), link("br1", { index: 8 })];
    expect(on(links, address("a", "10.10.10.1/24"))).toBe(
      "link a is a port of br1: its addresses have to be on br1",
    );
    expect(on(links, address("a", "10.10.10.1/25"), address("br1", "10.10.10.2/24"))).toBe("secondary br1");
  });

  it("does not host as the VRF itself, nor where its table would be a VRF's", () => {
    const vrf = [link("a", { master: "blue", vrf: "10" }), link("blue", { index: 8, vrf: "10" })];
    expect(on(vrf, address("blue", "10.10.10.1/24"))).toBe(
      "link blue is a VRF: packets leave by the links that are enslaved to it",
    );
    const taken = [link("a"), link("blue", { index: 8, vrf: "1007" })];
    expect(on(taken, address("a", "10.10.10.1/24"))).toBe(
      "routing table 1007 of link a is in use for VRF blue; give that VRF another table",
    );
  });

  it("is said to be the reason also for the node's primary address", () => {
    const links = network.links.map((of) => (of.name === "eth0" ? { ...of, master: "br-ex" } : of));
    expect(hosted("172.18.0.50", node1, network.addresses, links)).toBe(
      "link eth0 is a port of br-ex: its addresses have to be on br-ex",
    );
  });
});

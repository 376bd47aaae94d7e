// What this node holds: clashes refused by name (BL-44), everything else held, and never one because of another.
import { describe, expect, it } from "vitest";
import { decode } from "../../../agent/model/decode.ts";
import { type IntentRecord, type NetworkFacts, NOTHING_RECORDED } from "../../../agent/model/facts.ts";
import { holdFor } from "../../../agent/model/held.ts";
import { layoutOf, type MarkLayout, type ProgrammedMark } from "../../../agent/model/marks.ts";
import type { EgressIP, Node } from "../../../agent/model/objects.ts";
import { address, cidr, egressIP, network, node, node1, node2, settings } from "../make.ts";

interface Given {
  readonly nodes?: readonly Node[];
  readonly network?: NetworkFacts;
  readonly sysctls?: Readonly<Record<string, string>>;
  readonly record?: IntentRecord;
  readonly programmed?: readonly ProgrammedMark[];
  readonly settings?: typeof settings;
}

function hold(egressIPs: readonly EgressIP[], given: Given = {}) {
  const of = given.settings ?? settings;
  return holdFor(
    of,
    layoutOf(of.markMask) as MarkLayout,
    egressIPs,
    new Map((given.nodes ?? [node1, node2]).map((entry) => [entry.name, entry])),
    given.network ?? network,
    given.sysctls ?? {},
    given.record ?? NOTHING_RECORDED,
    given.programmed ?? [],
  );
}

const holding = (result: ReturnType<typeof hold>) =>
  result.held.map(({ address: own, link, egressIP: of }) => `${own} ${link} ${of.name}`);
const texts = (result: ReturnType<typeof hold>) =>
  result.problems.map(({ object, path, text }) => `${object} ${path}: ${text}`);

describe("held", () => {
  it("holds what is assigned to this node, by address, with link, table and mark", () => {
    const result = hold([
      egressIP("b", { at: { "10.10.10.50": "node1", "172.18.0.51": "node2" } }),
      egressIP("a", { at: { "fd00:172:18::50": "node1", "172.18.0.50": "node1" } }),
    ]);
    expect(
      result.held.map(({ address: own, family, primary, link, table, mark, linkUp }) => [
        own,
        family,
        primary,
        link,
        table,
        mark,
        linkUp,
      ]),
    ).toEqual([
      ["10.10.10.50", 4, false, "eth1", "1004", 0x10000000, true],
      ["172.18.0.50", 4, true, "eth0", "1003", 0x20000000, true],
      ["fd00:172:18::50", 6, true, "eth0", "1003", 0x20000000, true],
    ]);
    expect([result.unready, result.problems]).toEqual([[], []]);
  });

  it.each([
    ["this node's InternalIP", "172.18.0.11", "is an address of this host, on eth0"],
    ["another node's InternalIP", "172.18.0.12", "is an address of node node2"],
    ["another node's second link", "10.10.10.12", "is an address of node node2"],
    ["another node's IPv6 address", "fd00:172:18::12", "is an address of node node2"],
    ["an address of this host that no Node object has", "10.10.10.7", "is an address of this host, on eth1"],
  ])("refuses %s (BL-44)", (_, own, why) => {
    const with7 = { ...network, addresses: [...network.addresses, address("eth1", "10.10.10.7/24")] };
    const result = hold([egressIP("bad", { at: { [own]: "node1", "172.18.0.50": "node1" } })], {
      network: with7,
    });
    expect(holding(result)).toEqual(["172.18.0.50 eth0 bad"]);
    expect(result.unready.map(({ address: of }) => of)).toEqual([own]);
    expect(texts(result)).toEqual([
      `EgressIP/bad status.items: ${own}: ${why}; an egress IP must be an unused address`,
    ]);
  });

  it("gives an address that two objects ask for to the older, and says so on the other", () => {
    const old = egressIP("zz-old", { at: { "172.18.0.50": "node1" }, created: "2026-01-01T00:00:00Z" });
    const young = egressIP("aa-young", {
      at: { "172.18.0.50": "node1", "172.18.0.51": "node1" },
      created: "2026-02-01T00:00:00Z",
    });
    for (const order of [
      [old, young],
      [young, old],
    ]) {
      const result = hold(order);
      expect(holding(result)).toEqual(["172.18.0.50 eth0 zz-old", "172.18.0.51 eth0 aa-young"]);
      expect(texts(result)).toEqual([
        "EgressIP/aa-young status.items: 172.18.0.50: already given by EgressIP zz-old, which is older",
      ]);
    }
  });

  it("does not mind an address that the other object has on another node", () => {
    const here = egressIP("b", { at: { "172.18.0.50": "node1" } });
    expect(holding(hold([egressIP("a", { at: { "172.18.0.50": "node2" } }), here]))).toEqual([
      "172.18.0.50 eth0 b",
    ]);
  });

  it("says which network an address would need", () => {
    const result = hold([egressIP("far", { at: { "192.0.2.50": "node1" } })]);
    expect(result.unready.map(({ reason }) => reason)).toEqual([
      "no link of this node has an address whose network contains 192.0.2.50",
    ]);
  });

  it("takes an egress IP that is on the link already for what it is, recorded or found (BL-43)", () => {
    const there = { ...network, addresses: [...network.addresses, address("eth0", "172.18.0.50/32")] };
    const wanted = [egressIP("a", { at: { "172.18.0.50": "node1" } })];
    expect(holding(hold(wanted, { network: there }))).toEqual(["172.18.0.50 eth0 a"]);
    // The node controller has published it as the node's own address in the meantime.
    const nodes = [node("node1", { ...node1, hostCidrs: [...node1.hostCidrs, cidr("172.18.0.50/32")] })];
    const record = { addresses: [{ link: "eth0", address: "172.18.0.50" }], sysctls: {} };
    expect(holding(hold(wanted, { network: there, nodes, record }))).toEqual(["172.18.0.50 eth0 a"]);
  });

  it("takes what another node's annotation calls an egress IP for one, though its addresses name it (BL-43)", () => {
    const raw = (name: string, annotations: Record<string, string>) => {
      const { object } = decode({
        apiVersion: "v1",
        kind: "Node",
        metadata: { name, uid: name, annotations },
      });
      if (object?.kind !== "Node") throw new Error("no node");
      return object;
    };
    const hosts = { "k8s.ovn.org/host-cidrs": '["10.10.10.12/24","10.10.10.50/32"]' };
    const says = { "k8s.ovn.org/secondary-host-egress-ips": '["10.10.10.50"]' };
    const wanted = [egressIP("a", { at: { "10.10.10.50": "node1", "10.10.10.12": "node1" } })];
    expect(holding(hold(wanted, { nodes: [node1, raw("node2", { ...hosts, ...says })] }))).toEqual([
      "10.10.10.50 eth1 a",
    ]);
    expect(holding(hold(wanted, { nodes: [node1, raw("node2", hosts)] }))).toEqual([]);
  });

  it("never takes the node's own address for an egress IP because it was recorded once", () => {
    const record = { addresses: [{ link: "eth0", address: "172.18.0.11" }], sysctls: {} };
    expect(holding(hold([egressIP("a", { at: { "172.18.0.11": "node1" } })], { record }))).toEqual([]);
  });

  it("holds what nobody knows the node of: the manifests say node1, the Node object is missing", () => {
    expect(holding(hold([egressIP("a", { at: { "172.18.0.50": "node1" } })], { nodes: [] }))).toEqual([
      "172.18.0.50 eth0 a",
    ]);
  });

  it.each([
    [{ up: false, running: false }, "link eth0 is down: nothing can leave with it"],
    [{ up: true, running: false }, "link eth0 is without carrier: nothing can leave with it"],
  ])("keeps an egress IP whose link is %j, and says so", (state, why) => {
    const links = network.links.map((link) => (link.name === "eth0" ? { ...link, ...state } : link));
    const result = hold([egressIP("a", { at: { "172.18.0.50": "node1" } })], {
      network: { ...network, links },
    });
    expect(result.held.map(({ linkUp }) => linkUp)).toEqual([false]);
    expect(texts(result)).toEqual([`EgressIP/a status.items: 172.18.0.50: ${why}`]);
  });

  it("says which sysctl keeps replies out, of the address's own family, unless it is told to manage it", () => {
    const sysctls = {
      "net/ipv4/conf/eth0/forwarding": "0",
      "net/ipv6/conf/all/forwarding": "1",
      "net/ipv4/conf/eth1/forwarding": "0",
    };
    const wanted = [egressIP("a", { at: { "172.18.0.50": "node1", "fd00:172:18::50": "node1" } })];
    expect(texts(hold(wanted, { sysctls }))).toEqual([
      "EgressIP/a status.items: 172.18.0.50: net.ipv4.conf.eth0.forwarding is 0 and must be 1, or nothing is forwarded with the egress IP; see --manage-forwarding",
    ]);
    expect(texts(hold(wanted, { sysctls, settings: { ...settings, manageForwarding: true } }))).toEqual([]);
    // IPv6 looks at one switch for the whole host, which the agent leaves to its owner.
    const six = { "net/ipv6/conf/all/forwarding": "0" };
    expect(texts(hold(wanted, { sysctls: six, settings: { ...settings, manageForwarding: true } }))).toEqual([
      "EgressIP/a status.items: fd00:172:18::50: net.ipv6.conf.all.forwarding is 0 and must be 1, or nothing is forwarded with the egress IP",
    ]);
  });

  it("says that marks have run out, holds as many as there are marks, and which ones does not depend on the order", () => {
    const small = { ...settings, markMask: 0x1f000000 };
    const numbers = Array.from({ length: 30 }, (_, n) => 10 + n);
    const many = numbers.map((n) => egressIP(`e${n}`, { at: { [`172.18.0.${50 + n}`]: "node1" } }));
    for (const order of [many, many.toReversed()]) {
      const result = hold(order, { settings: small });
      expect(holding(result)).toEqual(numbers.slice(0, 28).map((n) => `172.18.0.${50 + n} eth0 e${n}`));
      expect(texts(result)[0]).toBe(
        "EgressIP/e38 status.items: 172.18.0.88: no packet mark left: mask 0x1f000000 has 7 blocks of 4, each for one link, and all are taken; see --mark-mask",
      );
    }
  });

  it("keeps the mark that is programmed when others come before it", () => {
    const programmed = [
      { family: 4, link: "eth0", address: "172.18.0.60", mark: 0x10000000, mask: 0x7ff00000 },
    ] as const;
    const result = hold([egressIP("a", { at: { "172.18.0.50": "node1", "172.18.0.60": "node1" } })], {
      programmed,
    });
    expect(result.held.map(({ address: own, mark }) => [own, mark])).toEqual([
      ["172.18.0.50", 0x10100000],
      ["172.18.0.60", 0x10000000],
    ]);
  });
});

// Destinations that keep the pod's own source (BL-24, BL-28): the cluster, every node with all its addresses, what never leaves a link.
import { describe, expect, it } from "vitest";
import { exemptFor } from "../../../agent/model/exempt.ts";
import { type IntentRecord, type NetworkFacts, NOTHING_RECORDED } from "../../../agent/model/facts.ts";
import { contains } from "../../../agent/model/ip.ts";
import type { Node } from "../../../agent/model/objects.ts";
import { address, cidr, network, node, node1, node2, settings } from "../make.ts";

function exempt(
  of: {
    readonly nodes?: readonly Node[];
    readonly network?: NetworkFacts;
    readonly record?: IntentRecord;
    readonly notHeld?: ReadonlySet<string>;
  } = {},
  with_ = settings,
) {
  const nodes = new Map((of.nodes ?? [node1, node2]).map((entry) => [entry.name, entry]));
  const { record = NOTHING_RECORDED, notHeld = new Set() } = of;
  return exemptFor(with_, nodes, of.network ?? network, record, notHeld);
}

function holds(
  members: { readonly 4: readonly string[]; readonly 6: readonly string[] },
  destination: string,
): boolean {
  const six = destination.includes(":");
  return members[six ? 6 : 4].some((member) =>
    contains(cidr(member.includes("/") ? member : `${member}/${six ? 128 : 32}`), destination),
  );
}

describe("exempt", () => {
  it.each([
    ["a pod", "10.244.7.7"],
    ["a pod, IPv6", "fd00:10:244:7::7"],
    ["a service", "10.96.0.10"],
    ["a service, IPv6", "fd00:10:96::a"],
    ["a join network", "100.64.0.3"],
    ["the InternalIP of this node", "172.18.0.11"],
    ["the InternalIP of another node", "172.18.0.12"],
    ["the second link of another node", "10.10.10.12"],
    ["an IPv6 address of another node", "fd00:172:18::12"],
    ["node-local DNS", "169.254.20.10"],
    ["multicast", "224.0.0.251"],
    ["limited broadcast", "255.255.255.255"],
    ["loopback", "127.0.0.53"],
    ["link-local, IPv6", "fe80::1"],
    ["multicast, IPv6", "ff02::1"],
  ])("is %s: %s", (_, destination) => {
    expect(holds(exempt(), destination)).toBe(true);
  });

  it.each([
    ["the internet", "198.51.100.80"],
    ["the internet, IPv6", "2001:db8:51::80"],
    ["a neighbour of the nodes", "172.18.0.100"],
    ["the network of a node's second link", "10.10.10.100"],
    ["next to the service network", "10.97.0.1"],
  ])("is not %s: %s", (_, destination) => {
    expect(holds(exempt(), destination)).toBe(false);
  });

  it("holds an address that came to this host a moment ago, and not after it left", () => {
    const vip = { ...network, addresses: [...network.addresses, address("eth0", "172.18.0.99/32")] };
    expect(holds(exempt({ network: vip }), "172.18.0.99")).toBe(true);
    expect(holds(exempt(), "172.18.0.99")).toBe(false);
  });

  it("does not hold an egress IP of ours, though it is an address of this host: pods may speak to it", () => {
    const own = { ...network, addresses: [...network.addresses, address("eth0", "172.18.0.50/32")] };
    const record = { addresses: [{ link: "eth0", address: "172.18.0.50" }], sysctls: {} };
    expect(holds(exempt({ network: own, record }), "172.18.0.50")).toBe(false);
  });

  it("does not hold another node's egress IP that is found here, to be taken away, unless it has a network of this node", () => {
    const notHeld = new Set(["10.10.10.55", "10.10.10.11"]);
    const found = { ...network, addresses: [...network.addresses, address("eth1", "10.10.10.55/32")] };
    expect(holds(exempt({ network: found }), "10.10.10.55")).toBe(true);
    expect(holds(exempt({ network: found, notHeld }), "10.10.10.55")).toBe(false);
    expect(holds(exempt({ network: found, notHeld }), "10.10.10.11")).toBe(true);
  });

  it("holds the networks behind the management port that no setting names, but never everything", () => {
    const over = (destination: string) => ({
      ...network,
      routes: [
        {
          family: 4,
          table: "main",
          type: "unicast",
          destination,
          metric: 0,
          protocol: "boot",
          mtu: 0,
          hops: [{ gateway: "", link: "ovn-k8s-mp0", onlink: false, weight: 1 }],
        } as const,
      ],
    });
    expect(holds(exempt({ network: over("10.200.0.0/16") }), "10.200.3.4")).toBe(true);
    expect(holds(exempt({ network: over("10.200.0.1") }), "10.200.0.1")).toBe(true);
    expect(holds(exempt({ network: over("0.0.0.0/0") }), "198.51.100.80")).toBe(false);
  });

  it("writes members as ipset prints them, sorted, once, with host bits cleared", () => {
    const nodes = [
      node("x", { hostCidrs: [cidr("10.10.10.12/24"), cidr("10.10.10.12/16"), cidr("fd00:10:10::12/64")] }),
    ];
    const bare = { ...network, addresses: [], routes: [] };
    const members = exempt(
      { nodes, network: bare },
      { ...settings, exemptNetworks: [cidr("100.64.5.5/16"), cidr("fd98::1/64")] },
    );
    expect(members).toEqual({
      4: [
        "10.10.10.12",
        "10.244.0.0/16",
        "10.96.0.0/16",
        "100.64.0.0/16",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "224.0.0.0/4",
        "255.255.255.255",
      ],
      6: [
        "::1",
        "fd00:10:10::12",
        "fd00:10:244::/48",
        "fd00:10:96::/112",
        "fd98::/64",
        "fe80::/10",
        "ff00::/8",
      ],
    });
  });

  it("has no member twice and none that another of the fixed ones covers", () => {
    const { addresses } = network;
    const more = {
      ...network,
      addresses: [...addresses, ...addresses, address("eth0", "fe80::5/64", { scope: "link" })],
    };
    const members = exempt({ network: more });
    expect(new Set(members[4]).size).toBe(members[4].length);
    expect(members[6]).not.toContain("fe80::5");
    expect(members[4]).not.toContain("127.0.0.1");
  });
});

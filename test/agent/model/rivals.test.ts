// For which addresses to listen, and what is said of who else has them.
import { describe, expect, it } from "vitest";
import { createBuild } from "../../../agent/model/build.ts";
import type { NetworkFacts } from "../../../agent/model/facts.ts";
import { watchedAddresses } from "../../../agent/model/rivals.ts";
import { address, bareHost, egressIP, network, node, node1, objects, settings } from "../make.ts";

const E4 = "10.10.10.50";
const E6 = "fd00:10:10::50";
const here: NetworkFacts = {
  ...network,
  addresses: [...network.addresses, address("eth1", `${E4}/32`), address("eth1", `${E6}/128`)],
};
const hold = [E4, E6].map((own) => ({ address: own, link: "eth1" }));

const linkWith = (of: Partial<NetworkFacts["links"][number]>): NetworkFacts => ({
  ...here,
  links: here.links.map((link) => (link.name === "eth1" ? { ...link, ...of } : link)),
});

describe("what is watched", () => {
  const eth1 = { link: "eth1", ifindex: 4, mac: "02:00:00:00:00:04" };

  it("is what is held and there, with the link's own link-local address where it has one", () => {
    expect(watchedAddresses(node1, hold, here)).toEqual([
      { address: E4, ...eth1, source: "fe80::ff:fe00:4" },
      { address: E6, ...eth1, source: "fe80::ff:fe00:4" },
    ]);
    const own = address("eth1", "fe80::1/64", { scope: "link" });
    const other = address("eth0", "fe80::2/64", { scope: "link" });
    const named = { ...here, addresses: [...here.addresses, own, other] };
    expect(watchedAddresses(node1, hold, named).map(({ source }) => source)).toEqual(["fe80::1", "fe80::1"]);
  });

  it.each<[string, Parameters<typeof watchedAddresses>]>([
    ["nothing is held", [node1, [], here]],
    ["the addresses are not there yet", [node1, hold, network]],
    ["they are on another link", [node1, hold.map((of) => ({ ...of, link: "eth0" })), here]],
    ["the link is down", [node1, hold, linkWith({ running: false })]],
    ["the link has no neighbours", [node1, hold, linkWith({ mac: "" })]],
    ["the cloud's network answers for everything", [node("node1", { cloud: true }), hold, here]],
  ])("is nothing when %s", (_, given) => {
    expect(watchedAddresses(...given)).toEqual([]);
  });
});

describe("a rival", () => {
  const rival = (own: string, link: string, mac: string) => ({ address: own, link, mac });
  const problems = (...rivals: readonly ReturnType<typeof rival>[]) =>
    createBuild()(settings, objects(egressIP("web", { at: { [E4]: "node1" } }), node1), {
      ...bareHost,
      rivals,
    }).problems.map(({ object, path, text }) => `${object} ${path}: ${text}`);

  it("is a Problem of the egress IP, each with his MAC and with what to do", () => {
    const text = (mac: string) =>
      `EgressIP/web status.items: ${E4}: is also answered for on eth1 by ${mac}; two hosts have this address - find that host by its MAC, and take the address away there`;
    expect(problems(rival(E4, "eth1", "02::7"), rival(E4, "eth1", "02::8"))).toEqual([
      text("02::7"),
      text("02::8"),
    ]);
  });

  it("is none for what is not held here", () => {
    expect(problems(rival("10.10.10.51", "eth1", "02::7"), rival(E4, "eth0", "02::7"))).toEqual([]);
  });
});

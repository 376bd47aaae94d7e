// What must not wait and what must not stop the rest: missing guards, links without neighbours, links with odd names.
import { describe, expect, it } from "vitest";
import { createBuild } from "../../../agent/model/build.ts";
import type { HostFacts } from "../../../agent/model/facts.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { nothing } from "../../../agent/plan/plan.ts";
import { createBackends } from "../../../agent/sync/backends.ts";
import { noTools } from "../../../agent/sync/no-tools.ts";
import { carryOut } from "../../../agent/sync/round.ts";
import { address, bareHost, egressIP, namespace, network, node1, objects, pod, settings } from "../make.ts";

const backends = createBackends(noTools);
const wanted = [
  egressIP("web", { at: { "10.10.10.50": "node1" } }),
  namespace("shop"),
  node1,
  pod("shop/a", ["10.244.1.3"]),
];

async function round(facts: HostFacts) {
  const snapshot = createBuild()(settings, objects(...wanted), facts);
  const plan = createMode("local").plan(snapshot);
  return { plan, snapshot, ...(await carryOut(backends, plan, facts, { write: false, held: () => false })) };
}

const urgent = (plan: typeof nothing, facts: HostFacts) =>
  backends.filter((backend) => backend.urgent?.(plan, facts)).map(({ name }) => name);

describe("contention does not hold back", () => {
  it("a guard that is missing, and holds back whatever else", async () => {
    const { plan, facts } = await round(bareHost);
    expect(urgent(plan, bareHost)).toEqual(["leak-guard", "iptables"]);
    expect(urgent(plan, facts)).toEqual([]);
    expect(urgent(plan, { ...facts, nft: "" })).toEqual(["leak-guard"]);
    const emptied = new Map(facts.iptables[4]).set("filter", new Map());
    expect(urgent(plan, { ...facts, iptables: { ...facts.iptables, 4: emptied } })).toEqual(["iptables"]);
    expect(urgent(nothing, bareHost)).toEqual([]);
  });
});

describe("a hosting link", () => {
  const withLink = (mac: string, name = "eth1"): HostFacts => ({
    ...bareHost,
    network: {
      ...network,
      links: network.links.map((link) => (link.name === "eth1" ? { ...link, name, mac } : link)),
      addresses: [
        ...network.addresses.filter(({ link }) => link !== "eth1"),
        address(name, "10.10.10.11/24"),
      ],
    },
  });

  it.each(["", "10.0.0.1"])(
    "with %j for a MAC has no neighbours to tell, and everything else is done",
    async (mac) => {
      const { steps, failures } = await round(withLink(mac));
      expect(failures).toEqual([]);
      const names = steps.map(({ backend }) => backend);
      expect(names).toContain("addresses");
      expect(names).not.toContain("announce");
    },
  );

  it.each(["eth+", 'e"th', "e#1"])(
    "named %j, which means something else to a tool, hosts nothing",
    async (name) => {
      const { steps, snapshot } = await round(withLink("02:00:00:00:00:04", name));
      expect(snapshot.held).toEqual([]);
      expect(JSON.stringify(steps)).not.toContain(JSON.stringify(name).slice(1, -1));
    },
  );
});

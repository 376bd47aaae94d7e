// What guards a gateway router where all nodes share one database: before NAT, whom it lets pass and whom not; and the last look.
import { describe, expect, it } from "vitest";
import { createBuild } from "../../../../agent/model/build.ts";
import type { NorthboundFacts, Topology } from "../../../../agent/model/northbound.ts";
import { ARRIVING_PODS, addressSet, podSet } from "../../../../agent/model/northbound-ids.ts";
import type { Settings } from "../../../../agent/model/settings.ts";
import { entriesOf } from "../../../../agent/model/shards.ts";
import { createMode } from "../../../../agent/plan/modes.ts";
import { factsOf, type Layout, labNodes } from "../../../support/northbound-scene.ts";
import { egressIP, namespace, objects, pod, settings } from "../../make.ts";

interface Case {
  readonly layout?: Layout;
  readonly of?: Partial<Settings>;
  readonly topology?: Partial<Topology>;
  /** What the Nodes say of the networks of their pods. */
  readonly podSubnets?: readonly never[];
}

const owner = settings.northboundOwner;
const arriving = `$${podSet({ owner, node: "node1" }, ARRIVING_PODS, 4).name}`;
const served = `$${addressSet(owner, "egressip-served-pods", 4).name}`;

function planned({ layout = "central", of = {}, topology = {}, podSubnets }: Case = {}) {
  const all = objects(
    ...labNodes({ ...(layout === "central" ? { zone: "global" } : {}), ...(podSubnets && { podSubnets }) }),
    namespace("shop"),
    pod("shop/here", ["10.244.1.3"]),
    pod("shop/there", ["10.244.2.3", "fd00:10:244:2::3"], { node: "node2" }),
    egressIP("prod", { at: { "172.18.0.50": "node1" } }),
  );
  const told = { ...settings, gatewayMode: "shared", ...of } as const;
  const facts = factsOf("node1", layout);
  const seen: NorthboundFacts = {
    ...facts.northbound,
    topology: { ...facts.northbound.topology, ...topology },
  };
  const { northbound } = createMode(told.gatewayMode).plan(
    createBuild()(told, all, { ...facts, northbound: seen }),
  );
  const own = northbound.shared.filter(({ ids }) => "egressip-agent/node" in ids);
  return {
    own,
    rows: own
      .filter(({ ids, table }) => ids["ip-family"] === "ip4" && table !== "Address_Set")
      .map(({ table, on, columns: { priority, match, action, options } }) =>
        [table, on, priority, match, action, JSON.stringify(options ?? {})].join(" "),
      ),
    arriving: [...entriesOf(northbound.arriving)].map(([one]) => one),
  };
}

describe("the guard of a gateway router", () => {
  const from = 'inport == "rtoj-GR_node1" && (!ct.trk || !ct.rpl)';
  it("marks selected pods, drops other nodes' that nobody here translates, and marked ones that have its own address behind NAT", () => {
    expect(planned().rows).toEqual([
      `Logical_Router_Policy GR_node1 99 ${from} && pkt.mark == 0 && (ip4.src == ${arriving} || (ip4.src == ${served} && (ip4.src == 10.244.1.0/24))) allow {"pkt_mark":"1009"}`,
      `Logical_Router_Policy GR_node1 98 ${from} && ip4.src == 10.244.0.0/16 && ip4.src != 10.244.1.0/24 drop {}`,
      'ACL ext_node1 1000 inport == "etor-GR_node1" && pkt.mark == 1009 && ip4.src == {172.18.0.11, 10.244.0.0/16} drop {}',
    ]);
    expect(planned().arriving).toEqual(["10.244.2.3"]);
  });

  it("is the node's own: nobody else's agent writes it, and its names are its node's", () => {
    const { own } = planned();
    expect(own.map(({ ids }) => ids["egressip-agent/node"])).toEqual(own.map(() => "node1"));
    expect(own.map(({ ids }) => ids["k8s.ovn.org/id"]).filter((id) => !id?.includes("_node1:"))).toEqual([]);
  });

  it.each<[string, Case]>([
    ["in interconnect", { layout: "zones" }],
    ["in local gateway mode, where the kernel gives it", { of: { gatewayMode: "local" } }],
    ["where pods may leave as their node", { of: { whenUnready: "node-ip" } }],
    [
      "without the router",
      { topology: { routers: new Map([["ovn_cluster_router", "1"]]), gateways: new Map() } },
    ],
  ])("is not there %s", (_, of) => {
    expect(planned(of).rows.filter((row) => row.includes("GR_node1"))).toEqual([]);
  });

  it("is not there for a family of which nobody says what networks this node's pods are in", () => {
    expect(planned({ podSubnets: [], topology: { podNetworks: [] } }).own).toEqual([]);
    const { own } = planned({ podSubnets: [], topology: { podNetworks: ["10.244.1.1/24"] } });
    expect(new Set(own.map(({ ids }) => ids["ip-family"]))).toEqual(new Set(["v4", "ip4"]));
  });

  it("has no last look where its switch is not, or it has no address outside", () => {
    for (const topology of [{ switches: new Map() }, { outside: new Map() }])
      expect(planned({ topology }).rows.map((row) => row.split(" ")[0])).toEqual([
        "Logical_Router_Policy",
        "Logical_Router_Policy",
      ]);
  });
});

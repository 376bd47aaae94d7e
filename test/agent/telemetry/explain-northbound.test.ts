// What `explain` says of the rows that a pod's packets meet in OVN, and where it hands over to the kernel.
import { describe, expect, it } from "vitest";
import { createBuild } from "../../../agent/model/build.ts";
import { type FoundRow, NORTHBOUND_OFF, type NorthboundFacts } from "../../../agent/model/northbound.ts";
import type { Settings } from "../../../agent/model/settings.ts";
import { shardsFrom } from "../../../agent/model/shards.ts";
import { northboundWay } from "../../../agent/telemetry/explain-northbound.ts";
import { bareHost, cidr, node1, node2, objects, pod, settings } from "../make.ts";

const address = "10.244.1.3";
const local = pod("shop/web", [address]);
const remote = pod("shop/web", [address], { node: "node2" });

function policy(action: string, ...nexthops: readonly string[]): FoundRow {
  const columns = { priority: 100, match: `ip4.src == ${address}`, action, nexthops, options: {} };
  return { table: "Logical_Router_Policy", uuid: "p", on: ["ovn_cluster_router"], columns, ids: {} };
}

const nat: FoundRow = {
  table: "NAT",
  uuid: "n",
  on: ["GR_node1"],
  columns: { type: "snat", logical_ip: address, external_ip: "172.18.0.50" },
  ids: {},
};

function way(rows: readonly FoundRow[], asked = local, of: Partial<Settings> = { gatewayMode: "shared" }) {
  const northbound: NorthboundFacts = {
    ...NORTHBOUND_OFF,
    state: "current",
    topology: {
      ...NORTHBOUND_OFF.topology,
      gateways: new Map([["node1", { 4: "100.64.0.2" }]]),
      management: { 4: "10.244.1.2" },
    },
    pods: shardsFrom([[address, rows]]),
  };
  const nodes = [
    { ...node1, zone: "node1" },
    { ...node2, zone: "node2", transit: [cidr("100.88.0.3/16")] },
  ];
  const snapshot = createBuild()({ ...settings, ...of }, objects(...nodes), { ...bareHost, northbound });
  return northboundWay(snapshot, asked, address);
}

describe("the way through OVN", () => {
  it("ends at the own gateway router, with the egress IP", () => {
    expect(way([policy("reroute", "100.64.0.2"), nat])).toEqual({
      steps: [
        "ovn_cluster_router: policy 100 ip4.src == 10.244.1.3 reroute 100.64.0.2",
        "GR_node1: snat 10.244.1.3 to 172.18.0.50",
      ],
      result: "leaves GR_node1 with source 172.18.0.50",
    });
  });

  it("says when the NAT row is missing", () => {
    expect(way([policy("reroute", "100.64.0.2")]).result).toMatch(/no NAT row/);
  });

  it("goes on in this host's kernel by the management port", () => {
    expect(way([policy("reroute", "10.244.1.2")])).toEqual({
      steps: ["ovn_cluster_router: policy 100 ip4.src == 10.244.1.3 reroute 10.244.1.2"],
      result: undefined,
    });
  });

  it("goes to another node, by its name", () => {
    expect(way([policy("reroute", "100.88.0.3")]).result).toBe(
      "goes to node2; ask the agent there how it goes on",
    );
  });

  it("is one of several", () => {
    expect(way([policy("reroute", "100.64.0.2", "100.88.0.3"), nat]).result).toMatch(/one of 2 next hops/);
  });

  it("ends in a drop while no node has an address for it", () => {
    expect(way([policy("drop")]).result).toMatch(/^dropped: /);
  });

  it("arrives from another node and is translated here", () => {
    expect(way([nat], remote)).toEqual({
      steps: ["GR_node1: snat 10.244.1.3 to 172.18.0.50"],
      result: "leaves GR_node1 with source 172.18.0.50",
    });
    expect(way([], remote).result).toMatch(/nothing here leads it on/);
  });

  it("is as without the agent where no row is", () => {
    expect(way([]).result).toMatch(/with the node's address/);
    expect(way([], local, { gatewayMode: "local" })).toEqual({ steps: [], result: undefined });
  });
});

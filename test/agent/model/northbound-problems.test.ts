// What is said of a northbound database that keeps egress IPs from working, in words by which a person can help.
import { describe, expect, it } from "vitest";
import { createBuild } from "../../../agent/model/build.ts";
import { NORTHBOUND_OFF, type NorthboundFacts, type Topology } from "../../../agent/model/northbound.ts";
import type { KubernetesObject } from "../../../agent/model/objects.ts";
import type { Settings } from "../../../agent/model/settings.ts";
import { factsOf, labNode, labNodes } from "../../support/northbound-scene.ts";
import { egressIP, objects, settings } from "../make.ts";

const primary = egressIP("prod", { at: { "172.18.0.50": "node1" } });
const secondary = egressIP("prod", { at: { "10.10.10.50": "node1" } });

function problems(
  of: {
    readonly northbound?: Partial<NorthboundFacts>;
    readonly topology?: Partial<Topology>;
    readonly settings?: Partial<Settings>;
    readonly objects?: readonly KubernetesObject[];
  } = {},
): string {
  const facts = factsOf("node1", "zones", of.topology);
  const northbound = { ...facts.northbound, ...of.northbound };
  const { problems: found } = createBuild()(
    { ...settings, gatewayMode: "shared", ...of.settings },
    objects(...(of.objects ?? [...labNodes(), primary])),
    { ...facts, northbound },
  );
  return found.map(({ object, path, text }) => `${object} ${path}: ${text}`).join("\n");
}

const without = (name: string) => {
  const { routers } = factsOf("node1", "zones").northbound.topology;
  return new Map([...routers].filter(([router]) => router !== name));
};

describe("a database that is as it should be", () => {
  it("is nothing to speak of, nor is one that was not given or is not read yet", () => {
    expect(problems()).toBe("");
    expect(problems({ northbound: NORTHBOUND_OFF })).toBe("");
    expect(problems({ northbound: { ...NORTHBOUND_OFF, state: "stale" } })).toBe("");
  });
});

describe("named are", () => {
  it.each<[string, Parameters<typeof problems>[0], string]>([
    [
      "another agent of this node",
      { northbound: { state: "waiting" } },
      "another agent has the lock of node node1 and writes its rows; end one of the two",
    ],
    [
      "a missing cluster router",
      { topology: { routers: without("ovn_cluster_router") } },
      "router ovn_cluster_router is not there, so no pod is steered to an egress IP",
    ],
    [
      "a missing gateway router, where an egress IP needs it",
      { topology: { routers: without("GR_node1") } },
      "router GR_node1 is not there, so egress IPs of the primary network are not given",
    ],
    [
      "a missing management port, where an egress IP needs it",
      { topology: { management: {} }, objects: [...labNodes(), secondary] },
      "port k8s-node1 has no address, so pods are not led to this host for egress IPs",
    ],
    [
      "the same in local gateway mode, where every egress IP does",
      { topology: { management: {} }, settings: { gatewayMode: "local" } },
      "port k8s-node1 has no address, so pods are not led to this host for egress IPs",
    ],
    [
      "rows of OVN-Kubernetes that are left alone",
      { northbound: { foreign: new Map([["default-network-controller", 3]]) } },
      "3 rows of egress IPs are default-network-controller's: two programs steer the same pods; " +
        "turn egress IPs off there, and start once with --adopt true to take the rows over",
    ],
    [
      "rows of another owner, perhaps of the one that was ours",
      { northbound: { foreign: new Map([["before", 7]]) }, settings: { adopt: true } },
      "7 rows of egress IPs are before's and steer the same pods as egressip-agent's; if that was this agent, end it and run " +
        "uninstall --ovn-owner before on each node first, or go back to --ovn-owner before",
    ],
    [
      "rows that do not say whose they are",
      { northbound: { foreign: new Map([["", 1]]) } },
      "1 rows of egress IPs do not say whose they are and steer the same pods as egressip-agent's; remove them",
    ],
    [
      "a node of another zone that nobody can reach",
      { objects: [labNode("node1"), labNode("node2", { transit: [] }), primary] },
      "node node2 of another zone has no k8s.ovn.org/node-transit-switch-port-ifaddr, so no pod is steered to it",
    ],
    [
      "a route that leads arrivals elsewhere",
      { topology: { sourceRoutes: new Map([["10.244.0.0/16", "100.64.0.77"]]) } },
      "the route of 10.244.0.0/16 by source leads to 100.64.0.77 and has to lead to GR_node1, so pods of other nodes do not " +
        "get their egress IP here; it is not ours: remove it, or put it right",
    ],
  ])("%s", (_, of, text) => {
    expect(problems(of)).toBe(`host northbound: ${text}`);
  });
});

describe("not named are", () => {
  it.each<[string, Parameters<typeof problems>[0]]>([
    [
      "a missing gateway router that nothing needs",
      { topology: { routers: without("GR_node1") }, objects: [...labNodes(), secondary] },
    ],
    ["a missing management port that nothing needs", { topology: { management: {} } }],
    [
      "rows that are adopted",
      { northbound: { foreign: new Map([["default-network-controller", 3]]) }, settings: { adopt: true } },
    ],
    [
      "a node of the own zone without a transit address",
      { objects: [...labNodes({ zone: "all", transit: [] }), primary] },
    ],
    [
      "a route that leads arrivals where they belong",
      { topology: { sourceRoutes: new Map([["10.244.0.0/16", "100.64.0.2"]]) } },
    ],
  ])("%s", (_, of) => {
    expect(problems(of)).toBe("");
  });
});

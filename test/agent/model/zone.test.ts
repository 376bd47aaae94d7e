// Whether a node has its northbound database for itself: Nodes and the database have to agree.
import { expect, it } from "vitest";
import { NORTHBOUND_OFF, type Topology } from "../../../agent/model/northbound.ts";
import { isAlone } from "../../../agent/model/zone.ts";
import { node } from "../make.ts";

const routers = (...names: readonly string[]): Topology => ({
  ...NORTHBOUND_OFF.topology,
  routers: new Map(names.map((name) => [name, `uuid of ${name}`])),
});
const nodes = (...zones: readonly string[]) =>
  new Map(zones.map((zone, at) => [`node${at + 1}`, node(`node${at + 1}`, { zone })]));

it.each([
  ["each node has a zone of its own", nodes("a", "b"), ["ovn_cluster_router", "GR_node1"], true],
  [
    "routers of user-defined networks are no other node's",
    nodes("a", "b"),
    ["GR_node1", "GR_net1_node1"],
    true,
  ],
  ["one zone for all", nodes("global", "global"), ["GR_node1", "GR_node2"], false],
  [
    "the other node is going over to a zone of its own",
    nodes("global", "b"),
    ["GR_node1", "GR_node2"],
    false,
  ],
  ["the other node's Node is not read yet", nodes("global"), ["GR_node1", "GR_node2"], false],
  ["the other node's router is not there yet", nodes("global", "global"), ["GR_node1"], false],
] as const)("%s", (_, of, names, alone) => {
  expect(isAlone("node1", of, routers(...names))).toBe(alone);
});

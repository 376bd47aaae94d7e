// The networks of this node's own pods, by its Node object and by its router's port: whatever else is of the cluster networks is of
// another node's pod. Empty where nobody says them yet: then others cannot be told from them. Pure.
import type { Cidr } from "./ip.ts";
import { cidrsOf, type Topology } from "./northbound.ts";
import type { Node } from "./objects.ts";

export function ownPodNetworks(
  node: string,
  nodes: ReadonlyMap<string, Node>,
  topology: Topology,
): readonly Cidr[] {
  return [...(nodes.get(node)?.podSubnets ?? []), ...cidrsOf(topology.podNetworks)];
}

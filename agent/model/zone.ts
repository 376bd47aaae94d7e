// Whether a northbound database is this node's alone, or that of several nodes. Pure.
import { gatewayRouter, type Topology } from "./northbound.ts";
import type { Node } from "./objects.ts";

/**
 * Both Nodes and the database have to say so: while a cluster goes over from one database to one for each node, or before all
 * Nodes are read, the one knows what the other does not, and who thinks itself alone takes away what others wrote.
 */
export function isAlone(node: string, nodes: ReadonlyMap<string, Node>, topology: Topology): boolean {
  const zone = nodes.get(node)?.zone;
  const inZone = [...nodes.values()].filter((other) => other.zone === zone);
  // Those of user-defined networks are called GR_NETWORK_NODE, and no node has an underscore in its name.
  const others = [...topology.routers.keys()].filter(
    (router) => /^GR_[^_]+$/.test(router) && router !== gatewayRouter(node),
  );
  return inZone.length === 1 && others.length === 0;
}

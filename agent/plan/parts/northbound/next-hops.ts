// Where a router policy sends a pod's packets so that they come to a node that has its egress IP. Pure.
// Reference B.4.2: in the own zone to that node's gateway router or management port, to other zones over the transit switch.
import { givingNothing } from "../../../model/giving.ts";
import {
  type Address,
  addressAt,
  compareAddresses,
  contains,
  type Family,
  familyOf,
  longestPrefix,
} from "../../../model/ip.ts";
import { perObject } from "../../../model/memo.ts";
import { gatewayRouter, type Topology } from "../../../model/northbound.ts";
import type { Assignment, EgressIP, Node } from "../../../model/objects.ts";
import type { Settings } from "../../../model/settings.ts";
import type { Held } from "../../../model/snapshot.ts";

/** Whether an egress IP leaves through the gateway router of its node (and not through that node's kernel). */
export function throughGateway(settings: Settings, primary: boolean): boolean {
  return settings.gatewayMode === "shared" && primary;
}

export interface Hop {
  readonly address: Address;
  /**
   * Another node's gateway router in the same database: it gives the egress IP only to pods for which its own agent has written a
   * NAT row, and the node's address to all others.
   */
  readonly router?: string;
}

export type NextHops = (egressIP: EgressIP, family: Family) => readonly Hop[];

/** Next hops of an EgressIP's pods in this zone, one for each of its addresses that can be reached, sorted by address. */
export function nextHopsFor(
  settings: Settings,
  held: readonly Held[],
  nodes: ReadonlyMap<string, Node>,
  topology: Topology,
): NextHops {
  const zone = nodes.get(settings.node)?.zone;
  const heldHere = new Map(held.map((entry) => [`${entry.egressIP.name} ${entry.address}`, entry]));
  const nothingAt = givingNothing(settings, nodes);
  const hopOf = (egressIP: EgressIP, { node: name, address, family }: Assignment): Hop | undefined => {
    const node = nodes.get(name);
    // Never steered to a node that nobody knows, or that gives nothing: what is assigned there is about to be assigned elsewhere.
    if (node === undefined || nothingAt.has(name)) return undefined;
    const own = name === settings.node;
    if (!own && node.zone !== zone) return hop(node.transit.find((cidr) => cidr.family === family)?.address);
    const here = heldHere.get(`${egressIP.name} ${address}`);
    if (own && here === undefined) return undefined; // refused, and named as a Problem
    const primary = own ? here?.primary === true : isPrimaryOf(node, address);
    if (!throughGateway(settings, primary))
      return hop(own ? topology.management[family] : managementOf(node, family));
    const joined = hop(topology.gateways.get(name)?.[family]);
    return own || joined === undefined ? joined : { ...joined, router: gatewayRouter(name) };
  };
  const hopsOf = (egressIP: EgressIP, family: Family): readonly Hop[] => {
    const found = new Map<Address, Hop>();
    for (const assignment of egressIP.assignments) {
      const one = assignment.family === family ? hopOf(egressIP, assignment) : undefined;
      if (one !== undefined) found.set(one.address, one);
    }
    return [...found.values()].sort((a, b) => compareAddresses(a.address, b.address));
  };
  const remembered = perObject((egressIP: EgressIP) => ({ 4: hopsOf(egressIP, 4), 6: hopsOf(egressIP, 6) }));
  return (egressIP, family) => remembered(egressIP)[family];
}

function hop(address: Address | undefined): Hop | undefined {
  return address === undefined ? undefined : { address };
}

/** The second address of its pods' network (reference 0.4): its own port is not asked for, there is one row a pod among them. */
function managementOf({ podSubnets }: Node, family: Family): Address | undefined {
  const subnet = podSubnets.find((cidr) => cidr.family === family);
  return subnet === undefined ? undefined : addressAt(subnet, 2);
}

/**
 * By its annotations, as the reference decides for nodes it cannot look at (A.5); without the one for the primary network by the
 * node's own address, as that node's agent does.
 */
function isPrimaryOf({ primary, hostCidrs, internalAddresses }: Node, address: Address): boolean {
  const ofFamily = primary.find((cidr) => cidr.family === familyOf(address));
  if (ofFamily !== undefined) return contains(ofFamily, address);
  const best = longestPrefix(hostCidrs, (cidr) => cidr, address);
  return best !== undefined && internalAddresses.includes(best.address);
}

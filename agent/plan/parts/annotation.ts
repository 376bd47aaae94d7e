// The annotation k8s.ovn.org/secondary-host-egress-ips of this node: which addresses on its links are egress IPs, for whoever
// publishes its addresses (reference A.3, D.12). In: what is held, the Node object, the record. Out: what it has to say. Pure.
import type { IntentRecord } from "../../model/facts.ts";
import { type Address, sortedAddresses } from "../../model/ip.ts";
import type { Node } from "../../model/objects.ts";
import type { Held, Snapshot } from "../../model/snapshot.ts";
import type { PlannedAnnotation } from "../plan.ts";

/**
 * Entries of the Node object that are not ours stay. Ours are those of egress IPs that we hold, that we recorded, or that any
 * EgressIP asks for, and all of them where we adopt: of those it lists what this node holds on another link than the primary
 * one, and nothing else.
 */
export function annotationOf(
  node: Node | undefined,
  held: readonly Held[],
  notHeld: Snapshot["notHeld"],
  record: IntentRecord,
  adopt: boolean,
): PlannedAnnotation {
  const found = node?.secondaryEgressIPs ?? [];
  const holds = new Set(held.map(({ address }) => address));
  const gone = new Set<Address>([
    ...record.addresses.map(({ address }) => address),
    ...(record.withdrawnEgressIPs ?? []),
    ...notHeld,
    ...(adopt ? found : []),
  ]);
  const secondary = held.filter(({ primary }) => !primary).map(({ address }) => address);
  const others = found.filter((address) => !holds.has(address) && !gone.has(address));
  const withdrawn = found.filter((address) => !holds.has(address) && gone.has(address));
  return Object.freeze({
    listed: sortedAddresses(new Set([...secondary, ...others])),
    withdrawn: Object.freeze(withdrawn),
  });
}

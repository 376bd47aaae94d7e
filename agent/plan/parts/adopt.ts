// What becomes of OVN-Kubernetes' own state in the kernel: taken over where that was asked for, else left alone. Pure.
import type { Node } from "../../model/objects.ts";
import type { Settings } from "../../model/settings.ts";
import type { Held } from "../../model/snapshot.ts";
import { nothing, type PlannedReference } from "../plan.ts";

/** A node that is not among the objects gives nothing, and must not take away what gives something. */
export function adoptFor(
  { adopt, managementPort, clusterNetworks }: Settings,
  held: readonly Held[],
  mask: number,
  node: Node | undefined,
): PlannedReference {
  if (!adopt || node === undefined) return nothing.reference;
  return Object.freeze({
    kind: "adopt",
    managementPort,
    podNetworks: clusterNetworks,
    held: held.map(({ family, link, address, mark }) => ({ family, link, address, mark, mask })),
    listed: new Set(node.secondaryEgressIPs),
  });
}

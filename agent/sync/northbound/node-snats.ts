// The rows by which pods leave with their node's address, where the cluster gives each pod its own (reference B.5): one for an
// address that has an egress IP's row on the same router would stand beside that, and which of the two counts nobody says. Pure.
// By a formula (known-faults BL-12): it is there if and only if the pod is here and no egress IP here serves that address.
import { type Address, familyOf } from "../../model/ip.ts";
import { gatewayRouter, type NorthboundFacts } from "../../model/northbound.ts";
import { entriesOf, getFrom, pairwise } from "../../model/shards.ts";
import type { PlannedNorthbound } from "../../plan/plan.ts";
import type { RowChange } from "./changes.ts";

export function takeNodeSnats(
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  kept: ReadonlySet<Address>,
): readonly RowChange[] {
  if (wanted.snatPerPod === undefined) return [];
  const router = gatewayRouter(wanted.node);
  return [...entriesOf(found.nodeSnats)]
    .filter(([, uuids]) => uuids.length > 0)
    .filter(([pod]) => isServed(wanted, pod) || (kept.has(pod) && hasNat(getFrom(found.pods, pod))))
    .map(([pod, uuids]) => ({ op: "take-node-snat", router, pod, uuids }));
}

/**
 * To pods that have neither row, whoever took it: OVN-Kubernetes makes it before a pod has its address, and not once more. What
 * is found with an egress IP's row is given beside the deletion of that.
 */
export function restoreNodeSnats(): (
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
) => readonly RowChange[] {
  const withoutRow = pairwise<readonly Address[], readonly string[], readonly Address[]>(
    NOBODY,
    (pods, snats) => {
      const missing = [...pods.keys()].filter((pod) => !snats.has(pod));
      return missing.length === 0 ? NOBODY : missing;
    },
  );
  return (wanted, found) => {
    const { snatPerPod, node } = wanted;
    const router = gatewayRouter(node);
    // A row without a router would be gone at once, and be given again and again.
    if (snatPerPod === undefined || !found.topology.routers.has(router)) return [];
    return withoutRow(snatPerPod.pods, found.nodeSnats)
      .flat()
      .flatMap((pod): readonly RowChange[] => {
        const own = snatPerPod.to[familyOf(pod)];
        if (
          own === undefined ||
          isServed(wanted, pod) ||
          hasNat(getFrom(found.pods, pod)?.filter(({ on }) => on.includes(router)))
        )
          return [];
        return [{ op: "give-node-snat", router, pod, node: own }];
      });
  };
}

const NOBODY: readonly Address[] = Object.freeze([]);

/** Beside the deletion of an egress IP's row. */
export function giveNodeSnats(
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  changes: readonly RowChange[],
): readonly RowChange[] {
  const { snatPerPod, node } = wanted;
  if (snatPerPod === undefined) return [];
  const router = gatewayRouter(node);
  const left = new Set(
    changes.flatMap((change) =>
      change.op === "delete" && change.found.table === "NAT" && change.found.on.includes(router)
        ? [String(change.found.columns["logical_ip"])]
        : [],
    ),
  );
  return [...left].flatMap((pod): readonly RowChange[] => {
    const own = snatPerPod.to[familyOf(pod)];
    const isHere = getFrom(snatPerPod.pods, pod) !== undefined;
    // Somebody else's row beside it was there before as well.
    const isThere = (getFrom(found.nodeSnats, pod) ?? []).length > 0;
    if (own === undefined || !isHere || isServed(wanted, pod) || isThere) return [];
    return [{ op: "give-node-snat", router, pod, node: own }];
  });
}

function isServed({ pods }: PlannedNorthbound, pod: Address): boolean {
  return hasNat(getFrom(pods, pod));
}

function hasNat(rows: readonly { readonly table: string }[] | undefined): boolean {
  return rows?.some(({ table }) => table === "NAT") === true;
}

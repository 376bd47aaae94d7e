// The rows by which pods leave with their node's address, where the cluster gives each pod its own (reference B.5): one for an
// address that has an egress IP's row on the same router would stand beside that, and which of the two counts nobody says. Pure.
// By a formula (known-faults BL-12): it is there if and only if the pod is here and no egress IP here serves that address.
import { type Address, familyOf } from "../../model/ip.ts";
import { gatewayRouter, type NorthboundFacts } from "../../model/northbound.ts";
import { entriesOf, getFrom } from "../../model/shards.ts";
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
    .filter(([pod]) => isServed(wanted, pod) || (kept.has(pod) && hasNat(getFrom(found.pods, pod))))
    .map(([pod, uuids]) => ({ op: "take-node-snat", router, pod, uuids }));
}

/** Beside the deletion of an egress IP's row, and never otherwise: who makes them in the first place is OVN-Kubernetes. */
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
    if (own === undefined || !isHere || isServed(wanted, pod) || getFrom(found.nodeSnats, pod) !== undefined)
      return [];
    return [{ op: "give-node-snat", router, pod, node: own }];
  });
}

function isServed({ pods }: PlannedNorthbound, pod: Address): boolean {
  return hasNat(getFrom(pods, pod));
}

function hasNat(rows: readonly { readonly table: string }[] | undefined): boolean {
  return rows?.some(({ table }) => table === "NAT") === true;
}

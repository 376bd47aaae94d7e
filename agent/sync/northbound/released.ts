// NAT rows by which OVN answers for an egress IP that this node does not give any more: they go although something else on this host
// fails, since another node answers for it from now on. In: plan, facts after what was established, what is to be retired. Pure.
import type { HostFacts } from "../../model/facts.ts";
import type { Plan } from "../../plan/plan.ts";
import type { RowChange } from "./changes.ts";
import { ledHere, podOf } from "./withdraw.ts";

/** Not one that its pod is still led to by this node. */
export function releasedRows(
  { addresses: { inTurn }, northbound: { node } }: Plan,
  { northbound }: HostFacts,
  retire: readonly RowChange[],
): readonly RowChange[] {
  // Where everything ends it ends in its turn.
  if (inTurn === "all") return [];
  const isLed = ledHere(node, northbound);
  return retire.filter((change) => {
    if (change.op !== "delete" || change.why === "gone-node" || change.found.table !== "NAT") return false;
    const pod = podOf(change);
    return !inTurn.has(String(change.found.columns["external_ip"])) && pod !== undefined && !isLed(pod);
  });
}

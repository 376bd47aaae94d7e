// When a pod may be led to this host's kernel: a moment before that knows what to do with it, the pod would leave with the node's
// address. In: plan and facts as the other backends have left them. Pure.
import type { HostFacts } from "../../model/facts.ts";
import { type Address, familyOf } from "../../model/ip.ts";
import type { Row } from "../../model/northbound.ts";
import { servedSet } from "../../model/owner.ts";
import { getFrom } from "../../model/shards.ts";
import type { Plan } from "../../plan/plan.ts";

/** Whether a row leads elsewhere, or the kernel has the entry that it is to have for this address. */
export function mayBeLed(plan: Plan, facts: HostFacts, address: Address, { columns }: Row): boolean {
  const family = familyOf(address);
  const hop = plan.northbound.kernelHop[family];
  const hops = columns["nexthops"];
  if (hop === undefined || !Array.isArray(hops) || !hops.includes(hop)) return true;
  const wanted = getFrom(plan.sets.served[family], address);
  const members = facts.sets.get(servedSet(family))?.members;
  return wanted === undefined || (members !== undefined && getFrom(members, address) === wanted);
}

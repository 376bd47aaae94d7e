// Which egress IPs leave a link so that somebody else may answer for them from now on: another node, or this one on another
// link. In: plan. Out: whether one does. Pure.
import { type OnLink, onLink } from "../model/on-link.ts";
import type { Plan } from "../plan/plan.ts";

export function leavesFirst({ addresses: { hold, inTurn } }: Plan): (entry: OnLink) => boolean {
  if (inTurn === "all") return () => false;
  const held = new Set(hold.map(onLink));
  return (entry) => !held.has(onLink(entry)) && !inTurn.has(entry.address);
}

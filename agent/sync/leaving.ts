// Which egress IPs leave a link so that somebody else may answer for them from now on: another node, or this one on another
// link. In: plan. Out: whether one does. Pure.
import type { Plan } from "../plan/plan.ts";

interface OnLink {
  readonly address: string;
  readonly link: string;
}

export function leavesFirst({ addresses: { hold, inTurn } }: Plan): (entry: OnLink) => boolean {
  if (inTurn === "all") return () => false;
  const held = new Set(hold.map(({ address, link }) => `${address} ${link}`));
  return ({ address, link }) => !held.has(`${address} ${link}`) && !inTurn.has(address);
}

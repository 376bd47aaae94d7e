// Our chains in the iptables backend that this process does not use: left by an earlier start, they would still act.
// In: that backend. Out: whether something was taken away.
import type { Iptables } from "../../lib/node-iptables/index.ts";
import { diffRuleset, printRestore } from "../../lib/node-iptables/pure.ts";
import { isOurChain } from "../model/owner.ts";

const NONE = { chains: [], jumps: [] };

/** Call it only when the backend in use is complete: until then the leftovers are what serves. */
export async function retireLeftovers(other: Pick<Iptables, "save" | "restore">): Promise<boolean> {
  let found = false;
  for (const family of [4, 6] as const) {
    const { retire } = diffRuleset(await other.save(family, isOurChain), NONE, isOurChain);
    if (retire.length === 0) continue;
    await other.restore(family, printRestore(retire));
    found = true;
  }
  return found;
}

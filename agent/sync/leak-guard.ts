// Our one nft table. In: plan, facts. Out: an nft script that makes or unmakes it in one transaction.
import { LEAK_TABLE } from "../model/owner.ts";
import { lettingOutAlso } from "../plan/parts/leak-guard.ts";
import type { Backend } from "./backend.ts";
import type { Tools } from "./tools.ts";

export interface LeakGuardChange {
  /** The table's text; "" takes it away. */
  readonly table: string;
  /** Something of that name is there and has to go in the same transaction. */
  readonly replaces: boolean;
}

export function leakGuard(tools: Pick<Tools, "nft">): Backend<LeakGuardChange> {
  return {
    name: "leak-guard",
    reads: { plan: ["leakGuard"], facts: ["nft"] },
    beside: true,
    urgent: (plan, facts) => plan.leakGuard !== "" && facts.nft === "",
    verifies: "nft",
    diff: ({ leakGuard: wanted }, { nft: there }) => {
      // Make before break: what left with an egress IP that goes is let out until its flows are ended.
      const also = wanted === "" ? there : lettingOutAlso(wanted, there);
      return {
        establish: also === there ? [] : [{ table: also, replaces: there !== "" }],
        retire: wanted === there ? [] : [{ table: wanted, replaces: there !== "" }],
      };
    },
    print: (changes) => changes.flatMap((change) => script(change).trimEnd().split("\n")),
    predict: (facts, changes) => ({ ...facts, nft: changes.at(-1)?.table ?? facts.nft }),
    apply: async (changes) => {
      for (const change of changes) await tools.nft.apply(script(change));
    },
  };
}

/** Adding before deleting makes the deletion succeed whether or not it was there; all of it is one transaction. */
function script({ table, replaces }: LeakGuardChange): string {
  return replaces ? `add table inet ${LEAK_TABLE}\ndelete table inet ${LEAK_TABLE}\n${table}` : table;
}

// Connections that outlive what they were made with. In: plan, facts. Out: conntrack deletions.
// Retired between the set entries and the SNAT rules: no new flow gets the mark any more, and the rule that still carries
// it keeps it from being given to another egress IP until its flows are gone.
import { printDelete } from "../../lib/conntrack/pure.ts";
import { programmedMarks } from "../model/marks.ts";
import { servedSet } from "../model/owner.ts";
import type { Backend } from "./backend.ts";
import { servedDiff } from "./served-diff.ts";
import { membersOf } from "./sets.ts";
import type { Tools } from "./tools.ts";

export type FlowChange =
  | { readonly family: 4 | 6; readonly mark: number; readonly mask: number }
  | { readonly family: 4 | 6; readonly source: string; readonly mark: 0; readonly mask: number };

/** Deletions at a time: each is a process. */
const AT_ONCE = 4;

export function flows(tools: Pick<Tools, "conntrack">): Backend<FlowChange> {
  return {
    name: "flows",
    reads: { plan: ["marks", "cutUnmarked", "sets"], facts: ["iptables", "sets"] },
    verifies: undefined,
    diff: (plan, facts) => {
      const kept = new Set(plan.marks.map(({ family, mark }) => `${family} ${mark}`));
      const stale = programmedMarks(facts.iptables).filter(
        ({ family, mark }) => !kept.has(`${family} ${mark}`),
      );
      const cut: FlowChange[] = [];
      const mask = plan.marks[0]?.mask;
      for (const family of [4, 6] as const) {
        if (!plan.cutUnmarked || mask === undefined) continue;
        const { added } = servedDiff(membersOf(facts, servedSet(family)), plan.sets.served[family]);
        for (const [source] of added) cut.push({ family, source, mark: 0, mask });
      }
      return {
        establish: cut,
        retire: stale.map(({ family, mark, mask: of }) => ({ family, mark, mask: of })),
      };
    },
    print: (changes) => changes.map(printDelete),
    predict: (facts) => facts,
    apply: async (changes) => {
      for (let i = 0; i < changes.length; i += AT_ONCE) {
        await Promise.all(changes.slice(i, i + AT_ONCE).map((change) => remove(tools, change)));
      }
    },
  };
}

function remove({ conntrack }: Pick<Tools, "conntrack">, change: FlowChange): Promise<number> {
  const { family, mark, mask } = change;
  return "source" in change
    ? conntrack.deleteBySource(family, change.source, mark, mask)
    : conntrack.deleteByMark(family, mark, mask);
}

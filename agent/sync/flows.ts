// Connections that outlive what they were made with. In: plan, facts. Out: conntrack deletions.
// Retired between the set entries and the SNAT rules: no new flow gets the mark any more, and the rule that still carries
// it keeps it from being given to another egress IP until its flows are gone.
import { printDelete } from "../../lib/conntrack/pure.ts";
import { layoutOf } from "../model/marks.ts";
import { programmedMarks } from "../model/marks-found.ts";
import { servedSet } from "../model/owner.ts";
import { getFrom } from "../model/shards.ts";
import type { Mark } from "../plan/plan.ts";
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
      const cut: FlowChange[] = [];
      const mask = plan.marks[0]?.mask;
      for (const family of [4, 6] as const) {
        if (!plan.cutUnmarked || mask === undefined) continue;
        const members = membersOf(facts, servedSet(family));
        const { added, changed } = servedDiff(members, plan.sets.served[family]);
        // One that waits may still have to be cut: the round in which it should have been failed, or was cut short.
        const waiting = changed.filter(([source]) => getFrom(members, source) === "");
        for (const [source] of [...added, ...waiting]) cut.push({ family, source, mark: 0, mask });
      }
      return { establish: cut, retire: staleFlows(plan.marks, programmedMarks(facts.iptables)) };
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

/** One deletion for all marks of a link that keeps none of them, else one a mark. */
function staleFlows(kept: readonly Mark[], programmed: readonly Mark[]): readonly FlowChange[] {
  const keptMarks = new Set(kept.map(({ family, mark }) => `${family} ${mark}`));
  const keptLinks = new Set(kept.map((entry) => linkOf(entry).key));
  const stale = programmed.filter(({ family, mark }) => !keptMarks.has(`${family} ${mark}`));
  const changes = new Map<string, FlowChange>();
  for (const { family, mark, mask } of stale) {
    const link = linkOf({ family, mark, mask });
    if (keptLinks.has(link.key)) changes.set(`${family} ${mark}`, { family, mark, mask });
    else changes.set(link.key, { family, mark: link.bits, mask: link.mask });
  }
  return [...changes.values()];
}

function linkOf({ family, mark, mask }: Mark): {
  readonly key: string;
  readonly bits: number;
  readonly mask: number;
} {
  const linkMask = layoutOf(mask)?.linkMask ?? mask;
  const bits = (mark & linkMask) >>> 0;
  return { key: `link ${family} ${bits}/${linkMask}`, bits, mask: linkMask };
}

function remove({ conntrack }: Pick<Tools, "conntrack">, change: FlowChange): Promise<number> {
  const { family, mark, mask } = change;
  return "source" in change
    ? conntrack.deleteBySource(family, change.source, mark, mask)
    : conntrack.deleteByMark(family, mark, mask);
}

// Pods' marks: for those that entered without one, another one, or no entry any more. In: plan, facts. Out: `ipset restore` lines.
// Last to establish, so a pod is steered to a way out only when that is complete; first to retire, so nothing is taken away
// under a pod that is still steered to it.
import type { HostFacts } from "../model/facts.ts";
import { servedSet } from "../model/owner.ts";
import type { Plan } from "../plan/plan.ts";
import type { Backend } from "./backend.ts";
import { restoreSets } from "./restore.ts";
import { servedDiff, translatedIn } from "./served-diff.ts";
import { predictSets, type SetChange, setLine } from "./set-lines.ts";
import { adoptServed, membersOf } from "./sets.ts";
import type { Tools } from "./tools.ts";

export function steering(tools: Pick<Tools, "ipset">): Backend<SetChange> {
  return {
    name: "steering",
    reads: { plan: ["sets"], facts: ["sets", "iptables"] },
    late: true,
    // The first frames are on their way by then, and each is quick.
    beside: true,
    // A connection that was to be cut and was not would keep its source under the eyes of everybody.
    needs: ["flows"],
    // Who loses his mark is not served any more.
    waits: (change) => "extension" in change && change.extension === "",
    verifies: undefined,
    verifiesLarge: "sets",
    diff: (plan, facts) => {
      const establish: SetChange[] = [];
      const retire: SetChange[] = [];
      for (const family of [4, 6] as const) changesOf(plan, facts, family, establish, retire);
      return { establish, retire };
    },
    print: (changes) => changes.map(setLine),
    predict: predictSets,
    settle: adoptServed,
    apply: (changes, lines) => restoreSets(tools, changes, lines),
  };
}

function changesOf(
  plan: Plan,
  facts: HostFacts,
  family: 4 | 6,
  establish: SetChange[],
  retire: SetChange[],
): void {
  const set = servedSet(family);
  if (!plan.sets.sets.some(({ name }) => name === set)) {
    if (membersOf(facts, set).shards.some((shard) => shard.size > 0)) retire.push({ op: "flush", set });
    return;
  }
  const diff = servedDiff(membersOf(facts, set), plan.sets.served[family]);
  const translated = translatedIn(facts.iptables, family);
  for (const [member, extension] of diff.changed) {
    if (translated(extension)) establish.push({ op: "add", set, member, extension });
  }
  retire.push(...diff.removed.map((member) => ({ op: "del", set, member }) as const));
}

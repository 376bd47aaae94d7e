// The sets themselves, exempt destinations, and pods that are newly selected. In: plan, facts. Out: `ipset restore` lines.
// New pods come first of all backends: with an entry the guard holds them back until their way out is complete. One whose
// egress IP is not translated yet enters without its mark, which steering gives it at the end.

import type { HostFacts, SetFacts } from "../model/facts.ts";
import { byCodeUnit } from "../model/names.ts";
import { exemptSet, isOurSet, servedSet } from "../model/owner.ts";
import { adoptShards, emptyShards, entriesOf, getFrom } from "../model/shards.ts";
import type { Plan } from "../plan/plan.ts";
import type { Backend } from "./backend.ts";
import { restoreSets } from "./restore.ts";
import { comparingServed, nothingMarks, type ServedDiff, servedDiff, translatedIn } from "./served-diff.ts";
import { predictSets, type SetChange, setLine } from "./set-lines.ts";
import type { Tools } from "./tools.ts";

const FAMILIES = [4, 6] as const;

export function sets(tools: Pick<Tools, "ipset">): Backend<SetChange> {
  return {
    name: "sets",
    reads: { plan: ["sets", "cutUnmarked"], facts: ["sets", "iptables"] },
    beside: true,
    waits: ({ op }) => op === "del",
    verifies: undefined,
    verifiesLarge: "sets",
    diff: (plan, facts) => ({
      establish: [...creates(plan, facts), ...adds(plan, facts)],
      retire: removals(plan, facts),
    }),
    print: (changes) => changes.map(setLine),
    predict: predictSets,
    settle: adoptServed,
    apply: (changes, lines) => restoreSets(tools, changes, lines),
  };
}

/** Compares the pods of a large plan in pieces, before a diff is asked for; changes nothing that comes out. */
export function* prepareServed(plan: Plan, facts: HostFacts): Generator<undefined, void> {
  for (const family of FAMILIES)
    yield* comparingServed(membersOf(facts, servedSet(family)), plan.sets.served[family]);
}

function creates(plan: Plan, facts: HostFacts): readonly SetChange[] {
  return plan.sets.sets
    .filter((planned) => !facts.sets.has(planned.name))
    .map((planned) => ({ op: "create", set: planned.name, planned }));
}

function adds(plan: Plan, facts: HostFacts): readonly SetChange[] {
  const changes: SetChange[] = [];
  for (const family of FAMILIES) {
    const exempt = exemptSet(family);
    for (const member of plan.sets.exempt[family]) {
      if (getFrom(membersOf(facts, exempt), member) === undefined)
        changes.push({ op: "add", set: exempt, member, extension: "" });
    }
    const served = servedSet(family);
    const diff = servedDiff(membersOf(facts, served), plan.sets.served[family]);
    changes.push(...servedFirst(diff, plan, facts, family, served));
  }
  return changes;
}

/** A new pod whose egress IP is not translated yet enters without its mark: selected, not ready, until steering. */
function servedFirst(
  diff: ServedDiff,
  plan: Plan,
  facts: HostFacts,
  family: 4 | 6,
  set: string,
): readonly SetChange[] {
  const add = (member: string, extension: string): SetChange => ({ op: "add", set, member, extension });
  if (!plan.cutUnmarked && nothingMarks(facts.iptables, family)) {
    return [
      ...diff.removed.map((member): SetChange => ({ op: "del", set, member })),
      ...[...diff.added, ...diff.changed].map(([member, entry]) => add(member, entry)),
    ];
  }
  const translated = translatedIn(facts.iptables, family);
  // What is to be cut is cut before it is steered: until then the entry has to say that this is still to be done.
  return diff.added.map(([member, entry]) =>
    add(member, translated(entry) && !plan.cutUnmarked ? entry : ""),
  );
}

function removals(plan: Plan, facts: HostFacts): readonly SetChange[] {
  const kept = new Set(plan.sets.sets.map(({ name }) => name));
  const changes: SetChange[] = [];
  for (const family of FAMILIES) {
    const exempt = exemptSet(family);
    if (!kept.has(exempt)) continue;
    const wanted = new Set(plan.sets.exempt[family]);
    const stale: SetChange[] = [];
    for (const [member] of entriesOf(membersOf(facts, exempt))) {
      if (!wanted.has(member)) stale.push({ op: "del", set: exempt, member });
    }
    changes.push(...stale.sort(byMember));
  }
  for (const name of [...facts.sets.keys()].sort(byCodeUnit)) {
    if (isOurSet(name) && !kept.has(name)) changes.push({ op: "destroy", set: name });
  }
  return changes;
}

function byMember(a: SetChange, b: SetChange): number {
  const memberOf = (change: SetChange) => ("member" in change ? change.member : "");
  return memberOf(a) < memberOf(b) ? -1 : 1;
}

export function membersOf(facts: HostFacts, set: string): SetFacts["members"] {
  return facts.sets.get(set)?.members ?? emptyShards();
}

/** The facts with each shard that holds what the plan wants replaced by the plan's own: the next comparison skips it. */
export function adoptServed(plan: Plan, facts: HostFacts): HostFacts {
  let changed = false;
  const adopted = new Map(facts.sets);
  for (const family of FAMILIES) {
    const name = servedSet(family);
    const set = facts.sets.get(name);
    const wanted = plan.sets.served[family];
    if (set === undefined || set.members.shards.every((shard, i) => shard === wanted.shards[i])) continue;
    adopted.set(name, { ...set, members: adoptShards(wanted, set.members) });
    changed = true;
  }
  return changed ? { ...facts, sets: adopted } : facts;
}

// Lines of `ipset restore` and what they do to the facts. Pure. Shared by the two backends that write sets.
import type { HostFacts, SetFacts } from "../model/facts.ts";
import { emptyShards, withEntries } from "../model/shards.ts";
import type { PlannedSet } from "../plan/plan.ts";

export type SetChange =
  | { readonly op: "create"; readonly set: string; readonly planned: PlannedSet }
  | { readonly op: "add"; readonly set: string; readonly member: string; readonly extension: string }
  | { readonly op: "del"; readonly set: string; readonly member: string }
  | { readonly op: "flush"; readonly set: string }
  | { readonly op: "destroy"; readonly set: string };

export function setLine(change: SetChange): string {
  switch (change.op) {
    case "create":
      return `create ${change.set} ${change.planned.type} ${change.planned.options} hashsize ${change.planned.hashsize}`;
    case "add":
      return `add ${change.set} ${change.member}${change.extension === "" ? "" : ` ${change.extension}`}`;
    case "del":
      return `del ${change.set} ${change.member}`;
    case "flush":
    case "destroy":
      return `${change.op} ${change.set}`;
  }
}

export function predictSets(facts: HostFacts, changes: readonly SetChange[]): HostFacts {
  if (changes.length === 0) return facts;
  const sets = new Map<string, SetFacts>(facts.sets);
  const edits = new Map<string, (readonly [string, string | undefined])[]>();
  for (const change of changes) {
    const { set } = change;
    if (change.op === "create") {
      const { type, options } = change.planned;
      sets.set(set, { type, options, members: emptyShards() });
    } else if (change.op === "destroy") sets.delete(set);
    else if (change.op === "flush") sets.set(set, { ...present(sets, set), members: emptyShards() });
    else {
      const edit = edits.get(set) ?? [];
      edits.set(set, edit);
      edit.push([change.member, change.op === "add" ? change.extension : undefined]);
    }
  }
  for (const [set, edit] of edits) {
    const before = present(sets, set);
    sets.set(set, { ...before, members: withEntries(before.members, edit) });
  }
  return { ...facts, sets };
}

function present(sets: ReadonlyMap<string, SetFacts>, name: string): SetFacts {
  const set = sets.get(name);
  if (set === undefined) throw new Error(`no set ${name}`);
  return set;
}

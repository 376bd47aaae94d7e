// A round cut into every moment at which a crash could stop it, by prediction. In: plan and facts. Out: the facts of each moment.
// The order is the one in which the round really writes: it is asked, not copied.
import type { HostFacts } from "../../agent/model/facts.ts";
import type { Plan } from "../../agent/plan/plan.ts";
import type { AnyBackend } from "../../agent/sync/backend.ts";
import { createBackends } from "../../agent/sync/backends.ts";
import type { FamilyChange } from "../../agent/sync/iptables.ts";
import { noTools } from "../../agent/sync/no-tools.ts";
import { carryOut } from "../../agent/sync/round.ts";
import type { SetChange } from "../../agent/sync/set-lines.ts";
import { factsAsLines } from "./scenario-facts.ts";

/** A moment within a round: the facts when everything up to and including this change was done. */
interface Moment {
  readonly after: string;
  readonly facts: HostFacts;
}

interface Written {
  readonly backend: AnyBackend;
  readonly changes: readonly unknown[];
}

/**
 * Every moment of carrying a plan out, in the order in which the round really writes. Backends that write side by side may
 * also be done in another order, so the last one first is looked at too.
 */
export async function momentsOf(plan: Plan, start: HostFacts): Promise<readonly Moment[]> {
  const written: Written[] = [];
  const watched = createBackends(noTools).map(
    (backend): AnyBackend => ({
      ...backend,
      prepare: () => Promise.resolve(),
      apply: (changes) => {
        written.push({ backend, changes });
        return Promise.resolve();
      },
    }),
  );
  const outcome = await carryOut(watched, plan, start, { write: true, held: () => false });
  const moments: Moment[] = [];
  let facts = start;
  for (const together of sideBySide(written)) {
    let other = facts;
    for (const { backend, changes } of together.slice(1).toReversed()) {
      other = backend.predict(other, changes);
      moments.push({ after: `${backend.name} before the others`, facts: other });
    }
    for (const { backend, changes } of together) {
      for (const atOnce of unitsOf(backend.name, changes)) {
        facts = backend.predict(facts, atOnce);
        moments.push({ after: backend.print(atOnce).join("\n"), facts });
      }
    }
  }
  const whole = factsAsLines(outcome.facts, { marks: "as they are" }).join("\n");
  if (factsAsLines(facts, { marks: "as they are" }).join("\n") !== whole)
    throw new Error("the changes one by one do not lead where they lead together");
  return moments;
}

/** Runs of what was written at one time. */
function sideBySide(written: readonly Written[]): readonly (readonly Written[])[] {
  const groups = new Map<string, number>();
  let group = -1;
  for (const { name, beside } of createBackends(noTools)) groups.set(name, beside ? group : ++group);
  const runs: Written[][] = [];
  for (const entry of written) {
    const run = runs.at(-1);
    const joins = run?.every(
      ({ backend: { name } }) =>
        name !== entry.backend.name && groups.get(name) === groups.get(entry.backend.name),
    );
    if (joins && run !== undefined) run.push(entry);
    else runs.push([entry]);
  }
  return runs;
}

/** What the kernel takes as one: a table of one family for iptables, else a line. Exempt members are many and alike. */
function unitsOf(backend: string, changes: readonly unknown[]): readonly (readonly unknown[])[] {
  const unit = (change: unknown, at: number): string => {
    if (backend === "iptables") {
      const { family, change: rules } = change as FamilyChange;
      return `${family} ${rules.table}`;
    }
    const { set, op } = change as Partial<SetChange>;
    return set?.includes("exempt") ? `${op} ${set}` : String(at);
  };
  return [
    ...Map.groupBy(
      changes.map((change, at) => ({ change, unit: unit(change, at) })),
      (entry) => entry.unit,
    ),
  ].map(([, entries]) => entries.map(({ change }) => change));
}

// What of a round is drift: somebody else undid what was right. In: a round and the one before it. Out: what was repaired. Pure.
// A backend repairs where it writes although what is wanted of it is the same, and the round before left nothing undone. What waited for
// others over several rounds (rows of other nodes' agents) cannot be told from that, and is counted too.
import { isDeepStrictEqual } from "node:util";
import type { Round } from "../../loop.ts";
import type { Step } from "../../sync/round.ts";

/** Announcing again, and what follows from other writes, is no repair. */
const NEVER: ReadonlySet<string> = new Set(["announce", "flows", "record"]);

export function driftOf(
  before: Round | undefined,
  { objects, snapshot, plan, outcome }: Round,
): readonly Step[] {
  if (before === undefined || before.outcome.failures.length > 0) return [];
  // From doubt to certainty is another reason to write than somebody's doing.
  const doubtful = (of: Round["objects"]) => of.unconfirmed !== undefined;
  if (doubtful(objects) !== doubtful(before.objects) || snapshot.settings !== before.snapshot.settings)
    return [];
  const failed = new Set(outcome.failures.map(({ backend, phase }) => `${backend} ${phase}`));
  const wanted = new Map([...outcome.wrote.keys()].map(({ name, reads }) => [name, reads.plan]));
  // What is small is made anew with any change of the network; what there is of each pod is the same object while it is the same.
  return outcome.steps.filter(
    ({ backend, phase }) =>
      !NEVER.has(backend) &&
      !failed.has(`${backend} ${phase}`) &&
      (wanted.get(backend) ?? []).every((field) => isDeepStrictEqual(plan[field], before.plan[field])),
  );
}

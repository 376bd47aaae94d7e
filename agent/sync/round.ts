// One round: every backend establishes, first to last; only if all of that worked does every backend retire, last to first.
// Also the printer of a round: the same text for `plan`, the golden files, the debug socket and bug reports.
import type { HostFacts } from "../model/facts.ts";
import type { Plan } from "../plan/plan.ts";
import type { AnyBackend } from "./backend.ts";

export type Phase = "establish" | "retire";

/** What one backend has to do, or did, in one phase. */
export interface Step {
  readonly backend: string;
  readonly phase: Phase;
  readonly lines: readonly string[];
}

export interface Failure {
  readonly backend: string;
  readonly phase: Phase;
  readonly error: Error;
}

export interface Outcome {
  readonly steps: readonly Step[];
  readonly failures: readonly Failure[];
  /** Facts as they are after what was done, by prediction. */
  readonly facts: HostFacts;
  /** Backends that wrote, and how many lines. */
  readonly wrote: ReadonlyMap<AnyBackend, number>;
}

export interface RoundOptions {
  /** False: nothing is written, the outcome says what would be. */
  readonly write: boolean;
  /** Backends left out this time because what they want is being undone by somebody else, or they back off. */
  readonly held: (backend: AnyBackend) => boolean;
  /** Called before each write. */
  readonly onStep?: (step: Step) => void;
}

/** Carries a plan out, or only works it out. Never throws for what a backend throws: that is an outcome. */
export async function carryOut(
  backends: readonly AnyBackend[],
  plan: Plan,
  start: HostFacts,
  options: RoundOptions,
): Promise<Outcome> {
  const steps: Step[] = [];
  const failures: Failure[] = [];
  const wrote = new Map<AnyBackend, number>();
  let facts = start;
  const act = async (backend: AnyBackend, phase: Phase, changes: readonly unknown[]) => {
    if (changes.length === 0) return;
    const step: Step = { backend: backend.name, phase, lines: backend.print(changes) };
    steps.push(step);
    options.onStep?.(step);
    try {
      if (options.write) await backend.apply(changes);
      wrote.set(backend, (wrote.get(backend) ?? 0) + step.lines.length);
      facts = backend.predict(facts, changes);
    } catch (error) {
      wrote.set(backend, (wrote.get(backend) ?? 0) + step.lines.length);
      failures.push({
        backend: backend.name,
        phase,
        error: error instanceof Error ? error : new Error(String(error)),
      });
    }
  };
  // Worked out before anything is done: a backend may ask what is new, and must not see what another has just added.
  const establish = backends.map((backend) =>
    options.held(backend) ? [] : diffOf(backend, plan, start).establish,
  );
  for (const [index, backend] of backends.entries()) await act(backend, "establish", establish[index] ?? []);
  const all = failures.length === 0 && !backends.some((backend) => options.held(backend));
  if (all) {
    for (const backend of [...backends].reverse())
      await act(backend, "retire", diffOf(backend, plan, facts).retire);
  }
  return { steps, failures, facts, wrote };
}

interface Remembered {
  readonly inputs: readonly unknown[];
  readonly diff: ReturnType<AnyBackend["diff"]>;
}

const remembered = new WeakMap<AnyBackend, Remembered>();

/** The diff, made again only when something it reads is another object. */
function diffOf(backend: AnyBackend, plan: Plan, facts: HostFacts): ReturnType<AnyBackend["diff"]> {
  const inputs = [
    ...backend.reads.plan.map((field) => plan[field]),
    ...backend.reads.facts.map((domain) => facts[domain]),
  ];
  const last = remembered.get(backend);
  if (last?.inputs.every((input, index) => input === inputs[index])) return last.diff;
  const diff = backend.diff(plan, facts);
  remembered.set(backend, { inputs, diff });
  return diff;
}

export function printSteps(steps: readonly Step[]): string {
  return steps.map(({ phase, backend, lines }) => `== ${phase} ${backend}\n${lines.join("\n")}\n`).join("\n");
}

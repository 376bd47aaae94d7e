// One round: what another node answers for now is withdrawn; then every backend establishes, first to last; only if all of that
// worked does every backend retire, last to first, up to the first that cannot: what stands below it is what it still needs
// (a mark is free only when its flows are gone). Of objects that nobody confirms nothing is retired, and nothing is told to others; after
// a failure only what is released goes.
// Also the printer of a round: the same text for `plan`, the golden files, the debug socket and bug reports.
import { createRest } from "../../lib/turns/index.ts";
import type { Domain, HostFacts } from "../model/facts.ts";
import type { Unconfirmed } from "../model/objects.ts";
import type { Plan } from "../plan/plan.ts";
import type { AnyBackend, Diff } from "./backend.ts";
import { type Ahead, readyToRead, toReadBack, writtenBy } from "./read-back.ts";

export type Phase = "withdraw" | "establish" | "retire";

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
  /** Lines that are left out of what a backend does, where it can do the rest without them. */
  readonly heldLines?: (backend: AnyBackend) => ReadonlySet<string>;
  /** Begins to read back what is written while others are still at work; missing where nothing is read back. */
  readonly ahead?: Ahead | undefined;
  /** Nobody confirms the objects that the plan is made from: nothing is retired, and what `waits` is not done. */
  readonly unconfirmed?: Unconfirmed | undefined;
}

/** Carries a plan out, or only works it out. Never throws for what a backend throws: that is an outcome. */
export async function carryOut(
  backends: readonly AnyBackend[],
  plan: Plan,
  start: HostFacts,
  options: RoundOptions,
): Promise<Outcome> {
  // What comes in while much is worked out, probes and requests among it, is not to wait for the end of all of it.
  const rest = createRest();
  const steps: Step[] = [];
  const failures: Failure[] = [];
  const wrote = new Map<AnyBackend, number>();
  const prepared = new Map<AnyBackend, Promise<void>>();
  let facts = start;
  /** One backend that cannot be worked out must not keep the others from working. */
  const guarded = (backend: AnyBackend, phase: Phase, make: () => readonly unknown[]): readonly unknown[] => {
    try {
      return make();
    } catch (error) {
      failures.push({ backend: backend.name, phase, error: asError(error) });
      return [];
    }
  };
  const act = async (
    group: readonly AnyBackend[],
    phase: Phase,
    changesOf: (backend: AnyBackend) => readonly unknown[],
    meanwhile: () => void = () => {},
  ) => {
    const acting: { readonly backend: AnyBackend; readonly changes: readonly unknown[] }[] = [];
    for (const backend of group) {
      const changes = guarded(backend, phase, () => changesOf(backend));
      if (changes.length > 0) acting.push({ backend, changes });
      await rest();
    }
    // Of what is taken away now some may be read by another name, too.
    if (phase === "retire" && acting.length > 0) options.ahead?.doubt(toReadBack({ wrote, failures }));
    const running: (Promise<Error | undefined> | undefined)[] = [];
    for (const { backend, changes } of acting) {
      const step: Step = { backend: backend.name, phase, lines: backend.print(changes) };
      steps.push(step);
      wrote.set(backend, (wrote.get(backend) ?? 0) + step.lines.length);
      if (!options.write) {
        running.push(undefined);
        continue;
      }
      await rest();
      const ready = phase === "establish" ? prepared.get(backend) : undefined;
      const apply = () => backend.apply(changes, step.lines);
      running.push(failureOf(ready === undefined ? apply() : ready.then(apply)));
    }
    meanwhile();
    for (const [index, { backend, changes }] of acting.entries()) {
      // Worked out while the tools are at it; thrown away when they fail.
      const isTold = options.write && backend.reread !== undefined;
      await rest();
      const after = isTold ? facts : backend.predict(facts, changes);
      await rest();
      const predicted = backend.settle?.(plan, after) ?? after;
      const error = await running[index];
      if (error !== undefined) failures.push({ backend: backend.name, phase, error });
      else facts = isTold ? ((await backend.reread?.(facts)) ?? predicted) : predicted;
    }
  };
  /** The diff but for what waits until somebody confirms the objects. */
  const confirmed = (backend: AnyBackend, now: HostFacts): Diff<unknown> => {
    const whole = diffOf(backend, plan, now);
    const { waits } = backend;
    if (options.unconfirmed === undefined || waits === undefined) return whole;
    return { ...whole, establish: whole.establish.filter((change) => !waits(change)) };
  };
  /** The diff but for what is held of it. */
  const allowed = (backend: AnyBackend, now: HostFacts) => {
    const whole = confirmed(backend, now);
    const lines = options.heldLines?.(backend);
    if (lines === undefined || lines.size === 0) return { ...whole, isWhole: true };
    const left = backend.without?.(whole, lines) ?? whole;
    const isWhole =
      left.establish.length === whole.establish.length && left.retire.length === whole.retire.length;
    return { ...left, isWhole };
  };
  const groups = groupsOf(backends);
  const knowsWhose = options.unconfirmed?.assignments ?? true;
  for (const group of knowsWhose ? [...groups].reverse() : [])
    await act([...group].reverse(), "withdraw", (backend) => {
      if (backend.withdraw === undefined || options.held(backend)) return [];
      const diff = orUndefined(() => allowed(backend, facts));
      return diff === undefined ? [] : backend.withdraw(plan, facts, diff);
    });
  // From what stood before anything is established, but for the late ones: a backend may ask what is new, and must not see
  // what another has just added.
  const standing = facts;
  const workedOut = new Map<AnyBackend, Diff<unknown>>();
  const diffStanding = (backend: AnyBackend) => {
    const known = workedOut.get(backend);
    if (known !== undefined || backend.late || options.held(backend)) return known ?? NO_CHANGES;
    let diff: Diff<unknown> = NO_CHANGES;
    guarded(backend, "establish", () => {
      diff = allowed(backend, standing);
      return [];
    });
    workedOut.set(backend, diff);
    return diff;
  };
  const failed = (name: string) => failures.some(({ backend }) => backend === name);
  const toEstablish = (backend: AnyBackend) => {
    if (backend.needs?.some(failed)) return [];
    return backend.late && !options.held(backend)
      ? allowed(backend, facts).establish
      : diffStanding(backend).establish;
  };
  if (options.write)
    for (const backend of backends) {
      if (backend.prepare === undefined) continue;
      const { establish } = diffStanding(backend);
      if (establish.length > 0) prepared.set(backend, backend.prepare(establish));
    }
  /** Written, and not begun to be read back. */
  const unread = new Set<Domain>();
  for (const [at, group] of groups.entries()) {
    // The next ones are worked out while the tools are at it.
    await act(group, "establish", toEstablish, () => groups[at + 1]?.forEach(diffStanding));
    if (failures.length > 0 || !options.write) continue;
    for (const domain of writtenBy(group, { wrote, failures })) unread.add(domain);
    if (unread.size === 0) continue;
    const toWrite = groups.slice(at + 1).flat();
    const ready = readyToRead(
      unread,
      toWrite.filter((backend) => diffStanding(backend).establish.length > 0),
    );
    for (const domain of ready) unread.delete(domain);
    if (ready.length > 0) options.ahead?.begin(ready, facts);
  }
  if (failures.length === 0 && options.unconfirmed === undefined) {
    for (const group of [...groups].reverse()) {
      if (failures.length > 0 || group.some((backend) => options.held(backend))) break;
      // What is left out may need what stands below: as with a backend that is held as a whole.
      let isWhole = true;
      await act([...group].reverse(), "retire", (backend) => {
        const now = allowed(backend, facts);
        isWhole &&= now.isWhole;
        return now.retire;
      });
      if (!isWhole) break;
    }
  } else if (knowsWhose) {
    for (const group of [...groups].reverse())
      await act([...group].reverse(), "retire", (backend) =>
        backend.release === undefined || options.held(backend) || failed(backend.name)
          ? []
          : backend.release(plan, facts, allowed(backend, facts).retire),
      );
  }
  return { steps, failures, facts, wrote };
}

const NO_CHANGES: Diff<unknown> = { establish: [], retire: [] };

/** Resolves to what it failed with: several run at a time, and one failure must not leave the others unawaited. */
function failureOf(applying: Promise<void>): Promise<Error | undefined> {
  return applying.then(() => undefined, asError);
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** What cannot be worked out to withdraw cannot to establish either, and is a failure there. */
function orUndefined<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

/** Runs of backends that may act side by side. */
function groupsOf(backends: readonly AnyBackend[]): readonly (readonly AnyBackend[])[] {
  const groups: AnyBackend[][] = [];
  for (const backend of backends) {
    const last = groups.at(-1);
    if (backend.beside && last !== undefined) last.push(backend);
    else groups.push([backend]);
  }
  return groups;
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
    backend.also?.(plan, facts),
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

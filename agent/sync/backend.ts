// The contract of everything that writes: what is wanted and what is there become changes, changes become text, then effect.
// diff, print and predict are pure; apply is the only effect and stays a one-liner over lib/.
import type { Domain, HostFacts } from "../model/facts.ts";
import type { Plan } from "../plan/plan.ts";

export interface Diff<C> {
  /** What has to be there, or right, before anything is taken away anywhere. */
  readonly establish: readonly C[];
  /** What is ours and no longer wanted. */
  readonly retire: readonly C[];
}

export interface Backend<C> {
  /** Names the block in printed plans, the log field and the metric label. */
  readonly name: string;
  /** Fields of the Plan and domains of the facts that diff looks at: the same objects, the same diff. */
  readonly reads: { readonly plan: readonly (keyof Plan)[]; readonly facts: readonly Domain[] };
  /** What else diff depends on, the time for one, as text: another text, another diff. */
  also?(plan: Plan, facts: HostFacts): string;
  /** May run at the same time as the backend before it in the list: neither needs what the other does. */
  readonly beside?: true;
  /** What it establishes is worked out at its turn, from the facts as the backends before it have left them. */
  readonly late?: true;
  /** Establishes nothing in a round in which one of these failed. */
  readonly needs?: readonly string[];
  /** What is missing lets selected traffic leave as it should not: never held back for contention. */
  urgent?(plan: Plan, facts: HostFacts): boolean;
  /**
   * What of a diff can be done without the changes that print as these lines, over which somebody fights. Where a backend says
   * that, contention holds single lines of it, else all of it.
   */
  without?(diff: Diff<C>, lines: ReadonlySet<string>): Diff<C>;
  /**
   * Which of these, of what is to be retired and what that cannot be without, cannot wait, since another node answers for it from now
   * on: taken away before anything is established, whatever fails then.
   */
  withdraw?(plan: Plan, facts: HostFacts, diff: Diff<C>): readonly C[];
  /**
   * Whether this part of what it establishes waits while nobody confirms the objects: what would tell others that an egress IP is
   * this node's (known-faults BL-39), and what takes something away. Missing: none of it does.
   */
  waits?(change: C): boolean;
  /**
   * Which of these, of what is to be retired, go as soon as this backend has established its part, whatever failed elsewhere: the node is
   * answered for by them, but only this backend knows when nothing leads there any more.
   */
  release?(plan: Plan, facts: HostFacts, retire: readonly C[]): readonly C[];
  /**
   * Begins what takes time and changes nothing, for what is going to be established, while the backends before this one are at
   * work; apply waits for it. Never rejects.
   */
  prepare?(changes: readonly C[]): Promise<void>;
  /** Domain to read back after a write; undefined where a successful write is trusted until the slow tick. */
  readonly verifies: Domain | undefined;
  /** Domain to read back after a write that is large, where one is trusted else. */
  readonly verifiesLarge?: Domain;
  diff(plan: Plan, facts: HostFacts): Diff<C>;
  /** Lines as the tool takes them, or as an operator would type them. */
  print(changes: readonly C[]): readonly string[];
  /** The facts as they are once the changes are done. */
  predict(facts: HostFacts, changes: readonly C[]): HostFacts;
  /** The facts as they are, where what was written is known with the answer to it: asked instead of predicting. Never rejects. */
  reread?(facts: HostFacts): Promise<HostFacts>;
  /** The facts with parts that equal the plan's replaced by the plan's own objects, which later comparisons skip. */
  settle?(plan: Plan, facts: HostFacts): HostFacts;
  /** Carries the changes out; `lines` is what print made of them. Throws what lib/ throws. */
  apply(changes: readonly C[], lines: readonly string[]): Promise<void>;
}

/** Any backend, where only the contract matters. */
export type AnyBackend = Backend<unknown>;

// What `explain` answers: accounts of what was asked about, each a list of steps in order and a verdict. Pure types.
// This is what -o json and yaml print. A field or word may be added; what is there keeps its meaning while `version` is the same.
import type { Step, StepName } from "../../trace-step.ts";

export const EXPLANATION_VERSION = 1;

export type Outcome =
  /** Leaves the node by `link` with `source`. */
  | "leaves"
  /** Comes to where it is sent without leaving the cluster. */
  | "stays"
  /** Dropped, at the step that `at` names. */
  | "held back"
  /** It is another node's agent that knows how it goes on: `nodes`. */
  | "goes to another node"
  /** An egress IP: this node gives it; it does not. */
  | "given here"
  | "not given here"
  /** What was asked about is nothing that an egress IP is given to. */
  | "nothing"
  | "unknown";

export interface Verdict {
  readonly outcome: Outcome;
  readonly link?: string;
  readonly source?: string;
  readonly destination?: string;
  /** Which EgressIP's address the source is. */
  readonly egressIP?: string;
  readonly nodes?: readonly string[];
  /** The step at which it was dropped, or for which it leaves and gets no answer. */
  readonly at?: StepName;
  readonly why: string;
  /** What a person can do; missing where nothing is wrong. */
  readonly remedy?: string;
}

export interface Account {
  /** `10.244.1.3 to 198.51.100.80`, or the address that was asked about. */
  readonly about: string;
  readonly steps: readonly Step[];
  readonly verdict: Verdict;
}

export type Reason =
  | "unknown pod"
  | "host network"
  | "finished"
  | "no address"
  | "node's address"
  | "namespace unknown"
  | "namespace not selected"
  | "pod not selected"
  | "no EgressIP"
  | "refused object"
  | "address claimed twice"
  | "no address of this family"
  | "not assigned"
  | "assigned elsewhere"
  | "cannot be given"
  | "node leaves"
  | "unconfirmed";

/** Why a pod has no egress IP, or not yet. */
export interface WhyNot {
  readonly reason: Reason;
  readonly object: string;
  readonly text: string;
  readonly remedy: string;
}

export interface Explanation {
  readonly version: typeof EXPLANATION_VERSION;
  /** As it was understood. */
  readonly asked: string;
  /** Whose agent answers: what it says is of this node. */
  readonly node: string;
  /** What was asked about, in a line. */
  readonly summary: string;
  /** Empty where the pod has its egress IP, or was not asked about. */
  readonly whyNot: readonly WhyNot[];
  readonly accounts: readonly Account[];
  readonly notes: readonly string[];
}

/** Without what was asked, and of whom. */
export type Answer = Pick<Explanation, "summary" | "whyNot" | "accounts" | "notes">;

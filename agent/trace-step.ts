// One thing that a packet meets on its way: what was asked, what was found there, what came of it. Pure types.
// The words are part of what `explain -o json` promises: a new one may come, none changes its meaning.

export type StepName =
  /** Objects: which EgressIP selects the pod, which node is to give it. */
  | "objects"
  | "selector"
  | "assignment"
  /** Rows of OVN's northbound database. */
  | "ovn"
  | "ovn-policy"
  | "ovn-nat"
  | "ovn-acl"
  /** This host's kernel, in its own order. */
  | "mark"
  | "exempt"
  | "set"
  | "dnat"
  | "local"
  | "reverse-path"
  | "rule"
  | "route"
  | "forwarding"
  | "guard"
  | "snat"
  | "leak-guard"
  /** A rule of somebody else's. */
  | "chain"
  /** Something that may have meant this packet, and that nobody here can judge. */
  | "unjudged"
  | "address"
  | "link"
  | "neighbour";

export interface Step {
  readonly step: StepName;
  /** The thing that was asked, by the name under which a person finds it: `set egressip4`, `ip rule 6000`. */
  readonly object: string;
  /** What it says, as its tool prints it. */
  readonly found: string;
  /** What that means for this packet, in words. */
  readonly verdict: string;
}

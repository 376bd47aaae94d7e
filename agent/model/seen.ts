// The host as it is when somebody asks about it, and not when the last round read it. Types alone.
import type { Neighbour } from "../../lib/netlink/pure.ts";
import type { HostFacts } from "./facts.ts";

export interface Seen {
  readonly facts: HostFacts;
  readonly neighbours: readonly Neighbour[];
  /** Chains of others in nftables that a packet passes too, `inet firewalld filter_FORWARD (forward)`. */
  readonly foreign: readonly string[];
}

// Desired state of this node, one field per backend, every field always present. Pure types, and the empty Plan.

import type { Route, Rule } from "../../lib/netlink/pure.ts";
import type { WantedChain, WantedJump } from "../../lib/node-iptables/pure.ts";
import type { Address, Family } from "../model/ip.ts";
import { emptyShards, type Shards } from "../model/shards.ts";

export interface PlannedSet {
  readonly name: string;
  readonly type: "hash:ip" | "hash:net";
  /** What a set that is there is compared by. */
  readonly options: string;
  /** Buckets to start with; the kernel grows them, so this is never compared. */
  readonly hashsize: number;
}

export interface PlannedSets {
  /** Sets to exist. */
  readonly sets: readonly PlannedSet[];
  /** Members of the sets of destinations, sorted. */
  readonly exempt: { readonly 4: readonly string[]; readonly 6: readonly string[] };
  /** Pod address to the extension of its entry: `skbmark 0x…/0x…`, or "" for "selected, not ready". */
  readonly served: { readonly 4: Shards<string>; readonly 6: Shards<string> };
}

export interface PlannedIptables {
  readonly chains: readonly WantedChain[];
  readonly jumps: readonly WantedJump[];
}

export interface PlannedAddress {
  readonly link: string;
  readonly address: Address;
  readonly family: Family;
  /** False: keep it if it is there, do not try to add it (the link is down). */
  readonly addable: boolean;
}

export interface PlannedAddresses {
  readonly hold: readonly PlannedAddress[];
  /** Egress IPs that are not this node's: withdrawn where found alone on a link, whoever added them. */
  readonly notHeld: ReadonlySet<Address>;
}

export interface Mark {
  readonly family: Family;
  readonly mark: number;
  readonly mask: number;
}

export interface Plan {
  /** Path below /proc/sys to value. */
  readonly sysctls: Readonly<Record<string, string>>;
  readonly sets: PlannedSets;
  readonly routes: readonly Route[];
  readonly rules: readonly Rule[];
  /** The nft script's table, normalised; "" for none. */
  readonly leakGuard: string;
  readonly iptables: { readonly 4: PlannedIptables; readonly 6: PlannedIptables };
  /** Marks in use: flows that carry another mark of ours are ended. */
  readonly marks: readonly Mark[];
  /** Sources whose unmarked flows are ended when they are newly selected (`--existing-connections=cut`). */
  readonly cutUnmarked: boolean;
  readonly addresses: PlannedAddresses;
}

const NO_RULES: PlannedIptables = Object.freeze({ chains: Object.freeze([]), jumps: Object.freeze([]) });

/** The empty Plan: what uninstall wants. */
export const nothing: Plan = Object.freeze({
  sysctls: Object.freeze({}),
  sets: Object.freeze({
    sets: Object.freeze([]),
    exempt: Object.freeze({ 4: Object.freeze([]), 6: Object.freeze([]) }),
    served: Object.freeze({ 4: emptyShards<string>(), 6: emptyShards<string>() }),
  }),
  routes: Object.freeze([]),
  rules: Object.freeze([]),
  leakGuard: "",
  iptables: Object.freeze({ 4: NO_RULES, 6: NO_RULES }),
  marks: Object.freeze([]),
  cutUnmarked: false,
  addresses: Object.freeze({ hold: Object.freeze([]), notHeld: new Set<Address>() }),
});

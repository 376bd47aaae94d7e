// Desired state of this node, one field per backend, every field always present. Pure types, and the empty Plan.

import type { TranslatedChange } from "../../lib/conntrack/pure.ts";
import type { Route, Rule } from "../../lib/netlink/pure.ts";
import type { WantedChain, WantedJump } from "../../lib/node-iptables/pure.ts";
import type { Translation } from "../model/facts.ts";
import type { Address, Cidr, Family } from "../model/ip.ts";
import type { PerFamily, Row } from "../model/northbound.ts";
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
  /**
   * What leaves its link in its turn, after the ways that lead to it, since nobody else answers for it from now on: what OVN gives
   * here instead; all, where everything ends. Anything else is withdrawn before all other work.
   */
  readonly inTurn: ReadonlySet<Address> | "all";
  /** Whether it says something that somebody answers for an address: a cloud's network answers for all of them itself. */
  readonly asks: boolean;
}

/** The annotation k8s.ovn.org/secondary-host-egress-ips of this node. */
export interface PlannedAnnotation {
  /** What it has to say: egress IPs on links other than the primary one, ours and others', sorted. */
  readonly listed: readonly Address[];
  /** What the Node object says besides: known as taken out by us until it does not any more. */
  readonly withdrawn: readonly Address[];
}

export interface Mark {
  readonly family: Family;
  readonly mark: number;
  readonly mask: number;
}

/** Rows for OVN's northbound database. */
export interface PlannedNorthbound {
  /** The node whose rows these are, and the name by which they are ours. */
  readonly node: string;
  readonly owner: string;
  /** Its pods' networks: by them what does not say its writer is told to be this node's. Undefined: the zone is this node alone. */
  readonly podNetworks: readonly Cidr[] | undefined;
  /** Nodes that exist, with their pods' networks: what others wrote is taken away by the one that leads. */
  readonly nodes: ReadonlyMap<string, readonly Cidr[]>;
  /** Rows of single pod addresses. */
  readonly pods: Shards<readonly Row[]>;
  /** What the zone shares, for the one that leads. */
  readonly shared: readonly Row[];
  /** Egress IPs that the own gateway router gives, where other nodes share the database: one of them may give one that leaves. */
  readonly gives: ReadonlySet<Address> | undefined;
  /** Addresses of this node's served pods, each with the keys of the pods that have it. */
  readonly served: Shards<readonly string[]>;
  /** Addresses of other nodes' pods that the own gateway router gives an egress IP: these alone may arrive and leave (as above). */
  readonly arriving: Shards<readonly string[]>;
  /** The address that this node's hop to its own kernel is at, by family: rows with it wait until the kernel is ready. */
  readonly kernelHop: PerFamily<Address>;
  /** Rows that stay although nothing wants them: their pod runs, and only its address is not known for the moment. */
  readonly unresolved: Unresolved;
  /** Where the cluster gives each pod an SNAT row of its own: addresses of this node's pods, and what they leave as without an egress IP. */
  readonly snatPerPod:
    | { readonly pods: Shards<readonly string[]>; readonly to: PerFamily<Address> }
    | undefined;
}

export interface Unresolved {
  /** As rows of such pods are called, `EGRESSIP_NAMESPACE/NAME`. */
  readonly names: ReadonlySet<string>;
  /** Addresses that some pod has: theirs it cannot be. Not worked out where there are no names. */
  readonly taken: ReadonlySet<Address>;
}

/** A flow that leaves with this egress IP belongs to it, whoever translated it. */
export interface MarkedTranslation extends Translation {
  readonly mark: number;
  readonly mask: number;
}

/** What becomes of what OVN-Kubernetes itself has in this host's kernel for egress IPs. */
export type PlannedReference =
  | { readonly kind: "leave" }
  | {
      /** Its connections become ours, then it is taken away. */
      readonly kind: "adopt";
      readonly managementPort: string;
      readonly podNetworks: readonly Cidr[];
      readonly held: readonly MarkedTranslation[];
      /** Addresses that the node's annotation says it has put on links. */
      readonly listed: ReadonlySet<Address>;
    }
  | {
      /** It goes on with what is ours now. */
      readonly kind: "hand-back";
      /** `onLink` of egress IPs that stay on their links. */
      readonly addresses: ReadonlySet<string>;
      /** Our connections become its. */
      readonly flows: readonly TranslatedChange[];
    };

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
  readonly annotation: PlannedAnnotation;
  readonly reference: PlannedReference;
  readonly northbound: PlannedNorthbound;
}

/** Wants no rows at all; says nothing of whose they are, so only an agent that knows its node takes any away. */
const NO_ROWS: PlannedNorthbound = Object.freeze({
  node: "",
  owner: "",
  podNetworks: undefined,
  nodes: new Map<string, readonly Cidr[]>(),
  pods: emptyShards<readonly Row[]>(),
  shared: Object.freeze([]),
  served: emptyShards<readonly string[]>(),
  gives: undefined,
  arriving: emptyShards<readonly string[]>(),
  kernelHop: Object.freeze({}),
  unresolved: Object.freeze({ names: new Set<string>(), taken: new Set<string>() }),
  snatPerPod: undefined,
});

const NO_RULES: PlannedIptables = Object.freeze({ chains: Object.freeze([]), jumps: Object.freeze([]) });

const LEAVE: PlannedReference = Object.freeze({ kind: "leave" });

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
  addresses: Object.freeze({
    hold: Object.freeze([]),
    notHeld: new Set<Address>(),
    inTurn: "all",
    asks: false,
  }),
  annotation: Object.freeze({ listed: Object.freeze([]), withdrawn: Object.freeze([]) }),
  reference: LEAVE,
  northbound: NO_ROWS,
});

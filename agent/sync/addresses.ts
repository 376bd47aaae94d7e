// Egress IPs as addresses of their links. In: plan, facts. Out: lines of `ip -batch`.
// One that leaves goes before all other work; one that is gained is asked for first, while the others work: no two nodes answer.
// Always /32 or /128: with promote_secondaries=0 taking a wider one away would take the node's own with it (BL-41).

import type { ProbeTarget } from "../../lib/frames/index.ts";
import type { LinkAddress } from "../../lib/netlink/pure.ts";
import { hasNeighbours } from "../model/announced.ts";
import { isSingle } from "../model/destination.ts";
import type { HostFacts } from "../model/facts.ts";
import { byCodeUnit } from "../model/names.ts";
import { onLink } from "../model/on-link.ts";
import type { Plan } from "../plan/plan.ts";
import type { Backend } from "./backend.ts";
import { leavesFirst } from "./leaving.ts";
import type { Tools } from "./tools.ts";

export interface AddressChange {
  readonly op: "replace" | "del";
  readonly link: string;
  readonly address: string;
  readonly family: 4 | 6;
  /** Where to ask whether somebody else still answers for it; missing where there are no neighbours to ask. */
  readonly ask?: { readonly ifindex: number; readonly mac: string };
}

export function addresses(tools: Pick<Tools, "announcer" | "gaining" | "netlink">): Backend<AddressChange> {
  return {
    name: "addresses",
    reads: { plan: ["addresses", "reference"], facts: ["network", "record"] },
    verifies: "network",
    diff: (plan, facts) => ({ establish: missing(plan, facts), retire: stale(plan, facts) }),
    withdraw: (plan, _, { retire }) => retire.filter(leavesFirst(plan)),
    waits: () => true,
    prepare: (changes) => tools.gaining.released(changes.flatMap(questionOf)),
    // A fight over one address must not keep another one here, or from coming here.
    without: ({ establish, retire }, lines) => {
      const free = (change: AddressChange) => !lines.has(`ip ${line(change)}`);
      return { establish: establish.filter(free), retire: retire.filter(free) };
    },
    print: (changes) => changes.map((change) => `ip ${line(change)}`),
    predict,
    apply: async (changes) => {
      // Who finds that nobody answers any more must not be told otherwise by a late frame.
      await tools.announcer.stop(changes.filter(({ op }) => op === "del"));
      await tools.netlink.batch(changes.map(line));
    },
  };
}

/**
 * preferred_lft 0 makes an IPv6 egress IP deprecated: the node's own traffic must not pick it as its source.
 * noprefixroute keeps the kernel from adding a route for it to main, which is not ours to fill.
 */
export function addressWords(
  op: AddressChange["op"],
  { link, address, family }: Omit<AddressChange, "op">,
): string {
  const length = family === 4 ? 32 : 128;
  const how = op === "replace" && family === 6 ? " nodad noprefixroute preferred_lft 0" : "";
  return `${op} ${address}/${length} dev ${link}${how}`;
}

function line(change: AddressChange): string {
  return `address ${addressWords(change.op, change)}`;
}

/** What has no Ethernet has nobody to ask: tunnels and the like. */
function questionOf({ address, ask }: AddressChange): readonly ProbeTarget[] {
  return ask === undefined ? [] : [{ ...ask, address }];
}

function missing(plan: Plan, facts: HostFacts): readonly AddressChange[] {
  const links = new Map(facts.network.links.map((link) => [link.name, link]));
  const asking = (name: string): Pick<AddressChange, "ask"> => {
    const { index: ifindex, mac = "" } = links.get(name) ?? {};
    return plan.addresses.asks && ifindex !== undefined && hasNeighbours(mac)
      ? { ask: { ifindex, mac } }
      : {};
  };
  const there = new Set(facts.network.addresses.filter(isSingle).map(onLink));
  return plan.addresses.hold
    .filter((entry) => entry.addable && !there.has(onLink(entry)))
    .map(({ link, address, family }) => ({ op: "replace", link, address, family, ...asking(link) }));
}

const NONE: ReadonlySet<string> = new Set();

/** Egress IPs that are on a link and are not to be: ours by the record, or asked for by some EgressIP. */
export function stale(plan: Plan, facts: HostFacts): readonly AddressChange[] {
  const held = new Set(plan.addresses.hold.map(onLink));
  const handedBack = plan.reference.kind === "hand-back" ? plan.reference.addresses : NONE;
  const recorded = new Set(facts.record.addresses.map(onLink));
  const loopbacks = new Set(
    facts.network.links.filter(({ mac }) => mac === "00:00:00:00:00:00").map(({ name }) => name),
  );
  return facts.network.addresses
    .filter((entry) => isSingle(entry) && entry.scope === "global" && !held.has(onLink(entry)))
    .filter((entry) => !handedBack.has(onLink(entry)))
    .filter(
      (entry) =>
        recorded.has(onLink(entry)) ||
        (plan.addresses.notHeld.has(entry.address) && !loopbacks.has(entry.link)),
    )
    .sort((a, b) => byCodeUnit(onLink(a), onLink(b)))
    .map(({ link, address, family }) => ({ op: "del", link, address, family }));
}

function predict(facts: HostFacts, changes: readonly AddressChange[]): HostFacts {
  if (changes.length === 0) return facts;
  const changed = new Set(changes.map(onLink));
  const others = facts.network.addresses.filter((entry) => !(isSingle(entry) && changed.has(onLink(entry))));
  const current = [...others, ...changes.filter(({ op }) => op === "replace").map(added)];
  return { ...facts, network: { ...facts.network, addresses: current } };
}

function added({ link, address, family }: AddressChange): LinkAddress {
  const six = family === 6;
  return {
    link,
    family,
    address,
    length: six ? 128 : 32,
    scope: "global",
    label: six ? "" : link,
    flags: six ? ["deprecated"] : [],
  };
}

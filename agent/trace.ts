// Walks the first packet of a connection through host facts as the kernel would, in our words. In: facts, a packet.
// Out: steps and where it ends. Pure. Knows what this agent writes, plain routes, and the common shapes of others' rules:
// masquerading, DNAT, marks, jumps. A rule it cannot judge it passes over and says so.

import type { Route } from "../lib/netlink/pure.ts";
import { isSingle, parseDestination } from "./model/destination.ts";
import type { HostFacts } from "./model/facts.ts";
import { compareAddresses, contains } from "./model/ip.ts";
import { perObject } from "./model/memo.ts";
import { exemptSet, servedSet } from "./model/owner.ts";
import { entriesOf, getFrom, type Shards } from "./model/shards.ts";
import { isLeak, isUnclaimed } from "./trace-guard.ts";
import { bitsOf, hasBits, holds, type ParsedRule, parseRule, within } from "./trace-rule.ts";

/** First packet of a connection that a pod opens. */
export interface Packet {
  readonly source: string;
  readonly destination: string;
  /** The link by which it comes in. */
  readonly from: string;
  /** Without them no rule that asks for a protocol or port applies. */
  readonly protocol?: "tcp" | "udp";
  readonly port?: number;
}

export type Verdict =
  | { readonly leaves: true; readonly link: string; readonly source: string; readonly destination: string }
  | { readonly leaves: false; readonly why: string };

export interface Trace {
  readonly steps: readonly string[];
  /** Rules that may have meant this packet and could not be judged. */
  readonly unjudged: number;
  readonly verdict: Verdict;
}

interface State {
  mark: number;
  connmark: number;
  link: string;
  /** Of the route taken: its gateway, or the destination itself. */
  nextHop: string;
  source: string;
  destination: string;
  port: number | undefined;
  /** Given another destination. */
  dnat: boolean;
  unjudged: number;
  readonly packet: Packet;
  readonly family: 4 | 6;
  readonly facts: HostFacts;
  readonly steps: string[];
}

/** What ended the walk of a base chain; undefined for its end, where the policy decides. */
type Ending = "ACCEPT" | "DROP" | undefined;

const parsedRules = perObject((rules: readonly string[]) => rules.map(parseRule));
const networksOf = perObject((members: Shards<string>) =>
  [...entriesOf(members)].flatMap(([member]) => parseDestination(member) ?? []),
);
const parsedRoutes = perObject((routes: readonly Route[]) =>
  routes.flatMap((route) => {
    const cidr = parseDestination(route.destination);
    return cidr === undefined ? [] : [{ route, cidr }];
  }),
);

export function trace(facts: HostFacts, packet: Packet): Trace {
  const { source, destination, port } = packet;
  const state: State = {
    mark: 0,
    connmark: 0,
    link: "",
    nextHop: "",
    source,
    destination,
    port,
    dnat: false,
    unjudged: 0,
    packet,
    family: source.includes(":") ? 6 : 4,
    facts,
    steps: [],
  };
  const verdict = verdictOf(state);
  if (verdict.leaves) state.steps.push(`leaves ${verdict.link} with source ${verdict.source}`);
  return { steps: state.steps, unjudged: state.unjudged, verdict };
}

/** The hooks in the order in which the kernel calls them (iptables(8), include/uapi/linux/netfilter_ipv4.h). */
function verdictOf(state: State): Verdict {
  const drop = (why: string): Verdict => ({ leaves: false, why });
  const passes = (table: string, chain: string) => base(state, table, chain) !== "DROP";
  const dropped = (chain: string) => drop(`dropped by ${state.steps.at(-1) ?? chain}`);
  if (!(passes("raw", "PREROUTING") && passes("mangle", "PREROUTING") && passes("nat", "PREROUTING")))
    return dropped("PREROUTING");
  if (state.facts.network.addresses.some(({ address }) => address === state.destination))
    return drop("delivered to this host");
  const refused = lookUp(state);
  if (refused !== undefined) return drop(refused);
  if (!(passes("mangle", "FORWARD") && passes("filter", "FORWARD"))) return dropped("FORWARD");
  if (!(passes("mangle", "POSTROUTING") && passes("nat", "POSTROUTING"))) return dropped("POSTROUTING");
  if (isUnclaimed(state))
    return drop(
      "dropped by the leak guard: another node led it here, and nothing here gives it an egress IP",
    );
  if (isLeak(state)) return drop("dropped by the leak guard: marked, and its source is no egress IP");
  const { link, source, destination } = state;
  return { leaves: true, link, source, destination };
}

function base(state: State, table: string, chain: string): Ending {
  const policy = state.facts.iptables[state.family].get(table)?.get(chain)?.policy;
  const ending = walk(state, table, chain, 0);
  if (ending === undefined && policy === "DROP") {
    state.steps.push(`${chain}: policy DROP`);
    return "DROP";
  }
  return ending;
}

/** Chains cannot call themselves, but text can say so; the kernel refuses it at 16 jumps or more. */
const DEEPEST = 32;

function walk(state: State, table: string, chain: string, depth: number): Ending {
  const rules = state.facts.iptables[state.family].get(table)?.get(chain)?.rules;
  if (rules === undefined || depth > DEEPEST) return undefined;
  for (const rule of parsedRules(rules)) {
    const truth = holds(rule, subjectOf(state));
    if (truth === false) continue;
    if (truth === undefined) {
      state.unjudged++;
      state.steps.push(`${chain}: passed over, not understood: ${rule.text}`);
      continue;
    }
    if (rule.target === "RETURN") {
      sayExempt(state, rule);
      return undefined;
    }
    const ending = act(state, table, chain, rule, depth);
    if (ending !== undefined) return ending;
  }
  return undefined;
}

function act(state: State, table: string, chain: string, rule: ParsedRule, depth: number): Ending {
  const { target, words } = rule;
  const say = () => state.steps.push(`${chain}: ${rule.text}`);
  const after = (option: string) => words[words.indexOf(option) + 1] ?? "";
  switch (target) {
    case "":
    case "LOG":
    case "NFLOG":
      return undefined;
    case "ACCEPT":
      say();
      return "ACCEPT";
    case "DROP":
    case "REJECT":
      say();
      return "DROP";
    case "MARK": {
      const { bits, mask } = bitsOf(after("--set-xmark"));
      state.mark = ((state.mark & ~mask) ^ bits) >>> 0;
      say();
      return undefined;
    }
    case "CONNMARK":
      moveMark(state, words[0] ?? "", Number(after("--nfmask")), Number(after("--ctmask")));
      return undefined;
    case "SET":
      if (words[0] === "--map-set" && words[1] === servedSet(state.family)) mapMark(state);
      return undefined;
    case "SNAT":
      say();
      state.source = after("--to-source");
      return "ACCEPT";
    case "DNAT":
      say();
      redirect(state, after("--to-destination"));
      return "ACCEPT";
    case "MASQUERADE":
      say();
      state.source = ownSource(state);
      return "ACCEPT";
  }
  if (state.facts.iptables[state.family].get(table)?.has(target))
    return walk(state, table, target, depth + 1);
  state.unjudged++;
  state.steps.push(`${chain}: passed over, not understood: ${rule.text}`);
  return undefined;
}

function subjectOf(state: State) {
  const { source, destination, port, link, mark, connmark, dnat, packet } = state;
  return {
    source,
    destination,
    protocol: packet.protocol ?? "",
    port,
    inLink: packet.from,
    outLink: link,
    mark,
    connmark,
    translated: dnat,
    inSet: (set: string, address: string) => inSet(state.facts, set, address),
  };
}

/** Of our sets; others' are not among the facts. */
function inSet(facts: HostFacts, set: string, address: string): boolean | undefined {
  const known = facts.sets.get(set);
  if (known === undefined) return undefined;
  if (known.type === "hash:ip") return getFrom(known.members, address) !== undefined;
  return networksOf(known.members).some((network) => contains(network, address));
}

/** iptables-extensions(8), CONNMARK: nfmask cuts the packet's mark, ctmask the connection's. */
function moveMark(state: State, verb: string, nfmask: number, ctmask: number): void {
  if (verb === "--restore-mark") state.mark = ((state.mark & ~nfmask) ^ (state.connmark & ctmask)) >>> 0;
  if (verb === "--save-mark") state.connmark = ((state.connmark & ~ctmask) ^ (state.mark & nfmask)) >>> 0;
}

function mapMark(state: State): void {
  const set = servedSet(state.family);
  const members = state.facts.sets.get(set)?.members;
  const entry = members === undefined ? undefined : getFrom(members, state.source);
  if (entry === undefined) {
    state.steps.push(`${set}: ${state.source} is not in it: no EgressIP speaks for it here`);
    return;
  }
  state.steps.push(`${set}: ${state.source} ${entry === "" ? "is selected, not ready" : entry}`);
  const written = /^skbmark (\S+)/.exec(entry)?.[1];
  if (written === undefined) return;
  const { bits, mask } = bitsOf(written);
  state.mark = ((state.mark & ~mask) ^ bits) >>> 0;
}

function sayExempt(state: State, rule: ParsedRule): void {
  const set = exemptSet(state.family);
  if (rule.conditions.some(({ option, value }) => option === "--match-set" && value === `${set} dst`))
    state.steps.push(`${set}: ${state.destination} is exempt, the pod keeps its usual source`);
}

/** `10.244.1.6:8080`, `[fd00::6]:8080`, or an address alone. */
function redirect(state: State, to: string): void {
  const [, six, four, port] = /^(?:\[([^\]]+)\]|([\d.]+)):(\d+)$/.exec(to) ?? [];
  state.destination = six ?? four ?? to;
  if (port !== undefined) state.port = Number(port);
  state.dnat = true;
}

/** Policy rules in order, then the longest prefix of lowest metric in the table that has one. Says why it goes nowhere. */
function lookUp(state: State): string | undefined {
  const { facts, family } = state;
  const rules = facts.network.rules.filter((rule) => rule.family === family && rule.table !== "local");
  for (const rule of rules.sort((a, b) => a.priority - b.priority)) {
    if (!ruleApplies(state, rule.selector)) continue;
    const best = parsedRoutes(facts.network.routes)
      .filter(({ route }) => route.family === family && route.table === rule.table)
      .filter(({ cidr }) => contains(cidr, state.destination))
      .sort((a, b) => b.cidr.length - a.cidr.length || a.route.metric - b.route.metric)[0];
    if (best === undefined || best.route.type === "throw") continue;
    const hop = best.route.hops[0];
    const via =
      hop === undefined
        ? best.route.type
        : `${hop.gateway === "" ? "" : `via ${hop.gateway} `}dev ${hop.link}`;
    state.steps.push(`table ${rule.table}: ${best.route.destination} ${via}`);
    if (hop === undefined) return `${best.route.type} route in table ${rule.table}`;
    state.link = hop.link;
    // An IPv6 gateway of an IPv4 route (RFC 5549) has two words.
    state.nextHop = hop.gateway === "" || hop.gateway.includes(" ") ? state.destination : hop.gateway;
    return undefined;
  }
  return "no route";
}

/** Selectors as lib/netlink writes them: pairs of words. */
function ruleApplies(state: State, selector: string): boolean {
  const words = selector.split(" ");
  for (let at = 0; at + 1 < words.length; at += 2) {
    const [key, value = ""] = [words[at], words[at + 1]];
    if (key === "fwmark") {
      if (!hasBits(state.mark, value)) return false;
    } else if (key === "from") {
      if (!within(value, state.source)) return false;
    } else if (key === "iif") {
      if (value !== state.packet.from) return false;
    } else {
      state.unjudged++;
      state.steps.push(`a rule of somebody else is passed over: ${selector}`);
      return false;
    }
  }
  return true;
}

/** What MASQUERADE takes: an address of the link that is not an egress IP, of the next hop's network if there is one. */
function ownSource({ facts, family, link, nextHop, source }: State): string {
  const candidates = facts.network.addresses
    .filter(
      (entry) =>
        entry.link === link &&
        entry.family === family &&
        entry.scope === "global" &&
        !entry.flags.includes("deprecated") &&
        !isSingle(entry),
    )
    .sort((a, b) => compareAddresses(a.address, b.address));
  const near = candidates.find(({ address, length }) => within(`${address}/${length}`, nextHop));
  return (near ?? candidates[0])?.address ?? source;
}

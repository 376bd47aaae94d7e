// Walks a pod's packet through host facts as the kernel would, in our words. In: facts, a packet. Out: steps and where it ends. Pure.
// Knows exactly the shapes that this agent writes, plus plain routes and masquerading of others; what it does not know it says.
import type { HostFacts } from "./model/facts.ts";
import { type Cidr, compareAddresses, contains, parseCidr } from "./model/ip.ts";
import { exemptSet, GUARD_CHAIN, MARK_CHAIN, SNAT_CHAIN, servedSet } from "./model/owner.ts";
import { entriesOf, getFrom } from "./model/shards.ts";

/** First packet of a connection that a pod opens. */
export interface Packet {
  readonly source: string;
  readonly destination: string;
  /** The link by which it comes in. */
  readonly from: string;
}

export type Verdict =
  | { readonly leaves: true; readonly link: string; readonly source: string }
  | { readonly leaves: false; readonly why: string };

export interface Trace {
  readonly steps: readonly string[];
  readonly verdict: Verdict;
}

interface State {
  mark: number;
  connmark: number;
  link: string;
  readonly packet: Packet;
  readonly family: 4 | 6;
  readonly facts: HostFacts;
  readonly steps: string[];
}

export function trace(facts: HostFacts, packet: Packet): Trace {
  const family = packet.source.includes(":") ? 6 : 4;
  const state: State = { mark: 0, connmark: 0, link: "", packet, family, facts, steps: [] };
  const ruleset = facts.iptables[family];
  if (hooked(state, "mangle", "PREROUTING", MARK_CHAIN)) walk(state, "mangle", MARK_CHAIN);
  const drop = (why: string): Trace => ({ steps: state.steps, verdict: { leaves: false, why } });
  if (facts.network.addresses.some(({ address }) => address === packet.destination))
    return drop("delivered to this host");
  const route = lookUp(state);
  if (typeof route === "string") return drop(route);
  state.link = route.link;
  if (hooked(state, "filter", "FORWARD", GUARD_CHAIN) && walk(state, "filter", GUARD_CHAIN) === "DROP") {
    return drop(`dropped by ${GUARD_CHAIN}`);
  }
  const translated = hooked(state, "nat", "POSTROUTING", SNAT_CHAIN)
    ? walk(state, "nat", SNAT_CHAIN)
    : undefined;
  const source =
    sourceOf(translated) ?? masquerade(state, ruleset.get("nat")?.get("POSTROUTING")?.rules ?? []);
  if (source === packet.source && state.mark !== 0 && facts.nft !== "" && !inPodNetwork(state)) {
    return drop("dropped by the leak guard: marked, and no rule translated it");
  }
  state.steps.push(`leaves ${state.link} with source ${source}`);
  return { steps: state.steps, verdict: { leaves: true, link: state.link, source } };
}

function hooked(state: State, table: string, parent: string, chain: string): boolean {
  const rules = state.facts.iptables[state.family].get(table)?.get(parent)?.rules ?? [];
  return rules.includes(`-j ${chain}`);
}

/** Walks one of our chains; the target that ended it, or undefined for the end of the chain and RETURN. */
function walk(state: State, table: string, chain: string): string | undefined {
  for (const rule of state.facts.iptables[state.family].get(table)?.get(chain)?.rules ?? []) {
    const [conditions, target] = split(rule);
    if (!conditions.every((condition) => holds(state, condition))) continue;
    if (target === "RETURN") return undefined;
    if (target.startsWith("CONNMARK --restore-mark")) state.mark = state.connmark;
    else if (target.startsWith("CONNMARK --save-mark")) state.connmark = state.mark;
    else if (target.startsWith("SET --map-set")) state.mark = mapped(state);
    else {
      state.steps.push(`${chain}: ${rule}`);
      return target;
    }
  }
  return undefined;
}

function split(rule: string): readonly [readonly string[], string] {
  const at = rule.search(/(?:^| )-j /);
  const target = rule.slice(at).trim().slice(3);
  const conditions =
    rule.slice(0, Math.max(at, 0)).match(/! -[io] \S+|-[io] \S+|-m \S+(?: (?!-[mio] |! -[io] )\S+)*/g) ?? [];
  return [conditions, target];
}

/** Truth of one match of the shapes we write, for the first packet of a connection. */
function holds(state: State, condition: string): boolean {
  const { packet, family } = state;
  const not = condition.startsWith("! ") || / ! --/.test(condition);
  const plain = condition.replace("! ", "");
  const answer = (truth: boolean) => truth !== not;
  const link = /^-([io]) (\S+)$/.exec(plain);
  if (link !== null) return answer(link[2] === (link[1] === "i" ? packet.from : state.link));
  const mark = /^-m (mark|connmark) --mark 0x([0-9a-f]+)(?:\/0x([0-9a-f]+))?$/.exec(plain);
  if (mark !== null) {
    const value = mark[1] === "mark" ? state.mark : state.connmark;
    const mask = mark[3] === undefined ? 0xffffffff : Number.parseInt(mark[3], 16);
    return answer((value & mask) >>> 0 === Number.parseInt(mark[2] as string, 16));
  }
  const states = /^-m conntrack --ctstate (\S+)$/.exec(plain);
  if (states !== null) return answer((states[1] as string).split(",").includes("NEW"));
  if (plain === `-m set --match-set ${exemptSet(family)} dst`)
    return answer(isExempt(state.facts, packet.destination));
  if (plain === `-m set --match-set ${servedSet(family)} src`) return answer(entryOf(state) !== undefined);
  throw new Error(`a match this walk does not know: ${condition}`);
}

function entryOf({ facts, packet, family }: State): string | undefined {
  const members = facts.sets.get(servedSet(family))?.members;
  return members === undefined ? undefined : getFrom(members, packet.source);
}

function mapped(state: State): number {
  const entry = entryOf(state);
  if (entry === undefined) {
    state.steps.push(
      `${servedSet(state.family)}: ${state.packet.source} is not in it: no EgressIP speaks for it here`,
    );
    return state.mark;
  }
  state.steps.push(
    `${servedSet(state.family)}: ${state.packet.source} ${entry === "" ? "is selected, not ready" : entry}`,
  );
  return entry === "" ? state.mark : Number.parseInt(/0x([0-9a-f]+)/.exec(entry)?.[1] ?? "0", 16);
}

function isExempt(facts: HostFacts, destination: string): boolean {
  const members = facts.sets.get(exemptSet(destination.includes(":") ? 6 : 4))?.members;
  if (members === undefined) return false;
  for (const [member] of entriesOf(members)) {
    const cidr = cidrOf(member);
    if (cidr !== undefined && contains(cidr, destination)) return true;
  }
  return false;
}

function cidrOf(text: string): Cidr | undefined {
  return parseCidr(text.includes("/") ? text : `${text}/${text.includes(":") ? 128 : 32}`);
}

/** Policy rules in order, then the longest prefix of lowest metric in the table that has one. */
function lookUp(state: State): { readonly link: string } | string {
  const { facts, family, packet } = state;
  for (const rule of facts.network.rules) {
    if (rule.family !== family || rule.table === "local" || !ruleApplies(state, rule.selector)) continue;
    const best = facts.network.routes
      .filter((route) => route.family === family && route.table === rule.table)
      .map((route) => ({ route, cidr: cidrOf(route.destination) }))
      .filter(({ cidr }) => cidr !== undefined && contains(cidr, packet.destination))
      .sort((a, b) => (b.cidr?.length ?? 0) - (a.cidr?.length ?? 0) || a.route.metric - b.route.metric)[0];
    if (best === undefined) continue;
    const hop = best.route.hops[0];
    const via =
      hop === undefined
        ? best.route.type
        : `${hop.gateway === "" ? "" : `via ${hop.gateway} `}dev ${hop.link}`;
    state.steps.push(`table ${rule.table}: ${best.route.destination} ${via}`);
    if (hop === undefined) return `${best.route.type} route in table ${rule.table}`;
    return { link: hop.link };
  }
  return "no route";
}

function ruleApplies(state: State, selector: string): boolean {
  if (selector === "") return true;
  const mark = /^fwmark 0x([0-9a-f]+)(?:\/0x([0-9a-f]+))?$/.exec(selector);
  if (mark === null) {
    state.steps.push(`a rule of somebody else is passed over: ${selector}`);
    return false;
  }
  const mask = mark[2] === undefined ? 0xffffffff : Number.parseInt(mark[2], 16);
  return (state.mark & mask) >>> 0 === Number.parseInt(mark[1] as string, 16);
}

function sourceOf(target: string | undefined): string | undefined {
  const source = target === undefined ? undefined : /^SNAT --to-source (\S+)/.exec(target)?.[1];
  return source;
}

/** The node's own masquerading, as far as it is plain: source network, not-destination network, link. */
function masquerade(state: State, rules: readonly string[]): string {
  const { packet, facts, family, link } = state;
  for (const rule of rules) {
    if (!rule.endsWith("-j MASQUERADE")) continue;
    const source = /(?:^| )-s (\S+)/.exec(rule)?.[1];
    const notTo = /! -d (\S+)/.exec(rule)?.[1];
    const out = /(?:^| )-o (\S+)/.exec(rule)?.[1];
    const within = (text: string, address: string) => {
      const cidr = cidrOf(text);
      return cidr !== undefined && contains(cidr, address);
    };
    if (source !== undefined && !within(source, packet.source)) continue;
    if (notTo !== undefined && within(notTo, packet.destination)) continue;
    if (out !== undefined && out !== link) continue;
    const candidates = facts.network.addresses.filter(
      (entry) =>
        entry.link === link &&
        entry.family === family &&
        entry.scope === "global" &&
        !entry.flags.includes("deprecated") &&
        entry.length < (family === 4 ? 32 : 128),
    );
    const address = candidates.map((entry) => entry.address).sort(compareAddresses)[0];
    state.steps.push(`POSTROUTING: ${rule}`);
    return address ?? packet.source;
  }
  return packet.source;
}

function inPodNetwork({ link, packet }: State): boolean {
  return link === packet.from;
}

// iptables' chains, walked by a packet: what each rule that means it does with it. In: the packet as it stands, a base chain. Out: how
// that ended, the packet changed, steps. Pure.
import { isSingle, parseDestination } from "./model/destination.ts";
import type { HostFacts } from "./model/facts.ts";
import { compareAddresses, contains, formatPrefix } from "./model/ip.ts";
import { hex } from "./model/marks.ts";
import { perObject } from "./model/memo.ts";
import { exemptSet, GUARD_CHAIN, isOurChain, isSnatChain, servedSet } from "./model/owner.ts";
import { emptyShards, entriesOf, getFrom, type Shards } from "./model/shards.ts";
import { bitsOf, holds, type ParsedRule, parseRule, within } from "./trace-rule.ts";
import type { Step, StepName } from "./trace-step.ts";

/** The packet as it stands. */
export interface State {
  mark: number;
  connmark: number;
  /** The link it goes out by; "" while that is not decided. */
  link: string;
  /** Whom that link is asked for: the route's gateway, or the destination itself. */
  nextHop: string;
  source: string;
  destination: string;
  port: number | undefined;
  /** Given another destination. */
  dnat: boolean;
  unjudged: number;
  readonly packet: { readonly from: string; readonly protocol?: "tcp" | "udp" };
  readonly family: 4 | 6;
  readonly facts: HostFacts;
  readonly steps: Step[];
}

/** What ended the walk of a base chain; undefined for its end, where the policy decides. */
type Ending = "ACCEPT" | "DROP" | undefined;

const parsedRules = perObject((rules: readonly string[]) => rules.map(parseRule));
const networksOf = perObject((members: Shards<string>) =>
  [...entriesOf(members)].flatMap(([member]) => parseDestination(member) ?? []),
);

/** Through a base chain and all it jumps to. Changes the state, and says what it met. */
export function walkHook(state: State, table: string, chain: string): Ending {
  const policy = state.facts.iptables[state.family].get(table)?.get(chain)?.policy;
  const ending = walk(state, table, chain, 0);
  if (ending === undefined && policy === "DROP") {
    state.steps.push({ step: "chain", object: `${table} ${chain}`, found: "policy DROP", verdict: "drops" });
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
      passOver(state, table, chain, rule);
      continue;
    }
    if (rule.target === "RETURN") {
      sayReturn(state, table, chain, rule);
      return undefined;
    }
    const ending = act(state, table, chain, rule, depth);
    if (ending !== undefined) return ending;
  }
  return undefined;
}

function passOver(state: State, table: string, chain: string, { text }: ParsedRule): void {
  state.unjudged++;
  const object = `${table} ${chain}`;
  state.steps.push({ step: "unjudged", object, found: text, verdict: "not understood, passed over" });
}

function act(state: State, table: string, chain: string, rule: ParsedRule, depth: number): Ending {
  const { target, words } = rule;
  const after = (option: string) => words[words.indexOf(option) + 1] ?? "";
  const say = (step: StepName, verdict: string) =>
    state.steps.push({
      step: chain === GUARD_CHAIN ? "guard" : step,
      object: `${table} ${chain}`,
      found: rule.text,
      verdict,
    });
  switch (target) {
    case "":
    case "LOG":
    case "NFLOG":
      return undefined;
    case "ACCEPT":
      say("chain", "accepts");
      return "ACCEPT";
    case "DROP":
    case "REJECT":
      say("chain", "drops");
      return "DROP";
    case "MARK": {
      const { bits, mask } = bitsOf(after("--set-xmark"));
      state.mark = ((state.mark & ~mask) ^ bits) >>> 0;
      say("mark", `mark ${hex(state.mark)}`);
      return undefined;
    }
    case "CONNMARK":
      moveMark(state, words[0] ?? "", Number(after("--nfmask")), Number(after("--ctmask")));
      return undefined;
    case "SET":
      if (words[0] === "--map-set" && words[1] === servedSet(state.family)) mapMark(state);
      return undefined;
    case "SNAT":
      state.source = after("--to-source");
      say("snat", `source ${state.source}`);
      return "ACCEPT";
    case "DNAT":
      redirect(state, after("--to-destination"));
      say("dnat", `destination ${state.destination}`);
      return "ACCEPT";
    case "MASQUERADE":
      state.source = ownSource(state);
      say("snat", `source ${state.source}, of ${state.link}`);
      return "ACCEPT";
  }
  if (state.facts.iptables[state.family].get(table)?.has(target))
    return walk(state, table, target, depth + 1);
  passOver(state, table, chain, rule);
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
  const say = (found: string, verdict: string) =>
    state.steps.push({ step: "set", object: `set ${set}`, found, verdict });
  if (entry === undefined) return void say(`${state.source} is not in it`, "no EgressIP speaks for it here");
  const written = /^skbmark (\S+)/.exec(entry)?.[1];
  if (written === undefined) return void say(`${state.source}, without a mark`, "is selected, and not ready");
  const { bits, mask } = bitsOf(written);
  state.mark = ((state.mark & ~mask) ^ bits) >>> 0;
  say(`${state.source} ${entry}`, `mark ${hex(bits)}`);
}

/** Of our own chains it is worth knowing why they let a packet go; of others' only what they do. */
function sayReturn(state: State, table: string, chain: string, rule: ParsedRule): void {
  if (!isOurChain(table, chain)) return;
  const set = exemptSet(state.family);
  const isExempt = rule.conditions.some(
    ({ option, value }) => option === "--match-set" && value === `${set} dst`,
  );
  if (isExempt) {
    const network = networksOf(state.facts.sets.get(set)?.members ?? NO_MEMBERS).find((one) =>
      contains(one, state.destination),
    );
    const found = network === undefined ? state.destination : formatPrefix(network);
    const verdict = `${state.destination} is exempt, the pod keeps its usual source`;
    state.steps.push({ step: "exempt", object: `set ${set}`, found, verdict });
    return;
  }
  const step = chain === GUARD_CHAIN ? "guard" : isSnatChain(chain) ? "snat" : "mark";
  const verdict = step === "guard" ? "passes" : "is left as it is";
  state.steps.push({ step, object: `${table} ${chain}`, found: rule.text, verdict });
}

const NO_MEMBERS: Shards<string> = emptyShards<string>();

/** `10.244.1.6:8080`, `[fd00::6]:8080`, or an address alone. */
function redirect(state: State, to: string): void {
  const [, six, four, port] = /^(?:\[([^\]]+)\]|([\d.]+)):(\d+)$/.exec(to) ?? [];
  state.destination = six ?? four ?? to;
  if (port !== undefined) state.port = Number(port);
  state.dnat = true;
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

// One iptables rule as conditions and a target, for the walk in trace.ts. In: a rule as iptables-save prints it. Out: values. Pure.
// Only the first packet of a connection is ever asked about, so what depends on later packets has a plain answer.
import { parseDestination } from "./model/destination.ts";
import { contains } from "./model/ip.ts";

/** One match with its negation; `module` is the `-m` it follows, "" for those of the rule itself. */
export interface Condition {
  readonly not: boolean;
  readonly module: string;
  readonly option: string;
  readonly value: string;
}

export interface ParsedRule {
  readonly text: string;
  readonly conditions: readonly Condition[];
  /** Name of the target or chain, "" for a rule that only counts. */
  readonly target: string;
  /** Words after the target's name. */
  readonly words: readonly string[];
}

/** What a condition may ask about. */
export interface Subject {
  readonly source: string;
  readonly destination: string;
  readonly protocol: string;
  readonly port: number | undefined;
  /** Came in by, goes out by; "" when not decided yet. */
  readonly inLink: string;
  readonly outLink: string;
  readonly mark: number;
  readonly connmark: number;
  readonly translated: boolean;
  /** Whether a set holds an address; undefined for a set nobody knows. */
  readonly inSet: (set: string, address: string) => boolean | undefined;
}

const WORDS = /"(?:[^"\\]|\\.)*"|\S+/g;
/** Options of matches that take no value, or two. */
const VALUES: Readonly<Record<string, number>> = { "--match-set": 2, "--syn": 0, "--limit-iface-out": 0 };

export function parseRule(text: string): ParsedRule {
  const words = text.match(WORDS) ?? [];
  const conditions: Condition[] = [];
  let module = "";
  let not = false;
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string;
    if (word === "-j" || word === "-g")
      return { text, conditions, target: words[at + 1] ?? "", words: words.slice(at + 2) };
    if (word === "!") not = true;
    else if (word === "-m") module = words[++at] ?? "";
    else {
      const count = VALUES[word] ?? 1;
      const plain = !word.startsWith("--");
      const value = words.slice(at + 1, at + 1 + count).join(" ");
      conditions.push({ not, module: plain ? "" : module, option: word, value });
      at += count;
      not = false;
    }
  }
  return { text, conditions, target: "", words: [] };
}

/** Whether all conditions hold; `undefined` when those that are understood hold and there is one that is not. */
export function holds(rule: ParsedRule, subject: Subject): boolean | undefined {
  let unknown = false;
  for (const condition of rule.conditions) {
    const truth = ask(condition, subject);
    if (truth === undefined) unknown = true;
    else if (truth === condition.not) return false;
  }
  return unknown ? undefined : true;
}

function ask({ module, option, value }: Condition, subject: Subject): boolean | undefined {
  switch (option) {
    case "-i":
      return isLink(value, subject.inLink);
    case "-o":
      return isLink(value, subject.outLink);
    case "-s":
      return within(value, subject.source);
    case "-d":
      return within(value, subject.destination);
    case "-p":
      return value === "all" || value === subject.protocol;
    case "--dport":
      return subject.port === undefined ? false : inRange(value, subject.port);
    case "--comment":
      return true;
    case "--ctstate":
      // A first packet is NEW, and DNAT once it was given another destination.
      return value.split(",").some((state) => state === "NEW" || (state === "DNAT" && subject.translated));
    case "--ctdir":
      return value === "ORIGINAL";
    case "--mark":
      if (module !== "mark" && module !== "connmark") return undefined;
      return hasBits(module === "mark" ? subject.mark : subject.connmark, value);
    case "--match-set": {
      const [set = "", direction] = value.split(" ");
      if (direction !== "src" && direction !== "dst") return undefined;
      return subject.inSet(set, direction === "src" ? subject.source : subject.destination);
    }
    default:
      return undefined;
  }
}

/** `eth+` stands for all that begin so. */
function isLink(pattern: string, link: string): boolean {
  return pattern.endsWith("+") ? link.startsWith(pattern.slice(0, -1)) : pattern === link;
}

function inRange(text: string, port: number): boolean {
  const [first = 0, last = first] = text.split(":").map(Number);
  return port >= first && port <= last;
}

/** `0x4000/0x4000`; without a mask all bits count. */
export function hasBits(value: number, text: string): boolean {
  const { bits, mask } = bitsOf(text);
  return (value & mask) >>> 0 === bits;
}

export function bitsOf(text: string): { readonly bits: number; readonly mask: number } {
  const [bits, mask] = text.split("/").map((part) => Number(part));
  return { bits: (bits ?? 0) >>> 0, mask: (mask ?? 0xffffffff) >>> 0 };
}

export function within(network: string, address: string): boolean {
  const cidr = parseDestination(network);
  return cidr !== undefined && contains(cidr, address);
}

// iptables-save text to values and back. In: text. Out: tables, chains, rule specifications. Pure.
import { ParseError } from "./errors.ts";

export interface Chain {
  /** "-" for a user chain, else ACCEPT or DROP. */
  readonly policy: string;
  /** Rule specifications as iptables-save prints them, without `-A CHAIN `. */
  readonly rules: readonly string[];
}

/** Table name to chain name to chain; a table that does not exist is not a key. */
export type Ruleset = ReadonlyMap<string, ReadonlyMap<string, Chain>>;

/** Tables that iptables-nft-save left out, with status 0, because a rule in them is none of iptables'. */
export function hiddenTables(text: string): readonly string[] {
  return [...text.matchAll(/^# Table `(\S+)' is incompatible, use 'nft' tool\.$/gm)].map(
    (found) => found[1] as string,
  );
}

/**
 * Parses the output of iptables-save or ip6tables-save, nft or legacy, with or without counters.
 * A table that was left out (see hiddenTables) is missing here as if it did not exist.
 * Throws ParseError on a line of another shape.
 */
export function parseSave(saved: string): Ruleset {
  const tables = new Map<string, Map<string, { policy: string; rules: string[] }>>();
  let table: Map<string, { policy: string; rules: string[] }> | undefined;
  let number = 0;
  const lines = saved.split("\n");
  while (number < lines.length) {
    const line = lines[number++] as string;
    if (line === "" || line.startsWith("#") || line === "COMMIT") continue;
    if (line.startsWith("*")) {
      const name = line.slice(1).trim();
      table = tables.get(name) ?? new Map();
      tables.set(name, table);
      continue;
    }
    const declared = /^:(\S+) (\S+)/.exec(line);
    if (declared !== null && table !== undefined) {
      table.set(declared[1] as string, { policy: declared[2] as string, rules: [] });
      continue;
    }
    const rule = /^(?:\[\d+:\d+\] )?-A (\S+) ?(.*)$/s.exec(line);
    const chain = rule === null ? undefined : table?.get(rule[1] as string);
    if (rule === null || chain === undefined) throw new ParseError("iptables-save", number, line);
    // A comment may hold newlines, and is printed with them.
    const start = number;
    let text = rule[2] as string;
    while (isOpen(text)) {
      if (number === lines.length) throw new ParseError("iptables-save", start, line);
      text += `\n${lines[number++]}`;
    }
    chain.rules.push(text);
  }
  return tables;
}

/** Whether a quoted word has begun and not ended; iptables puts a backslash before a quote or backslash in it. */
function isOpen(rule: string): boolean {
  return rule.includes('"') && (rule.replace(/\\./gs, "").split('"').length - 1) % 2 === 1;
}

export interface RuleCounter {
  readonly table: string;
  readonly chain: string;
  readonly rule: string;
  readonly packets: number;
}

/** Counters of all rules in the output of `iptables-save -c`. */
export function parseCounters(text: string): readonly RuleCounter[] {
  let table = "";
  const counters: RuleCounter[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("*")) table = line.slice(1).trim();
    const [, packets, chain = "", rule = ""] = /^\[(\d+):\d+\] -A (\S+) ?(.*)$/.exec(line) ?? [];
    if (packets !== undefined) counters.push({ table, chain, rule, packets: Number(packets) });
  }
  return counters;
}

/**
 * One spelling for rules that mean the same: hexadecimal marks without leading zeros, sorted state lists, host
 * prefixes dropped. iptables versions differ in these, and a difference in spelling must not become a rewrite.
 */
export function canonicalRule(rule: string): string {
  return rule
    .replace(/\b0x0*([0-9a-fA-F]+)/g, (_, digits: string) => `0x${digits.toLowerCase()}`)
    .replace(/(--ctstate )(\S+)/g, (_, flag: string, list: string) => flag + list.split(",").sort().join(","))
    .replace(/(\d)\/32\b/g, "$1")
    .replace(/([0-9a-f:])\/128\b/g, "$1");
}

export function sameRule(a: string, b: string): boolean {
  return a === b || canonicalRule(a) === canonicalRule(b);
}

/** One line or a few of an iptables-restore input. */
export type RulesetChange =
  | {
      readonly op: "rewrite";
      readonly table: string;
      readonly chain: string;
      readonly rules: readonly string[];
    }
  | {
      readonly op: "insert";
      readonly table: string;
      readonly chain: string;
      /** 1-based, as in `-I CHAIN 1`. */
      readonly at: number;
      readonly rule: string;
    }
  | { readonly op: "delete"; readonly table: string; readonly chain: string; readonly rule: string }
  | { readonly op: "remove"; readonly table: string; readonly chain: string }
  | {
      /** Takes out the copies that exist and puts one first, in one commit: the jump is never missing. */
      readonly op: "hoist";
      readonly table: string;
      readonly chain: string;
      readonly rule: string;
      readonly copies: number;
    };

/** The iptables-restore lines of one change, without table and COMMIT. */
function linesOf(change: Exclude<RulesetChange, { op: "remove" }>): readonly string[] {
  const { chain } = change;
  switch (change.op) {
    case "rewrite":
      // Declaring a chain empties it; the appends refill it in the same commit.
      return [`:${chain} - [0:0]`, ...change.rules.map((rule) => `-A ${chain} ${rule}`)];
    case "insert":
      return [`-I ${chain} ${change.at} ${change.rule}`];
    case "delete":
      return [`-D ${chain} ${change.rule}`];
    case "hoist":
      return [
        ...Array.from({ length: change.copies }, () => `-D ${chain} ${change.rule}`),
        `-I ${chain} 1 ${change.rule}`,
      ];
  }
}

/** Input for `iptables-restore --noflush`: one block per run of changes to the same table. */
export function printRestore(changes: readonly RulesetChange[]): string {
  const out: string[] = [];
  let table: string | undefined;
  // Chains go when all of them are empty: one may hold the last jump to another.
  let removed: string[] = [];
  const flush = () => {
    out.push(...removed.map((chain) => `-X ${chain}`));
    removed = [];
  };
  for (const change of changes) {
    if (change.table !== table || change.op !== "remove") flush();
    if (change.table !== table) {
      if (table !== undefined) out.push("COMMIT");
      table = change.table;
      out.push(`*${table}`);
    }
    if (change.op === "remove") {
      out.push(`-F ${change.chain}`);
      removed.push(change.chain);
    } else out.push(...linesOf(change));
  }
  flush();
  if (table !== undefined) out.push("COMMIT");
  return out.length === 0 ? "" : `${out.join("\n")}\n`;
}

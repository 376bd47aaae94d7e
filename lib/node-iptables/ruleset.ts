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

/**
 * Parses the output of iptables-save or ip6tables-save, nft or legacy, with or without counters.
 * Throws ParseError on a line of another shape.
 */
export function parseSave(text: string): Ruleset {
  const tables = new Map<string, Map<string, { policy: string; rules: string[] }>>();
  let table: Map<string, { policy: string; rules: string[] }> | undefined;
  let number = 0;
  for (const line of text.split("\n")) {
    number++;
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
    const rule = /^(?:\[\d+:\d+\] )?-A (\S+) ?(.*)$/.exec(line);
    const chain = rule === null ? undefined : table?.get(rule[1] as string);
    if (rule === null || chain === undefined) throw new ParseError("iptables-save", number, line);
    chain.rules.push(rule[2] as string);
  }
  return tables;
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
export function linesOf(change: RulesetChange): readonly string[] {
  const { chain } = change;
  switch (change.op) {
    case "rewrite":
      // Declaring a chain empties it; the appends refill it in the same commit.
      return [`:${chain} - [0:0]`, ...change.rules.map((rule) => `-A ${chain} ${rule}`)];
    case "insert":
      return [`-I ${chain} ${change.at} ${change.rule}`];
    case "delete":
      return [`-D ${chain} ${change.rule}`];
    case "remove":
      return [`-F ${chain}`, `-X ${chain}`];
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
  for (const change of changes) {
    if (change.table !== table) {
      if (table !== undefined) out.push("COMMIT");
      table = change.table;
      out.push(`*${table}`);
    }
    out.push(...linesOf(change));
  }
  if (table !== undefined) out.push("COMMIT");
  return out.length === 0 ? "" : `${out.join("\n")}\n`;
}

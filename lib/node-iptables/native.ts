// A table that iptables does not show because a rule in it is none of iptables', read by way of nft. Pure.
// In: `nft --json list table`. Out: its chains, as far as iptables words can tell them: jumps without a condition are known
// for what they are, every other rule only by its handle.
import { ParseError } from "./errors.ts";
import type { Chain } from "./ruleset.ts";

const NATIVE = "# nft rule ";

/** A rule that stands in its place and whose words are not known. */
export function isNative(rule: string): boolean {
  return rule.startsWith(NATIVE);
}

type Json = Readonly<Record<string, unknown>>;

/** Throws ParseError. */
export function parseNftTable(json: string): ReadonlyMap<string, Chain> {
  const chains = new Map<string, { policy: string; rules: string[] }>();
  for (const item of itemsOf(json)) {
    const { chain, rule } = item;
    if (isJson(chain)) chains.set(text(chain["name"]), { policy: policyOf(chain), rules: [] });
    if (!isJson(rule)) continue;
    const rules = chains.get(text(rule["chain"]))?.rules;
    if (rules === undefined) throw new ParseError("nft list table", 1, JSON.stringify(rule));
    rules.push(jumpOf(rule["expr"]) ?? `${NATIVE}${String(rule["handle"])}`);
  }
  return chains;
}

function itemsOf(json: string): readonly Json[] {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new ParseError("nft list table", 1, json);
  }
  const items = isJson(value) ? value["nftables"] : undefined;
  if (!Array.isArray(items)) throw new ParseError("nft list table", 1, json);
  return items.filter(isJson);
}

function policyOf(chain: Json): string {
  return chain["hook"] === undefined ? "-" : text(chain["policy"]).toUpperCase() || "ACCEPT";
}

/** iptables gives each of its rules a counter. */
function jumpOf(expressions: unknown): string | undefined {
  if (!Array.isArray(expressions)) return undefined;
  const [only, ...more] = expressions.filter((part) => !(isJson(part) && part["counter"] !== undefined));
  if (!isJson(only) || more.length > 0) return undefined;
  for (const [verb, flag] of [
    ["jump", "-j"],
    ["goto", "-g"],
  ] as const) {
    const verdict = only[verb];
    if (isJson(verdict) && text(verdict["target"]) !== "") return `${flag} ${text(verdict["target"])}`;
  }
  return undefined;
}

function isJson(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

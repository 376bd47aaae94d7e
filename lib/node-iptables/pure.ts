// The door for code that must not touch the host: parsers, printers, diffs.

export {
  applyToRuleset,
  diffRuleset,
  type RulesetDiff,
  type WantedChain,
  type WantedJump,
} from "./edit.ts";
export { ParseError } from "./errors.ts";
export { isNative, parseNftTable } from "./native.ts";
export {
  type Chain,
  canonicalRule,
  hiddenTables,
  parseCounters,
  parseSave,
  printRestore,
  type RuleCounter,
  type Ruleset,
  type RulesetChange,
  sameRule,
} from "./ruleset.ts";
export { type IpSet, parseSets, parseSizes } from "./sets.ts";

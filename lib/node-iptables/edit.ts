// What to change so that chains we own hold the wanted rules, and what a change does to a ruleset. Pure.
import { isNative } from "./native.ts";
import { type Ruleset, type RulesetChange, sameRule } from "./ruleset.ts";

/** Rules wanted in a chain that is wholly ours. */
export interface WantedChain {
  readonly table: string;
  readonly chain: string;
  readonly rules: readonly string[];
}

/** A jump wanted as the first rule of somebody else's chain. */
export interface WantedJump {
  readonly table: string;
  readonly chain: string;
  readonly rule: string;
}

export interface RulesetDiff {
  /** Adds, in the order given: chains and their rules, then jumps. */
  readonly establish: readonly RulesetChange[];
  /** Removes stale rules, jumps and chains. */
  readonly retire: readonly RulesetChange[];
}

/**
 * Least changes from observed to wanted. Stale rules of a kept chain stay until retire, so that nothing is missing in
 * between; only a chain whose common rules stand in another order is rewritten as a whole (one atomic commit).
 * `owned(table, chain)` says which chains are ours; every other chain is only ever given or relieved of our jumps.
 */
export function diffRuleset(
  observed: Ruleset,
  wanted: { readonly chains: readonly WantedChain[]; readonly jumps: readonly WantedJump[] },
  owned: (table: string, chain: string) => boolean,
): RulesetDiff {
  const establish: RulesetChange[] = [];
  const retire: RulesetChange[] = [];
  for (const { table, chain, rules } of wanted.chains) {
    const current = observed.get(table)?.get(chain);
    if (current === undefined) {
      establish.push({ op: "rewrite", table, chain, rules });
      continue;
    }
    const edit = current.rules.some(isNative) ? "rewrite" : editRules(current.rules, rules);
    if (edit === "rewrite") {
      establish.push({ op: "rewrite", table, chain, rules });
      continue;
    }
    for (const { at, rule } of edit.insert) establish.push({ op: "insert", table, chain, at, rule });
    for (const rule of edit.remove) retire.push({ op: "delete", table, chain, rule });
  }
  for (const { table, chain, rule } of wanted.jumps) {
    const rules = observed.get(table)?.get(chain)?.rules ?? [];
    const copies = rules.filter((candidate) => sameRule(candidate, rule)).length;
    const first = rules[0];
    const isFirst = first !== undefined && sameRule(first, rule);
    // iptables cannot look past a native rule for what to delete: a copy behind one stays, and does nothing.
    const deletable = !rules.some(isNative);
    if (isFirst && (copies === 1 || !deletable)) continue;
    establish.push({ op: "hoist", table, chain, rule, copies: deletable ? copies : 0 });
  }
  retire.push(...staleJumps(observed, wanted.jumps, owned), ...staleChains(observed, wanted.chains, owned));
  return { establish: byTable(establish), retire: byTable(retire) };
}

/** Inserts that turn `current` into a list whose kept rules are `wanted`, plus what is left to delete. */
function editRules(
  current: readonly string[],
  wanted: readonly string[],
):
  | "rewrite"
  | { readonly insert: readonly { at: number; rule: string }[]; readonly remove: readonly string[] } {
  const insert: { at: number; rule: string }[] = [];
  const kept = new Set<number>();
  let position = 0; // index into current of the first rule not yet passed
  let shift = 0;
  const indexOf = (rule: string, from: number) => {
    for (let i = from; i < current.length; i++) if (sameRule(current[i] as string, rule)) return i;
    return -1;
  };
  for (const rule of wanted) {
    const found = indexOf(rule, position);
    if (found >= 0) {
      kept.add(found);
      position = found + 1;
    } else if (indexOf(rule, 0) >= 0 && !kept.has(indexOf(rule, 0))) {
      return "rewrite"; // it is there, but before something it has to follow
    } else {
      insert.push({ at: position + shift + 1, rule });
      shift++;
    }
  }
  const remove = current.filter((_, index) => !kept.has(index));
  // `-D` takes the first rule of that text: with a kept twin it could take the wrong one.
  if (remove.some((rule) => wanted.some((other) => sameRule(rule, other)))) return "rewrite";
  return { insert, remove };
}

function staleJumps(
  observed: Ruleset,
  wanted: readonly WantedJump[],
  owned: (table: string, chain: string) => boolean,
): readonly RulesetChange[] {
  const out: RulesetChange[] = [];
  for (const [table, chains] of observed) {
    for (const [chain, { rules }] of chains) {
      if (owned(table, chain)) continue;
      for (const rule of rules) {
        const target = /(?:^| )-[jg] (\S+)/.exec(rule)?.[1];
        if (target === undefined || !owned(table, target)) continue;
        if (wanted.some((jump) => jump.table === table && jump.chain === chain && sameRule(jump.rule, rule)))
          continue;
        out.push({ op: "delete", table, chain, rule });
      }
    }
  }
  return out;
}

function staleChains(
  observed: Ruleset,
  wanted: readonly WantedChain[],
  owned: (table: string, chain: string) => boolean,
): readonly RulesetChange[] {
  const out: RulesetChange[] = [];
  for (const [table, chains] of observed) {
    for (const chain of chains.keys()) {
      if (!owned(table, chain)) continue;
      if (!wanted.some((keep) => keep.table === table && keep.chain === chain))
        out.push({ op: "remove", table, chain });
    }
  }
  return out;
}

/** Keeps the order inside a table and the order in which tables first appear: one COMMIT per table. */
function byTable(changes: readonly RulesetChange[]): readonly RulesetChange[] {
  const tables = [...new Set(changes.map((change) => change.table))];
  return tables.flatMap((table) => changes.filter((change) => change.table === table));
}

/** What the kernel holds after iptables-restore took these changes; as strict as the tool about what must exist. */
export function applyToRuleset(ruleset: Ruleset, changes: readonly RulesetChange[]): Ruleset {
  const next = new Map<string, Map<string, { policy: string; rules: string[] }>>();
  for (const [table, chains] of ruleset) {
    next.set(
      table,
      new Map([...chains].map(([name, chain]) => [name, { ...chain, rules: [...chain.rules] }])),
    );
  }
  for (const change of changes) {
    const table = next.get(change.table) ?? builtinChains(change.table);
    next.set(change.table, table);
    applyOne(table, change);
  }
  return next;
}

type EditableTable = Map<string, { policy: string; rules: string[] }>;

function applyOne(table: EditableTable, change: RulesetChange): void {
  switch (change.op) {
    case "rewrite":
      table.set(change.chain, { policy: "-", rules: [...change.rules] });
      return;
    case "insert": {
      const rules = rulesOf(table, change);
      if (change.at > rules.length + 1) throw new Error(`${change.chain}: index ${change.at} too big`);
      rules.splice(change.at - 1, 0, change.rule);
      return;
    }
    case "delete":
      removeFirst(rulesOf(table, change), change.rule);
      return;
    case "hoist": {
      const rules = rulesOf(table, change);
      for (let i = 0; i < change.copies; i++) removeFirst(rules, change.rule);
      rules.unshift(change.rule);
      return;
    }
    case "remove":
      if (!table.delete(change.chain)) throw new Error(`${change.table}: no chain ${change.chain}`);
      return;
  }
}

function rulesOf(table: EditableTable, change: RulesetChange): string[] {
  const chain = table.get(change.chain);
  if (chain === undefined) throw new Error(`${change.table}: no chain ${change.chain}`);
  return chain.rules;
}

function removeFirst(rules: string[], rule: string): void {
  const index = rules.findIndex((candidate) => sameRule(candidate, rule));
  if (index < 0) throw new Error(`no rule ${rule}`);
  rules.splice(index, 1);
}

const BUILTIN: Readonly<Record<string, readonly string[]>> = {
  filter: ["INPUT", "FORWARD", "OUTPUT"],
  nat: ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
  mangle: ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
};

function builtinChains(table: string): Map<string, { policy: string; rules: string[] }> {
  return new Map((BUILTIN[table] ?? []).map((name) => [name, { policy: "ACCEPT", rules: [] }]));
}

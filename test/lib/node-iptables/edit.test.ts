// What diffRuleset asks for, and what comes of it: over random chains that are there, random ones that are wanted, and strangers.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  applyToRuleset,
  type Chain,
  diffRuleset,
  parseSave,
  printRestore,
  type Ruleset,
  type RulesetChange,
  sameRule,
  type WantedChain,
  type WantedJump,
} from "../../../lib/node-iptables/pure.ts";

const owned = (_table: string, chain: string) => chain.startsWith("OUR-");

const BUILTIN = { nat: "POSTROUTING", filter: "FORWARD", mangle: "PREROUTING" } as const;
type Table = keyof typeof BUILTIN;
const tables = Object.keys(BUILTIN) as Table[];

const ourRule = fc
  .nat({ max: 9 })
  .map((n) => `-m mark --mark 0x${n}00000/0x7ff00000 -j SNAT --to-source 172.18.0.${50 + n}`);
const foreignRule = fc.nat({ max: 9 }).map((n) => `-s 10.0.0.${n}/32 -j ACCEPT`);
const jumpTo = (chain: string) => `-j ${chain}`;

/** Rules of a built-in chain: strangers, with our jump anywhere, missing or several times, and jumps to a chain that was ours. */
const parentRules = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: foreignRule },
    { weight: 1, arbitrary: fc.constant(jumpTo("OUR-A")) },
    { weight: 1, arbitrary: fc.constant(`-i eth0 ${jumpTo("OUR-OLD")}`) },
  ),
  { maxLength: 6 },
);

interface Case {
  readonly observed: Ruleset;
  readonly chains: readonly WantedChain[];
  readonly jumps: readonly WantedJump[];
}

const chain = (policy: string, rules: readonly string[]): Chain => ({ policy, rules });

/** One table: our chain there or not, wanted or not; an old one of ours; strangers. */
const oneTable = (table: Table) =>
  fc
    .record({
      exists: fc.boolean(),
      parent: parentRules,
      ours: fc.option(fc.array(ourRule, { maxLength: 8 }), { nil: undefined }),
      old: fc.option(fc.array(ourRule, { maxLength: 2 }), { nil: undefined }),
      foreign: fc.array(foreignRule, { maxLength: 3 }),
      wanted: fc.option(fc.array(ourRule, { maxLength: 8 }), { nil: undefined }),
    })
    .map(({ exists, parent, ours, old, foreign, wanted }) => {
      // A jump can only be there while its chain is.
      const present = (rule: string) =>
        !(rule.endsWith("OUR-A") && ours === undefined) && !(rule.endsWith("OUR-OLD") && old === undefined);
      const chains = new Map<string, Chain>([
        [BUILTIN[table], chain("ACCEPT", parent.filter(present))],
        ["STRANGER", chain("-", foreign)],
      ]);
      if (ours !== undefined) chains.set("OUR-A", chain("-", ours));
      if (old !== undefined) chains.set("OUR-OLD", chain("-", old));
      return {
        observed: exists ? ([[table, chains]] as const) : [],
        chains: wanted === undefined ? [] : [{ table, chain: "OUR-A", rules: wanted }],
        jumps: wanted === undefined ? [] : [{ table, chain: BUILTIN[table], rule: jumpTo("OUR-A") }],
      };
    });

const anyCase: fc.Arbitrary<Case> = fc.tuple(...tables.map(oneTable)).map((parts) => ({
  observed: new Map(parts.flatMap(({ observed }) => observed)),
  chains: parts.flatMap(({ chains }) => chains),
  jumps: parts.flatMap(({ jumps }) => jumps),
}));

function diff({ observed, chains, jumps }: Case) {
  return diffRuleset(observed, { chains, jumps }, owned);
}

const rulesOf = (ruleset: Ruleset, table: string, name: string) => ruleset.get(table)?.get(name)?.rules;

function foreignOf(ruleset: Ruleset): unknown {
  return [...ruleset].map(([table, chains]) => [
    table,
    [...chains]
      .filter(([name]) => !owned(table, name))
      .map(([name, { policy, rules }]) => [name, policy, rules.filter((rule) => !rule.includes("OUR-"))]),
  ]);
}

/** Whether `part` can be had from `whole` by leaving things out. */
function isSubsequence(part: readonly string[], whole: readonly string[]): boolean {
  let at = 0;
  for (const rule of whole) if (at < part.length && sameRule(part[at] as string, rule)) at++;
  return at === part.length;
}

describe("establish, then retire", () => {
  it("gives exactly the chains that are wanted", () => {
    fc.assert(
      fc.property(anyCase, (random) => {
        const { establish, retire } = diff(random);
        const after = applyToRuleset(applyToRuleset(random.observed, establish), retire);
        for (const { table, chain: name, rules } of random.chains)
          expect(rulesOf(after, table, name)).toEqual(rules);
        const left = [...after].flatMap(([table, chains]) =>
          [...chains.keys()].filter((name) => owned(table, name)).map((name) => `${table} ${name}`),
        );
        expect(left.sort()).toEqual(random.chains.map((wanted) => `${wanted.table} ${wanted.chain}`).sort());
      }),
      { numRuns: 500 },
    );
  });

  it("gives the same when what is to retire is worked out again after establishing", () => {
    fc.assert(
      fc.property(anyCase, (random) => {
        const { establish, retire } = diff(random);
        const between = applyToRuleset(random.observed, establish);
        const again = diff({ ...random, observed: between });
        expect(again.establish).toEqual([]);
        expect(applyToRuleset(between, again.retire)).toEqual(applyToRuleset(between, retire));
      }),
    );
  });

  it("leaves nothing to do", () => {
    fc.assert(
      fc.property(anyCase, (random) => {
        const { establish, retire } = diff(random);
        const after = applyToRuleset(applyToRuleset(random.observed, establish), retire);
        expect(diff({ ...random, observed: after })).toEqual({ establish: [], retire: [] });
      }),
    );
  });

  it("leaves every stranger's chain and rule where it was, at every step", () => {
    fc.assert(
      fc.property(anyCase, (random) => {
        const { establish, retire } = diff(random);
        let current = random.observed;
        for (const change of [...establish, ...retire]) {
          const before = current;
          current = applyToRuleset(current, [change]);
          // A table that did not exist comes with its built-in chains, empty.
          const known = new Map([...current].filter(([table]) => before.has(table)));
          expect(foreignOf(known)).toEqual(foreignOf(before));
        }
      }),
    );
  });

  it("puts each jump first, once, and takes the other jumps to chains of ours away", () => {
    fc.assert(
      fc.property(anyCase, (random) => {
        const { establish, retire } = diff(random);
        const between = applyToRuleset(random.observed, establish);
        for (const { table, chain: name, rule } of random.jumps) {
          expect(rulesOf(between, table, name)?.[0]).toBe(rule);
          expect(rulesOf(between, table, name)?.filter((other) => other === rule)).toHaveLength(1);
        }
        const after = applyToRuleset(between, retire);
        const jumps = [...after].flatMap(([table, chains]) =>
          [...chains].flatMap(([name, { rules }]) =>
            rules.filter((rule) => / OUR-/.test(rule)).map((rule) => `${table} ${name} ${rule}`),
          ),
        );
        expect(jumps.sort()).toEqual(
          random.jumps.map((jump) => `${jump.table} ${jump.chain} ${jump.rule}`).sort(),
        );
      }),
    );
  });

  it("never has less of what is wanted than it had", () => {
    fc.assert(
      fc.property(anyCase, (random) => {
        const { establish, retire } = diff(random);
        let current = random.observed;
        for (const change of [...establish, ...retire]) {
          const before = current;
          current = applyToRuleset(current, [change]);
          for (const { table, chain: name, rules } of random.chains) {
            const had = (rulesOf(before, table, name) ?? []).filter((rule) => rules.includes(rule));
            const has = rulesOf(current, table, name) ?? [];
            expect(had.filter((rule) => !has.includes(rule))).toEqual([]);
          }
        }
        const between = applyToRuleset(random.observed, establish);
        for (const { table, chain: name, rules } of random.chains)
          expect(isSubsequence(rules, rulesOf(between, table, name) ?? [])).toBe(true);
      }),
    );
  });

  it("prints lines that a reader of its own makes the same ruleset of", () => {
    fc.assert(
      fc.property(anyCase, (random) => {
        const { establish, retire } = diff(random);
        for (const changes of [establish, retire]) {
          const observed =
            changes === establish ? random.observed : applyToRuleset(random.observed, establish);
          expect(restore(observed, printRestore(changes))).toEqual(applyToRuleset(observed, changes));
        }
      }),
    );
  });
});

/** iptables-restore --noflush, as far as its lines are ours; written against its manual page, not against the printer. */
function restore(ruleset: Ruleset, text: string): Ruleset {
  const next = new Map<string, Map<string, Chain>>();
  for (const [table, chains] of ruleset) next.set(table, new Map(chains));
  let open: Map<string, Chain> | undefined;
  for (const line of text.split("\n").slice(0, -1)) {
    const [word = "", name = "", ...rest] = line.split(" ");
    if (word.startsWith("*")) {
      expect(open).toBeUndefined();
      open =
        next.get(word.slice(1)) ??
        new Map(applyToRuleset(new Map(), [firstIn(word.slice(1))]).get(word.slice(1)));
      open.delete("PROBE");
      next.set(word.slice(1), open);
    } else if (word === "COMMIT") open = undefined;
    else if (open === undefined) throw new Error(`outside a table: ${line}`);
    else if (word.startsWith(":")) open.set(word.slice(1), chain("-", []));
    else
      open.set(
        name,
        edited(open.get(name), word, rest, () => open?.delete(name)),
      );
    for (const [at, { policy }] of open ?? []) if (policy === "gone") open?.delete(at);
  }
  expect(open).toBeUndefined();
  return next;
}

const firstIn = (table: string): RulesetChange => ({ op: "rewrite", table, chain: "PROBE", rules: [] });

function edited(current: Chain | undefined, word: string, rest: readonly string[], drop: () => void): Chain {
  if (current === undefined) throw new Error("no such chain");
  const { policy, rules } = current;
  const rule = rest.join(" ");
  switch (word) {
    case "-A":
      return { policy, rules: [...rules, rule] };
    case "-I":
      return { policy, rules: rules.toSpliced(Number(rest[0]) - 1, 0, rest.slice(1).join(" ")) };
    case "-D": {
      const at = rules.indexOf(rule);
      if (at < 0) throw new Error(`no rule to delete: ${rule}`);
      return { policy, rules: rules.toSpliced(at, 1) };
    }
    case "-F":
      return { policy, rules: [] };
    case "-X":
      if (rules.length > 0) throw new Error("not empty");
      drop();
      return { policy: "gone", rules: [] };
    default:
      throw new Error(`an unknown line: ${word}`);
  }
}

describe("how much is written", () => {
  const rules = Array.from(
    { length: 64 },
    (_, n) => `-m mark --mark 0x${(n + 1).toString(16)}00000 -j RETURN`,
  );
  const observed = new Map([
    [
      "nat",
      new Map([
        ["POSTROUTING", chain("ACCEPT", [jumpTo("OUR-A"), "-j STRANGER"])],
        ["OUR-A", chain("-", rules)],
      ]),
    ],
  ]);
  const jumps = [{ table: "nat", chain: "POSTROUTING", rule: jumpTo("OUR-A") }];
  const wants = (wanted: readonly string[]) => ({
    chains: [{ table: "nat", chain: "OUR-A", rules: wanted }],
    jumps,
  });
  const lines = (changes: readonly RulesetChange[]) => printRestore(changes).split("\n").slice(1, -2);

  it.each([0, 1, 31, 63, 64])("is one line for a rule that is new at position %i of 64", (at) => {
    const { establish, retire } = diffRuleset(observed, wants(rules.toSpliced(at, 0, "-j LOG")), owned);
    expect(lines(establish)).toEqual([`-I OUR-A ${at + 1} -j LOG`]);
    expect(retire).toEqual([]);
  });

  it.each([0, 31, 63])("is one line for a rule that goes from position %i of 64", (at) => {
    const { establish, retire } = diffRuleset(observed, wants(rules.toSpliced(at, 1)), owned);
    expect(establish).toEqual([]);
    expect(lines(retire)).toEqual([`-D OUR-A ${rules[at]}`]);
  });

  it("is one line before and one after for a rule that changes", () => {
    const { establish, retire } = diffRuleset(observed, wants(rules.with(5, "-j LOG")), owned);
    expect(lines(establish)).toEqual(["-I OUR-A 6 -j LOG"]);
    expect(lines(retire)).toEqual([`-D OUR-A ${rules[5]}`]);
  });

  it("is nothing for another spelling", () => {
    const spelled = rules.map((rule) => rule.replace("0x", "0x000"));
    expect(diffRuleset(observed, wants(spelled), owned)).toEqual({ establish: [], retire: [] });
  });

  it("is one commit of the whole chain for another order", () => {
    const { establish, retire } = diffRuleset(observed, wants(rules.toReversed()), owned);
    expect(lines(establish)).toHaveLength(65);
    expect(lines(establish)[0]).toBe(":OUR-A - [0:0]");
    expect(retire).toEqual([]);
  });

  it("is never more lines than differ", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.nat({ max: 63 })),
        fc.uniqueArray(fc.nat({ max: 63 })),
        (there, wanted) => {
          const pick = (numbers: readonly number[]) =>
            [...numbers].sort((a, b) => a - b).map((n) => rules[n] as string);
          const now = new Map([["nat", new Map([["OUR-A", chain("-", pick(there))]])]]);
          const { establish, retire } = diffRuleset(
            now,
            { chains: [{ table: "nat", chain: "OUR-A", rules: pick(wanted) }], jumps: [] },
            owned,
          );
          expect(establish).toHaveLength(wanted.filter((n) => !there.includes(n)).length);
          expect(retire).toHaveLength(there.filter((n) => !wanted.includes(n)).length);
        },
      ),
    );
  });
});

describe("chains of ours that are not wanted", () => {
  it("go although they jump to each other, in any order", () => {
    const observed = parseSave(
      [
        "*nat",
        ":OUR-A - [0:0]",
        ":OUR-B - [0:0]",
        ":OUR-C - [0:0]",
        "-A OUR-B -j OUR-A",
        "-A OUR-C -j OUR-B",
        "COMMIT",
      ].join("\n"),
    );
    const { retire } = diffRuleset(observed, { chains: [], jumps: [] }, owned);
    expect(printRestore(retire)).toBe(
      "*nat\n-F OUR-A\n-F OUR-B\n-F OUR-C\n-X OUR-A\n-X OUR-B\n-X OUR-C\nCOMMIT\n",
    );
  });

  it("go after every jump of others to them, goto included", () => {
    const observed = parseSave(
      [
        "*nat",
        ":POSTROUTING ACCEPT [0:0]",
        ":OUR-A - [0:0]",
        "-A POSTROUTING -o eth0 -g OUR-A",
        "-A POSTROUTING -j OUR-A",
        "COMMIT",
      ].join("\n"),
    );
    const { retire } = diffRuleset(observed, { chains: [], jumps: [] }, owned);
    expect(printRestore(retire)).toBe(
      "*nat\n-D POSTROUTING -o eth0 -g OUR-A\n-D POSTROUTING -j OUR-A\n-F OUR-A\n-X OUR-A\nCOMMIT\n",
    );
  });
});

describe("a chain with rules that iptables cannot read", () => {
  const wanted = {
    chains: [{ table: "nat", chain: "OUR-A", rules: ["-j RETURN"] }],
    jumps: [{ table: "nat", chain: "POSTROUTING", rule: jumpTo("OUR-A") }],
  };
  const printed = (parent: readonly string[], ours: readonly string[] = ["-j RETURN"]) => {
    const observed = new Map([
      [
        "nat",
        new Map([
          ["POSTROUTING", chain("ACCEPT", parent)],
          ["OUR-A", chain("-", ours)],
        ]),
      ],
    ]);
    const { establish, retire } = diffRuleset(observed, wanted, owned);
    return printRestore([...establish, ...retire])
      .split("\n")
      .slice(1, -2);
  };

  it.each([
    ["first", [jumpTo("OUR-A"), "# nft rule 6"], []],
    ["first, and again behind one", [jumpTo("OUR-A"), "# nft rule 6", jumpTo("OUR-A")], []],
    ["missing", ["# nft rule 6"], ["-I POSTROUTING 1 -j OUR-A"]],
    ["behind one", ["# nft rule 6", jumpTo("OUR-A")], ["-I POSTROUTING 1 -j OUR-A"]],
    ["behind a stranger's", ["-j X", jumpTo("OUR-A"), "# nft rule 6"], ["-I POSTROUTING 1 -j OUR-A"]],
  ])("is not asked to delete when our jump is %s", (_, parent, lines) => {
    expect(printed(parent)).toEqual(lines);
  });

  it("is rewritten when it is ours", () => {
    expect(printed([jumpTo("OUR-A")], ["# nft rule 7", "-j RETURN"])).toEqual([
      ":OUR-A - [0:0]",
      "-A OUR-A -j RETURN",
    ]);
  });
});

describe("applyToRuleset", () => {
  const observed = parseSave("*nat\n:POSTROUTING ACCEPT [0:0]\n:OUR-A - [0:0]\n-A OUR-A -j RETURN\nCOMMIT\n");
  it.each<[string, RulesetChange]>([
    ["an insert behind the end", { op: "insert", table: "nat", chain: "OUR-A", at: 3, rule: "-j LOG" }],
    ["a deletion of what is not there", { op: "delete", table: "nat", chain: "OUR-A", rule: "-j LOG" }],
    ["a chain that is not there", { op: "insert", table: "nat", chain: "OUR-B", at: 1, rule: "-j LOG" }],
    ["a removal of what is not there", { op: "remove", table: "nat", chain: "OUR-B" }],
    [
      "more copies than there are",
      { op: "hoist", table: "nat", chain: "POSTROUTING", rule: "-j OUR-A", copies: 1 },
    ],
  ])("refuses %s, as the tool does", (_, change) => {
    expect(() => applyToRuleset(observed, [change])).toThrow(/no chain|no rule|too big/);
  });

  it("changes nothing of what it is given", () => {
    const before = structuredClone(observed);
    applyToRuleset(observed, [{ op: "insert", table: "nat", chain: "OUR-A", at: 1, rule: "-j LOG" }]);
    expect(observed).toEqual(before);
  });
});

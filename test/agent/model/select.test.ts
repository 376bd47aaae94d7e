// Selectors: the whole truth table of the four operators, everything that must be refused, and hostile
// shapes.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { matches, parseSelector, type Selector } from "../../../agent/model/select.ts";

function selector(raw: unknown): Selector {
  const parsed = parseSelector(raw, "spec.podSelector");
  if ("faults" in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.selector;
}

function faults(raw: unknown): readonly string[] {
  const parsed = parseSelector(raw, "spec.podSelector");
  return "faults" in parsed ? parsed.faults.map(({ path, text }) => `${path} ${text}`) : [];
}

describe("matches", () => {
  const expression = (operator: string, values?: readonly string[]) => ({
    matchExpressions: [{ key: "tier", operator, ...(values === undefined ? {} : { values }) }],
  });
  const absent = { app: "web" };
  const present = { tier: "front" };
  const other = { tier: "back" };
  const empty = { tier: "" };

  it.each([
    ["In", ["front", "edge"], { absent: false, present: true, other: false, empty: false }],
    ["NotIn", ["front", "edge"], { absent: true, present: false, other: true, empty: true }],
    ["Exists", undefined, { absent: false, present: true, other: true, empty: true }],
    ["Exists", [], { absent: false, present: true, other: true, empty: true }],
    ["DoesNotExist", undefined, { absent: true, present: false, other: false, empty: false }],
    ["In", [""], { absent: false, present: false, other: false, empty: true }],
    ["NotIn", [""], { absent: true, present: true, other: true, empty: false }],
  ])("%s %j", (operator, values, expected) => {
    const parsed = selector(expression(operator, values));
    expect({
      absent: matches(parsed, absent),
      present: matches(parsed, present),
      other: matches(parsed, other),
      empty: matches(parsed, empty),
    }).toEqual(expected);
  });

  it.each([
    [{}, true],
    [{ matchLabels: {} }, true],
    [{ matchLabels: null, matchExpressions: null }, true],
    [{ matchExpressions: [] }, true],
    [{ matchLabels: { app: "web" } }, true],
    [{ matchLabels: { app: "web", tier: "front" } }, true],
    [{ matchLabels: { app: "web", tier: "back" } }, false],
    [{ matchLabels: { app: "" } }, false],
    [{ matchLabels: { app: "web" }, matchExpressions: [{ key: "tier", operator: "Exists" }] }, true],
    [{ matchLabels: { app: "web" }, matchExpressions: [{ key: "tier", operator: "DoesNotExist" }] }, false],
    [
      {
        matchExpressions: [
          { key: "tier", operator: "In", values: ["front", "back"] },
          { key: "tier", operator: "NotIn", values: ["front"] },
        ],
      },
      false,
    ],
    [{ matchLabels: { "kubernetes.io/metadata.name": "prod" } }, false],
  ])("all of %j must hold", (raw, expected) => {
    expect(matches(selector(raw), { app: "web", tier: "front" })).toBe(expected);
  });

  it("does not take what objects inherit for a label", () => {
    expect(matches(selector({ matchExpressions: [{ key: "constructor", operator: "Exists" }] }), {})).toBe(
      false,
    );
    expect(matches(selector({ matchExpressions: [{ key: "toString", operator: "DoesNotExist" }] }), {})).toBe(
      true,
    );
    expect(matches(selector({ matchLabels: { constructor: "x" } }), { constructor: "x" } as never)).toBe(
      true,
    );
  });

  it("is the same selector in whatever order it is written", () => {
    const one = selector({
      matchLabels: { b: "2", a: "1" },
      matchExpressions: [{ key: "c", operator: "In", values: ["y", "x", "y"] }],
    });
    const two = selector({
      matchExpressions: [
        { key: "c", operator: "In", values: ["x", "y"] },
        { key: "a", operator: "In", values: ["1"] },
      ],
      matchLabels: { b: "2" },
    });
    expect(one).toEqual(two);
    expect(one).toEqual([
      { key: "a", operator: "In", values: ["1"] },
      { key: "b", operator: "In", values: ["2"] },
      { key: "c", operator: "In", values: ["x", "y"] },
    ]);
  });
});

describe("parseSelector refuses", () => {
  const expressions = (...matchExpressions: readonly unknown[]) => ({ matchExpressions });
  it.each([
    [undefined, "spec.podSelector must be an object, not missing"],
    [null, "spec.podSelector must be an object, not null"],
    ["app=web", 'spec.podSelector must be an object, not "app=web"'],
    [[], "spec.podSelector must be an object, not a list"],
    [7, "spec.podSelector must be an object, not the number 7"],
    [
      { matchlabels: {} },
      'spec.podSelector has the unknown field "matchlabels"; known are matchLabels, matchExpressions',
    ],
    [{ matchLabels: [] }, "spec.podSelector.matchLabels must be an object, not a list"],
    [
      { matchLabels: { app: 1 } },
      'spec.podSelector.matchLabels["app"] must be a label value, not the number 1',
    ],
    [{ matchLabels: { app: null } }, 'spec.podSelector.matchLabels["app"] must be a label value, not null'],
    [{ matchLabels: { app: "-x" } }, 'spec.podSelector.matchLabels["app"] must be a label value, not "-x"'],
    [
      { matchLabels: { app: "x\n" } },
      'spec.podSelector.matchLabels["app"] must be a label value, not "x\\n"',
    ],
    [
      { matchLabels: { app: "x".repeat(64) } },
      `spec.podSelector.matchLabels["app"] must be a label value, not "${"x".repeat(64)}"`,
    ],
    [{ matchLabels: { "a b": "x" } }, 'spec.podSelector.matchLabels["a b"] is not a valid label key'],
    [{ matchLabels: { "": "x" } }, 'spec.podSelector.matchLabels[""] is not a valid label key'],
    [{ matchLabels: { "/app": "x" } }, 'spec.podSelector.matchLabels["/app"] is not a valid label key'],
    [
      { matchLabels: { "Example.com/app": "x" } },
      'spec.podSelector.matchLabels["Example.com/app"] is not a valid label key',
    ],
    [{ matchLabels: { "a/b/c": "x" } }, 'spec.podSelector.matchLabels["a/b/c"] is not a valid label key'],
    [
      JSON.parse('{"matchLabels":{"__proto__":"x"}}'),
      'spec.podSelector.matchLabels["__proto__"] is not a valid label key',
    ],
    [{ matchExpressions: {} }, "spec.podSelector.matchExpressions must be a list, not an object"],
    [expressions("x"), 'spec.podSelector.matchExpressions[0] must be an object, not "x"'],
    [
      expressions({ key: "a", operator: "in", values: ["x"] }),
      'spec.podSelector.matchExpressions[0].operator must be In, NotIn, Exists or DoesNotExist, not "in"',
    ],
    [
      expressions({ key: "a", operator: "Gt", values: ["1"] }),
      'spec.podSelector.matchExpressions[0].operator must be In, NotIn, Exists or DoesNotExist, not "Gt"',
    ],
    [
      expressions({ key: "a" }),
      "spec.podSelector.matchExpressions[0].operator must be In, NotIn, Exists or DoesNotExist, not missing",
    ],
    [
      expressions({ operator: "Exists" }),
      "spec.podSelector.matchExpressions[0].key must be a label key, not missing",
    ],
    [
      expressions({ key: "a b", operator: "Exists" }),
      'spec.podSelector.matchExpressions[0].key must be a label key, not "a b"',
    ],
    [
      expressions({ key: "a", operator: "In" }),
      "spec.podSelector.matchExpressions[0].values must have at least one value with In",
    ],
    [
      expressions({ key: "a", operator: "In", values: null }),
      "spec.podSelector.matchExpressions[0].values must have at least one value with In",
    ],
    [
      expressions({ key: "a", operator: "In", values: [] }),
      "spec.podSelector.matchExpressions[0].values must have at least one value with In",
    ],
    [
      expressions({ key: "a", operator: "NotIn", values: [] }),
      "spec.podSelector.matchExpressions[0].values must have at least one value with NotIn",
    ],
    [
      expressions({ key: "a", operator: "In", values: "x" }),
      'spec.podSelector.matchExpressions[0].values must be a list, not "x"',
    ],
    [
      expressions({ key: "a", operator: "In", values: ["x", 1] }),
      "spec.podSelector.matchExpressions[0].values[1] must be a label value, not the number 1",
    ],
    [
      expressions({ key: "a", operator: "In", values: ["x", "y z"] }),
      'spec.podSelector.matchExpressions[0].values[1] must be a label value, not "y z"',
    ],
    [
      expressions({ key: "a", operator: "Exists", values: ["x"] }),
      "spec.podSelector.matchExpressions[0].values must be empty with Exists",
    ],
    [
      expressions({ key: "a", operator: "DoesNotExist", values: ["x"] }),
      "spec.podSelector.matchExpressions[0].values must be empty with DoesNotExist",
    ],
    [
      expressions({ key: "a", operator: "Exists", value: "x" }),
      'spec.podSelector.matchExpressions[0] has the unknown field "value"; known are key, operator, values',
    ],
  ])("%j", (raw, fault) => {
    expect(faults(raw)).toEqual([fault]);
  });

  it("all faults at once, and never a part of a selector", () => {
    const raw = { matchLabels: { good: "x", bad: 1 }, matchExpressions: [{ key: "a", operator: "In" }] };
    expect(faults(raw)).toHaveLength(2);
    expect(parseSelector(raw, "p")).not.toHaveProperty("selector");
  });

  it("label keys and values of the greatest length, and no longer", () => {
    const prefix = `${"a".repeat(63)}.${"b".repeat(63)}.${"c".repeat(63)}.${"d".repeat(61)}`;
    expect(prefix).toHaveLength(253);
    const label = (key: string, value: string) => faults({ matchLabels: { [key]: value } });
    expect(label(`${prefix}/${"N".repeat(63)}`, "v".repeat(63))).toEqual([]);
    expect(label(`${prefix}d/${"N".repeat(63)}`, "")).toHaveLength(1);
    expect(label(`${prefix}/${"N".repeat(64)}`, "")).toHaveLength(1);
    expect(label("a", "v".repeat(64))).toHaveLength(1);
  });
});

describe("any value", () => {
  const field = fc.constantFrom(
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "app",
    "__proto__",
    "constructor",
  );
  const leaf = fc.constantFrom(
    "In",
    "NotIn",
    "Exists",
    "DoesNotExist",
    "app",
    "",
    "a b",
    "é\n",
    1,
    null,
    true,
  );
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { depthSize: "medium" },
      leaf,
      fc.array(tie("tree"), { maxLength: 3 }),
      fc.array(fc.tuple(field, tie("tree")), { maxLength: 4 }).map((pairs) => Object.fromEntries(pairs)),
    ),
  }));

  it("gives a frozen selector that can be asked, or faults of one printable line", () => {
    fc.assert(
      fc.property(fc.oneof(tree, fc.jsonValue()), (raw) => {
        const parsed = parseSelector(raw, "p");
        if ("selector" in parsed) {
          expect(Object.isFrozen(parsed.selector)).toBe(true);
          expect(typeof matches(parsed.selector, { app: "web" })).toBe("boolean");
          return;
        }
        expect(parsed.faults.length).toBeGreaterThan(0);
        for (const { path, text } of parsed.faults) expect(`${path}${text}`).toMatch(/^[\x20-\x7e]+$/);
      }),
      { numRuns: 2_000 },
    );
  });
});

// Values both ways: what a message says, what a row holds, and the differences that servers send.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeValue, named } from "../../../lib/ovsdb-client/encode.ts";
import { ParseError, ValueError } from "../../../lib/ovsdb-client/errors.ts";
import type { Json } from "../../../lib/ovsdb-client/messages.ts";
import { column } from "../../../lib/ovsdb-client/tables.ts";
import type { Atom, AtomName, ColumnType, Value } from "../../../lib/ovsdb-client/types.ts";
import { applyDifference, decodeValue, defaultValue, equalValues } from "../../../lib/ovsdb-client/values.ts";

const ID = "5f3c60a9-cf5c-4f67-8518-d9bb30f050a9";
const OTHER = "16caff2e-f7dc-41f8-bff8-c9db061a757e";
const { integer, real, boolean, string, uuid, optional, set, map } = column;

describe("decoding", () => {
  const cases: readonly [string, ColumnType, Json, Value][] = [
    ["integer", integer, 5, 5],
    ["real", real, 1.5, 1.5],
    ["boolean", boolean, true, true],
    ["string", string, 'a "b" \\ é', 'a "b" \\ é'],
    ["uuid", uuid, ["uuid", ID], ID],
    ["a single value as a set", integer, ["set", [5]], 5],
    ["an optional that is there", optional(string), "x", "x"],
    ["an optional that is there, as a set", optional(uuid), ["set", [["uuid", ID]]], ID],
    ["an optional that is not", optional(string), ["set", []], undefined],
    ["an empty set", set(string), ["set", []], []],
    ["a set of one", set(string), "x", ["x"]],
    ["a set of one uuid", set(uuid), ["uuid", ID], [ID]],
    ["a set, sorted", set(integer), ["set", [10, 9, -1]], [-1, 9, 10]],
    [
      "a set of uuids",
      set(uuid),
      [
        "set",
        [
          ["uuid", ID],
          ["uuid", OTHER],
        ],
      ],
      [OTHER, ID],
    ],
    ["an empty map", map(string, string), ["map", []], {}],
    [
      "a map",
      map(string, integer),
      [
        "map",
        [
          ["b", 2],
          ["a", 1],
        ],
      ],
      { a: 1, b: 2 },
    ],
    ["a map by number", map(integer, uuid), ["map", [[7, ["uuid", ID]]]], { "7": ID }],
    ["a map by truth", map(boolean, string), ["map", [[true, "yes"]]], { true: "yes" }],
  ];

  it.each(cases)("reads %s", (_, type, json, value) => {
    const decoded = decodeValue(type, json);
    expect(decoded).toEqual(value);
    expect(Object.isFrozen(decoded)).toBe(true);
  });

  it.each(cases)("writes what it reads: %s", (_, type, json) => {
    const value = decodeValue(type, json);
    expect(decodeValue(type, encodeValue("t.c", type, value))).toEqual(value);
  });

  it.each<[string, ColumnType, Json]>([
    ["text for a number", integer, "5"],
    ["a number for text", string, 5],
    ["a number for truth", boolean, 1],
    ["a bare text for a uuid", uuid, ID],
    ["a uuid that is none", uuid, ["uuid", "x"]],
    ["a uuid in capitals", uuid, ["uuid", ID.toUpperCase()]],
    ["two values for one", integer, ["set", [1, 2]]],
    ["none for one", integer, ["set", []]],
    ["two for an optional", optional(integer), ["set", [1, 2]]],
    ["a set in a set", set(integer), ["set", [["set", [1]]]]],
    ["a map for a set", set(string), ["map", []]],
    ["a set for a map", map(string, string), ["set", []]],
    ["a pair of one", map(string, string), ["map", [["a"]]]],
    ["null", string, null],
  ])("refuses %s", (_, type, json) => {
    expect(() => decodeValue(type, json)).toThrow(ParseError);
  });

  it("keeps keys apart from what objects have anyway", () => {
    const json: Json = [
      "map",
      [
        ["__proto__", "a"],
        ["constructor", "b"],
        ["toString", "c"],
      ],
    ];
    const decoded = decodeValue(map(string, string), json) as Readonly<Record<string, Atom>>;
    expect(Object.entries(decoded)).toEqual([
      ["__proto__", "a"],
      ["constructor", "b"],
      ["toString", "c"],
    ]);
    const empty = decodeValue(map(string, string), ["map", []]) as object;
    expect(["constructor", "toString", "__proto__"].filter((name) => name in empty)).toEqual([]);
    expect(encodeValue("t.c", map(string, string), decoded)).toEqual(json);
  });

  it("sorts keys that a server sorts otherwise: by bytes", () => {
    const bytes = ["\uffee", "\u{1f988}"];
    const json: Json = ["map", bytes.map((name) => [name, 1])];
    expect(Object.keys(decodeValue(map(string, integer), json) as object)).toEqual(["\u{1f988}", "\uffee"]);
  });
});

describe("defaults", () => {
  it.each<[string, ColumnType, Value]>([
    ["integer", integer, 0],
    ["real", real, 0],
    ["boolean", boolean, false],
    ["string", string, ""],
    ["uuid", uuid, "00000000-0000-0000-0000-000000000000"],
    ["optional", optional(integer), undefined],
    ["set", set(string), []],
    ["set of one at least", { ...set(string), min: 1 }, [""]],
    ["map", map(string, string), {}],
  ])("of %s", (_, type, value) => {
    expect(defaultValue(type)).toEqual(value);
  });
});

describe("encoding", () => {
  it("writes a set in order, each member once", () => {
    expect(encodeValue("t.c", set(string), ["b", "a", "b"])).toEqual(["set", ["a", "b"]]);
  });

  it("writes rows that do not exist yet by their name", () => {
    expect(encodeValue("t.c", set(uuid), [named("new_row")])).toEqual(["set", [["named-uuid", "new_row"]]]);
    expect(encodeValue("t.c", map(string, uuid), { a: named("x") })).toEqual([
      "map",
      [["a", ["named-uuid", "x"]]],
    ]);
    expect(encodeValue("t.c", uuid, named("x"))).toEqual(["named-uuid", "x"]);
  });

  it("gives keys their type back", () => {
    expect(encodeValue("t.c", map(integer, string), { "-7": "x" })).toEqual(["map", [[-7, "x"]]]);
    expect(encodeValue("t.c", map(real, string), { "1.5": "x" })).toEqual(["map", [[1.5, "x"]]]);
    expect(encodeValue("t.c", map(uuid, string), { [ID]: "x" })).toEqual(["map", [[["uuid", ID], "x"]]]);
  });

  it("takes a part of a set where a part is meant", () => {
    expect(encodeValue("t.c", integer, [1, 2], true)).toEqual(["set", [1, 2]]);
    expect(encodeValue("t.c", set(integer), 1, true)).toBe(1);
    expect(encodeValue("t.c", { ...set(integer), min: 1 }, [], true)).toEqual(["set", []]);
  });

  it.each<[string, ColumnType, unknown]>([
    ["a fraction for an integer", integer, 1.5],
    ["an integer that JavaScript does not know exactly", integer, 2 ** 53],
    ["no number", integer, Number.NaN],
    ["an endless real", real, Infinity],
    ["text for a number", integer, "5"],
    ["nothing for a value", string, undefined],
    ["null", string, null],
    ["a name for a row", uuid, "row1"],
    ["half a character", string, "\ud83e"],
    ["a NUL", string, "a\0b"],
    ["a set for a value", string, ["a"]],
    ["a value for a set", set(string), "a"],
    ["a value for a map", map(string, string), "a"],
    ["a set for a map", map(string, string), ["a"]],
    ["a value of another type in a map", map(string, integer), { a: "1" }],
    ["a key that is no number", map(integer, string), { "07": "x" }],
    ["a key that is neither true nor false", map(boolean, string), { yes: "x" }],
    ["too few", { ...set(string), min: 1 }, []],
    ["too many", { ...set(string), max: 2 }, ["a", "b", "c"]],
  ])("refuses %s, and says where", (_, type, value) => {
    expect(() => encodeValue("NAT.type", type, value as never)).toThrow(ValueError);
    expect(() => encodeValue("NAT.type", type, value as never)).toThrow("NAT.type");
  });

  it.each(["", "1a", "a-b", "a b"])("refuses the name %j for a row", (name) => {
    expect(() => named(name)).toThrow(ValueError);
  });
});

const ATOMS: Readonly<Record<AtomName, fc.Arbitrary<Atom>>> = {
  integer: fc.maxSafeInteger(),
  real: fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => (value === 0 ? 0 : value)),
  boolean: fc.boolean(),
  string: fc.string({ unit: "grapheme" }).filter((text) => !text.includes("\0")),
  uuid: fc.uuid(),
};
const NAMES = Object.keys(ATOMS) as readonly AtomName[];

const typedValue: fc.Arbitrary<readonly [ColumnType, Value, Value]> = fc
  .tuple(
    fc.constantFrom(...NAMES),
    fc.constantFrom(...NAMES),
    fc.constantFrom("one", "optional", "set", "map"),
  )
  .chain(([key, value, shape]): fc.Arbitrary<readonly [ColumnType, Value, Value]> => {
    const atom = ATOMS[key];
    const of = { key: { type: key }, min: 0, max: Infinity } as const;
    const twice = <T extends Value>(type: ColumnType, values: fc.Arbitrary<T>) =>
      fc.tuple(fc.constant(type), values, values);
    switch (shape) {
      case "one":
        return twice({ ...of, min: 1, max: 1, shape: "one" }, atom);
      case "optional":
        return twice({ ...of, max: 1, shape: "optional" }, fc.option(atom, { nil: undefined }));
      case "set":
        return twice({ ...of, shape: "set" }, fc.uniqueArray(atom, { maxLength: 8 }));
      default:
        return twice(
          { ...of, value: { type: value }, shape: "map" },
          fc
            .array(fc.tuple(atom.map(String), ATOMS[value]), { maxLength: 8 })
            .map((pairs) => Object.fromEntries(pairs) as Readonly<Record<string, Atom>>),
        );
    }
  });

/** As servers make it: from both values in their message form. */
function differenceOf(type: ColumnType, before: Json, after: Json): Json {
  if (type.max === 1) return after;
  const items = (json: Json): readonly Json[] =>
    Array.isArray(json) && (json[0] === "set" || json[0] === "map") ? (json[1] as readonly Json[]) : [json];
  const text = JSON.stringify;
  const keyOf = (item: Json): string => text(type.shape === "map" ? (item as readonly Json[])[0] : item);
  const [old, now] = [before, after].map((json) => new Map(items(json).map((item) => [keyOf(item), item])));
  const different = [
    ...[...(now ?? [])].filter(([key, item]) => text(old?.get(key)) !== text(item)),
    ...[...(old ?? [])].filter(([key]) => now?.has(key) !== true),
  ];
  return [type.shape === "map" ? "map" : "set", different.map(([, item]) => item)];
}

describe("any value of any type", () => {
  it("is what it was after writing and reading", () => {
    fc.assert(
      fc.property(typedValue, ([type, value]) => {
        const json = encodeValue("t.c", type, value);
        const decoded = decodeValue(type, JSON.parse(JSON.stringify(json)) as Json);
        expect(encodeValue("t.c", type, decoded)).toEqual(json);
        expect(equalValues(decoded, decodeValue(type, json))).toBe(true);
        if (!Array.isArray(value)) expect(decoded).toEqual(value);
        else expect(new Set(decoded as readonly Atom[])).toEqual(new Set(value));
      }),
    );
  });

  it("becomes any other by the difference that a server would send, and only then is another", () => {
    fc.assert(
      fc.property(typedValue, ([type, before, after]) => {
        const [old, now] = [encodeValue("t.c", type, before), encodeValue("t.c", type, after)];
        const [was, is] = [decodeValue(type, old), decodeValue(type, now)];
        const result = applyDifference(type, was, differenceOf(type, old, now));
        expect(result).toEqual(is);
        expect(Object.isFrozen(result)).toBe(true);
        expect(equalValues(result, is)).toBe(true);
        expect(equalValues(was, is)).toBe(JSON.stringify(old) === JSON.stringify(now));
      }),
      { numRuns: 500 },
    );
  });
});

describe("differences", () => {
  it("take out of a set and a map what is in both, and replace the value of a key", () => {
    expect(applyDifference(set(integer), [1, 2], ["set", [2, 3]])).toEqual([1, 3]);
    expect(applyDifference(set(integer), [1], 1)).toEqual([]);
    const before = decodeValue(map(string, string), [
      "map",
      [
        ["a", "1"],
        ["b", "2"],
      ],
    ]);
    expect(
      applyDifference(map(string, string), before, [
        "map",
        [
          ["a", "1"],
          ["b", "3"],
          ["c", "4"],
        ],
      ]),
    ).toEqual({
      b: "3",
      c: "4",
    });
  });

  it("are the new value where there is one at most, of a map too", () => {
    expect(applyDifference(optional(string), "a", "b")).toBe("b");
    expect(applyDifference(optional(string), "a", ["set", []])).toBeUndefined();
    const single: ColumnType = { ...map(string, string), max: 1 };
    const before = decodeValue(single, ["map", [["a", "c"]]]);
    expect(applyDifference(single, before, ["map", [["z", "c"]]])).toEqual({ z: "c" });
  });
});

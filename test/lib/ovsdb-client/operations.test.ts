// Operations as values, as the JSON they become, and what replies mean. Nothing that a schema does not know is encoded.
import { describe, expect, it } from "vitest";
import { decodeResults, encodeOperations } from "../../../lib/ovsdb-client/encode-operations.ts";
import {
  OperationError,
  ParseError,
  UnknownColumnError,
  ValueError,
} from "../../../lib/ovsdb-client/errors.ts";
import type { Json } from "../../../lib/ovsdb-client/messages.ts";
import {
  abort,
  assertLock,
  byUuid,
  comment,
  commit,
  insert,
  mutate,
  named,
  type Operation,
  remove,
  select,
  type Uuid,
  update,
  wait,
} from "../../../lib/ovsdb-client/pure.ts";
import { Animal, Cage, idOf, zooSchema } from "./zoo.ts";

const ID = idOf(1) as Uuid;
const TWO = idOf(2) as Uuid;

describe("operations", () => {
  const cases: readonly [string, Operation, Json][] = [
    [
      "insert",
      insert(
        Cage,
        { name: "a", note: undefined, animals: [named("cat")], labels: { b: "2", a: "1" } },
        { name: "c" },
      ),
      {
        op: "insert",
        table: "Cage",
        row: {
          animals: ["set", [["named-uuid", "cat"]]],
          labels: [
            "map",
            [
              ["a", "1"],
              ["b", "2"],
            ],
          ],
          name: "a",
          note: ["set", []],
        },
        "uuid-name": "c",
      },
    ],
    [
      "insert with a uuid of ours",
      insert(Animal, { legs: 4 }, { uuid: ID }),
      { op: "insert", table: "Animal", row: { legs: 4 }, uuid: ID },
    ],
    ["select", select(Cage, []), { op: "select", table: "Cage", where: [] }],
    [
      "select of some columns",
      select("Cage", [["size", ">=", 5], true], ["name", "_uuid"]),
      { op: "select", table: "Cage", where: [["size", ">=", 5], true], columns: ["name", "_uuid"] },
    ],
    [
      "update",
      update(Cage, byUuid(ID), { open: true, favourite: ID }),
      {
        op: "update",
        table: "Cage",
        where: [["_uuid", "==", ["uuid", ID]]],
        row: { favourite: ["uuid", ID], open: true },
      },
    ],
    [
      "mutate",
      mutate(Cage, byUuid(named("c")), [
        ["size", "+=", 1],
        ["weights", "*=", 2],
        ["tags", "insert", ["x", "y"]],
        ["tags", "delete", "z"],
        ["animals", "delete", [TWO, ID]],
        ["labels", "insert", { a: "1" }],
        ["labels", "delete", ["a", "b"]],
        ["labels", "delete", { a: "1" }],
        ["note", "insert", "n"],
      ]),
      {
        op: "mutate",
        table: "Cage",
        where: [["_uuid", "==", ["named-uuid", "c"]]],
        mutations: [
          ["size", "+=", 1],
          ["weights", "*=", 2],
          ["tags", "insert", ["set", ["x", "y"]]],
          ["tags", "delete", "z"],
          [
            "animals",
            "delete",
            [
              "set",
              [
                ["uuid", ID],
                ["uuid", TWO],
              ],
            ],
          ],
          ["labels", "insert", ["map", [["a", "1"]]]],
          ["labels", "delete", ["set", ["a", "b"]]],
          ["labels", "delete", ["map", [["a", "1"]]]],
          ["note", "insert", "n"],
        ],
      },
    ],
    [
      "delete",
      remove(Cage, [
        ["tags", "includes", ["a"]],
        ["labels", "excludes", { k: "v" }],
        ["note", "==", undefined],
      ]),
      {
        op: "delete",
        table: "Cage",
        where: [
          ["tags", "includes", ["set", ["a"]]],
          ["labels", "excludes", ["map", [["k", "v"]]]],
          ["note", "==", ["set", []]],
        ],
      },
    ],
    [
      "wait",
      wait(Cage, [["name", "==", "a"]], "==", [{ name: "a", size: 5 }, { size: 6 }]),
      {
        op: "wait",
        table: "Cage",
        where: [["name", "==", "a"]],
        columns: ["name", "size"],
        until: "==",
        rows: [{ name: "a", size: 5 }, { size: 6 }],
        timeout: 0,
      },
    ],
    [
      "wait for nothing to be there",
      wait(Cage, [["name", "==", "a"]], "!=", [], { columns: ["name"], timeout: 50 }),
      {
        op: "wait",
        table: "Cage",
        where: [["name", "==", "a"]],
        columns: ["name"],
        until: "!=",
        rows: [],
        timeout: 50,
      },
    ],
    ["commit", commit(true), { op: "commit", durable: true }],
    ["abort", abort(), { op: "abort" }],
    ["comment", comment("why"), { op: "comment", comment: "why" }],
    ["assert", assertLock("l"), { op: "assert", lock: "l" }],
  ];

  it.each(cases)("become JSON: %s", (_, operation, json) => {
    expect(encodeOperations(zooSchema, [operation])).toEqual([json]);
  });

  it.each<[string, Operation]>([
    ["insert", { op: "insert", table: "Cage", row: { wings: 2 } }],
    ["select", { op: "select", table: "Cage", where: [], columns: ["wings"] }],
    ["select where", { op: "select", table: "Cage", where: [["wings", "==", 2]] }],
    ["update", { op: "update", table: "Cage", where: [], row: { wings: 2 } }],
    ["update where", { op: "update", table: "Cage", where: [["wings", "==", 2]], row: {} }],
    ["mutate", { op: "mutate", table: "Cage", where: [], mutations: [["wings", "+=", 2]] }],
    ["delete", { op: "delete", table: "Cage", where: [["wings", "==", 2]] }],
    ["wait", { op: "wait", table: "Cage", where: [], columns: ["wings"], until: "==", rows: [] }],
    [
      "wait for rows",
      { op: "wait", table: "Cage", where: [], columns: [], until: "==", rows: [{ wings: 2 }] },
    ],
  ])("are refused with a column that the schema lacks: %s", (_, operation) => {
    expect(() => encodeOperations(zooSchema, [operation])).toThrow(new UnknownColumnError("Cage", "wings"));
  });

  it("are refused with a table that the schema lacks", () => {
    const operations: readonly Operation[] = [select("Aviary", [])];
    expect(() => encodeOperations(zooSchema, operations)).toThrow(new UnknownColumnError("Aviary"));
  });

  it("are refused with values that cannot be meant", () => {
    const odd: readonly Operation[] = [
      { op: "insert", table: "Cage", row: { size: "5" } },
      { op: "mutate", table: "Cage", where: [], mutations: [["size", "insert", 5]] },
      { op: "mutate", table: "Cage", where: [], mutations: [["size", "+=", [5]]] },
      { op: "mutate", table: "Cage", where: [], mutations: [["weights", "+=", "5"]] },
      { op: "delete", table: "Cage", where: [["size", "<", true]] },
    ];
    for (const operation of odd) expect(() => encodeOperations(zooSchema, [operation])).toThrow(ValueError);
  });
});

describe("replies", () => {
  const every = [
    insert(Animal, {}),
    select(Cage, []),
    update(Cage, [], {}),
    mutate(Cage, [], []),
    remove(Cage, []),
    wait(Cage, [], "==", []),
    commit(false),
    comment(""),
    assertLock("l"),
  ] as const;

  it("give each operation its result", () => {
    const rows: Json = [{ _uuid: ["uuid", ID], size: 5, tags: "x", _version: ["uuid", TWO] }];
    const reply: Json = [
      { uuid: ["uuid", ID] },
      { rows },
      { count: 1 },
      { count: 2 },
      { count: 0 },
      {},
      {},
      {},
      {},
    ];
    expect(decodeResults(zooSchema, every, reply)).toEqual([
      { uuid: ID },
      { rows: [{ _uuid: ID, size: 5, tags: ["x"], _version: TWO }] },
      { count: 1 },
      { count: 2 },
      { count: 0 },
      {},
      {},
      {},
      {},
    ]);
  });

  it("name the operation that failed, and why", () => {
    const operations = [comment("first"), remove(Cage, []), abort()];
    const reply: Json = [{}, { error: "constraint violation", details: "so it is", syntax: "[5]" }, null];
    const error = thrown(() => decodeResults(zooSchema, operations, reply));
    expect(error).toBeInstanceOf(OperationError);
    expect(error).toMatchObject({
      index: 1,
      operation: operations[1],
      error: "constraint violation",
      details: "so it is; syntax [5]",
    });
    expect((error as Error).message).toContain('"op":"delete"');
  });

  it("name the commit when it is that which failed", () => {
    const reply: Json = [{}, { error: "referential integrity violation", details: "" }];
    expect(thrown(() => decodeResults(zooSchema, [comment("x")], reply))).toMatchObject({
      index: 1,
      operation: undefined,
      error: "referential integrity violation",
      message: "commit: referential integrity violation",
    });
  });

  it.each<[string, Json]>([
    ["no array", {}],
    ["too few", []],
    ["null", [null]],
    ["no uuid", [{ count: 1 }]],
    ["a uuid that is none", [{ uuid: ["uuid", "x"] }]],
  ])("that are none are refused: %s", (_, reply) => {
    expect(() => decodeResults(zooSchema, [insert(Animal, {})], reply)).toThrow(ParseError);
  });
});

function thrown(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}

// The replica: whole contents, updates in every form, what is told of them, and look-ups. Held against a plain model.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeValue } from "../../../lib/ovsdb-client/encode.ts";
import { ParseError, SettingError } from "../../../lib/ovsdb-client/errors.ts";
import type { Json } from "../../../lib/ovsdb-client/messages.ts";
import {
  column,
  createReplica,
  defineTable,
  parseSchema,
  parseUpdates,
  type Uuid,
} from "../../../lib/ovsdb-client/pure.ts";
import { Animal, Cage, idOf, ZOO_SCHEMA, zooSchema } from "./zoo.ts";

const [ONE, TWO, THREE] = [1, 2, 3].map((n) => idOf(n) as Uuid) as [Uuid, Uuid, Uuid];
const animals = (rows: Json): Json => ({ Animal: rows });

/** A replica of animals that holds these. */
function holding(rows: Readonly<Record<string, Json>>) {
  const replica = createReplica([Animal, Cage]);
  const initial = Object.fromEntries(Object.entries(rows).map(([uuid, row]) => [uuid, { initial: row }]));
  const changes = replica.replaceAll(zooSchema, parseUpdates(2, animals(initial)));
  const told = (form: 1 | 2, json: Json) => replica.apply(parseUpdates(form, json));
  return { replica, table: replica.table(Animal), changes, told };
}

describe("contents", () => {
  it("are rows that cannot be changed, with the default where a column is left out", () => {
    const { table, changes } = holding({ [ONE]: { name: "cat", legs: 4 }, [TWO]: { name: "snake" } });
    expect([...table.rows.values()]).toEqual([
      { _uuid: ONE, name: "cat", legs: 4 },
      { _uuid: TWO, name: "snake", legs: 0 },
    ]);
    expect([...table.rows.values()].every(Object.isFrozen)).toBe(true);
    expect(changes.of(Animal)).toHaveLength(2);
    expect(changes.of(Cage)).toEqual([]);
  });

  it("replaced by equal ones are the same objects, and nothing is told", () => {
    const { replica, table } = holding({ [ONE]: { name: "cat", legs: 4 }, [TWO]: { name: "snake" } });
    const [before, version] = [[...table.rows.values()], replica.version];
    const again = { [TWO]: { initial: { name: "snake" } }, [ONE]: { initial: { legs: 4, name: "cat" } } };
    const changes = replica.replaceAll(zooSchema, parseUpdates(2, animals(again)));
    expect(changes.tables.size).toBe(0);
    expect(replica.version).toBe(version);
    expect([...table.rows.values()].every((row, at) => row === before[at])).toBe(true);
  });

  it("replaced by others tell what is gone, new and different", () => {
    const { replica, table } = holding({ [ONE]: { name: "cat" }, [TWO]: { name: "snake" } });
    const rows = table.rows;
    const next = { [ONE]: { initial: { name: "tiger" } }, [THREE]: { initial: { name: "owl" } } };
    const changes = replica.replaceAll(zooSchema, parseUpdates(2, animals(next))).of(Animal);
    expect(changes.map(({ uuid, before, after }) => [uuid, before?.name, after?.name])).toEqual([
      [TWO, "snake", undefined],
      [ONE, "cat", "tiger"],
      [THREE, undefined, "owl"],
    ]);
    expect(table.rows).toBe(rows);
    expect([...rows.keys()]).toEqual([ONE, THREE]);
  });

  it("of another schema have its columns", () => {
    const replica = createReplica([defineTable("Animal")]);
    const rows = animals({ [ONE]: { initial: { name: "cat" } } });
    replica.replaceAll(zooSchema, parseUpdates(2, rows));
    const { Animal: was, ...others } = ZOO_SCHEMA.tables;
    const columns = { ...was.columns, wings: { type: "integer" } };
    const wider = parseSchema({ ...ZOO_SCHEMA, tables: { ...others, Animal: { columns } } });
    expect(replica.replaceAll(wider, parseUpdates(2, rows)).tables.get("Animal")).toHaveLength(1);
    expect([...replica.table("Animal").rows.values()]).toEqual([
      { _uuid: ONE, name: "cat", legs: 0, wings: 0 },
    ]);
    expect(replica.replaceAll(zooSchema, parseUpdates(2, rows)).tables.get("Animal")).toHaveLength(1);
    expect([...replica.table("Animal").rows.values()]).toEqual([{ _uuid: ONE, name: "cat", legs: 0 }]);
  });

  it("have the default where the schema lacks a column that is defined with its kind", () => {
    const Winged = defineTable("Animal", { name: column.string, wings: column.set(column.string) });
    const replica = createReplica([Winged]);
    replica.replaceAll(zooSchema, parseUpdates(2, animals({ [ONE]: { initial: { name: "owl" } } })));
    expect(replica.table(Winged).rows.get(ONE)).toEqual({ _uuid: ONE, name: "owl", wings: [] });
  });
});

describe("updates", () => {
  it.each<[string, 1 | 2, Json, readonly [string, string | undefined, string | undefined][]]>([
    ["update: new", 1, { [THREE]: { new: { name: "owl", legs: 2 } } }, [[THREE, undefined, "owl 2"]]],
    [
      "update: old and new",
      1,
      { [ONE]: { old: { name: "cat" }, new: { name: "lion", legs: 4 } } },
      [[ONE, "cat 4", "lion 4"]],
    ],
    ["update: old", 1, { [ONE]: { old: { name: "cat", legs: 4 } } }, [[ONE, "cat 4", undefined]]],
    ["update2: insert", 2, { [THREE]: { insert: { name: "owl" } } }, [[THREE, undefined, "owl 0"]]],
    ["update2: modify", 2, { [ONE]: { modify: { legs: 3 } } }, [[ONE, "cat 4", "cat 3"]]],
    ["update2: delete", 2, { [ONE]: { delete: null } }, [[ONE, "cat 4", undefined]]],
    ["update2: delete with the row", 2, { [ONE]: { delete: { name: "cat" } } }, [[ONE, "cat 4", undefined]]],
    ["nothing that we asked for", 2, { [ONE]: { modify: { _version: ["uuid", TWO] } } }, []],
    ["the value that it is", 2, { [ONE]: { modify: { legs: 4 } } }, []],
    ["a row anew that is the same", 2, { [ONE]: { insert: { name: "cat", legs: 4 } } }, []],
  ])("%s", (_, form, json, expected) => {
    const { table, told, replica } = holding({ [ONE]: { name: "cat", legs: 4 }, [TWO]: { name: "snake" } });
    const [snake, version] = [table.rows.get(TWO), table.version];
    const text = (row: { name: string; legs: number } | undefined) => row && `${row.name} ${row.legs}`;
    const changes = told(form, animals(json)).of(Animal);
    expect(changes.map(({ uuid, before, after }) => [uuid, text(before), text(after)])).toEqual(expected);
    for (const { uuid, after } of changes) expect(table.rows.get(uuid)).toBe(after);
    expect(table.version).toBe(version + Math.min(1, expected.length));
    expect(table.rows.get(TWO)).toBe(snake);
    expect(replica.table(Cage).version).toBe(0);
  });

  it.each<[string, Json]>([
    ["a change of a row that is not there", { Animal: { [THREE]: { modify: { legs: 1 } } } }],
    ["an end of a row that is not there", { Animal: { [THREE]: { delete: null } } }],
    ["a value of another type", { Animal: { [ONE]: { modify: { legs: "four" } } } }],
    ["a table that was not asked for", { Keeper: { [ONE]: { insert: {} } } }],
  ])("that make no sense change nothing at all: %s", (_, odd) => {
    const { replica, table, told } = holding({ [ONE]: { name: "cat", legs: 4 } });
    const byName = table.lookup("name");
    const before = [...table.rows];
    const { Animal: rows = {}, ...others } = odd as {
      readonly [table: string]: { readonly [uuid: string]: Json };
    };
    const message = { ...others, Animal: { [TWO]: { insert: { name: "owl" } }, ...rows } };
    const version = replica.version;
    expect(() => told(2, message)).toThrow(ParseError);
    expect([...table.rows]).toEqual(before);
    expect([replica.version, byName.get("owl").size]).toEqual([version, 0]);
  });

  it("are refused among the first contents", () => {
    const replica = createReplica([Animal]);
    const odd = parseUpdates(2, animals({ [ONE]: { modify: { legs: 1 } } }));
    expect(() => replica.replaceAll(zooSchema, odd)).toThrow(ParseError);
  });

  it.each<[string, 1 | 2, Json]>([
    ["no object", 2, []],
    ["no uuid", 2, { Animal: { x: { delete: null } } }],
    ["nothing known", 2, { Animal: { [ONE]: { move: {} } } }],
    ["neither old nor new", 1, { Animal: { [ONE]: {} } }],
    ["no rows", 1, { Animal: 5 }],
  ])("that are none are refused: %s", (_, form, json) => {
    expect(() => parseUpdates(form, json)).toThrow(ParseError);
  });
});

describe("tables", () => {
  it("that were not asked for, or twice, are mistakes", () => {
    expect(() => createReplica([Animal]).table(Cage)).toThrow(SettingError);
    expect(() => createReplica([Animal, Animal])).toThrow(SettingError);
  });

  it("that the schema lacks are empty", () => {
    const Aviary = defineTable("Aviary", ["name"]);
    const replica = createReplica([Aviary]);
    replica.replaceAll(zooSchema, []);
    expect(replica.table(Aviary).rows.size).toBe(0);
  });
});

describe("look-ups", () => {
  it("know what was there before, and follow", () => {
    const { table, told } = holding({ [ONE]: { name: "cat", legs: 4 }, [TWO]: { name: "dog", legs: 4 } });
    const byLegs = table.lookup("legs");
    const byInitial = table.lookup(({ name }) => name[0]);
    const names = (rows: ReadonlyMap<Uuid, { name: string }>) => [...rows.values()].map(({ name }) => name);
    expect(names(byLegs.get(4))).toEqual(["cat", "dog"]);
    told(
      2,
      animals({
        [ONE]: { modify: { legs: 3 } },
        [THREE]: { insert: { name: "duck" } },
        [TWO]: { delete: null },
      }),
    );
    expect([names(byLegs.get(4)), names(byLegs.get(3)), names(byLegs.get(0))]).toEqual([
      [],
      ["cat"],
      ["duck"],
    ]);
    expect(new Set(byInitial.keys())).toEqual(new Set(["c", "d"]));
    expect(names(byInitial.get("d"))).toEqual(["duck"]);
  });

  it("take each member of a set for a key, and leave out what has none", () => {
    const replica = createReplica([Cage]);
    const byAnimal = replica.table(Cage).lookup("animals");
    const byNote = replica.table(Cage).lookup("note");
    const both: Json = [
      "set",
      [
        ["uuid", ONE],
        ["uuid", TWO],
      ],
    ];
    replica.replaceAll(zooSchema, parseUpdates(2, { Cage: { [THREE]: { initial: { animals: both } } } }));
    expect([ONE, TWO, THREE].map((uuid) => byAnimal.get(uuid).size)).toEqual([1, 1, 0]);
    expect([...byNote.keys()]).toEqual([]);
    replica.apply(parseUpdates(2, { Cage: { [THREE]: { modify: { animals: ["uuid", ONE], note: "x" } } } }));
    expect([ONE, TWO].map((uuid) => byAnimal.get(uuid).size)).toEqual([0, 1]);
    expect([...byNote.keys()]).toEqual(["x"]);
  });

  it("whose function throws change nothing", () => {
    const { table, told } = holding({});
    table.lookup(({ legs }) => {
      if (legs > 100) throw new RangeError("too many legs");
      return legs;
    });
    expect(() => told(2, animals({ [ONE]: { insert: { legs: 200 } } }))).toThrow(RangeError);
    expect(table.rows.size).toBe(0);
  });

  it("by a map are a mistake that is said", () => {
    const replica = createReplica([Cage]);
    replica.replaceAll(zooSchema, parseUpdates(2, { Cage: { [ONE]: { initial: {} } } }));
    expect(() => replica.table(Cage).lookup("labels")).toThrow(TypeError);
  });
});

describe("any sequence of updates, in either form", () => {
  interface Beast {
    readonly name: string;
    readonly legs: number;
  }
  const beast = fc.record({ name: fc.constantFrom("", "cat", "dog", "owl"), legs: fc.constantFrom(0, 2, 4) });
  const step = fc.record({
    form: fc.constantFrom(1, 2) as fc.Arbitrary<1 | 2>,
    rows: fc.dictionary(
      fc.nat(5).map((n) => idOf(n)),
      fc.option(beast, { nil: undefined }),
      { maxKeys: 4, noNullPrototype: true },
    ),
    whole: fc.nat(9).map((n) => n === 0),
  });

  /** As a server would tell it that knows `was`. */
  function told(
    form: 1 | 2,
    was: ReadonlyMap<string, Beast>,
    rows: Readonly<Record<string, Beast | undefined>>,
  ): Json {
    const json = ({ name, legs }: Beast): Json => ({
      name: encodeValue("", column.string, name),
      legs: encodeValue("", column.integer, legs),
    });
    const changes: Record<string, Json> = {};
    for (const [uuid, now] of Object.entries(rows)) {
      const before = was.get(uuid);
      if (now === undefined) {
        if (before !== undefined) changes[uuid] = form === 1 ? { old: json(before) } : { delete: null };
      } else if (form === 1) changes[uuid] = { new: json(now), ...(before === undefined ? {} : { old: {} }) };
      else changes[uuid] = before === undefined ? { insert: json(now) } : { modify: json(now) };
    }
    return { Animal: changes };
  }

  it("ends with the rows that the server has, and tells each real change once", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const model = new Map<string, Beast>();
        const replica = createReplica([Animal]);
        const table = replica.table(Animal);
        const byName = table.lookup("name");
        replica.replaceAll(zooSchema, []);
        for (const { form, rows, whole } of steps) {
          const before = new Map(table.rows);
          const update = told(form, whole ? new Map() : model, rows);
          if (whole) model.clear();
          for (const [uuid, row] of Object.entries(rows)) {
            if (row === undefined) model.delete(uuid);
            else model.set(uuid, row);
          }
          const updates = parseUpdates(form, update);
          const changes = (whole ? replica.replaceAll(zooSchema, updates) : replica.apply(updates)).of(
            Animal,
          );
          const found = new Map(
            [...table.rows].map(([uuid, { name, legs }]) => [uuid as string, { name, legs }]),
          );
          expect(found).toEqual(model);
          const touched = new Set(changes.map(({ uuid }) => uuid));
          expect(touched.size).toBe(changes.length);
          for (const uuid of new Set([...before.keys(), ...table.rows.keys()])) {
            const same = before.get(uuid) === table.rows.get(uuid);
            expect(touched.has(uuid)).toBe(!same);
            const [was, is] = [before.get(uuid), table.rows.get(uuid)];
            if (!same && was && is) expect([was.name, was.legs]).not.toEqual([is.name, is.legs]);
          }
          for (const name of ["", "cat", "dog", "owl"]) {
            const expected = [...table.rows.values()].filter((row) => row.name === name);
            expect(new Set(byName.get(name).values())).toEqual(new Set(expected));
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});

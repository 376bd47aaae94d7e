// Schemas and definitions: what a server's schema says, and how what we want is held against it.
import { describe, expect, it } from "vitest";
import { ParseError, SchemaMismatchError, UnknownColumnError } from "../../../lib/ovsdb-client/errors.ts";
import type { Json } from "../../../lib/ovsdb-client/messages.ts";
import { columnOf, hasColumn, hasTable, parseSchema, tableOf } from "../../../lib/ovsdb-client/schema.ts";
import { column, defineTable, wantedColumns } from "../../../lib/ovsdb-client/tables.ts";
import { type Animal, Cage, zooSchema } from "./zoo.ts";

describe("a schema", () => {
  it("says which tables and columns there are", () => {
    expect([zooSchema.name, zooSchema.version, [...zooSchema.tables.keys()]]).toEqual([
      "Zoo",
      "1.0.0",
      ["Cage", "Animal", "Keeper"],
    ]);
    expect([hasTable(zooSchema, "Cage"), hasTable(zooSchema, "Aviary")]).toEqual([true, false]);
    expect(["size", "_uuid", "_version", "wings"].map((name) => hasColumn(zooSchema, "Cage", name))).toEqual([
      true,
      true,
      true,
      false,
    ]);
    expect(hasColumn(zooSchema, "Aviary", "_uuid")).toBe(false);
  });

  it("says what a table is like", () => {
    expect(tableOf(zooSchema, "Cage")).toMatchObject({
      isRoot: true,
      maxRows: Infinity,
      indexes: [["name"]],
    });
    expect(tableOf(zooSchema, "Animal")).toMatchObject({ isRoot: false, maxRows: Infinity, indexes: [] });
    expect(tableOf(zooSchema, "Keeper")).toMatchObject({ isRoot: true, maxRows: 2 });
  });

  it.each([
    ["name", { shape: "one", key: { type: "string" }, min: 1, max: 1, mutable: true, ephemeral: false }],
    ["climate", { shape: "one", key: { type: "string", enum: ["dry", "wet", ""] } }],
    ["note", { shape: "optional", min: 0, max: 1 }],
    ["tags", { shape: "set", min: 0, max: Infinity }],
    ["counts", { shape: "map", key: { type: "integer" }, value: { type: "integer" } }],
    ["single", { shape: "map", max: 1 }],
    ["built", { mutable: false }],
    ["animals", { shape: "set", key: { type: "uuid", refTable: "Animal", refType: "strong" } }],
    ["favourite", { shape: "optional", key: { type: "uuid", refTable: "Animal", refType: "weak" } }],
    ["_uuid", { shape: "one", key: { type: "uuid" }, mutable: false }],
  ])("says what column %s holds", (name, expected) => {
    expect(columnOf(tableOf(zooSchema, "Cage"), name)).toMatchObject({ name, ...expected });
  });

  it("says by name what it does not have", () => {
    expect(() => tableOf(zooSchema, "Aviary")).toThrow(new UnknownColumnError("Aviary"));
    expect(() => columnOf(tableOf(zooSchema, "Cage"), "wings")).toThrow(
      new UnknownColumnError("Cage", "wings"),
    );
  });

  it.each<[string, Json]>([
    ["text", "schema"],
    ["no name", { tables: {} }],
    ["no tables", { name: "x" }],
    ["a table that is none", { name: "x", tables: { T: 5 } }],
    ["no columns", { name: "x", tables: { T: {} } }],
    ["a type that is none", { name: "x", tables: { T: { columns: { c: { type: "date" } } } } }],
    [
      "a minimum of two",
      { name: "x", tables: { T: { columns: { c: { type: { key: "string", min: 2 } } } } } },
    ],
  ])("that is none is refused: %s", (_, json) => {
    expect(() => parseSchema(json)).toThrow(ParseError);
  });

  it("may have no version, and an enum of one", () => {
    const schema = parseSchema({
      name: "x",
      tables: { T: { columns: { c: { type: { key: { type: "string", enum: "only" } } } } } },
    });
    expect(schema.version).toBe("");
    expect(columnOf(tableOf(schema, "T"), "c").key.enum).toEqual(["only"]);
  });
});

describe("a definition", () => {
  it("of every kind agrees with the schema", () => {
    const wanted = wantedColumns(Cage, zooSchema);
    expect(wanted?.map(({ name }) => name)).toEqual(Cage.columns);
    expect(wanted?.every(({ read }) => read)).toBe(true);
  });

  it("without columns wants all", () => {
    expect(wantedColumns(defineTable("Animal"), zooSchema)?.map(({ name }) => name)).toEqual([
      "name",
      "legs",
    ]);
  });

  it("by names wants those that the schema has", () => {
    const wanted = wantedColumns(defineTable("Animal", ["legs", "wings", "_uuid"]), zooSchema);
    expect(wanted?.map(({ name, read }) => [name, read])).toEqual([["legs", true]]);
  });

  it("with kinds knows what a column would hold that the schema lacks", () => {
    const wanted = wantedColumns(defineTable("Animal", { wings: column.set(column.string) }), zooSchema);
    expect(wanted).toMatchObject([{ name: "wings", read: false, type: { shape: "set" } }]);
  });

  it("of a table that the schema lacks wants nothing", () => {
    expect(wantedColumns(defineTable("Aviary", ["a"]), zooSchema)).toBeUndefined();
  });

  it.each([
    ["integer for text", column.integer, "is string, not integer"],
    ["an optional for a value", column.optional(column.string), "is string, not optional of string"],
    ["a set for a value", column.set(column.string), "is string, not set of string"],
    ["a map for a value", column.map(column.string, column.uuid), "is string, not map of string to uuid"],
  ])("that says another type is refused: %s", (_, kind, words) => {
    const definition = defineTable("Animal", { name: kind });
    expect(() => wantedColumns(definition, zooSchema)).toThrow(SchemaMismatchError);
    expect(() => wantedColumns(definition, zooSchema)).toThrow(`Animal.name ${words}`);
  });

  it("gives rows their types", () => {
    const row: Partial<NonNullable<(typeof Animal)["row"]>> = { name: "x", legs: 4 };
    // @ts-expect-error legs are a number
    const wrong: Partial<NonNullable<(typeof Animal)["row"]>> = { legs: "4" };
    expect([row, wrong]).toHaveLength(2);
  });
});

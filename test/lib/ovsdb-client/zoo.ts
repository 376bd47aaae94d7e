// A database for tests: one column of every shape, tables that refer to each other. In: nothing. Out: its schema as a
// server gives it, and definitions to read it by.
import type { Json } from "../../../lib/ovsdb-client/messages.ts";
import { column, defineTable, parseSchema } from "../../../lib/ovsdb-client/pure.ts";

const set = (key: Json, min = 0, max: number | "unlimited" = "unlimited"): Json => ({
  type: { key, min, max },
});
const map = (key: Json, value: Json, max: number | "unlimited" = "unlimited"): Json => ({
  type: { key, value, min: 0, max },
});

export const ZOO_SCHEMA = {
  name: "Zoo",
  version: "1.0.0",
  tables: {
    Cage: {
      isRoot: true,
      indexes: [["name"]],
      columns: {
        name: { type: "string" },
        size: { type: { key: { type: "integer", minInteger: 0, maxInteger: 100 } } },
        climate: { type: { key: { type: "string", enum: ["set", ["dry", "wet", ""]] } } },
        open: { type: "boolean" },
        heat: { type: "real" },
        note: set("string", 0, 1),
        number: set("integer", 0, 1),
        tags: set("string"),
        weights: set("integer"),
        labels: map("string", "string"),
        counts: map("integer", "integer"),
        single: map("string", "string", 1),
        built: { type: "integer", mutable: false },
        animals: set({ type: "uuid", refTable: "Animal", refType: "strong" }),
        favourite: set({ type: "uuid", refTable: "Animal", refType: "weak" }, 0, 1),
        byName: map("string", { type: "uuid", refTable: "Animal", refType: "strong" }),
      },
    },
    // Not a root: an animal without a cage is gone.
    Animal: { columns: { name: { type: "string" }, legs: { type: "integer" } } },
    Keeper: {
      isRoot: true,
      maxRows: 2,
      columns: { name: { type: "string" }, on_duty: { type: "boolean", ephemeral: true } },
    },
  },
} satisfies Json;

export const zooSchema = parseSchema(ZOO_SCHEMA);

export const Cage = defineTable("Cage", {
  name: column.string,
  size: column.integer,
  climate: column.string,
  open: column.boolean,
  heat: column.real,
  note: column.optional(column.string),
  number: column.optional(column.integer),
  tags: column.set(column.string),
  weights: column.set(column.integer),
  labels: column.map(column.string, column.string),
  counts: column.map(column.integer, column.integer),
  single: column.map(column.string, column.string),
  built: column.integer,
  animals: column.set(column.uuid),
  favourite: column.optional(column.uuid),
  byName: column.map(column.string, column.uuid),
});

export const Animal = defineTable("Animal", { name: column.string, legs: column.integer });
export const Keeper = defineTable("Keeper", { name: column.string, on_duty: column.boolean });

/** The n-th of a row of uuids. */
export const idOf = (n: number) => `00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;

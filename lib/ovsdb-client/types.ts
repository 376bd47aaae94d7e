// What a column can hold (RFC 7047, 3.2), and what that is in TypeScript. Pure; types only, but for `isUuid`.

declare const brand: unique symbol;

/** A row's name: 36 characters, lower case. A text of its own kind, so that a name is not taken for one. */
export type Uuid = string & { readonly [brand]: "uuid" };

/** Stands for the uuid that a row gets which the same transaction inserts under that name (RFC 7047, 5.1). */
export interface NamedUuid {
  readonly named: string;
}

export type AtomName = "integer" | "real" | "boolean" | "string" | "uuid";
export type Atom = string | number | boolean;

/**
 * What is read: by the column's shape
 *
 *     one       1..1    the atom
 *     optional  0..1    the atom, or undefined
 *     set       other   sorted frozen array
 *     map               frozen object without prototype, sorted; keys that are no strings are in text: { "5": … }
 */
export type Value = Atom | undefined | readonly Atom[] | Readonly<Record<string, Atom>>;

type WrittenAtom = Atom | NamedUuid;

/** What may be written: as it is read, and with rows that do not exist yet by name. Order and doubles of a set are nothing. */
export type WrittenValue =
  | WrittenAtom
  | undefined
  | readonly WrittenAtom[]
  | Readonly<Record<string, WrittenAtom>>;

export interface Row {
  readonly _uuid: Uuid;
  readonly [column: string]: Value;
}

export type Shape = "one" | "optional" | "set" | "map";

export interface BaseType {
  readonly type: AtomName;
  readonly enum?: readonly Atom[];
  readonly refTable?: string;
  readonly refType?: "strong" | "weak";
}

export interface ColumnType {
  readonly key: BaseType;
  /** Of maps only. */
  readonly value?: BaseType;
  readonly min: 0 | 1;
  /** Infinity for "unlimited". */
  readonly max: number;
  readonly shape: Shape;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export const isUuid = (value: unknown): value is Uuid => typeof value === "string" && UUID.test(value);

export const ZERO_UUID = "00000000-0000-0000-0000-000000000000" as Uuid;

export function shapeOf(isMap: boolean, min: number, max: number): Shape {
  if (isMap) return "map";
  if (max !== 1) return "set";
  return min === 1 ? "one" : "optional";
}

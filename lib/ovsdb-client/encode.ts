// Plain values to the form they have in messages (RFC 7047, 5.1). In: a value and its column's type. Out: JSON, or a
// ValueError before anything is sent: what the server would only find later, or take for something else. Pure.
import { ValueError } from "./errors.ts";
import type { Json } from "./messages.ts";
import { type AtomName, type ColumnType, isUuid, type NamedUuid, type WrittenValue } from "./types.ts";
import { compareAtoms } from "./values.ts";

/** Stands for the row that the same transaction inserts with that `named` (RFC 7047, 5.1: <named-uuid>). */
export function named(name: string): NamedUuid {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw new ValueError(`not a name for a new row: ${name}`);
  return Object.freeze({ named: name });
}

/**
 * `part`: for conditions and mutations, where a set need not be one that the column could hold. Throws ValueError.
 */
export function encodeValue(where: string, type: ColumnType, value: WrittenValue, part = false): Json {
  if (type.shape === "map") {
    if (!isRecord(value)) throw new ValueError(`${where}: not a map: ${shown(value)}`);
    return encodeMap(where, type, value, part);
  }
  if (isArray(value)) {
    if (type.shape !== "set" && !part)
      throw new ValueError(`${where}: more than a single value: ${shown(value)}`);
    return encodeSet(where, type, value, part);
  }
  if (value === undefined) {
    if (type.shape === "optional" || part) return ["set", []];
    throw new ValueError(`${where}: a value is missing`);
  }
  if (type.shape === "set" && !part) throw new ValueError(`${where}: not a set: ${shown(value)}`);
  return encodeAtom(where, type.key.type, value);
}

/** One atom, whatever the column's shape is: for arithmetic on each member of a set. */
export function encodeAtom(where: string, type: AtomName, value: WrittenValue): Json {
  switch (type) {
    case "string":
      // What the server's JSON reader refuses: text that has no UTF-8, and NUL.
      if (typeof value === "string" && value.isWellFormed() && !value.includes("\0")) return value;
      break;
    case "integer":
      if (Number.isSafeInteger(value)) return value as number;
      break;
    case "real":
      if (Number.isFinite(value)) return value as number;
      break;
    case "boolean":
      if (typeof value === "boolean") return value;
      break;
    case "uuid":
      if (isUuid(value)) return ["uuid", value];
      if (isRecord(value) && typeof value["named"] === "string") return ["named-uuid", value["named"]];
      break;
  }
  throw new ValueError(`${where}: not of type ${type}: ${shown(value)}`);
}

/** Atoms, each once, in order: the same set is always the same text. */
export function encodeSet(
  where: string,
  { key, min, max }: ColumnType,
  items: readonly WrittenValue[],
  part: boolean,
): Json {
  if (items.length < 2) {
    count(where, items.length, min, max, part);
    return ["set", items.map((item) => encodeAtom(where, key.type, item))];
  }
  const each = new Map<string, Json>();
  for (const item of items) {
    const atom = encodeAtom(where, key.type, item);
    each.set(JSON.stringify(atom), atom);
  }
  count(where, each.size, min, max, part);
  return ["set", [...each].sort(([a], [b]) => compareAtoms(a, b)).map(([, atom]) => atom)];
}

function encodeMap(
  where: string,
  { key, value: base, min, max }: ColumnType,
  map: Readonly<Record<string, WrittenValue>>,
  part: boolean,
): Json {
  const names = inOrder(Object.keys(map));
  count(where, names.length, min, max, part);
  const { type } = base as ColumnType["key"];
  const pairs: Json[] = [];
  for (const name of names) {
    const first = encodeAtom(where, key.type, keyOf(where, key.type, name));
    pairs.push([first, encodeAtom(where, type, map[name])]);
  }
  return ["map", pairs];
}

/** Mostly they are already. */
function inOrder(names: string[]): readonly string[] {
  for (let at = 1; at < names.length; at++)
    if ((names[at - 1] as string) > (names[at] as string)) return names.sort(compareAtoms);
  return names;
}

/** Keys of an object are text: back to what they are. */
function keyOf(where: string, type: AtomName, name: string): WrittenValue {
  if (type === "string" || type === "uuid") return name;
  if (type === "boolean" && (name === "true" || name === "false")) return name === "true";
  if (type !== "boolean" && String(Number(name)) === name) return Number(name);
  throw new ValueError(`${where}: a key that is not of type ${type}: ${name}`);
}

function count(where: string, size: number, min: number, max: number, part: boolean): void {
  if (part || (size >= min && size <= max)) return;
  throw new ValueError(`${where}: ${size} values, where ${min} to ${max} may be`);
}

const isArray = (value: WrittenValue): value is readonly (string | number | boolean | NamedUuid)[] =>
  Array.isArray(value);
const isRecord = (
  value: WrittenValue,
): value is Readonly<Record<string, string | number | boolean | NamedUuid>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const shown = (value: WrittenValue): string => String(JSON.stringify(value)).slice(0, 200);

// Values as they stand in messages (RFC 7047, 5.1) to plain ones. In: JSON and the column's type. Out: frozen values,
// sets and maps sorted, so that equal ones are equal piece by piece. Pure.
import { ParseError } from "./errors.ts";
import type { Json } from "./messages.ts";
import { type Atom, type AtomName, type ColumnType, isUuid, type Value, ZERO_UUID } from "./types.ts";

type AtomMap = Readonly<Record<string, Atom>>;

const EMPTY_SET: readonly Atom[] = Object.freeze([]);

/**
 * Makes objects without anything inherited: "constructor" and "__proto__" are keys like any other. Unlike those of
 * `Object.create(null)`, objects with the same keys share a shape: a quarter of the memory, a third of the time.
 */
function Bare(): void {}
Bare.prototype = Object.freeze(Object.create(null));
const BareObject = Bare as unknown as new () => Record<string, Atom>;

const EMPTY_MAP: AtomMap = Object.freeze(new BareObject());

/**
 * Throws ParseError. An integer beyond 2^53 is the nearest number that JavaScript has.
 */
export function decodeValue(type: ColumnType, json: Json): Value {
  switch (type.shape) {
    case "one":
      if (!isTagged(json, "set")) return decodeAtom(type.key.type, json);
      break;
    case "optional":
      if (!isTagged(json, "set")) return decodeAtom(type.key.type, json);
      if (json[1].length === 0) return undefined;
      break;
    case "set":
      return decodeSet(type.key.type, json);
    case "map":
      return decodeMap(type, json);
  }
  // <set> may be written for a single value too.
  if (json[1].length !== 1) throw new ParseError(`not a single value: ${shown(json)}`);
  return decodeAtom(type.key.type, json[1][0] as Json);
}

/** What a column holds that was never written (RFC 7047, 5.2.1). */
export function defaultValue({ key, min, shape }: Pick<ColumnType, "key" | "min" | "shape">): Value {
  if (shape === "map") return EMPTY_MAP;
  if (shape === "optional") return undefined;
  if (shape === "one") return DEFAULTS[key.type];
  return min === 0 ? EMPTY_SET : Object.freeze([DEFAULTS[key.type]]);
}

const DEFAULTS: Readonly<Record<AtomName, Atom>> = {
  integer: 0,
  real: 0,
  boolean: false,
  string: "",
  uuid: ZERO_UUID,
};

/**
 * What `modify` of <table-updates2> leaves of `before`: for at most one value the new one, for a set what is in only one
 * of both, for a map also the pairs whose value is new (ovsdb-server(7), 4.1.14). A map of at most one pair is new as a
 * whole, as measured with 3.5. Throws ParseError.
 */
export function applyDifference(type: ColumnType, before: Value, json: Json): Value {
  const difference = decodeValue(type, json);
  if (type.max === 1) return difference;
  if (type.shape === "map") return toggledMap(before as AtomMap, difference as AtomMap);
  return toggledSet(before as readonly Atom[], difference as readonly Atom[]);
}

export function equalValues(a: Value, b: Value): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object") return false;
  if (isArray(a)) return isArray(b) && a.length === b.length && a.every((item, at) => item === b[at]);
  if (isArray(b)) return false;
  let names = 0;
  for (const name in a) {
    if (!(name in b) || a[name] !== b[name]) return false;
    names++;
  }
  for (const _ in b) names--;
  return names === 0;
}

function decodeAtom(type: AtomName, json: Json): Atom {
  switch (type) {
    case "string":
      if (typeof json === "string") return json;
      break;
    case "integer":
    case "real":
      if (typeof json === "number") return json;
      break;
    case "boolean":
      if (typeof json === "boolean") return json;
      break;
    case "uuid":
      if (Array.isArray(json) && json.length === 2 && json[0] === "uuid" && isUuid(json[1])) return json[1];
      break;
  }
  throw new ParseError(`not of type ${type}: ${shown(json)}`);
}

function decodeSet(type: AtomName, json: Json): readonly Atom[] {
  if (!isTagged(json, "set")) return Object.freeze([decodeAtom(type, json)]);
  const items = json[1];
  if (items.length === 0) return EMPTY_SET;
  const atoms = items.map((item) => decodeAtom(type, item));
  return Object.freeze(isSorted(atoms) ? atoms : atoms.sort(compareAtoms));
}

function decodeMap({ key, value }: ColumnType, json: Json): AtomMap {
  if (!isTagged(json, "map") || value === undefined) throw new ParseError(`not a map: ${shown(json)}`);
  const pairs = json[1];
  if (pairs.length === 0) return EMPTY_MAP;
  const map = new BareObject();
  const ofText = key.type === "string" && value.type === "string";
  let last: string | undefined;
  let sorted = true;
  for (const pair of pairs) {
    if (!Array.isArray(pair) || pair.length !== 2) throw new ParseError(`not a pair: ${shown(pair)}`);
    const [first, second] = pair as [Json, Json];
    // Nearly all maps there are hold text by text.
    const isText = ofText && typeof first === "string" && typeof second === "string";
    const name = isText ? first : String(decodeAtom(key.type, first));
    map[name] = isText ? second : decodeAtom(value.type, second);
    if (last !== undefined && last > name) sorted = false;
    last = name;
  }
  // Servers sort them, by bytes: which is another order than ours for a few.
  return sorted ? Object.freeze(map) : mapOf(Object.entries(map));
}

function mapOf(entries: readonly [string, Atom][]): AtomMap {
  if (entries.length === 0) return EMPTY_MAP;
  const map = new BareObject();
  for (const [name, value] of entries.toSorted(([a], [b]) => compareAtoms(a, b))) map[name] = value;
  return Object.freeze(map);
}

function toggledMap(before: AtomMap, difference: AtomMap): AtomMap {
  const entries = Object.entries(before).filter(([name]) => !(name in difference));
  for (const [name, value] of Object.entries(difference))
    if (!(name in before && before[name] === value)) entries.push([name, value]);
  return mapOf(entries);
}

/** Both are sorted: one walk over the two. */
function toggledSet(before: readonly Atom[], difference: readonly Atom[]): readonly Atom[] {
  const after: Atom[] = [];
  let a = 0;
  let b = 0;
  while (a < before.length && b < difference.length) {
    const [left, right] = [before[a] as Atom, difference[b] as Atom];
    if (left === right) {
      a++;
      b++;
    } else if (compareAtoms(left, right) < 0) {
      after.push(left);
      a++;
    } else {
      after.push(right);
      b++;
    }
  }
  while (a < before.length) after.push(before[a++] as Atom);
  while (b < difference.length) after.push(difference[b++] as Atom);
  return after.length === 0 ? EMPTY_SET : Object.freeze(after);
}

export const compareAtoms = (a: Atom, b: Atom): number => (a < b ? -1 : a > b ? 1 : 0);

function isSorted(atoms: readonly Atom[]): boolean {
  for (let at = 1; at < atoms.length; at++) if ((atoms[at - 1] as Atom) > (atoms[at] as Atom)) return false;
  return true;
}

function isTagged<T extends string>(json: Json, tag: T): json is readonly [T, readonly Json[]] {
  return Array.isArray(json) && json.length === 2 && json[0] === tag && Array.isArray(json[1]);
}

const isArray = (value: Value): value is readonly Atom[] => Array.isArray(value);
const shown = (json: Json): string => JSON.stringify(json).slice(0, 200);

// Rows by a key that is worked out from each, kept current row by row. In: changes. Out: the rows of a key. Pure.
import type { Atom, Row, Uuid } from "./types.ts";

/** None, one or several keys of a row. A function of the row alone: it is asked once for each row that there is. */
export type KeyOf<R extends Row, K> = (row: R) => K | readonly K[] | undefined;

export interface Lookup<R extends Row, K> {
  /** Current like the table, in no order; nothing there: an empty map. Not to be kept over an `await`. */
  get(key: K): ReadonlyMap<Uuid, R>;
  keys(): IterableIterator<K>;
}

export interface LiveLookup<R extends Row, K> extends Lookup<R, K> {
  /** Throws what the caller's function throws, before anything is changed. */
  keysOf(row: R): readonly K[];
  put(row: R, keys: readonly K[]): void;
  drop(uuid: Uuid): void;
}

const NOTHING: ReadonlyMap<Uuid, never> = new Map<Uuid, never>();

export function createLookup<R extends Row, K>(keyOf: KeyOf<R, K>): LiveLookup<R, K> {
  const byKey = new Map<K, Map<Uuid, R>>();
  const keysByRow = new Map<Uuid, readonly K[]>();

  const drop = (uuid: Uuid): void => {
    for (const key of keysByRow.get(uuid) ?? []) {
      const rows = byKey.get(key);
      rows?.delete(uuid);
      if (rows?.size === 0) byKey.delete(key);
    }
    keysByRow.delete(uuid);
  };

  return {
    get: (key) => byKey.get(key) ?? NOTHING,
    keys: () => byKey.keys(),
    keysOf: (row) => {
      const keys = keyOf(row);
      return keys === undefined ? [] : isList(keys) ? keys : [keys];
    },
    put: (row, keys) => {
      drop(row._uuid);
      if (keys.length === 0) return;
      keysByRow.set(row._uuid, keys);
      for (const key of keys) {
        const rows = byKey.get(key);
        if (rows === undefined) byKey.set(key, new Map([[row._uuid, row]]));
        else rows.set(row._uuid, row);
      }
    },
    drop,
  };
}

const isList = <K>(keys: K | readonly K[]): keys is readonly K[] => Array.isArray(keys);

/** By a column's value: each member of a set; no key for an optional one that is empty. Not for maps. */
export function keyOfColumn(column: string): KeyOf<Row, Atom> {
  return (row) => {
    const value = row[column];
    if (typeof value !== "object") return value;
    if (Array.isArray(value)) return value as readonly Atom[];
    throw new TypeError(`column ${column} is a map: say by a function which key of it`);
  };
}

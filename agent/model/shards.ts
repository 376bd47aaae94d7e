// A map cut into a fixed number of small frozen maps by the hash of the key. Pure.
// Why: with 20 000 pods a change of one must not touch the other 19 999. Replacing one entry makes one new shard; whatever
// is derived from a shard is remembered by the shard's identity, and two maps are compared by looking at shards that differ.

import { atOnce } from "./pieces.ts";

const COUNT = 1024;
/** Entries at a time, of work that can be interrupted: a few milliseconds. */
const PIECE = 2048;

export type Shard<V> = ReadonlyMap<string, V>;

export interface Shards<V> {
  readonly shards: readonly Shard<V>[];
}

export const EMPTY_SHARD: Shard<never> = new Map<string, never>();
const EMPTY: Shards<never> = Object.freeze({
  shards: Object.freeze(Array<Shard<never>>(COUNT).fill(EMPTY_SHARD)),
});

export function emptyShards<V>(): Shards<V> {
  return EMPTY;
}

/** FNV-1a over UTF-16 units, folded to the number of shards. */
export function shardOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return (hash ^ (hash >>> 16)) & (COUNT - 1);
}

/** A new map with these entries set, or removed where the value is undefined. Untouched shards keep their identity. */
export function withEntries<V>(
  map: Shards<V>,
  changes: Iterable<readonly [string, V | undefined]>,
): Shards<V> {
  const all = changing(map);
  for (const [key, value] of changes) all.set(key, value);
  return all.end();
}

/** The same an entry at a time. */
export function changing<V>(map: Shards<V>): {
  set(key: string, value: V | undefined): void;
  /** Called once, and last. */
  end(): Shards<V>;
} {
  let shards: Shard<V>[] | undefined;
  return {
    set: (key, value) => {
      const index = shardOf(key);
      const before = map.shards[index] as Shard<V>;
      const now = shards === undefined ? before : (shards[index] as Shard<V>);
      if (value === undefined ? !now.has(key) : now.get(key) === value) return;
      shards ??= [...map.shards];
      const shard = now === before || now === EMPTY_SHARD ? new Map(now) : (now as Map<string, V>);
      if (value === undefined) shard.delete(key);
      else shard.set(key, value);
      shards[index] = shard.size === 0 ? EMPTY_SHARD : shard;
    },
    end: () => (shards === undefined ? map : Object.freeze({ shards })),
  };
}

/**
 * From one map to another, so many shards at a time: each is the one before with that many more shards taken over, the last one is
 * `after` itself. What is derived shard by shard is derived in pieces so, and in the end the same.
 */
export function* stepsTo<V>(
  before: Shards<V>,
  after: Shards<V>,
  atATime: number,
): Generator<Shards<V>, void> {
  let shards: Shard<V>[] | undefined;
  let taken = 0;
  for (let at = 0; at < COUNT; at++) {
    if (before.shards[at] === after.shards[at]) continue;
    if (taken > 0 && taken % atATime === 0) yield Object.freeze({ shards: [...(shards ?? [])] });
    shards ??= [...before.shards];
    shards[at] = after.shards[at] as Shard<V>;
    taken++;
  }
  yield after;
}

export function shardsFrom<V>(entries: Iterable<readonly [string, V]>): Shards<V> {
  return atOnce(shardsOf(entries));
}

/** The same in pieces. */
export function* shardsOf<V>(entries: Iterable<readonly [string, V]>): Generator<undefined, Shards<V>> {
  const all = changing(emptyShards<V>());
  let looked = 0;
  for (const [key, value] of entries) {
    all.set(key, value);
    if (++looked % PIECE === 0) yield;
  }
  return all.end();
}

/**
 * Derives something from each shard, and again only from shards that are not the ones of the last call. The list is the
 * same list when none is. What the memory decides is how much is worked out, never what comes out.
 */
export function shardwise<V, R>(
  /** `before`: the shard of the last call at this place and what came of it, to reuse parts of. */
  derive: (shard: Shard<V>, before?: { readonly shard: Shard<V>; readonly result: R }) => R,
): (map: Shards<V>) => readonly R[] {
  let last: { readonly shards: readonly Shard<V>[]; readonly results: readonly R[] } | undefined;
  const ofEmpty = derive(EMPTY_SHARD);
  return ({ shards }) => {
    if (last?.shards === shards) return last.results;
    const before = last;
    let same = before !== undefined;
    const results = shards.map((shard, index) => {
      if (before !== undefined && before.shards[index] === shard) return before.results[index] as R;
      same = false;
      if (shard.size === 0) return ofEmpty;
      if (before === undefined) return derive(shard);
      return derive(shard, { shard: before.shards[index] as Shard<V>, result: before.results[index] as R });
    });
    last = { shards, results: same && before !== undefined ? before.results : results };
    return last.results;
  };
}

/**
 * Derives something from each two shards that stand at the same place of two maps, and again only where one of the two is not
 * the one of the last call. Two empty ones give `ofEmpty`.
 */
export function pairwise<A, B, R>(
  ofEmpty: R,
  derive: (a: Shard<A>, b: Shard<B>) => R,
): (a: Shards<A>, b: Shards<B>) => readonly R[] {
  let last:
    | { readonly a: readonly Shard<A>[]; readonly b: readonly Shard<B>[]; readonly results: readonly R[] }
    | undefined;
  return ({ shards: a }, { shards: b }) => {
    if (last?.a === a && last.b === b) return last.results;
    const before = last;
    const results = a.map((shard, index) => {
      const other = b[index] as Shard<B>;
      if (before !== undefined && before.a[index] === shard && before.b[index] === other)
        return before.results[index] as R;
      return shard.size === 0 && other.size === 0 ? ofEmpty : derive(shard, other);
    });
    last = { a, b, results };
    return results;
  };
}

/** One shard each, made from a map of the same cut. */
export function fromShards<V>(shards: readonly Shard<V>[]): Shards<V> {
  return Object.freeze({ shards: shards.map((shard) => (shard.size === 0 ? EMPTY_SHARD : shard)) });
}

export function isEmpty(map: Shards<unknown>): boolean {
  return map.shards.every((shard) => shard.size === 0);
}

/** Calls back for each key whose value differs, with both values; `undefined` is absent. Skips shards that are the same. */
export function compareShards<V>(before: Shards<V>, after: Shards<V>, on: Differs<V>): void {
  atOnce(comparing(before, after, on));
}

type Differs<V> = (key: string, before: V | undefined, after: V | undefined) => void;

/** The same in pieces. */
export function* comparing<V>(
  before: Shards<V>,
  after: Shards<V>,
  on: Differs<V>,
): Generator<undefined, void> {
  for (let i = 0; i < COUNT; i++) {
    const old = before.shards[i] as Shard<V>;
    const now = after.shards[i] as Shard<V>;
    if (old === now) continue;
    now.forEach((value, key) => {
      const was = old.get(key);
      if (was !== value) on(key, was, value);
    });
    if (old.size > 0)
      old.forEach((value, key) => {
        if (!now.has(key)) on(key, value, undefined);
      });
    yield;
  }
}

/** `after` with every shard that holds the same as `before`'s replaced by it: later comparisons skip it by identity. */
export function adoptShards<V>(before: Shards<V>, after: Shards<V>): Shards<V> {
  return Object.freeze({
    shards: after.shards.map((shard, i) => {
      const old = before.shards[i] as Shard<V>;
      if (old === shard || old.size !== shard.size) return shard;
      for (const [key, value] of shard) if (old.get(key) !== value) return shard;
      return old;
    }),
  });
}

/** Whether the map has exactly these entries, each named once. In pieces. */
export function* holding<V>(
  map: Shards<V>,
  entries: Iterable<readonly [string, V]>,
): Generator<undefined, boolean> {
  let count = 0;
  for (const [key, value] of entries) {
    if (getFrom(map, key) !== value) return false;
    if (++count % PIECE === 0) yield;
  }
  return count === sizeOf(map);
}

export function sizeOf(map: Shards<unknown>): number {
  let size = 0;
  for (const shard of map.shards) size += shard.size;
  return size;
}

export function getFrom<V>(map: Shards<V>, key: string): V | undefined {
  return (map.shards[shardOf(key)] as Shard<V>).get(key);
}

/** All entries, in no order that means anything; sort what reaches text. */
export function* entriesOf<V>(map: Shards<V>): Generator<readonly [string, V]> {
  for (const shard of map.shards) yield* shard;
}

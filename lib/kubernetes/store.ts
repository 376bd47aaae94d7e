// The copy of one kind of object that a reflection keeps. In: items as they come. Out: one live map, and which keys changed.
// A list is gathered beside it and takes its place when it is complete; what did not change stays the same object.
import { isDeepStrictEqual } from "node:util";
import { type Item, isBefore, type Version } from "./events.ts";

export interface Store<T> {
  readonly objects: ReadonlyMap<string, T>;
  /** Objects of the same name with another UID. */
  readonly replaced: number;
  /** Objects that could not be projected. */
  readonly unread: number;
  /** Keys that are in, or went out, or are others, since the last `takeChanged`. */
  readonly changes: number;
  put(item: Item): void;
  remove(item: Item): void;
  clear(): void;
  gather(): Gathering;
  /** At most so many, the latest change first. */
  newest(count: number): readonly Known[];
  takeChanged(): readonly string[];
}

/** An object, and the state in which it was last told of. */
export interface Known {
  readonly key: string;
  readonly resourceVersion: string;
}

/** A list that is not complete yet. Given up by leaving it. */
export interface Gathering {
  put(item: Item): void;
  remove(item: Item): void;
  /** Makes the store what was gathered. */
  commit(): void;
}

type Project<T> = (raw: Readonly<Record<string, unknown>>) => T | undefined;

export function createStore<T>(project: Project<T>): Store<T> {
  const objects = new Map<string, T>();
  /** `UID resourceVersion`, one text a key: of many thousand objects each field counts. */
  const versions = new Map<string, string>();
  const changed = new Set<string>();
  let replaced = 0;
  let unread = 0;

  /** What is to be kept for the item: where nothing changed the value that is there. */
  const valueFor = ({ key, version, raw }: Item): T | undefined => {
    const known = versions.get(key);
    if (known === textOf(version) && version.uid !== "") return objects.get(key);
    let value: T | undefined;
    try {
      value = project(raw);
    } catch {
      unread++;
      return undefined;
    }
    const before = objects.get(key);
    return known !== undefined && isSameObject(known, version) && isDeepStrictEqual(before, value)
      ? before
      : value;
  };

  const set = (key: string, version: string, value: T): void => {
    const known = versions.get(key);
    if (known !== undefined && uidOf(known) !== uidOf(version)) replaced++;
    versions.set(key, version);
    if (objects.get(key) === value) return;
    objects.set(key, value);
    changed.add(key);
  };
  const drop = (key: string): void => {
    versions.delete(key);
    if (objects.delete(key)) changed.add(key);
  };

  return {
    objects,
    get replaced() {
      return replaced;
    },
    get unread() {
      return unread;
    },
    get changes() {
      return changed.size;
    },
    put: (item) => {
      const value = valueFor(item);
      if (value === undefined) drop(item.key);
      else set(item.key, textOf(item.version), value);
    },
    remove: ({ key, version }) => {
      // Of one that has been replaced meanwhile nothing is left to remove.
      const known = versions.get(key);
      if (known !== undefined && isSameObject(known, version)) drop(key);
    },
    clear: () => {
      for (const key of [...objects.keys()]) drop(key);
    },
    gather: () => {
      const found = new Map<string, { readonly value: T; readonly version: string }>();
      return {
        put: (item) => {
          const value = valueFor(item);
          if (value === undefined) found.delete(item.key);
          else found.set(item.key, { value, version: textOf(item.version) });
        },
        remove: ({ key, version }) => {
          const known = found.get(key);
          if (known !== undefined && isSameObject(known.version, version)) found.delete(key);
        },
        commit: () => {
          for (const key of [...objects.keys()]) if (!found.has(key)) drop(key);
          for (const [key, { value, version }] of found) set(key, version, value);
        },
      };
    },
    newest: (count) => {
      const found: Known[] = [];
      for (const [key, version] of versions) {
        const resourceVersion = version.slice(version.indexOf(" ") + 1);
        const last = found[count - 1];
        if (last !== undefined && !isBefore(last.resourceVersion, resourceVersion)) continue;
        const at = found.findIndex((other) => isBefore(other.resourceVersion, resourceVersion));
        found.splice(at === -1 ? found.length : at, 0, { key, resourceVersion });
        found.length = Math.min(found.length, count);
      }
      return found;
    },
    takeChanged: () => {
      const keys = [...changed];
      changed.clear();
      return keys;
    },
  };
}

const textOf = ({ uid, resourceVersion }: Version): string => `${uid} ${resourceVersion}`;
const uidOf = (version: string): string => version.slice(0, version.indexOf(" "));
const isSameObject = (known: string, { uid }: Version): boolean => uidOf(known) === uid;

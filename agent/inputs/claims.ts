// Who claims which key: the objects of all files of a folder by key, when two files may claim the same one.
// In: a file's claims before and after it changed. Out: the objects that hold, conflicts, and what changed.
import { isDeepStrictEqual } from "node:util";
import { byCodeUnit } from "../model/names.ts";
import type { KubernetesObject, Problem } from "../model/objects.ts";
import { quote } from "../model/raw.ts";

/**
 * An object as one document gives it. It may be exchanged for an equal one, so that the object keeps its
 * identity.
 */
export interface Entry {
  readonly key: string;
  object: KubernetesObject;
}

/** One appearance of an object. Of several with one key the first by file name and position holds. */
export interface Claim {
  readonly file: string;
  /** Line of the document, from 1. */
  readonly line: number;
  /** Order within the file. */
  readonly position: number;
  readonly entry: Entry;
}

export class Claims {
  readonly #objects = new Map<string, KubernetesObject>();
  readonly #claims = new Map<string, readonly Claim[]>();
  readonly #conflicts = new Map<string, Problem>();
  #changed = new Set<string>();

  /** Live: `exchange` changes it in place. */
  get objects(): ReadonlyMap<string, KubernetesObject> {
    return this.#objects;
  }

  get conflicts(): Iterable<Problem> {
    return this.#conflicts.values();
  }

  /** Keys whose object was added, exchanged for a different one or removed since the last call; sorted. */
  takeChanged(): readonly string[] {
    const changed = [...this.#changed].sort(byCodeUnit);
    this.#changed = new Set();
    return changed;
  }

  /**
   * Exchanges all claims of one file. Costs what the two lists hold, however many other objects there are.
   */
  exchange(file: string, before: readonly Claim[], after: readonly Claim[]): void {
    const touched = new Map<string, Claim[]>();
    for (const { entry } of [...before, ...after])
      if (!touched.has(entry.key)) touched.set(entry.key, this.#othersThan(file, entry.key));
    for (const claim of after) touched.get(claim.entry.key)?.push(claim);
    for (const [key, claims] of touched) this.#settle(key, claims.sort(byPlace));
  }

  #othersThan(file: string, key: string): Claim[] {
    return (this.#claims.get(key) ?? []).filter((claim) => claim.file !== file);
  }

  #settle(key: string, claims: readonly Claim[]): void {
    const [first, second] = claims;
    const before = this.#objects.get(key);
    if (second === undefined) this.#conflicts.delete(key);
    else this.#conflicts.set(key, conflictOf(key, claims));
    if (first === undefined) {
      this.#claims.delete(key);
      if (this.#objects.delete(key)) this.#changed.add(key);
      return;
    }
    this.#claims.set(key, claims);
    if (first.entry.object === before) return;
    if (before !== undefined && isDeepStrictEqual(first.entry.object, before)) {
      first.entry.object = before;
      return;
    }
    this.#objects.set(key, first.entry.object);
    this.#changed.add(key);
  }
}

function conflictOf(key: string, claims: readonly Claim[]): Problem {
  const [first, ...others] = claims.slice(0, 5).map(({ file, line }) => `${quote(file)} line ${line}`);
  return { object: key, path: "", text: `is in ${first}, which is used, and again in ${others.join(", ")}` };
}

function byPlace(a: Claim, b: Claim): number {
  return byCodeUnit(a.file, b.file) || a.position - b.position;
}

// What differs between the pods in the sets and the pods that should be: asked by three backends, worked out once. Pure.
import type { HostFacts } from "../model/facts.ts";
import { markEntry } from "../model/marks.ts";
import { programmedMarks } from "../model/marks-found.ts";
import { byCodeUnit } from "../model/names.ts";
import { MARK_CHAIN } from "../model/owner.ts";
import { atOnce } from "../model/pieces.ts";
import { comparing, type Shards } from "../model/shards.ts";

export interface ServedDiff {
  /** Address and extension of entries that are not there, by address. */
  readonly added: readonly (readonly [string, string])[];
  /** Entries that are there with another extension: the wanted one. */
  readonly changed: readonly (readonly [string, string])[];
  readonly removed: readonly string[];
}

const remembered = new WeakMap<Shards<string>, WeakMap<Shards<string>, ServedDiff>>();

export function servedDiff(observed: Shards<string>, wanted: Shards<string>): ServedDiff {
  return atOnce(comparingServed(observed, wanted));
}

/** The same in pieces; whoever asks for it afterwards finds it done. */
export function* comparingServed(
  observed: Shards<string>,
  wanted: Shards<string>,
): Generator<undefined, ServedDiff> {
  const known = remembered.get(observed)?.get(wanted);
  if (known !== undefined) return known;
  const added: (readonly [string, string])[] = [];
  const changed: (readonly [string, string])[] = [];
  const removed: string[] = [];
  yield* comparing(observed, wanted, (address, before, after) => {
    if (after === undefined) removed.push(address);
    else (before === undefined ? added : changed).push([address, after]);
  });
  const diff = {
    added: yield* inOrder(added),
    changed: yield* inOrder(changed),
    removed: removed.sort(byCodeUnit),
  };
  const ofObserved = remembered.get(observed) ?? new WeakMap<Shards<string>, ServedDiff>();
  remembered.set(observed, ofObserved);
  ofObserved.set(wanted, diff);
  return diff;
}

/** By address. The addresses alone are sorted: texts without a comparing function take a tenth of the time. */
function* inOrder(
  entries: readonly (readonly [string, string])[],
): Generator<undefined, readonly (readonly [string, string])[]> {
  const byAddress = new Map(entries);
  yield;
  // biome-ignore lint/suspicious/useArraySortCompare: code units are the order that is wanted
  const addresses = [...byAddress.keys()].sort();
  yield;
  return addresses.map((address) => [address, byAddress.get(address) ?? ""] as const);
}

/**
 * While nothing marks at all (a first start, or one after a crash in it), every entry is put right at once: the chain that
 * marks is committed after the SNAT rules, and what an entry said before must not be taken at its word then.
 */
export function nothingMarks(iptables: HostFacts["iptables"], family: 4 | 6): boolean {
  return !iptables[family].get("mangle")?.has(MARK_CHAIN);
}

/**
 * Whether an entry may be written. With a mark that nothing translates yet its pod would leave a link that is steered to
 * already with the node's address, and after a crash the mark could be given to another egress IP.
 */
export function translatedIn(iptables: HostFacts["iptables"], family: 4 | 6): (entry: string) => boolean {
  const translated = new Set(
    programmedMarks(iptables)
      .filter((entry) => entry.family === family)
      .map(({ mark, mask }) => markEntry(mark, mask)),
  );
  return (entry) => entry === "" || translated.has(entry);
}

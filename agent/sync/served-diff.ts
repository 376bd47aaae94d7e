// What differs between the pods in the sets and the pods that should be: asked by three backends, worked out once. Pure.
import type { HostFacts } from "../model/facts.ts";
import { markEntry, programmedMarks } from "../model/marks.ts";
import { byCodeUnit } from "../model/names.ts";
import { compareShards, type Shards } from "../model/shards.ts";

export interface ServedDiff {
  /** Address and extension of entries that are not there, by address. */
  readonly added: readonly (readonly [string, string])[];
  /** Entries that are there with another extension: the wanted one. */
  readonly changed: readonly (readonly [string, string])[];
  readonly removed: readonly string[];
}

const remembered = new WeakMap<Shards<string>, WeakMap<Shards<string>, ServedDiff>>();

export function servedDiff(observed: Shards<string>, wanted: Shards<string>): ServedDiff {
  const known = remembered.get(observed)?.get(wanted);
  if (known !== undefined) return known;
  const added: (readonly [string, string])[] = [];
  const changed: (readonly [string, string])[] = [];
  const removed: string[] = [];
  compareShards(observed, wanted, (address, before, after) => {
    if (after === undefined) removed.push(address);
    else (before === undefined ? added : changed).push([address, after]);
  });
  const byAddress = (a: readonly [string, string], b: readonly [string, string]) => byCodeUnit(a[0], b[0]);
  const diff = {
    added: added.sort(byAddress),
    changed: changed.sort(byAddress),
    removed: removed.sort(byCodeUnit),
  };
  const ofObserved = remembered.get(observed) ?? new WeakMap<Shards<string>, ServedDiff>();
  remembered.set(observed, ofObserved);
  ofObserved.set(wanted, diff);
  return diff;
}

/**
 * Entries of one family whose SNAT rule is there. A new pod gets its mark at once only when it is one of these: with a mark
 * that nothing translates yet it would leave a link that is steered to already with the node's address, and after a crash
 * the mark could be given to another egress IP. Any other waits as "selected, not ready" until steering.
 */
export function translatedEntries(iptables: HostFacts["iptables"], family: 4 | 6): ReadonlySet<string> {
  return new Set(
    programmedMarks(iptables)
      .filter((entry) => entry.family === family)
      .map(({ mark, mask }) => markEntry(mark, mask)),
  );
}

// Addresses of some pods, whatever their family, kept from one snapshot to the next by looking only at what differs. Pure to the
// outside: the value is a function of the pods alone.
import { byCodeUnit } from "./names.ts";
import { compareShards, emptyShards, getFrom, type Shards, withEntries } from "./shards.ts";

/** Address to the keys of the pods that have it, sorted; more than one where a status is behind the times. */
export type PodAddresses = Shards<readonly string[]>;

/** `addressesOf` gives the addresses of a value that are to be in it; it must be a function of the value alone. */
export function createPodAddresses<V>(
  addressesOf: (value: V) => readonly string[],
): (values: Shards<V>) => PodAddresses {
  let last: Shards<V> = emptyShards<V>();
  let result: PodAddresses = emptyShards<readonly string[]>();
  return (values) => {
    if (values === last) return result;
    const changed = new Map<string, Set<string>>();
    const keysOf = (address: string): Set<string> => {
      const known = changed.get(address) ?? new Set(getFrom(result, address) ?? []);
      changed.set(address, known);
      return known;
    };
    compareShards(last, values, (key, before, after) => {
      if (before !== undefined) for (const address of addressesOf(before)) keysOf(address).delete(key);
      if (after !== undefined) for (const address of addressesOf(after)) keysOf(address).add(key);
    });
    result = withEntries(
      result,
      [...changed].map(
        ([address, keys]) => [address, keys.size === 0 ? undefined : [...keys].sort(byCodeUnit)] as const,
      ),
    );
    last = values;
    return result;
  };
}

// A running pod whose address nobody knows for the moment: its kubelet restarted and has not told yet. Pure.
// The entry it has in the kernel is all that is left of its address, also for a process that has just started; so while there
// is such a pod, entries that no pod claims stay as they are (known-faults BL-15).
import type { Claims } from "./address-index.ts";
import type { HostFacts } from "./facts.ts";
import type { Address } from "./ip.ts";
import type { Pod } from "./objects.ts";
import { servedSet } from "./owner.ts";
import { entriesOf, getFrom, type Shard, type Shards, shardwise } from "./shards.ts";

/** Address to the extension its entry has. */
export type KeptEntries = ReadonlyMap<Address, string>;

const NONE: KeptEntries = new Map();

export function createKept(): (
  pods: Shards<Pod>,
  claims: Shards<Claims>,
  sets: HostFacts["sets"],
) => KeptEntries {
  const anyUnresolved = shardwise((shard: Shard<Pod>) => [...shard.values()].some(isUnresolved));
  return (pods, claims, sets) => (anyUnresolved(pods).includes(true) ? unclaimed(pods, claims, sets) : NONE);
}

export function isUnresolved({ running, hostNetwork, addresses }: Pod): boolean {
  return addresses.length === 0 && running && !hostNetwork;
}

/** Looks at every pod, which a moment as rare as this one may cost. */
function unclaimed(pods: Shards<Pod>, claims: Shards<Claims>, sets: HostFacts["sets"]): KeptEntries {
  const known = new Set([...entriesOf(pods)].flatMap(([, pod]) => pod.addresses));
  const kept = new Map<Address, string>();
  for (const family of [4, 6] as const) {
    const members = sets.get(servedSet(family))?.members;
    if (members === undefined) continue;
    for (const [address, extension] of entriesOf(members)) {
      if (!known.has(address) && getFrom(claims, address) === undefined) kept.set(address, extension);
    }
  }
  return kept;
}

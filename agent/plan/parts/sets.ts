// The sets: pods to marks, and the destinations that are exempt. Pure.

import type { Claims } from "../../model/address-index.ts";
import { type Address, familyOf } from "../../model/ip.ts";
import { markEntry } from "../../model/marks.ts";
import { keepEqual, lastOf } from "../../model/memo.ts";
import { exemptSet, servedSet } from "../../model/owner.ts";
import type { SelectedPod } from "../../model/selection.ts";
import type { Settings } from "../../model/settings.ts";
import {
  EMPTY_SHARD,
  fromShards,
  type Shard,
  type Shards,
  shardwise,
  withEntries,
} from "../../model/shards.ts";
import type { Held, Snapshot } from "../../model/snapshot.ts";
import type { KeptEntries } from "../../model/unresolved.ts";
import type { PlannedSets } from "../plan.ts";

/** Growing from the kernel's 1,024 while 5,000 pods are added costs as much as adding them; this is 128 KiB. */
const POD_BUCKETS = 16384;

/** Far above any node's pods; the kernel allocates by what is in it. */
const MAX_PODS = 1048576;

export function exemptSetsOf(exempt: Snapshot["exempt"]): Omit<PlannedSets, "served"> {
  const sets = ([4, 6] as const).flatMap((family) => {
    const inet = family === 4 ? "family inet" : "family inet6";
    return [
      {
        name: servedSet(family),
        type: "hash:ip",
        options: `${inet} maxelem ${MAX_PODS} skbinfo`,
        hashsize: POD_BUCKETS,
      } as const,
      {
        name: exemptSet(family),
        type: "hash:net",
        options: `${inet} maxelem 65536`,
        hashsize: 1024,
      } as const,
    ];
  });
  return Object.freeze({ sets, exempt });
}

export type ServedEntries = PlannedSets["served"];

/** What the sets say for each selected address; made again as a whole only when the marks of egress IPs change. */
export function servedEntries(): (
  settings: Settings,
  held: readonly Held[],
  claims: Shards<Claims>,
  mask: number,
) => ServedEntries {
  // A link that goes down changes what is held, and no entry.
  const extensionsFor = keepEqual(lastOf(extensionsOf), sameExtensions);
  const perShardFor = lastOf((settings: Settings, extensions: Extensions) =>
    shardwise(entriesFor(settings, extensions)),
  );
  const joined = lastOf((entries: readonly Entries[]) => ({
    4: fromShards(entries.map((entry) => entry[4])),
    6: fromShards(entries.map((entry) => entry[6])),
  }));
  return (settings, held, claims, mask) => joined(perShardFor(settings, extensionsFor(held, mask))(claims));
}

/** With the entries that stay although no pod claims them: with their mark if it is still one of ours, else waiting. */
export function withKept(
  settings: Settings,
  held: readonly Held[],
  mask: number,
  served: ServedEntries,
  kept: KeptEntries,
): ServedEntries {
  if (kept.size === 0) return served;
  const valid = new Set(held.map((entry) => `${entry.family} ${markEntry(entry.mark, mask)}`));
  const unready = settings.whenUnready === "drop" ? "" : undefined;
  const ofFamily = (family: 4 | 6) =>
    withEntries(
      served[family],
      [...kept]
        .filter(([address]) => familyOf(address) === family)
        .map(([address, entry]) => [address, valid.has(`${family} ${entry}`) ? entry : unready] as const),
    );
  return { 4: ofFamily(4), 6: ofFamily(6) };
}

interface Entries {
  readonly 4: Shard<string>;
  readonly 6: Shard<string>;
}

/** Name of an EgressIP to the extension of its pods' entries. */
interface Extensions {
  readonly 4: ReadonlyMap<string, string>;
  readonly 6: ReadonlyMap<string, string>;
}

function extensionsOf(held: readonly Held[], mask: number): Extensions {
  const extensions = { 4: new Map<string, string>(), 6: new Map<string, string>() };
  for (const { family, egressIP, mark } of held) {
    if (!extensions[family].has(egressIP.name)) {
      extensions[family].set(egressIP.name, markEntry(mark, mask));
    }
  }
  return extensions;
}

function sameExtensions(before: Extensions, now: Extensions): boolean {
  return ([4, 6] as const).every(
    (family) =>
      before[family].size === now[family].size &&
      [...now[family]].every(([name, extension]) => before[family].get(name) === extension),
  );
}

function entriesFor(settings: Settings, extensions: Extensions): (shard: Shard<Claims>) => Entries {
  // Without a mark the entry still tells the guard that this pod is selected: it waits instead of leaking.
  const unready = settings.whenUnready === "drop" ? "" : undefined;
  return (shard) => {
    const entries: { 4?: Map<Address, string>; 6?: Map<Address, string> } = {};
    for (const [address, claims] of shard) {
      const family = familyOf(address);
      const extension = extensions[family].get((claims[0] as SelectedPod).by.name) ?? unready;
      if (extension === undefined) continue;
      const known = entries[family] ?? new Map<Address, string>();
      entries[family] = known.set(address, extension);
    }
    return { 4: entries[4] ?? EMPTY_SHARD, 6: entries[6] ?? EMPTY_SHARD };
  };
}

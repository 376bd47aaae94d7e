// The sets: pods to marks, and the destinations that are exempt. Pure.

import type { Claims } from "../../model/address-index.ts";
import { type Address, familyOf } from "../../model/ip.ts";
import { hex } from "../../model/marks.ts";
import { perObject } from "../../model/memo.ts";
import { exemptSet, servedSet } from "../../model/owner.ts";
import type { SelectedPod } from "../../model/selection.ts";
import type { Settings } from "../../model/settings.ts";
import { mapShards, type Shard, type Shards } from "../../model/shards.ts";
import type { Held, Snapshot } from "../../model/snapshot.ts";
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

/** What the sets say for each selected address; it remembers per shard until the egress IPs change. */
export function servedEntries(): (
  settings: Settings,
  held: readonly Held[],
  claims: Shards<Claims>,
  mask: number,
) => ServedEntries {
  let last:
    | {
        readonly settings: Settings;
        readonly held: readonly Held[];
        readonly perShard: (shard: Shard<Claims>) => Entries;
      }
    | undefined;
  return (settings, held, claims, mask) => {
    if (last === undefined || last.settings !== settings || last.held !== held) {
      last = { settings, held, perShard: perObject(entriesFor(settings, held, mask)) };
    }
    const { perShard } = last;
    return {
      4: mapShards(claims, (shard) => perShard(shard)[4]),
      6: mapShards(claims, (shard) => perShard(shard)[6]),
    };
  };
}

interface Entries {
  readonly 4: Shard<string>;
  readonly 6: Shard<string>;
}

function entriesFor(
  settings: Settings,
  held: readonly Held[],
  mask: number,
): (shard: Shard<Claims>) => Entries {
  const extensions = { 4: new Map<string, string>(), 6: new Map<string, string>() };
  for (const { family, egressIP, mark } of held) {
    if (!extensions[family].has(egressIP.name)) {
      extensions[family].set(egressIP.name, `skbmark ${hex(mark)}/${hex(mask)}`);
    }
  }
  // Without a mark the entry still tells the guard that this pod is selected: it waits instead of leaking.
  const unready = settings.whenUnready === "drop" ? "" : undefined;
  return (shard) => {
    const entries = { 4: new Map<Address, string>(), 6: new Map<Address, string>() };
    for (const [address, claims] of shard) {
      const family = familyOf(address);
      const extension = extensions[family].get((claims[0] as SelectedPod).by.name) ?? unready;
      if (extension !== undefined) entries[family].set(address, extension);
    }
    return entries;
  };
}

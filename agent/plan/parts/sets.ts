// The sets: pods to marks, and the destinations that are exempt. Pure.

import type { Claims } from "../../model/address-index.ts";
import type { Address } from "../../model/ip.ts";
import { hex } from "../../model/marks.ts";
import { perObject } from "../../model/memo.ts";
import { exemptSet, servedSet } from "../../model/owner.ts";
import type { Settings } from "../../model/settings.ts";
import { mapShards, type Shard, type Shards } from "../../model/shards.ts";
import type { Held, Snapshot } from "../../model/snapshot.ts";
import type { PlannedSets } from "../plan.ts";

/** Far above any node's pods; the kernel allocates by what is in it. */
const MAX_PODS = 1048576;

export function exemptSetsOf(exempt: Snapshot["exempt"]): Omit<PlannedSets, "served"> {
  const sets = ([4, 6] as const).flatMap((family) => {
    const inet = family === 4 ? "family inet" : "family inet6";
    return [
      { name: servedSet(family), type: "hash:ip", options: `${inet} maxelem ${MAX_PODS} skbinfo` } as const,
      { name: exemptSet(family), type: "hash:net", options: `${inet} maxelem 65536` } as const,
    ];
  });
  return Object.freeze({ sets, exempt });
}

/** What the set says for each address of this family; it remembers per shard until the egress IPs change. */
export function servedEntries(
  family: 4 | 6,
): (settings: Settings, held: readonly Held[], claims: Shards<Claims>, mask: number) => Shards<string> {
  let last:
    | { settings: Settings; held: readonly Held[]; perShard: (shard: Shard<Claims>) => Shard<string> }
    | undefined;
  return (settings, held, claims, mask) => {
    if (last === undefined || last.settings !== settings || last.held !== held) {
      last = { settings, held, perShard: perObject(entriesFor(settings, held, family, mask)) };
    }
    return mapShards(claims, last.perShard);
  };
}

function entriesFor(
  settings: Settings,
  held: readonly Held[],
  family: 4 | 6,
  mask: number,
): (shard: Shard<Claims>) => Shard<string> {
  const extensions = new Map<string, string>();
  for (const entry of held) {
    if (entry.family === family && !extensions.has(entry.egressIP.name)) {
      extensions.set(entry.egressIP.name, `skbmark ${hex(entry.mark)}/${hex(mask)}`);
    }
  }
  return (shard) => {
    const entries = new Map<Address, string>();
    for (const [address, [claim]] of shard) {
      if (claim === undefined || address.includes(":") !== (family === 6)) continue;
      // Without a mark the entry still tells the guard that this pod is selected: it waits instead of leaking.
      const extension = extensions.get(claim.by.name) ?? (settings.whenUnready === "drop" ? "" : undefined);
      if (extension !== undefined) entries.set(address, extension);
    }
    return entries;
  };
}

// The northbound facts as they are once changes are done. Rows that are new have no uuid yet: theirs says so. Pure.
import type { FoundRow, NorthboundFacts, Row } from "../../model/northbound.ts";
import { NODE_KEY } from "../../model/northbound-ids.ts";
import { podAddressOf } from "../../model/northbound-pod.ts";
import { getFrom, type Shards, withEntries } from "../../model/shards.ts";
import type { RowChange } from "./changes.ts";

export function predictNorthbound(facts: NorthboundFacts, changes: readonly RowChange[]): NorthboundFacts {
  const pods = new Map<string, FoundRow[]>();
  let shared = [...facts.shared];
  const members: (readonly [string, true | undefined])[] = [];
  const nodeSnats: (readonly [string, readonly string[] | undefined])[] = [];
  const rowsOf = (address: string): FoundRow[] => {
    const rows = pods.get(address) ?? [...(getFrom(facts.pods, address) ?? [])];
    pods.set(address, rows);
    return rows;
  };
  const replace = (before: FoundRow | undefined, after: FoundRow | undefined) => {
    const address = podAddressOf((after ?? before) as Row);
    const of = address === undefined ? shared : rowsOf(podAddressOf((before ?? after) as Row) ?? "");
    const kept = of.filter((row) => row !== before);
    const next = after === undefined ? kept : [...kept, after];
    if (address === undefined) shared = next;
    else pods.set(address, next);
  };
  for (const change of changes) {
    switch (change.op) {
      case "insert":
        replace(undefined, { ...change.row, uuid: `new ${JSON.stringify(change.row)}` });
        break;
      case "update":
        replace(change.found, {
          ...change.found,
          on: change.row.on,
          columns: { ...change.found.columns, ...change.row.columns },
          ids: { ...change.found.ids, ...change.row.ids },
        });
        break;
      case "delete":
        replace(change.found, undefined);
        break;
      case "members":
        members.push(...change.add.map((address) => [address, true] as const));
        members.push(...change.remove.map((address) => [address, undefined] as const));
        break;
      case "take-node-snat":
        nodeSnats.push([change.pod, undefined]);
        break;
      case "give-node-snat":
        nodeSnats.push([change.pod, [`new ${change.pod}`]]);
        break;
    }
  }
  const nextPods = withEntries<readonly FoundRow[]>(
    facts.pods,
    [...pods].map(([address, rows]) => [address, rows.length === 0 ? undefined : rows] as const),
  );
  return Object.freeze({
    ...facts,
    pods: nextPods,
    shared,
    served: withEntries(facts.served, members),
    nodeSnats: withEntries(facts.nodeSnats, nodeSnats),
    writers: nextPods === facts.pods ? facts.writers : writersOf(nextPods),
  });
}

export function writersOf(pods: Shards<readonly FoundRow[]>): ReadonlyMap<string, number> {
  const writers = new Map<string, number>();
  for (const shard of pods.shards)
    for (const rows of shard.values())
      for (const { ids } of rows) {
        const node = ids[NODE_KEY] ?? "";
        writers.set(node, (writers.get(node) ?? 0) + 1);
      }
  return writers;
}

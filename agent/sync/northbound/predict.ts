// The northbound facts as they are once changes are done. Rows that are new have no uuid yet: theirs says so. Pure.
import type { FoundRow, Members, NorthboundFacts, Row } from "../../model/northbound.ts";
import { ARRIVING_PODS, ID_KEY, NODE_KEY } from "../../model/northbound-ids.ts";
import { podAddressOf, REROUTE_PRIORITY } from "../../model/northbound-pod.ts";
import { getFrom, withEntries } from "../../model/shards.ts";
import type { RowChange } from "./changes.ts";

export function predictNorthbound(facts: NorthboundFacts, changes: readonly RowChange[]): NorthboundFacts {
  const pods = new Map<string, FoundRow[]>();
  let shared = [...facts.shared];
  let { served, arriving } = facts;
  const nodeSnats: (readonly [string, readonly string[] | undefined])[] = [];
  const rowsOf = (address: string): FoundRow[] => {
    const rows = pods.get(address) ?? [...(getFrom(facts.pods, address) ?? [])];
    pods.set(address, rows);
    return rows;
  };
  const writers = new Map(facts.writers);
  const count = (row: FoundRow | undefined, more: 1 | -1) => {
    if (row === undefined) return;
    const node = row.ids[NODE_KEY] ?? "";
    const now = (writers.get(node) ?? 0) + more;
    if (now > 0) writers.set(node, now);
    else writers.delete(node);
  };
  /** A row stays with its address for life: what it is about is by what it is found. */
  const replace = (before: FoundRow | undefined, after: FoundRow | undefined) => {
    const address = podAddressOf((before ?? after) as Row);
    const of = address === undefined ? shared : rowsOf(address);
    const kept = of.filter((row) => row !== before);
    const next = after === undefined ? kept : [...kept, after];
    if (address === undefined) shared = next;
    else {
      pods.set(address, next);
      count(before, -1);
      count(after, 1);
    }
  };
  for (const change of changes) {
    switch (change.op) {
      case "insert":
        replace(undefined, { ...change.row, uuid: uuidOf(change.row) });
        break;
      case "update":
        replace(change.found, {
          ...change.found,
          on: change.row.on,
          columns: { ...change.found.columns, ...change.row.columns },
          ids: idsAfter(change.row, change.found),
        });
        break;
      case "delete":
        replace(change.found, undefined);
        break;
      case "members":
        if (change.of === ARRIVING_PODS) arriving = membersAfter(arriving, change);
        else served = membersAfter(served, change);
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
    served,
    arriving,
    nodeSnats: withEntries(facts.nodeSnats, nodeSnats),
    writers: nextPods === facts.pods ? facts.writers : writers,
  });
}

function membersAfter(members: Members, change: Extract<RowChange, { op: "members" }>): Members {
  return {
    ...members,
    [change.family]: withEntries(members[change.family], [
      ...change.remove.map((address) => [address, undefined] as const),
      ...change.add.map((address) => [address, true] as const),
    ]),
  };
}

/** As operations.ts writes them. */
function idsAfter(row: Row, { ids }: FoundRow): FoundRow["ids"] {
  const { [NODE_KEY]: _, ...others } = ids;
  return { ...others, ...row.ids };
}

/** Rows of pods have an id of their own, and there are many; of the few others several may have the same. */
function uuidOf(row: Row): string {
  const isPods = row.table === "NAT" || row.columns["priority"] === REROUTE_PRIORITY;
  const id = isPods ? row.ids[ID_KEY] : undefined;
  return `new ${row.table} ${id ?? JSON.stringify(row)}`;
}

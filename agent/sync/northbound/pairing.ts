// Wanted rows beside found ones of the same purpose: which to insert, to put right, to take away. Pure.
import type { FoundRow, Row } from "../../model/northbound.ts";
import { isAsWanted, type RowChange } from "./changes.ts";

export interface Paired {
  readonly establish: readonly RowChange[];
  readonly retire: readonly RowChange[];
}

export const NO_CHANGES: Paired = Object.freeze({ establish: Object.freeze([]), retire: Object.freeze([]) });

/**
 * `purposeOf` says which found rows may be made into which wanted one. Of several that serve the same purpose one is kept, the
 * one that is right already if there is one (known-faults BL-01, BL-06); a row under other parents is not moved but made anew.
 */
export function pair(
  wanted: readonly Row[],
  found: readonly FoundRow[],
  purposeOf: (row: Row) => string,
): Paired {
  if (found.length === 0)
    return wanted.length === 0
      ? NO_CHANGES
      : { establish: wanted.map((row) => ({ op: "insert", row })), retire: [] };
  // Nearly always, and all there is to look at when an agent starts on rows that are right.
  if (wanted.length === found.length && wanted.every((row, at) => isIt(row, found[at] as FoundRow)))
    return NO_CHANGES;
  const establish: RowChange[] = [];
  const left = new Set(found);
  const duplicates = new Set<FoundRow>();
  for (const row of wanted) {
    const purpose = purposeOf(row);
    const candidates = found.filter(
      (candidate) => left.has(candidate) && candidate.table === row.table && purposeOf(candidate) === purpose,
    );
    const kept =
      candidates.find((candidate) => isAsWanted(row, candidate)) ??
      // Of two sets the one that is called so already: no two may have one name, not even while one of them goes.
      candidates.find((candidate) => mayStay(row, candidate) && sameName(row, candidate)) ??
      candidates.find((candidate) => mayStay(row, candidate));
    if (kept === undefined) establish.push({ op: "insert", row });
    else if (!isAsWanted(row, kept)) establish.push({ op: "update", row, found: kept });
    if (kept === undefined) continue;
    left.delete(kept);
    for (const other of candidates) if (other !== kept) duplicates.add(other);
  }
  const retire = [...left].map(
    (row): RowChange => ({ op: "delete", found: row, why: duplicates.has(row) ? "duplicate" : "unwanted" }),
  );
  return establish.length + retire.length === 0 ? NO_CHANGES : { establish, retire };
}

function isIt(row: Row, found: FoundRow): boolean {
  return row.table === found.table && isAsWanted(row, found);
}

/** Parents are added to a row, or taken from it, only where several share it; a policy or NAT row has one for life. */
function mayStay(row: Row, found: FoundRow): boolean {
  return (
    row.table === "QoS" ||
    (row.on.length === found.on.length && row.on.every((name) => found.on.includes(name)))
  );
}

function sameName(row: Row, found: FoundRow): boolean {
  return row.columns["name"] === found.columns["name"];
}

// What can still be done while somebody fights over single rows: everything but those, and what makes no sense without them.
// In: a diff, lines. Out: the rest of it. Pure.
import { podAddressOf } from "../../model/northbound-pod.ts";
import type { Diff } from "../backend.ts";
import type { RowChange } from "./changes.ts";
import { printChange } from "./print.ts";

export function withoutLines(diff: Diff<RowChange>, lines: ReadonlySet<string>): Diff<RowChange> {
  const isHeld = (change: RowChange) => lines.has(printChange(change));
  const held = diff.establish.filter(isHeld);
  const left = new Set(
    held.flatMap((change) => (change.op === "insert" ? [change.row.columns["name"]] : [])),
  );
  const waiting = new Set(held.flatMap(addressesOf));
  return {
    // Members of a set that is not made are members of nothing.
    establish: diff.establish.filter(
      (change) =>
        !isHeld(change) && !(change.op === "members" && change.uuid === undefined && left.has(change.set)),
    ),
    // What a row is to replace stays until that is there.
    retire: diff.retire.filter(
      (change) => !isHeld(change) && !addressesOf(change).some((address) => waiting.has(address)),
    ),
  };
}

function addressesOf(change: RowChange): readonly string[] {
  if (change.op !== "insert" && change.op !== "update" && change.op !== "delete") return [];
  const address = podAddressOf(change.op === "delete" ? change.found : change.row);
  return address === undefined || address === "" ? [] : [address];
}

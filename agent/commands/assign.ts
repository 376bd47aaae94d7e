// `egressip-agent assign`: what the one agent that assigns would write, from a folder of manifests; it writes nothing.
// Without probes: a node counts as reachable.
import { assign } from "../assign/assign.ts";
import { allocateMarks } from "../assign/marks.ts";
import { nextItems, patchOf } from "../assign/status.ts";
import { byCodeUnit } from "../model/names.ts";
import { readAssignObjects } from "./assign-objects.ts";

/** Exit status as of `plan`: 0 nothing would be written, 2 something would. */
export async function printAssignments(directory: string, print: (text: string) => void): Promise<number> {
  const objects = await readAssignObjects(directory);
  const demands = objects.of("EgressIP").toSorted((a, b) => byCodeUnit(a.name, b.name));
  const { items, findings } = assign({ nodes: objects.of("Node"), egressIPs: demands });
  const { marks, findings: ofMarks } = allocateMarks(demands);
  for (const { object, path, text } of objects.problems)
    print(`! ${object}${path === "" ? "" : ` ${path}`}: ${text}\n`);
  for (const { object, reason, text } of [...findings, ...ofMarks]) print(`! ${object} ${reason}: ${text}\n`);
  let changes = 0;
  for (const demand of demands) {
    const wanted = items.get(demand.name);
    const now = wanted === undefined ? demand.items : nextItems(demand, wanted);
    const patch = patchOf(demand, now, marks.get(demand.name));
    if (patch.length === 0) continue;
    changes++;
    print(`== EgressIP/${demand.name}\n`);
    for (const operation of patch) print(`${JSON.stringify(operation)}\n`);
    // What is taken away goes first, and the rest follows when that was seen.
    if (wanted !== undefined && wanted.length !== now.length)
      print(`then ${JSON.stringify({ items: wanted })}\n`);
  }
  if (changes === 0) print("nothing to do\n");
  return changes === 0 ? 0 : 2;
}

// `egressip-agent assign`: what the one agent that assigns would write, from a folder of manifests; it writes nothing.
// Without probes: a node counts as reachable.
import { assign } from "../assign/assign.ts";
import { type IpamResult, ipam } from "../assign/ipam.ts";
import { ADDRESSES_KEY } from "../assign/kinds/namespace.ts";
import { allocateMarks } from "../assign/marks.ts";
import type { Demand } from "../assign/objects.ts";
import { nextItems, patchOf } from "../assign/status.ts";
import { demandsAfter, isAsWanted, manifestOf } from "../assign/wanted.ts";
import { byCodeUnit } from "../model/names.ts";
import { readAssignObjects } from "./assign-objects.ts";

/** Exit status as of `plan`: 0 nothing would be written, 2 something would. */
export async function printAssignments(directory: string, print: (text: string) => void): Promise<number> {
  const objects = await readAssignObjects(directory);
  const [nodes, egressIPs] = [objects.of("Node"), objects.of("EgressIP")];
  const given = ipam({
    ipams: objects.of("EgressIPAM"),
    namespaces: objects.of("Namespace"),
    nodes,
    egressIPs,
  });
  const demands = demandsAfter(egressIPs, given).toSorted((a, b) => byCodeUnit(a.name, b.name));
  const { items, findings } = assign({ nodes, egressIPs: demands, pins: given.pins });
  const { marks, findings: ofMarks } = allocateMarks(demands);
  const blocks = [
    ...ipamBlocks(given, egressIPs),
    ...demands.flatMap((demand) => {
      const wanted = items.get(demand.name);
      const now = wanted === undefined ? demand.items : nextItems(demand, wanted);
      const lines = patchOf(demand, now, marks.get(demand.name)).map((one) => JSON.stringify(one));
      if (lines.length === 0) return [];
      // What is taken away goes first, and the rest follows when that was seen.
      if (wanted !== undefined && wanted.length !== now.length)
        lines.push(`then ${JSON.stringify({ items: wanted })}`);
      return [block(`EgressIP/${demand.name}`, lines)];
    }),
  ];
  for (const { object, path, text } of objects.problems)
    print(`! ${object}${path === "" ? "" : ` ${path}`}: ${text}\n`);
  for (const { object, reason, text } of [...given.findings, ...findings, ...ofMarks])
    print(`! ${object} ${reason}: ${text}\n`);
  print(blocks.length === 0 ? "nothing to do\n" : blocks.join(""));
  return blocks.length === 0 ? 0 : 2;
}

const block = (object: string, lines: readonly string[]) =>
  `== ${object}\n${lines.map((line) => `${line}\n`).join("")}`;

function ipamBlocks(given: IpamResult, egressIPs: readonly Demand[]): readonly string[] {
  const known = new Map(egressIPs.map((demand) => [demand.name, demand]));
  return [
    ...[...given.annotations]
      .sort(([a], [b]) => byCodeUnit(a, b))
      .map(([name, text]) => block(`Namespace/${name}`, [`${ADDRESSES_KEY}: ${text ?? "taken away"}`])),
    ...given.unwanted.map((name) => block(`EgressIP/${name}`, ["deleted"])),
    ...[...given.wanted]
      .sort(([a], [b]) => byCodeUnit(a, b))
      .flatMap(([name, wanted]) => {
        const demand = known.get(name);
        if (demand !== undefined && isAsWanted(demand, wanted)) return [];
        return [block(`EgressIP/${name}`, [JSON.stringify(manifestOf(name, wanted))])];
      }),
  ];
}

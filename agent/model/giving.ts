// Which nodes give no egress IP, whatever status.items says, and why: the earliest signs that what they have is about to be another's
// (known-faults BL-38, BL-40). They only take away; what gives is status alone. In: settings, Node objects. Out: reasons by node. Pure.
import { byCodeUnit } from "./names.ts";
import type { Node, Problem } from "./objects.ts";
import type { Settings } from "./settings.ts";

/** By name of the node, in words; a node that is not in it gives what it is assigned. */
export type GivesNothing = ReadonlyMap<string, string>;

type Own = Pick<Settings, "node" | "draining">;

/**
 * A node that is leaving; and one without the label k8s.ovn.org/egress-assignable where another node has it: who assigns by
 * that label never assigns to the first, so what status still says of it is late. Where no node has the label nobody goes by it, and
 * the last one that lost it has nobody who could answer beside it: there status decides as everywhere. Every node finds
 * the same, but for a drain that only its own agent knows of.
 */
export function givingNothing(own: Own, nodes: ReadonlyMap<string, Node>): GivesNothing {
  const reasons = new Map<string, string>();
  const assignable = [...nodes.values()].flatMap((node) => (node.assignable ? [node.name] : []));
  const [first] = assignable.sort(byCodeUnit);
  const others = assignable.length > 1 ? ` and ${assignable.length - 1} more have` : " has";
  if (first !== undefined)
    for (const { name, assignable: has } of nodes.values())
      if (!has)
        reasons.set(name, `node ${name} has no label k8s.ovn.org/egress-assignable, which ${first}${others}`);
  for (const name of new Set([...nodes.keys(), own.node])) {
    const sign = leavingSign(own, name, nodes.get(name));
    if (sign !== "") reasons.set(name, `node ${name} is leaving (${sign})`);
  }
  return reasons;
}

/** Of the own node: also where nothing is assigned to it, since nothing will be given if it is. */
export function leavingProblems(own: Own, nodes: ReadonlyMap<string, Node>): readonly Problem[] {
  const sign = leavingSign(own, own.node, nodes.get(own.node));
  if (sign === "") return [];
  const until = own.draining ? "the agent is started again" : "that is taken back";
  return [
    {
      object: `Node/${own.node}`,
      path: "",
      text: `is leaving (${sign}): no egress IP is given here until ${until}`,
    },
  ];
}

function leavingSign({ node: own, draining }: Own, name: string, node: Node | undefined): string {
  return draining && name === own ? "egressip-agent drain" : (node?.leaving ?? "");
}

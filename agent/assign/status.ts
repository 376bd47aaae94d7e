// What to write to an EgressIP so that it says what was worked out: one JSON Patch (RFC 6902). Pure.
// In: the object, its items as they are to be, its mark. Out: operations; none where nothing differs.
// It holds only for the version that was looked at, so neither a leader of yesterday nor two at once can undo what was written since.
import { parseAddress } from "../model/ip.ts";
import { MARK_KEY } from "./kinds/egressip.ts";
import type { Demand, Item } from "./objects.ts";

export interface Operation {
  readonly op: "add" | "remove" | "test";
  readonly path: string;
  readonly value?: unknown;
}

/**
 * The items to write now, on the way to those that are wanted. What is taken away comes first, alone but for what only changes its
 * node: nodes must not see two addresses of an object on one of them, nor one on two.
 */
export function nextItems({ items }: Demand, wanted: readonly Item[]): readonly Item[] {
  const goal = new Map(wanted.map(({ egressIP, node }) => [egressIP, node]));
  const had = new Set(items.map(({ egressIP }) => parseAddress(egressIP) ?? egressIP));
  const dropped = [...had].some((address) => !goal.has(address));
  return dropped ? wanted.filter(({ egressIP }) => had.has(egressIP)) : wanted;
}

export function patchOf(
  demand: Demand,
  items: readonly Item[],
  mark: number | undefined,
): readonly Operation[] {
  const operations: Operation[] = [];
  if (mark !== undefined && demand.mark !== String(mark)) {
    // One key alone, since the others are somebody else's.
    if (!demand.hasAnnotations) operations.push({ op: "add", path: "/metadata/annotations", value: {} });
    operations.push({ op: "add", path: `/metadata/annotations/${pointer(MARK_KEY)}`, value: String(mark) });
  }
  if (!sameItems(demand.items, items)) operations.push({ op: "add", path: "/status", value: { items } });
  if (operations.length === 0 || demand.version === "") return operations;
  return [{ op: "test", path: "/metadata/resourceVersion", value: demand.version }, ...operations];
}

const pointer = (key: string) => key.replaceAll("~", "~0").replaceAll("/", "~1");

/** In any order, but in the very text: an address that is written otherwise is written anew, once. */
function sameItems(a: readonly Item[], b: readonly Item[]): boolean {
  const texts = new Set(a.map(({ node, egressIP }) => `${egressIP} ${node}`));
  return a.length === b.length && b.every(({ node, egressIP }) => texts.has(`${egressIP} ${node}`));
}

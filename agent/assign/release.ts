// Who moves an address waits until its old node answers for it no more: the old item goes, the node says so, the new one comes.
// In: the items that are wanted, those in status, what nodes report, since when is waited. Out: the items for now, and the waits. Pure.
// Of a node that does not live nothing is waited for, and for one that says nothing only so long. A leader that just began knows no
// waits: it sees who still answers in what nodes report.
import type { Address } from "../model/ip.ts";
import { byCodeUnit } from "../model/names.ts";

export interface ReleaseInput {
  /** By address: the node that is to have it. */
  readonly wanted: ReadonlyMap<Address, string>;
  /** By address: the nodes that status names. */
  readonly held: ReadonlyMap<Address, readonly string[]>;
  /** By node: addresses that it answers for, as it last said; a node that is silent is not in it. */
  readonly answers: ReadonlyMap<string, ReadonlySet<Address>>;
  /** Nodes that probes reach: any other answers for nothing, or cannot be told to stop. */
  readonly alive: ReadonlySet<string>;
  readonly waits: ReadonlyMap<Address, Wait>;
  readonly now: number;
  readonly atMostMs: number;
}

export interface Wait {
  readonly since: number;
  /** Nodes that had it when the wait began, or were found to answer since. */
  readonly from: readonly string[];
}

export interface Release {
  /** By address: the node that status may name now. */
  readonly now: ReadonlyMap<Address, string>;
  readonly waits: ReadonlyMap<Address, Wait>;
  /** Waits that ended because they took too long: the address may be answered for twice. */
  readonly overdue: readonly { readonly address: Address; readonly from: readonly string[] }[];
}

export function release(input: ReleaseInput): Release {
  const now = new Map<Address, string>();
  const waits = new Map<Address, Wait>();
  const overdue: { address: Address; from: readonly string[] }[] = [];
  for (const [address, node] of input.wanted) {
    if (input.held.get(address)?.includes(node) === true) {
      now.set(address, node);
      continue;
    }
    const before = input.waits.get(address);
    const from = stillThere(address, node, before, input);
    const since = before?.since ?? input.now;
    if (from.length === 0) now.set(address, node);
    else if (before !== undefined && input.now - since >= input.atMostMs) {
      now.set(address, node);
      overdue.push({ address, from });
    } else waits.set(address, { since, from });
  }
  return { now, waits, overdue };
}

/** Living nodes that have the address for all we know: named in status, or waited for and not heard to be without it. */
function stillThere(
  address: Address,
  node: string,
  before: Wait | undefined,
  { held, answers, alive }: ReleaseInput,
): readonly string[] {
  const named = held.get(address) ?? [];
  const answering = [...answers].flatMap(([name, own]) => (own.has(address) ? [name] : []));
  // Heard to be without it counts only after status stopped naming it: before that it may be about to take it up.
  const silent = (before?.from ?? []).filter((name) => answers.get(name)?.has(address) !== false);
  return [...new Set([...named, ...answering, ...silent])]
    .filter((name) => name !== node && alive.has(name))
    .sort(byCodeUnit);
}

// A gateway router answers for an egress IP while it has a NAT row with it, so with one database for all nodes a row may only come when
// those on another router are gone, and the flows with them (known-faults BL-40). In: what is to be changed, who gives what by the rows
// that are there. Out: which egress IPs begin and end here; when others have ended.
import type { Address } from "../../model/ip.ts";
import type { RowChange } from "./changes.ts";

/** How many rows of a router give an egress IP, by `ROUTER ADDRESS`. */
export type Giving = ReadonlyMap<string, number>;

/** Those that this router does not give yet: by rows that are new, or that gave another one. */
export function begins(changes: readonly RowChange[], router: string, giving: Giving): readonly Address[] {
  const given = changes.flatMap((change) =>
    (change.op === "insert" || change.op === "update") && change.row.table === "NAT"
      ? [String(change.row.columns["external_ip"])]
      : [],
  );
  return [...new Set(given)].filter((address) => !giving.has(`${router} ${address}`));
}

/** Whether there is one that this router does not give any more afterwards. */
export function endsOne(changes: readonly RowChange[], router: string, giving: Giving): boolean {
  const left = new Map(giving);
  return changes.some((change) => {
    if (change.op !== "delete" || change.found.table !== "NAT") return false;
    const key = `${router} ${String(change.found.columns["external_ip"])}`;
    const rows = (left.get(key) ?? 0) - 1;
    left.set(key, rows);
    return rows === 0;
  });
}

export interface Watched {
  giving(): Giving;
  /** Called when it may be another; returns how to end that. */
  onChange(listener: () => void): () => void;
}

/**
 * Resolves when no other router gives these, or the time is over: the assignment says that they are this node's, and the agent of
 * the other one may not run.
 */
export async function othersEnded(
  addresses: readonly Address[],
  router: string,
  { giving, onChange }: Watched,
  atMostMs: number,
): Promise<void> {
  const others = () => {
    const wanted = new Set(addresses);
    return [...giving().keys()].some((key) => {
      const [of, address] = key.split(" ") as [string, Address];
      return of !== router && wanted.has(address);
    });
  };
  if (!others()) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, atMostMs);
  const stop = onChange(() => {
    if (!others()) resolve();
  });
  await promise;
  clearTimeout(timer);
  stop();
}

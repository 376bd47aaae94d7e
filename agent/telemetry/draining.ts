// `egressip-agent drain`: an order to this process to give nothing any more, until it ends. In: the order, Rounds. Out: whether it
// holds, for the loop; and when nothing is answered for any more, by what was read after the last write.
import type { Round } from "../loop.ts";
import { byCodeUnit } from "../model/names.ts";
import { gatewayRouter } from "../model/northbound.ts";
import { entriesOf } from "../model/shards.ts";
import { stale } from "../sync/addresses.ts";

/** Longer than anything waits that ends a process. */
export const LONGEST_DRAIN_S = 600;

/** When to ask again whether flows have followed. */
const AGAIN_MS = 500;

/** What has become of it. */
export interface Drained {
  readonly node: string;
  /** What is answered for all the same, or cannot be told; empty: it is done. */
  readonly answered: readonly string[];
  /** What the last round could not do. */
  readonly failures: readonly string[];
}

export interface Draining {
  isOrdered(): boolean;
  /** Gives the order, and resolves when it has been carried out, or when so many milliseconds are over. */
  order(atMostMs: number): Promise<Drained>;
  took(round: Round): void;
  /** A round could not even begin. */
  failed(error: Error): void;
  /** Who still waits is told how it is. */
  close(): void;
}

export interface DrainingParts {
  readonly node: string;
  readonly onOrder: () => void;
  /** Whether OVN's flows are as its rows say. */
  readonly followed: () => Promise<boolean>;
  readonly clock?: () => number;
}

export function createDraining({ node, onOrder, followed, clock }: DrainingParts): Draining {
  const now = clock ?? (() => performance.now());
  let ordered = false;
  let closed = false;
  let last: Drained = { node, answered: ["no round has been made since the order"], failures: [] };
  let waiting: (() => void)[] = [];
  const tell = (drained: Drained) => {
    last = drained;
    for (const wake of waiting.splice(0)) wake();
  };
  const untilTold = (atMostMs: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, atMostMs);
      waiting = [
        ...waiting,
        () => {
          clearTimeout(timer);
          resolve();
        },
      ];
    });
  return {
    isOrdered: () => ordered,
    order: async (atMostMs) => {
      const end = now() + atMostMs;
      if (!ordered) {
        ordered = true;
        onOrder();
      }
      for (let left = atMostMs; left > 0 && !closed; left = end - now()) {
        if (last.answered.length > 0) await untilTold(left);
        else if (await followed()) return last;
        // At once where the database cannot be reached.
        else await untilTold(Math.min(left, AGAIN_MS));
      }
      return last.answered.length > 0
        ? last
        : { ...last, answered: ["flows of OVN have not followed its rows"] };
    },
    took: (round) => {
      if (round.snapshot.settings.draining)
        tell({ node, answered: answeredIn(round), failures: failuresOf(round) });
    },
    failed: ({ message }) => {
      if (ordered) tell({ ...last, failures: [message] });
    },
    close: () => {
      closed = true;
      for (const wake of waiting.splice(0)) wake();
    },
  };
}

/**
 * By the facts with which the round began: what was written before has been read back in them. Of rows that cannot be read
 * nothing is known, which is not nothing.
 */
function answeredIn({ snapshot: { host, settings }, plan }: Round): readonly string[] {
  const onLinks = stale(plan, host).map(({ address, link }) => `${address} on ${link}`);
  const router = gatewayRouter(settings.node);
  const byRouter = new Set<string>();
  for (const [, rows] of entriesOf(host.northbound.pods))
    for (const { table, on, columns } of rows)
      if (table === "NAT" && on.includes(router)) byRouter.add(`${columns["external_ip"]} by ${router}`);
  const unknown = host.northbound.state === "stale" && settings.gatewayMode === "shared";
  return [
    ...onLinks,
    ...[...byRouter].sort(byCodeUnit),
    ...(unknown ? [`what ${router} has, since the northbound database cannot be read`] : []),
  ];
}

function failuresOf({ outcome }: Round): readonly string[] {
  return outcome.failures.map(({ backend, error }) => `${backend}: ${error.message}`);
}

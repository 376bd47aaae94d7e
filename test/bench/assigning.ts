// What it costs to assign many egress IPs to many nodes, again, and after the loss of a node. In: how many. Out: medians.
import { type Assignments, assign } from "../../agent/assign/assign.ts";
import type { Demand } from "../../agent/assign/objects.ts";
import { compareAddresses } from "../../agent/model/ip.ts";
import { demand, member } from "../agent/assign/make.ts";
import { median } from "./statistics.ts";

interface Figures {
  readonly took: number;
  readonly compared: number;
  /** Addresses that are elsewhere than before. */
  readonly moved: number;
}

export interface AssigningCost {
  readonly floor: number;
  readonly first: Figures;
  readonly again: Figures;
  readonly lost: Figures;
}

export function measureAssigning(egressIPs: number, nodes: number, turns: number): AssigningCost {
  const all = Array.from({ length: nodes }, (_, at) => member(`n${at}`));
  const demands = Array.from({ length: egressIPs }, (_, at) =>
    demand(`e${at}`, [`172.18.${100 + Math.floor(at / 250)}.${at % 250}`]),
  );
  const addresses = demands.flatMap(({ requested }) => requested).toReversed();
  const floors = Array.from({ length: turns }, () => timed(() => addresses.toSorted(compareAddresses)).took);
  const measure = (of: readonly Demand[], unreachable: ReadonlySet<string> = new Set()) => {
    const runs = Array.from({ length: turns }, () =>
      timed(() => assign({ nodes: all, egressIPs: of, unreachable })),
    );
    const result = runs[0]?.result as Assignments;
    const figures = {
      took: median(runs.map(({ took }) => took)),
      compared: result.compared,
      moved: movedIn(of, result),
    };
    return { figures, result };
  };
  const first = measure(demands);
  const written = demands.map((one) => ({ ...one, items: first.result.items.get(one.name) ?? [] }));
  return {
    floor: median(floors),
    first: first.figures,
    again: measure(written).figures,
    lost: measure(written, new Set(["n7"])).figures,
  };
}

function timed<T>(work: () => T): { readonly took: number; readonly result: T } {
  const start = performance.now();
  const result = work();
  return { took: performance.now() - start, result };
}

function movedIn(before: readonly Demand[], { items }: Assignments): number {
  return before.filter(({ name, items: [had] }) => had?.node !== items.get(name)?.[0]?.node).length;
}

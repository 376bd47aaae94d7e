// Which nodes alone may have an address of a pool: those of its topology value that the EgressIPAM selects. Pure.
// In: EgressIPs that are wanted, EgressIPAMs, nodes. Out: by EgressIP and address the nodes' names.
import { matches } from "../model/select.ts";
import type { Pins } from "./assign.ts";
import type { Wanted } from "./ipam.ts";
import type { Ipam, Pool } from "./kinds/egressipam.ts";
import type { Member } from "./objects.ts";
import { inPool } from "./pool.ts";

export function pinsOf(
  wanted: ReadonlyMap<string, Wanted>,
  ipams: ReadonlyMap<string, Ipam>,
  members: readonly Member[],
): Pins {
  const nodesOf = new Map<Pool, ReadonlySet<string>>();
  for (const { pools, topologyLabel, nodeSelector } of ipams.values())
    for (const pool of pools)
      nodesOf.set(
        pool,
        new Set(
          members
            .filter(
              ({ labels }) => labels[topologyLabel] === pool.labelValue && matches(nodeSelector, labels),
            )
            .map(({ name }) => name),
        ),
      );
  const nowhere: ReadonlySet<string> = new Set();
  return new Map(
    [...wanted].map(([name, { ipam: of, addresses }]) => {
      const pools = ipams.get(of)?.pools ?? [];
      return [
        name,
        new Map(
          addresses.map((address) => {
            const pool = pools.find((one) => inPool(one, address));
            return [address, (pool === undefined ? undefined : nodesOf.get(pool)) ?? nowhere];
          }),
        ),
      ];
    }),
  );
}

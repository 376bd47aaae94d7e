// What this process has written into a list that others write as well, while the watch may not have told of it yet. In: writes, what
// the watch and the plan say. Out: what is probably there, and is to be. The next write tests for it: a wrong guess is refused.
import type { Address } from "../../model/ip.ts";
import { type AnnotationChange, entriesOf } from "./annotation.ts";
import type { Clock } from "./writer.ts";

interface Listed {
  readonly says: string | undefined;
  readonly listed: readonly Address[];
}

export interface Written {
  /**
   * Where the watch says what it said before our write, it is what we wrote that is there. And what we put there and do not hold any
   * more is not to be listed: a plan that is made from what the watch tells late takes it for somebody else's.
   */
  beside(told: Listed, held: ReadonlySet<Address>): Listed;
  wrote(told: string | undefined, change: AnnotationChange): void;
}

/** For so long the watch may be late. */
const BELIEVED_MS = 30_000;

export function createWritten(clock: Pick<Clock, "now">): Written {
  let last:
    | { readonly told: string | undefined; readonly to: string | undefined; readonly until: number }
    | undefined;
  const ours = new Set<Address>();
  return {
    beside: (told, held) => {
      if (last !== undefined && (last.told !== told.says || clock.now() >= last.until)) last = undefined;
      const says = last === undefined ? told.says : last.to;
      if (ours.size === 0) return { says, listed: told.listed };
      const known = new Set([...(entriesOf(says) ?? []), ...told.listed]);
      for (const address of ours) if (!held.has(address) && !known.has(address)) ours.delete(address);
      const isOver = (address: Address) => ours.has(address) && !held.has(address);
      const listed = told.listed.some(isOver)
        ? told.listed.filter((address) => !isOver(address))
        : told.listed;
      return { says, listed };
    },
    wrote: (told, { from, to }) => {
      last = { told, to, until: clock.now() + BELIEVED_MS };
      const before = new Set(entriesOf(from));
      for (const address of entriesOf(to) ?? []) if (!before.has(address)) ours.add(address);
    },
  };
}

// What wakes the loop, collected until the loop is ready for it. In: calls from watchers. Out: which facts are doubtful.
import type { Domain } from "./model/facts.ts";

export interface Wake {
  /** Something may have changed there; `objects` are the Kubernetes objects. */
  because(reason: Domain | "objects" | "tick" | "reload"): void;
  /** Resolves when there is something to do, with what is doubtful; at once if there already is. */
  next(): Promise<ReadonlySet<Domain | "objects" | "tick" | "reload">>;
}

/** Network events come in bursts (a pod's veth makes a dozen): after one, the next is taken this much later. */
const CALM_MS = 200;

export function createWake(now: () => number = () => performance.now()): Wake {
  let reasons = new Set<Domain | "objects" | "tick" | "reload">();
  let waiting: (() => void) | undefined;
  let lastNetwork = Number.NEGATIVE_INFINITY;
  let delayed: NodeJS.Timeout | undefined;
  const raise = (reason: Domain | "objects" | "tick" | "reload") => {
    reasons.add(reason);
    waiting?.();
    waiting = undefined;
  };
  return {
    because: (reason) => {
      if (reason !== "network") return raise(reason);
      const left = lastNetwork + CALM_MS - now();
      if (left <= 0) {
        lastNetwork = now();
        return raise(reason);
      }
      if (delayed !== undefined) return undefined;
      delayed = setTimeout(() => {
        delayed = undefined;
        lastNetwork = now();
        raise("network");
      }, left);
      return undefined;
    },
    next: async () => {
      if (reasons.size === 0) {
        await new Promise<void>((resolve) => {
          waiting = resolve;
        });
      }
      const taken = reasons;
      reasons = new Set();
      return taken;
    },
  };
}

// What wakes the loop, collected until the loop is ready for it. In: calls from watchers. Out: which facts are doubtful.
import type { Domain } from "./model/facts.ts";

export type Reason = Domain | "objects" | "tick" | "reload";

export interface Wake {
  /** Something may have changed there. What the host tells comes in bursts and is taken at most once per rest. */
  because(reason: Reason): void;
  /** To be looked at in any case, and now: what was just written. */
  now(reason: Reason): void;
  /** These domains were just read, in this many milliseconds: they rest in proportion. */
  rest(domains: ReadonlySet<Domain>, tookMs: number): void;
  /** Resolves when there is something to do, with what is doubtful; at once if there already is. */
  next(): Promise<ReadonlySet<Reason>>;
}

/** A pod's veth alone makes a dozen network events. */
const SHORTEST_REST_MS = 200;
/** kube-proxy may rewrite a large ruleset every second: reading it again must not cost more than a tenth of the time. */
const REST_PER_READ = 10;

const TOLD_BY_HOST: ReadonlySet<Reason> = new Set<Reason>(["network", "iptables", "nft", "rivals"]);

export function createWake(clock: () => number = () => performance.now()): Wake {
  let reasons = new Set<Reason>();
  let waiting: (() => void) | undefined;
  const restsUntil = new Map<Reason, number>();
  const delayed = new Set<Reason>();
  const raise = (reason: Reason) => {
    reasons.add(reason);
    waiting?.();
    waiting = undefined;
  };
  return {
    now: raise,
    because: (reason) => {
      if (!TOLD_BY_HOST.has(reason)) return raise(reason);
      const left = (restsUntil.get(reason) ?? 0) - clock();
      if (left <= 0) {
        restsUntil.set(reason, clock() + SHORTEST_REST_MS);
        return raise(reason);
      }
      if (delayed.has(reason)) return undefined;
      delayed.add(reason);
      setTimeout(() => {
        delayed.delete(reason);
        restsUntil.set(reason, clock() + SHORTEST_REST_MS);
        raise(reason);
      }, left).unref();
      return undefined;
    },
    rest: (domains, tookMs) => {
      for (const domain of domains) {
        restsUntil.set(domain, clock() + Math.max(SHORTEST_REST_MS, REST_PER_READ * tookMs));
      }
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

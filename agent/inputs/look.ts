// The host as it is when somebody asks about it, and not when the last round read it. In: readers. Out: facts, neighbours, what there is
// besides that nobody here can judge. Whoever asks while others are being answered shares the next reading with all who do.
import type { Neighbour } from "../../lib/netlink/pure.ts";
import type { HookedChain } from "../../lib/nftables/pure.ts";
import type { HostFacts } from "../model/facts.ts";
import { LEAK_TABLE } from "../model/owner.ts";
import type { Seen } from "../model/seen.ts";

export interface LookParts {
  readonly look: () => Promise<HostFacts>;
  readonly neighbours: () => Promise<readonly Neighbour[]>;
  readonly hooks: () => Promise<readonly HookedChain[]>;
  /** The backend whose tables are among the facts. */
  readonly iptablesBackend: "nft" | "legacy";
}

export function createLook({ look, neighbours, hooks, iptablesBackend }: LookParts): () => Promise<Seen> {
  const readAll = async (): Promise<Seen> => {
    const [facts, known, chains] = await Promise.all([look(), neighbours(), hooks()]);
    return { facts, neighbours: known, foreign: foreignChains(chains, iptablesBackend) };
  };
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<Seen> | undefined;
  return () => {
    // One that has begun may have read before whoever asks now did what he asks about.
    next ??= running
      .catch(() => undefined)
      .then(() => {
        const now = readAll();
        running = now;
        next = undefined;
        return now;
      });
    return next;
  };
}

const ON_THE_WAY: ReadonlySet<string> = new Set([
  "ingress",
  "prerouting",
  "forward",
  "postrouting",
  "egress",
]);
const OF_IPTABLES: ReadonlySet<string> = new Set(["raw", "mangle", "nat", "filter", "security"]);

function foreignChains(chains: readonly HookedChain[], backend: "nft" | "legacy"): readonly string[] {
  const isKnown = ({ family, table }: HookedChain) =>
    (family === "inet" && table === LEAK_TABLE) ||
    (backend === "nft" && (family === "ip" || family === "ip6") && OF_IPTABLES.has(table));
  return chains
    .filter((one) => ON_THE_WAY.has(one.hook) && !isKnown(one))
    .map(({ family, table, chain, hook }) => `${family} ${table} ${chain} (${hook})`);
}

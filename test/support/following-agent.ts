// An agent that goes on by itself: the loop and what wakes it, on a real northbound database and a host that is only facts.
// In: an endpoint, deadlines. Out: what it wrote and when it was not ready; tests change objects and wait for rows.
import {
  connectNorthbound,
  type NorthboundOptions,
  type NorthboundTold,
} from "../../agent/assemble-northbound.ts";
import { createLoop, type Round } from "../../agent/loop.ts";
import type { Objects } from "../../agent/model/build.ts";
import type { Domain, HostFacts } from "../../agent/model/facts.ts";
import { NAME_KEY } from "../../agent/model/northbound-ids.ts";
import type { Settings } from "../../agent/model/settings.ts";
import { createMode } from "../../agent/plan/modes.ts";
import { createBackends } from "../../agent/sync/backends.ts";
import { createContention } from "../../agent/sync/contention.ts";
import { createJournal } from "../../agent/telemetry/journal.ts";
import type { Logger } from "../../agent/telemetry/log.ts";
import { createWake } from "../../agent/wake.ts";
import { bareHost, settings as plain } from "../agent/make.ts";
import { recordingTools } from "../agent/tools.ts";

export interface FollowingAgent {
  /** From now on it wants this. */
  want(objects: Objects): void;
  /** Its own look at everything, as the slow tick has it. */
  tick(): void;
  readonly last: Round | undefined;
  readonly rounds: number;
  readonly ready: boolean;
  told(): NorthboundTold;
  /** One entry for each transaction, and how it ended. */
  readonly transactions: readonly Sent[];
  /** What the host's tools were given. */
  readonly hostWrites: readonly string[];
  /** Entries of the journal about the database: `EVENT reason`. */
  readonly journal: readonly string[];
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

interface Sent {
  /** Names of rows that it takes away: `EGRESSIP_NAMESPACE/NAME`. */
  readonly deletes: readonly string[];
  failed: string | undefined;
}

/** Enough for a machine that is busy, and far below what a test waits. */
const QUICK: NonNullable<NorthboundOptions["deadlines"]> = {
  probeMs: 300,
  timeoutMs: 1_000,
  waitMs: 500,
  flowsMs: 1,
  releaseMs: 1,
  datapathMs: 1,
  backoff: { first: 20, most: 200 },
};

export function followNorthbound(
  endpoint: string,
  first: Objects,
  {
    of = {},
    deadlines = QUICK,
  }: { readonly of?: Partial<Settings>; readonly deadlines?: NorthboundOptions["deadlines"] } = {},
): FollowingAgent {
  const settings: Settings = { ...plain, gatewayMode: "shared", ...of };
  const wake = createWake();
  const northbound = connectNorthbound(
    { settings, northbound: { endpoints: endpoint, tls: undefined } },
    {
      writes: true,
      onChange: () => wake.because("northbound"),
      ...(deadlines === undefined ? {} : { deadlines }),
    },
  );
  const transactions: Sent[] = [];
  const host = recordingTools();
  const backends = createBackends({
    ...host,
    northbound: {
      ...northbound.tools,
      commit: async (changes) => {
        const deletes = changes.flatMap((change) =>
          change.op === "delete" ? [change.found.ids[NAME_KEY] ?? ""] : [],
        );
        const sent: Sent = { deletes, failed: undefined };
        transactions.push(sent);
        await northbound.tools.commit(changes).catch((error: Error) => {
          sent.failed = error.name;
          throw error;
        });
      },
    },
  });
  let facts: HostFacts = bareHost;
  let objects = first;
  let last: Round | undefined;
  let rounds = 0;
  let ended = false;
  const journal: string[] = [];
  const note = (of: { readonly reason?: string }, event?: string) => {
    if (event?.startsWith("northbound") === true) journal.push([event, of.reason ?? ""].join(" ").trim());
  };
  const teller = createJournal({ debug: () => {}, info: note, warn: note, error: note } as unknown as Logger);
  const loop = createLoop({
    settings,
    mode: createMode(settings.gatewayMode),
    backends,
    readHost: async (dirty) => {
      if (dirty.has("northbound"))
        facts = { ...facts, northbound: await northbound.read(dirty.has("record")) };
      return facts;
    },
    assumeHost: (assumed) => {
      facts = assumed;
    },
    readObjects: async () => objects,
    // A minute and more between any two rounds: what is repaired here is repaired at once, however often.
    contention: createContention(() => rounds * 120_000),
  });
  const told = () => northbound.told() as NorthboundTold;
  const live = async () => {
    let retry: NodeJS.Timeout | undefined;
    for (;;) {
      const reasons = await wake.next();
      if (ended) break;
      const all = reasons.has("tick") || reasons.has("reload");
      const dirty = new Set<Domain>(
        all ? ["northbound", "record"] : reasons.has("northbound") ? ["northbound"] : [],
      );
      last = await loop.round(dirty, { write: true, allObjects: true });
      rounds++;
      teller.northbound(told());
      teller.round(last);
      const failed = last.outcome.failures.length > 0;
      clearTimeout(retry);
      if (failed) retry = setTimeout(() => wake.because("reload"), 100);
      else for (const domain of loop.unverified()) if (domain === "northbound") wake.now(domain);
    }
    clearTimeout(retry);
  };
  wake.because("reload");
  const lived = live();
  const close = async () => {
    ended = true;
    wake.because("reload");
    await lived;
    await northbound.close();
  };
  return {
    want: (now) => {
      objects = now;
      wake.because("objects");
    },
    tick: () => wake.because("tick"),
    get last() {
      return last;
    },
    get rounds() {
      return rounds;
    },
    get ready() {
      return last !== undefined && last.outcome.failures.length === 0 && told().state === "current";
    },
    told,
    transactions,
    hostWrites: host.writes,
    journal,
    close,
    [Symbol.asyncDispose]: close,
  };
}

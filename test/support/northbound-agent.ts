// An agent's rounds on a real northbound database and a host that is only facts: what an agent writes to the database, without
// the tools of the host. In: a server, settings, objects. Out: the printed changes of each round.
import { connectNorthbound } from "../../agent/assemble-northbound.ts";
import { createLoop, type Round } from "../../agent/loop.ts";
import type { Objects } from "../../agent/model/build.ts";
import type { HostFacts } from "../../agent/model/facts.ts";
import type { Settings } from "../../agent/model/settings.ts";
import { createMode } from "../../agent/plan/modes.ts";
import { createBackends } from "../../agent/sync/backends.ts";
import { createContention } from "../../agent/sync/contention.ts";
import { printSteps } from "../../agent/sync/round.ts";
import { bareHost, settings as plain } from "../agent/make.ts";
import { recordingTools } from "../agent/tools.ts";

export interface NorthboundAgent {
  /** One round with these objects, or those of the last one; everything read anew. Throws what a backend failed with. */
  round(objects?: Objects): Promise<string>;
  /** The last round. */
  readonly last: Round | undefined;
  /** How many transactions were sent. */
  readonly transactions: number;
  readonly session: NonNullable<ReturnType<typeof connectNorthbound>["session"]>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export function openNorthboundAgent(
  endpoint: string,
  of: Partial<Settings> = {},
  host: Partial<HostFacts> = {},
): NorthboundAgent {
  const settings: Settings = { ...plain, gatewayMode: "shared", ...of };
  const northbound = connectNorthbound(
    { settings, northbound: { endpoints: endpoint, tls: undefined } },
    { writes: true, onChange: () => {} },
  );
  if (northbound.session === undefined) throw new Error("no endpoint");
  let transactions = 0;
  const commit: typeof northbound.tools.commit = async (changes) => {
    transactions++;
    await northbound.tools.commit(changes);
  };
  const backends = createBackends({
    ...recordingTools(),
    northbound: { commit, isGone: northbound.tools.isGone },
  });
  let facts: HostFacts = { ...bareHost, ...host };
  let objects: Objects | undefined;
  let last: Round | undefined;
  const loop = createLoop({
    settings,
    mode: createMode(settings.gatewayMode),
    backends,
    readHost: async () => {
      facts = { ...facts, northbound: await northbound.read(true) };
      return facts;
    },
    assumeHost: (assumed) => {
      facts = assumed;
    },
    readObjects: async () => {
      if (objects === undefined) throw new Error("no objects yet");
      return objects;
    },
    contention: createContention(() => 0),
  });
  const close = () => northbound.close();
  return {
    session: northbound.session,
    get last() {
      return last;
    },
    get transactions() {
      return transactions;
    },
    round: async (now) => {
      objects = now ?? objects;
      last = await loop.round(new Set(), { write: true, allObjects: true });
      const failure = last.outcome.failures[0];
      if (failure !== undefined) throw failure.error;
      return printSteps(last.outcome.steps.filter(({ backend }) => backend === "northbound"));
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

// An agent's rounds on a real northbound database and a host that is only facts: what an agent writes to the database, without
// the tools of the host. In: a server, settings, objects. Out: the printed changes of each round.
import { connectNorthbound } from "../../agent/assemble-northbound.ts";
import { createLoop, type Round } from "../../agent/loop.ts";
import type { Objects } from "../../agent/model/build.ts";
import type { HostFacts } from "../../agent/model/facts.ts";
import { locksOf } from "../../agent/model/northbound-locks.ts";
import type { Settings } from "../../agent/model/settings.ts";
import { createMode } from "../../agent/plan/modes.ts";
import { leaveNorthbound } from "../../agent/plan/parts/northbound/leave.ts";
import { nothing } from "../../agent/plan/plan.ts";
import { createBackends } from "../../agent/sync/backends.ts";
import { createContention } from "../../agent/sync/contention.ts";
import type { RowChange } from "../../agent/sync/northbound/changes.ts";
import { createGoneNodes } from "../../agent/sync/northbound/gone-nodes.ts";
import { carryOut, type Outcome, printSteps } from "../../agent/sync/round.ts";
import type { Session } from "../../lib/ovsdb-client/index.ts";
import { bareHost, settings as plain } from "../agent/make.ts";
import { recordingTools } from "../agent/tools.ts";
import { until } from "./until.ts";

/**
 * Rounds of all until nobody has anything to write, or false: what one writes another may have waited for (rows that all share, the
 * NAT row at the end of a way).
 */
export async function settle(agents: readonly NorthboundAgent[], to: Objects): Promise<boolean> {
  for (let pass = 0; pass < 8; pass++) {
    let written = "";
    for (const agent of agents)
      written += await agent.round(to).catch((error: Error) => {
        if (error.name === "ExemptionsMissingError") return "waits";
        throw error;
      });
    if (written === "") return true;
  }
  return false;
}

export interface NorthboundAgent {
  /** One round with these objects, or those of the last one; everything read anew. Throws what a backend failed with. */
  round(objects?: Objects): Promise<string>;
  /** As `uninstall` leaves, with what the agent last knew of the host. */
  leave(handBack?: boolean): Promise<string>;
  /** Until it has its zone's lock. */
  leads(): Promise<unknown>;
  /** The last round. */
  readonly last: Round | undefined;
  /** How many transactions were sent. */
  readonly transactions: number;
  /** What the last one did. */
  readonly committed: readonly RowChange[];
  /** Facts as they are now, read anew. */
  read(): Promise<HostFacts>;
  readonly settings: Settings;
  readonly session: Session;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface AgentOptions {
  /** By which it is told how long nodes have been gone. */
  readonly now?: () => number;
}

export function openNorthboundAgent(
  endpoint: string,
  of: Partial<Settings> = {},
  host: Partial<HostFacts> = {},
  { now }: AgentOptions = {},
): NorthboundAgent {
  const settings: Settings = { ...plain, gatewayMode: "shared", ...of };
  const northbound = connectNorthbound(
    { settings, northbound: { endpoints: endpoint, tls: undefined } },
    // Nobody makes flows of these rows.
    { writes: true, onChange: () => {}, deadlines: { releaseMs: 1, flowsMs: 1, datapathMs: 1 } },
  );
  if (northbound.session === undefined) throw new Error("no endpoint");
  const session = northbound.session as Session;
  const { zone } = locksOf(settings.northboundOwner, settings.node);
  let transactions = 0;
  let committed: readonly RowChange[] = [];
  const commit: typeof northbound.tools.commit = async (changes) => {
    transactions++;
    committed = changes;
    await northbound.tools.commit(changes);
  };
  const gone = now === undefined ? northbound.tools.gone : createGoneNodes(now);
  const backends = createBackends({ ...recordingTools(), northbound: { commit, gone } });
  let facts: HostFacts = { ...bareHost, ...host };
  let objects: Objects | undefined;
  let last: Round | undefined;
  const read = async () => {
    facts = { ...facts, northbound: await northbound.read(true) };
    return facts;
  };
  const loop = createLoop({
    settings,
    mode: createMode(settings.gatewayMode),
    backends,
    readHost: read,
    assumeHost: (assumed) => {
      facts = assumed;
    },
    readObjects: async () => {
      if (objects === undefined) throw new Error("no objects yet");
      return objects;
    },
    contention: createContention(() => 0),
  });
  const said = ({ failures, steps }: Outcome) => {
    const failure = failures[0];
    if (failure !== undefined) throw failure.error;
    return printSteps(steps.filter(({ backend }) => backend === "northbound"));
  };
  const close = () => northbound.close();
  return {
    settings,
    session,
    get last() {
      return last;
    },
    get transactions() {
      return transactions;
    },
    get committed() {
      return committed;
    },
    read,
    leads: () => until(() => session.locks.get(zone) === "held", `${settings.node} has the lock of the zone`),
    round: async (to) => {
      objects = to ?? objects;
      last = await loop.round(new Set(), { write: true, allObjects: true });
      return said(last.outcome);
    },
    leave: async (handBack = false) => {
      const found = await read();
      const plan = { ...nothing, northbound: leaveNorthbound(settings, found.northbound, handBack) };
      const outcome = await carryOut(backends, plan, found, { write: true, held: () => false });
      facts = outcome.facts;
      return said(outcome);
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

// An agent whose only backend is the northbound database, taken apart so that its parts can be timed. In: an endpoint.
// Out: rounds with what they cost, and the transaction that a round would send, as text.
import { connectNorthbound } from "../../agent/assemble-northbound.ts";
import { createLoop } from "../../agent/loop.ts";
import type { Objects } from "../../agent/model/build.ts";
import type { HostFacts } from "../../agent/model/facts.ts";
import { locksOf } from "../../agent/model/northbound-locks.ts";
import type { Settings } from "../../agent/model/settings.ts";
import { createMode } from "../../agent/plan/modes.ts";
import { createContention } from "../../agent/sync/contention.ts";
import type { RowChange } from "../../agent/sync/northbound/changes.ts";
import { operationsFor } from "../../agent/sync/northbound/operations.ts";
import { northbound as northboundBackend } from "../../agent/sync/northbound.ts";
import type { Session } from "../../lib/ovsdb-client/index.ts";
import { encodeOperations } from "../../lib/ovsdb-client/pure.ts";
import { bareHost, settings as plain } from "../agent/make.ts";

export const settings: Settings = { ...plain, gatewayMode: "shared" };

export interface RoundCost {
  /** Milliseconds from having the objects to having nothing left to do. */
  readonly ms: number;
  /** Of these: facts; snapshot and plan; differences, text and operations; the transaction with everything it brings back. */
  readonly read: number;
  readonly plan: number;
  readonly diff: number;
  readonly commit: number;
  readonly after: number;
  readonly cpu: number;
  readonly transactions: number;
  readonly changes: number;
  readonly operations: number;
}

export interface BenchAgent {
  round(objects: Objects): Promise<RoundCost>;
  /** The transaction that a round with these would send, for a client that has no locks. Nothing is sent. */
  textFor(objects: Objects): Promise<string>;
  /** Everything that anybody committed so far is known. */
  caughtUp(): Promise<void>;
  close(): Promise<void>;
}

export async function openBenchAgent(endpoint: string): Promise<BenchAgent> {
  const northbound = connectNorthbound(
    { settings, northbound: { endpoints: endpoint, tls: undefined } },
    // A machine that is busy with other things is no reason to go on without the database.
    { writes: true, onChange: () => {}, deadlines: { waitMs: 60_000, probeMs: 60_000, timeoutMs: 120_000 } },
  );
  const { tools } = northbound;
  const session = northbound.session as Session;
  let facts: HostFacts = bareHost;
  let objects: Objects | undefined;
  let sent: readonly RowChange[] = [];
  let transactions = 0;
  let commitMs = 0;
  let planned = 0;
  let isSending = true;
  const backend = northboundBackend({
    northbound: {
      ...tools,
      commit: async (changes) => {
        transactions++;
        sent = [...sent, ...changes];
        if (!isSending) return;
        const start = performance.now();
        await tools.commit(changes);
        commitMs += performance.now() - start;
      },
    },
  });
  const loop = createLoop({
    settings,
    mode: createMode("shared"),
    backends: [backend as never],
    readHost: async () => {
      facts = { ...facts, northbound: await northbound.read(false) };
      return facts;
    },
    assumeHost: (assumed) => {
      facts = assumed;
    },
    readObjects: async () => objects as Objects,
    contention: createContention(() => planned++ * 120_000),
  });
  const round = async () => {
    const { outcome, took } = await loop.round(new Set(["northbound"]), { write: true, allObjects: true });
    if (outcome.failures[0] !== undefined) throw outcome.failures[0].error;
    return took;
  };
  return {
    round: async (now) => {
      objects = now;
      sent = [];
      [transactions, commitMs] = [0, 0];
      const cpu = process.cpuUsage();
      const start = performance.now();
      const first = await round();
      const before = performance.now();
      while (loop.unverified().size > 0) await round();
      const end = performance.now();
      const used = process.cpuUsage(cpu);
      return {
        ms: end - start,
        read: first.read,
        plan: first.plan,
        diff: first.write - commitMs,
        commit: commitMs,
        after: end - before,
        cpu: (used.user + used.system) / 1000,
        transactions,
        changes: sent.length,
        operations: sent.length === 0 ? 0 : operations().length,
      };
    },
    textFor: async (now) => {
      objects = now;
      sent = [];
      isSending = false;
      await round();
      isSending = true;
      facts = { ...facts, northbound: await northbound.read(false) };
      return JSON.stringify({ method: "transact", params: ["OVN_Northbound", ...operations()], id: 1 });
    },
    caughtUp: () => session.caughtUp(),
    close: () => northbound.close(),
  };

  function operations(): readonly unknown[] {
    const { topology } = facts.northbound;
    const all = operationsFor(
      sent,
      topology,
      locksOf(settings.northboundOwner, settings.node),
      settings.node,
    );
    const { schema } = session;
    if (schema === undefined) throw new Error("not connected");
    return encodeOperations(
      schema,
      all.filter(({ op }) => op !== "assert"),
    );
  }
}

// The bad days of an API server, each with the agent on a node and a kernel of its own (known-faults J): nothing is taken away from a
// view that is not whole, `status` says what is in doubt and why, the server is not asked without measure, and when it is well again
// the kernel is right. All at once, since most of what they take is waiting: by the agent's own times, of which none is made shorter.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { allEnded } from "../support/all-ended.ts";
import { agentKubeconfig, egressIPDefinition } from "../support/cluster-source.ts";
import { FaultStage, type FollowedStatus, mostInASecond } from "../support/fault-stage.ts";
import { noKubePrograms } from "../support/kube-programs.ts";
import { canRunKernelTests } from "../support/privileged.ts";

const reason = noKubePrograms() ?? canRunKernelTests();

interface Case {
  /** What the agent is when the fault begins: at work, or one that starts, on a host that is programmed. */
  readonly agent: "at work" | "starting without its last good state" | "starting";
  /** Before the agent is started. */
  prepare?(stage: FaultStage): unknown;
  strike(stage: FaultStage): unknown;
  /** What of the change the agent is told of all the same, for certain. */
  readonly knows?: "the egress IP" | "the pods";
  /** What `status` says of it, not being ready; undefined where the agent gets past it by itself. */
  readonly says?: RegExp;
  heal?(stage: FaultStage): unknown;
  /** Of the requests while it lasted. */
  readonly asked?: (stage: FaultStage, from: number) => void;
}

const heals = (stage: FaultStage) => {
  stage.fault = () => undefined;
};
const cutAnd = (fault: FaultStage["fault"]) => (stage: FaultStage) => {
  stage.fault = fault;
  stage.proxy.lines.cut();
};

const cases: Readonly<Record<string, Case>> = {
  "a token that has expired": {
    agent: "at work",
    prepare: (stage) => stage.renewAccount({ seconds: -40 }),
    strike: async (stage) => {
      await stage.untilExpired();
      stage.proxy.lines.cut();
    },
    says: /egressips: nothing was heard for too long: .*401.*pods: nothing was heard/,
    heal: (stage) => stage.renewAccount(),
  },
  "500 to everything": {
    agent: "at work",
    strike: cutAnd(() => ({ status: 500 })),
    says: /egressips: nothing was heard for too long: .*500.*; pods: nothing was heard/,
    heal: heals,
  },
  "403 for pods": {
    agent: "at work",
    knows: "the egress IP",
    strike: cutAnd(({ resource }) => (resource === "pods" ? { status: 403 } : undefined)),
    says: /pods: nothing was heard for too long: .*403/,
    heal: heals,
  },
  "403 for watches of pods": {
    agent: "at work",
    knows: "the egress IP",
    strike: cutAnd(({ verb, resource }) =>
      verb === "watch" && resource === "pods" ? { status: 403 } : undefined,
    ),
    says: /pods: nothing was heard for too long: .*403/,
    heal: heals,
  },
  "403 for pods, at a start": {
    agent: "starting without its last good state",
    strike: cutAnd(({ resource }) => (resource === "pods" ? { status: 403 } : undefined)),
    says: /pods not listed since the agent started: .*403/,
    heal: heals,
  },
  "RST in the middle of lists, at a start": {
    agent: "starting without its last good state",
    strike: cutAnd(({ verb, query }) =>
      verb === "list" || query.has("sendInitialEvents") ? { linesBeforeCut: 0, ending: "reset" } : undefined,
    ),
    says: /egressips not listed since the agent started: /,
    heal: heals,
  },
  "RST in the middle of the next event, each time": {
    agent: "at work",
    strike: cutAnd(({ verb }) => (verb === "watch" ? { linesBeforeCut: 0, ending: "reset" } : undefined)),
    says: /egressips: nothing was heard for too long: .*pods: nothing was heard/,
    heal: heals,
  },
  "a black hole": {
    agent: "at work",
    strike: ({ proxy }) => proxy.lines.blackHole(),
    says: /egressips: nothing was heard for too long: .*pods: nothing was heard/,
    heal: ({ proxy }) => proxy.lines.revive(),
  },
  "connections that only the agent believes in": {
    agent: "at work",
    strike: ({ proxy }) => proxy.lines.strandClients(),
  },
  "a trickle, at a start": {
    agent: "starting without its last good state",
    strike: ({ proxy }) => {
      proxy.lines.bytesPerSecond = 600;
    },
    says: /not listed since the agent started/,
    heal: ({ proxy }) => {
      proxy.lines.bytesPerSecond = Infinity;
      proxy.lines.cut();
    },
  },
  "refused connections": {
    agent: "at work",
    strike: ({ proxy }) => proxy.lines.refuse(),
    says: /egressips: nothing was heard for too long: .*ECONNREFUSED.*pods: nothing was heard/,
    heal: ({ proxy }) => proxy.lines.accept(),
  },
  "429 with Retry-After": {
    agent: "at work",
    strike: cutAnd(() => ({ status: 429, retryAfter: 7 })),
    says: /egressips: nothing was heard for too long: .*429.*pods: nothing was heard/,
    heal: heals,
    asked: ({ asked }, from) => {
      for (const of of ["egressips", "nodes", "namespaces", "pods"]) {
        const times = asked.slice(from).filter(({ call }) => call.resource === of && call.verb !== "patch");
        expect(times.length).toBeGreaterThan(3);
        for (const [before, { at }] of times.slice(1).entries())
          expect(at - (times[before]?.at ?? 0)).toBeGreaterThanOrEqual(7_000);
      }
    },
  },
  "404 for EgressIPs": {
    agent: "at work",
    knows: "the pods",
    strike: cutAnd(({ resource }) => (resource === "egressips" ? { status: 404 } : undefined)),
    says: /egressips: the server does not know this kind/,
    heal: heals,
  },
  "404 for EgressIPs, at a start": {
    agent: "starting",
    strike: cutAnd(({ resource }) => (resource === "egressips" ? { status: 404 } : undefined)),
    says: /egressips: the server does not know this kind/,
    heal: heals,
  },
  "empty lists, at a start": {
    agent: "starting",
    strike: cutAnd(({ verb }) => (verb === "list" ? "empty" : undefined)),
    says: /egressips: the list is empty, and there were \d+.*pods: the list is empty/,
    heal: heals,
  },
  "410 to every watch": {
    agent: "at work",
    strike: cutAnd(({ verb }) => (verb === "watch" ? { status: 410 } : undefined)),
  },
};

/** Four kinds, each with up to three questions before its watch; and what is reported. A start lists them, and may ask first in a newer way. */
const MOST_IN_A_SECOND = 20;
const DOUBT_MS = 110_000;
/** Known-faults J: right within a minute of healing. */
const HEALED_MS = 60_000;

const told = ({ error, problems }: FollowedStatus) =>
  [error, ...problems.map(({ object, text }) => `${object}: ${text}`)].join("\n");

async function play(stage: FaultStage, { agent, strike, knows, says, heal, asked }: Case): Promise<string> {
  await stage.has(stage.atFirst, "it gives what it is to", 60_000);
  const before = await stage.dump();
  if (agent !== "at work") await stage.kill({ forgets: agent !== "starting" });
  await strike(stage);
  const from = stage.asked.length;
  const began = performance.now();
  await stage.changeBehindItsBack();
  if (agent !== "at work") await stage.spawn();
  let doubted = began;
  if (says !== undefined) {
    const { ready } = await stage.when((of) => !of.ready && says.test(told(of)), `it says ${says}`, DOUBT_MS);
    doubted = performance.now();
    expect(ready).toBe(false);
    const now = new Set((await stage.dump()).split("\n"));
    const gone = before.split("\n").filter((line) => !now.has(line));
    expect(gone.filter((line) => knows === undefined || !stage.isOf(line, knows))).toEqual([]);
  }
  const during = stage.asked.slice(from);
  expect(mostInASecond(during)).toBeLessThanOrEqual(MOST_IN_A_SECOND);
  asked?.(stage, from);
  await heal?.(stage);
  const healed = performance.now();
  await stage.has(stage.inTheEnd, "it is right", HEALED_MS + (heal === undefined ? 30_000 : 0));
  const seconds = (ms: number) => Math.round(ms / 1000);
  return `doubt after ${seconds(doubted - began)} s, ${during.length} requests, ${mostInASecond(during)} in a second at most; right ${seconds(performance.now() - healed)} s after`;
}

describe.skipIf(reason !== undefined)(
  `an agent whose API server has a bad day${reason === undefined ? "" : `: ${reason}`}`,
  () => {
    let api: ApiServer;
    const stages: FaultStage[] = [];
    const outcomes = new Map<string, Promise<string>>();

    beforeAll(async () => {
      api = await ApiServer.up();
      await api.objects.apply(egressIPDefinition);
      await agentKubeconfig(api);
      for (const at of Object.keys(cases).keys()) stages.push(await FaultStage.up(api, at + 1));
      for (const [at, [name, one]] of Object.entries(cases).entries()) {
        const stage = stages[at] as FaultStage;
        // One after the other: what they take of the processor is at their start.
        await one.prepare?.(stage);
        await stage.spawn();
        await stage.when(({ ready }) => ready, "it is ready", 60_000);
        const outcome = play(stage, one);
        // Whoever waits for it hears of it.
        outcome.catch(() => undefined);
        outcomes.set(name, outcome);
      }
    });
    afterAll(async () => {
      await allEnded(stages.map((stage) => stage.down())).finally(() => api?.close());
    });

    it.each(Object.keys(cases))("%s", { timeout: 180_000 }, async (name) => {
      const outcome = await outcomes.get(name);
      expect(outcome).toMatch(/right/);
      if (process.env["FAULTS_TOLD"] !== undefined) process.stderr.write(`${name}: ${outcome}\n`);
    });
  },
);

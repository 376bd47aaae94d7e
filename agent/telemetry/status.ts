// What the daemon answers when asked: status, list, counters, explain, changes. In: Rounds. Out: plain objects for the debug socket.
import { spawnCounts } from "../../lib/exec/index.ts";
import type { KubernetesTold } from "../assemble-kubernetes.ts";
import type { NorthboundTold } from "../assemble-northbound.ts";
import type { Config } from "../config.ts";
import type { Round } from "../loop.ts";
import { getFrom, sizeOf } from "../model/shards.ts";
import type { Contention } from "../sync/contention.ts";
import { printSteps } from "../sync/round.ts";
import type { Counters } from "./counters.ts";
import { type Answering, explain } from "./explain/explain.ts";
import { questionAt } from "./explain/question.ts";

export interface Status {
  took(round: Round): void;
  failed(error: Error): void;
  /** Why this node is not ready; undefined while it is. */
  notReady(): string | undefined;
  /** The answer for a path of the debug socket, or undefined for one that does not exist. */
  readonly answer: (path: string, query: URLSearchParams) => unknown;
}

/** One line of `list`: an egress IP of this node. */
export interface ListedAddress {
  readonly egressIP: string;
  readonly address: string;
  readonly state: "serving" | "unready";
  readonly link: string;
  readonly mark: string;
  readonly pods: number;
  /** Connections it was given to since its rule was made. */
  readonly connections: number;
  readonly reason: string;
}

const ROUNDS_KEPT = 20;

export function createStatus(
  config: Config,
  contention: Pick<Contention, "list">,
  counters: () => Promise<Counters>,
  /** How the northbound database is at this moment; undefined where there is none. */
  northbound: () => NorthboundTold | undefined,
  /** How the objects are followed at this moment; undefined where that is not more than reading them. */
  source: () => KubernetesTold | undefined,
  /** The host and the database as they are when somebody asks. */
  looking: Pick<Answering, "look" | "others">,
): Status {
  let last: Round | undefined;
  let error: string | undefined;
  const changes: { readonly round: number; readonly at: string; readonly text: string }[] = [];
  const notReady = (): string | undefined => {
    if (error !== undefined) return error;
    if (last === undefined) return "no round has been made yet";
    const [failure] = last.outcome.failures;
    if (failure !== undefined) return `${failure.backend}: ${failure.error.message}`;
    // Also between two rounds: who asks must not be told of a database that is gone.
    const { state = "current", failure: why = "" } = northbound() ?? {};
    if (state !== "current") return `the northbound database is ${state} ${why}`.trim();
    // As above, and of a server that is silent.
    return isFollowed(last, source()) ? undefined : "the API server is not followed, or not believed";
  };
  const answers: Readonly<Record<string, (query: URLSearchParams) => unknown>> = {
    "/status": () => ({
      node: config.settings.node,
      mode: config.settings.gatewayMode,
      ready: notReady() === undefined,
      ...(error === undefined ? {} : { error }),
      rounds: last?.number ?? 0,
      held: last?.snapshot.held.length ?? 0,
      unready: last?.snapshot.unready.length ?? 0,
      // The annotation of this name, as it has to be.
      secondaryHostEgressIPs: last?.outcome.facts.record.secondaryHostEgressIPs ?? [],
      pods: last === undefined ? 0 : sizeOf(last.snapshot.served.selected),
      problems: last?.snapshot.problems ?? [],
      failures:
        last?.outcome.failures.map(({ backend, phase, error: why }) => ({
          backend,
          phase,
          error: why.message,
        })) ?? [],
      contention: contention.list(),
      northbound: northbound() ?? null,
      kubernetes: source() ?? null,
      took: last?.took ?? null,
      spawned: spawnCounts(),
      memoryMiB: Math.round(process.memoryUsage.rss() / 1048576),
      cpuSeconds: (process.cpuUsage().user + process.cpuUsage().system) / 1e6,
    }),
    "/list": async () => (last === undefined ? [] : list(last, await counters())),
    "/counters": () => counters(),
    "/explain": (query) =>
      explain(questionAt(query), { node: config.settings.node, round: last, ...looking }),
    "/changes": () => changes,
  };
  return {
    took: (round) => {
      last = round;
      error = undefined;
      if (round.outcome.steps.length === 0) return;
      changes.push({
        round: round.number,
        at: new Date().toISOString(),
        text: printSteps(round.outcome.steps).slice(0, 100_000),
      });
      if (changes.length > ROUNDS_KEPT) changes.shift();
    },
    failed: (why) => {
      error = why.message;
    },
    notReady,
    answer: (path, query) => answers[path]?.(query),
  };
}

/** Objects that are confirmed by now do not count before a round was made of them. */
function isFollowed({ objects }: Round, source: KubernetesTold | undefined): boolean {
  if (source === undefined) return true;
  return source.ready && (objects.unconfirmed === undefined || source.unconfirmed !== undefined);
}

function list({ snapshot, plan }: Round, { connections }: Counters): readonly ListedAddress[] {
  const pods = new Map<string, number>();
  for (const family of [4, 6] as const) {
    for (const shard of plan.sets.served[family].shards) {
      for (const address of shard.keys()) {
        const by = getFrom(snapshot.served.claims, address)?.[0]?.by.name;
        pods.set(`${by} ${family}`, (pods.get(`${by} ${family}`) ?? 0) + 1);
      }
    }
  }
  const problemOf = (name: string, address: string) =>
    snapshot.problems
      .filter(({ object, text }) => object === `EgressIP/${name}` && text.startsWith(`${address}: `))
      .map(({ text }) => text.slice(address.length + 2))
      .join("; ");
  return [
    ...snapshot.held.map(({ egressIP, address, link, mark, family }) => ({
      egressIP: egressIP.name,
      address,
      state: "serving" as const,
      link,
      mark: `0x${mark.toString(16)}`,
      pods: pods.get(`${egressIP.name} ${family}`) ?? 0,
      connections: connections[address] ?? 0,
      reason: problemOf(egressIP.name, address),
    })),
    ...snapshot.unready.map(({ egressIP, address }) => ({
      egressIP: egressIP.name,
      address,
      state: "unready" as const,
      link: "",
      mark: "",
      pods: 0,
      connections: 0,
      reason: problemOf(egressIP.name, address),
    })),
  ];
}

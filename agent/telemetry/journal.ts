// Rounds to log lines: what changed, what failed and recovered, what became of which egress IP. In: Rounds. Out: log entries.

import type { KubernetesTold } from "../assemble-kubernetes.ts";
import type { NorthboundTold } from "../assemble-northbound.ts";
import type { Round } from "../loop.ts";
import type { Rival } from "../model/facts.ts";
import type { Problem } from "../model/objects.ts";
import { onLink } from "../model/on-link.ts";
import type { Held } from "../model/snapshot.ts";
import type { Logger } from "./log.ts";

export interface Journal {
  round(round: Round): void;
  /** A round could not even begin. */
  inputsFailed(error: Error): void;
  /** How the northbound database is; undefined where there is none. */
  northbound(told: NorthboundTold | undefined): void;
  /** How the objects are followed; undefined where that is not more than reading them. */
  source(told: KubernetesTold | undefined): void;
}

/** Lines of a change that go into the log; the rest is counted. The debug socket has them all. */
const SHOWN = 20;

export function createJournal(log: Logger): Journal {
  const failing = new Map<string, string>();
  let problems = new Map<string, Problem>();
  let held = new Map<string, Held>();
  let rivals = new Map<string, Rival>();
  let inputsFailing: string | undefined;
  let northbound: NorthboundTold["state"] | undefined;
  const followed = new Map<string, string>();
  return {
    northbound: (told) => {
      if (told !== undefined && told.state !== northbound) logNorthbound(log, told);
      northbound = told?.state;
    },
    source: (told) => {
      for (const { kind, state, scope, why } of told?.kinds ?? []) {
        if (followed.get(kind) !== `${state} ${scope}`) logKind(log, kind, state, scope, why);
        followed.set(kind, `${state} ${scope}`);
      }
    },
    inputsFailed: (error) => {
      if (inputsFailing !== error.message) log.error({ error: error.message }, "inputsFailed");
      inputsFailing = error.message;
    },
    round: ({ number, outcome, snapshot, took }) => {
      if (inputsFailing !== undefined) log.info("inputsRecovered");
      inputsFailing = undefined;
      const failed = new Set(outcome.failures.map(({ backend, phase }) => `${backend} ${phase}`));
      for (const { phase, backend, lines } of outcome.steps) {
        if (failed.has(`${backend} ${phase}`)) continue;
        const more = lines.length > SHOWN ? { more: lines.length - SHOWN } : {};
        log.info({ round: number, backend, phase, lines: lines.slice(0, SHOWN), ...more }, "hostChanged");
      }
      const now = new Map(outcome.failures.map(({ backend, error }) => [backend, error.message]));
      for (const [backend, text] of now)
        if (failing.get(backend) !== text) log.error({ backend, error: text }, "backendFailing");
      for (const backend of failing.keys()) if (!now.has(backend)) log.info({ backend }, "backendRecovered");
      failing.clear();
      for (const [backend, text] of now) failing.set(backend, text);
      problems = logProblems(log, problems, snapshot.problems);
      held = logHeld(log, held, snapshot.held);
      rivals = logRivals(log, rivals, snapshot.host.rivals);
      if (outcome.steps.length > 0) log.debug({ round: number, ...took }, "roundTook");
    },
  };
}

/** When it begins to be so, and from when on it was: what happens meanwhile is in `status`. */
function logNorthbound(log: Logger, { state, endpoint, since, failure }: NorthboundTold): void {
  switch (state) {
    case "current":
      log.info({ endpoint, since }, "northboundFollowed");
      break;
    case "waiting":
      log.warn({ endpoint, since, reason: "another agent has the lock of this node" }, "northboundLocked");
      break;
    case "stale":
      log.warn({ endpoint, since, reason: failure ?? "not read yet" }, "northboundLost");
      break;
  }
}

type KindTold = KubernetesTold["kinds"][number];

/** A kind that is followed, of all nodes or of this one, and one that is not to be relied on. */
function logKind(
  log: Logger,
  kind: KindTold["kind"],
  state: KindTold["state"],
  scope: KindTold["scope"],
  why: KindTold["why"],
): void {
  if (state === "current" || state === "absent") log.info({ kind, state, scope }, "kindFollowed");
  else log.warn({ kind, state, reason: why }, "kindDoubtful");
}

function logProblems(
  log: Logger,
  before: ReadonlyMap<string, Problem>,
  problems: readonly Problem[],
): Map<string, Problem> {
  const now = new Map(
    problems.map((problem) => [`${problem.object}\n${problem.path}\n${problem.text}`, problem]),
  );
  for (const [key, problem] of now) if (!before.has(key)) log.warn(problem, "problemFound");
  for (const [key, { object, path }] of before) if (!now.has(key)) log.info({ object, path }, "problemGone");
  return now;
}

function logHeld(log: Logger, before: ReadonlyMap<string, Held>, held: readonly Held[]): Map<string, Held> {
  const now = new Map(held.map((entry) => [onLink(entry), entry]));
  for (const [key, { egressIP, address, link }] of now) {
    if (!before.has(key)) log.info({ egressIP: egressIP.name, address, link }, "addressHeld");
  }
  for (const [key, { egressIP, address, link }] of before) {
    if (!now.has(key)) log.info({ egressIP: egressIP.name, address, link }, "addressReleased");
  }
  return now;
}

function logRivals(
  log: Logger,
  before: ReadonlyMap<string, Rival>,
  rivals: readonly Rival[],
): Map<string, Rival> {
  const now = new Map(rivals.map((rival) => [`${rival.address} ${rival.link} ${rival.mac}`, rival]));
  for (const [key, rival] of now) if (!before.has(key)) log.warn(rival, "duplicateSeen");
  for (const [key, rival] of before) if (!now.has(key)) log.info(rival, "duplicateGone");
  return now;
}

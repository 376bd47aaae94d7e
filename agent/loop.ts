// The loop: facts, snapshot, plan, round; then wait for the next wake. In: inputs and a mode. Out: Rounds.
// What decides is facts, never what was done before: a restart is a round, a switch of modes is a round, uninstall is one.

import { createRest, inTurns } from "../lib/turns/index.ts";
import { createBuild, type Objects } from "./model/build.ts";
import type { Domain, HostFacts } from "./model/facts.ts";
import { lastOf } from "./model/memo.ts";
import type { Settings } from "./model/settings.ts";
import type { Snapshot } from "./model/snapshot.ts";
import type { Mode } from "./plan/mode.ts";
import type { Plan } from "./plan/plan.ts";
import { toConfirm } from "./sync/announce.ts";
import type { AnyBackend } from "./sync/backend.ts";
import type { Contention } from "./sync/contention.ts";
import { type Ahead, toReadBack } from "./sync/read-back.ts";
import { carryOut, type Outcome } from "./sync/round.ts";
import { adoptServed, prepareServed } from "./sync/sets.ts";

export interface Round {
  readonly number: number;
  readonly objects: Objects;
  readonly snapshot: Snapshot;
  readonly plan: Plan;
  readonly outcome: Outcome;
  /** Milliseconds for reading facts, for snapshot and plan, and for carrying out. */
  readonly took: { readonly read: number; readonly plan: number; readonly write: number };
}

export interface LoopParts {
  readonly settings: Settings;
  /** Whether this process was told to give nothing any more; missing where nobody can tell it. */
  readonly isDraining?: () => boolean;
  readonly mode: Mode;
  readonly backends: readonly AnyBackend[];
  readonly readHost: (dirty: ReadonlySet<Domain>) => Promise<HostFacts>;
  readonly assumeHost: (facts: HostFacts) => void;
  /** Missing where nothing is read back before its round has ended. */
  readonly ahead?: Ahead;
  readonly readObjects: (all: boolean) => Promise<Objects>;
  readonly contention: Contention;
  /** Told of a plan before it is carried out; waits for nothing. */
  readonly planned?: ((planned: Pick<Round, "objects" | "snapshot" | "plan">) => void) | undefined;
}

const NO_LINES: ReadonlySet<string> = new Set();

export interface Loop {
  /** One round with these domains read anew. Throws when inputs cannot be read: then nothing is written at all. */
  round(
    dirty: ReadonlySet<Domain>,
    options: { readonly write: boolean; readonly allObjects: boolean },
  ): Promise<Round>;
  /** Domains to read back because of what the last round wrote. */
  unverified(): ReadonlySet<Domain>;
}

export function createLoop(parts: LoopParts): Loop {
  const build = createBuild();
  // The same object each time: what is made from settings is made again when they are another one.
  const drained = lastOf((settings: Settings): Settings => Object.freeze({ ...settings, draining: true }));
  let number = 0;
  let lastLinks: string | undefined;
  let lastObjects: Objects | undefined;
  let inDoubt = false;
  let everConfirmed = false;
  let toVerify = new Set<Domain>();
  return {
    unverified: () => toVerify,
    round: async (dirty, { write, allObjects }) => {
      const start = performance.now();
      // Who asks for everything anew has not asked for what was begun before that.
      if (allObjects) parts.ahead?.doubt(dirty);
      const settings = parts.isDraining?.() ? drained(parts.settings) : parts.settings;
      // Both to their end: a reading of the host that goes on behind a failed round would end in the middle of the next.
      const [readObjects, readHost] = await Promise.allSettled([
        parts.readObjects(allObjects).then(async (read) => {
          await inTurns(build.prepare(settings, read));
          return read;
        }),
        parts.readHost(dirty),
      ]);
      if (readObjects.status === "rejected") inDoubt = true;
      // Whose its egress IPs are is nothing to a node that gives none: those that were last read will do.
      const unread = settings.draining ? lastObjects : undefined;
      if (readObjects.status === "rejected" && unread === undefined) throw readObjects.reason;
      if (readHost.status === "rejected") throw readHost.reason;
      const objects = readObjects.status === "fulfilled" ? readObjects.value : (unread as Objects);
      const observed = readHost.value;
      const read = performance.now();
      const rest = createRest();
      const snapshot = build(settings, objects, observed);
      await rest();
      const plan = parts.mode.plan(snapshot);
      await rest();
      // A node that gives nothing any more does so whoever else has its egress IPs.
      const unconfirmed = settings.draining ? undefined : objects.unconfirmed;
      const host = adoptServed(plan, inDoubt && !unconfirmed ? toConfirm(plan, observed) : observed);
      // What was found at the start was announced by whoever put it there, however long it took to confirm it.
      everConfirmed ||= unconfirmed === undefined;
      inDoubt = everConfirmed && unconfirmed !== undefined;
      if (write) parts.planned?.({ objects, snapshot, plan });
      const planned = performance.now();
      await rest();
      await inTurns(prepareServed(plan, host));
      const outcome = await carryOut(parts.backends, plan, host, {
        write,
        unconfirmed,
        held: (backend) =>
          parts.contention.heldLines(backend.name) === "all" && !backend.urgent?.(plan, host),
        heldLines: ({ name }) => {
          const lines = parts.contention.heldLines(name);
          return lines === "all" ? NO_LINES : lines;
        },
        ahead: parts.ahead,
      });
      if (write) {
        parts.assumeHost(outcome.facts);
        toVerify = toReadBack(outcome);
        // It is asked again later, and then of what there is then.
        if (outcome.failures.length > 0) parts.ahead?.doubt(toVerify);
        // Written again although nobody asked for anything new: somebody else undid it. What failed was not written.
        // Nor is a link that flaps anybody's doing against us.
        const links = JSON.stringify(observed.network.links);
        if (sameObjects(lastObjects, objects) && links === lastLinks) {
          const failed = new Set(outcome.failures.map(({ backend }) => backend));
          const perLine = new Set(parts.backends.flatMap(({ name, without }) => (without ? [name] : [])));
          for (const { backend, lines } of outcome.steps)
            if (!failed.has(backend)) parts.contention.note(backend, lines, perLine.has(backend));
        }
        lastObjects = objects;
        lastLinks = links;
      }
      number++;
      const took = { read: read - start, plan: planned - read, write: performance.now() - planned };
      return Object.freeze({ number, objects, snapshot, plan, outcome, took });
    },
  };
}

function sameObjects(before: Objects | undefined, now: Objects): boolean {
  return (["egressIPs", "nodes", "namespaces", "pods"] as const).every(
    (kind) => before?.[kind] === now[kind],
  );
}

// Runs inside the node's namespace: reads manifests, carries a first round out and reads it back until nothing is left.
// Prints milliseconds. `warm` does it once before on an emptied kernel, so that the code has run.
import { openHost } from "../../agent/assemble.ts";
import { openObjects } from "../../agent/commands/parts.ts";
import { gather, parseConfig } from "../../agent/config.ts";
import { DOMAINS } from "../../agent/inputs/host.ts";
import { createLoop, type Loop, type Round } from "../../agent/loop.ts";
import type { Domain } from "../../agent/model/facts.ts";
import { createMode } from "../../agent/plan/modes.ts";
import { nothing } from "../../agent/plan/plan.ts";
import { createContention } from "../../agent/sync/contention.ts";
import { carryOut, printSteps, type Step } from "../../agent/sync/round.ts";

const config = parseConfig(gather({}, process.env));
const source = await openObjects(config);
const readStart = performance.now();
const objects = await source.read(true);
const readObjects = performance.now() - readStart;
const host = await openHost(config, { writes: true });

export interface Figures {
  readonly readHost: number;
  readonly toVerified: number;
  /** Of that: snapshot and plan; from the first diff until all is written; what is left of reading back, and finding nothing. */
  readonly plan: number;
  readonly write: number;
  readonly readBack: number;
  /** Of the agent's own process and all its threads; the tools' is not in it. */
  readonly cpu: number;
  readonly steps: readonly Step[];
}

async function establish(): Promise<Figures> {
  let cpuBefore: NodeJS.CpuUsage | undefined;
  const loop = createLoop({
    settings: config.settings,
    mode: createMode(config.settings.gatewayMode),
    backends: host.backends,
    readHost: async (dirty) => {
      const facts = await host.input.read(dirty);
      cpuBefore ??= process.cpuUsage();
      return facts;
    },
    assumeHost: (facts) => host.input.assume(facts),
    ahead: host.input,
    readObjects: async () => objects,
    contention: createContention(() => 0),
  });
  const start = performance.now();
  const { took, outcome } = await written(loop, new Set(DOMAINS));
  for (let dirty = loop.unverified(); dirty.size > 0; dirty = loop.unverified()) {
    const again = await written(loop, dirty);
    if (again.outcome.steps.length > 0)
      throw new Error(
        `the first round did not bring everything about: ${printSteps(again.outcome.steps).slice(0, 1000)}`,
      );
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  const toVerified = performance.now() - start - took.read;
  const { read: readHost, plan, write } = took;
  const readBack = toVerified - plan - write;
  return { readHost, toVerified, plan, write, readBack, cpu: (user + system) / 1000, steps: outcome.steps };
}

async function written(loop: Loop, dirty: ReadonlySet<Domain>): Promise<Round> {
  const round = await loop.round(dirty, { write: true, allObjects: false });
  if (round.outcome.failures.length > 0) throw round.outcome.failures[0]?.error;
  return round;
}

if (process.argv[2] === "warm") {
  await establish();
  const facts = await host.input.read(new Set(DOMAINS));
  await carryOut(host.backends, nothing, facts, { write: true, held: () => false });
  await host.input.read(new Set(DOMAINS));
}
const figures = await establish();
await host.close();
await source.close();
process.stdout.write(JSON.stringify({ ...figures, readObjects }));

// Runs inside the node's namespace: reads manifests, carries a first round out and reads it back until nothing is left.
// Prints milliseconds. `warm` does it once before on an emptied kernel, so that the code has run.
import { openHost } from "../../agent/assemble.ts";
import { openObjects } from "../../agent/commands/parts.ts";
import { gather, parseConfig } from "../../agent/config.ts";
import { DOMAINS } from "../../agent/inputs/host.ts";
import { createLoop } from "../../agent/loop.ts";
import type { Domain } from "../../agent/model/facts.ts";
import { createMode } from "../../agent/plan/modes.ts";
import { nothing } from "../../agent/plan/plan.ts";
import { createContention } from "../../agent/sync/contention.ts";
import { carryOut, type Step } from "../../agent/sync/round.ts";

const config = parseConfig(gather({}, process.env));
const source = await openObjects(config);
const readStart = performance.now();
const objects = await source.read(true);
const readObjects = performance.now() - readStart;
const host = await openHost(config, { writes: true });

async function establish(): Promise<{
  readonly readHost: number;
  readonly toVerified: number;
  readonly cpu: number;
  readonly steps: readonly Step[];
}> {
  const loop = createLoop({
    settings: config.settings,
    mode: createMode(config.settings.gatewayMode),
    backends: host.backends,
    readHost: (dirty) => host.input.read(dirty),
    assumeHost: (facts) => host.input.assume(facts),
    ahead: host.input,
    readObjects: async () => objects,
    contention: createContention(() => 0),
  });
  const start = performance.now();
  const cpuBefore = process.cpuUsage();
  let dirty: ReadonlySet<Domain> = new Set(DOMAINS);
  let first: { readonly read: number; readonly steps: readonly Step[] } | undefined;
  do {
    const { took, outcome } = await loop.round(dirty, { write: true, allObjects: false });
    if (outcome.failures.length > 0) throw outcome.failures[0]?.error;
    if (first !== undefined && outcome.steps.length > 0)
      throw new Error("the first round did not bring everything about");
    first ??= { read: took.read, steps: outcome.steps };
    dirty = loop.unverified();
  } while (dirty.size > 0);
  return {
    readHost: first.read,
    toVerified: performance.now() - start - first.read,
    cpu: cpuSince(cpuBefore),
    steps: first.steps,
  };
}

function cpuSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

if (process.argv[2] === "warm") {
  await establish();
  const facts = await host.input.read(new Set(DOMAINS));
  await carryOut(host.backends, nothing, facts, { write: true, held: () => false });
  await host.input.read(new Set(DOMAINS));
}
const { readHost, toVerified, cpu, steps } = await establish();
await host.close();
await source.close();
process.stdout.write(
  JSON.stringify({ readObjects, readHost, toVerified, cpu, rss: process.memoryUsage.rss() / 1048576, steps }),
);

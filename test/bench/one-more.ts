// Runs inside the node's namespace: with everything in place, one pod more, many times. Prints what one costs.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { assemble, openObjects } from "../../agent/commands/parts.ts";
import { gather, parseConfig } from "../../agent/config.ts";
import { DOMAINS } from "../../agent/inputs/host.ts";
import type { Domain } from "../../agent/model/facts.ts";
import { spawnCounts } from "../../lib/exec/index.ts";
import { pod } from "./manifests.ts";

const [pods = 0, egressIPs = 0, times = 0] = process.argv.slice(2).map(Number);
const config = parseConfig(gather({}, process.env));
let changed = (): void => {};
const objects = await openObjects(config, {
  lasting: false,
  onChange: () => changed(),
  onFailure: () => {},
});
const { loop, host } = await assemble(config, (all) => objects.read(all), { writes: true });
let dirty: ReadonlySet<Domain> = new Set(DOMAINS);
do {
  await loop.round(dirty, { write: true, allObjects: true });
  dirty = loop.unverified();
} while (dirty.size > 0);

// What announces runs on for five seconds after the first round, beside this: not what a pod costs.
const spawned = () => Number(spawnCounts()["ipset"]);
const costs: { ms: number; lines: number; spawns: number; cpu: number }[] = [];
for (let i = 0; i < times; i++) {
  const text = pod(pods + i, { pods, egressIPs, dual: false });
  const told = new Promise<void>((resolve) => {
    changed = resolve;
  });
  const before = spawned();
  const cpu = process.cpuUsage();
  const start = performance.now();
  writeFileSync(join(process.env["EGRESSIP_MANIFESTS"] ?? "", `more-${i}.yaml`), text);
  await told;
  const { outcome } = await loop.round(new Set(), { write: true, allObjects: false });
  const used = process.cpuUsage(cpu);
  costs.push({
    ms: performance.now() - start,
    lines: outcome.steps.reduce((sum, { lines }) => sum + lines.length, 0),
    spawns: spawned() - before,
    cpu: (used.user + used.system) / 1000,
  });
}
await host.close();
await objects.close();
process.stdout.write(JSON.stringify(costs));

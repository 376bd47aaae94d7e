// Runs inside the node's namespace: an agent's parts over the API server, from its first request on. Prints a line when the first
// plan is made, a line for each later round that wrote, and a last one when its input ends.
import { readFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as wait } from "node:timers/promises";
import { assemble, openObjects } from "../../agent/commands/parts.ts";
import { gather, parseConfig } from "../../agent/config.ts";
import { DOMAINS } from "../../agent/inputs/host.ts";
import type { Domain } from "../../agent/model/facts.ts";
import { entriesOf } from "../../agent/model/shards.ts";
import { createWake } from "../../agent/wake.ts";

const say = (value: unknown) => process.stdout.write(`${JSON.stringify(value)}\n`);
const config = parseConfig(gather({}, process.env));
const delay = monitorEventLoopDelay({ resolution: 1 });
const stall = () => delay.max / 1e6;
/** MiB: the most that it ever was. The maximum that getrusage(2) tells is inherited from who started this process. */
const peak = () => Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) / 1024;
delay.enable();
const cpu = process.cpuUsage();
const start = performance.now();
const wake = createWake();
const objects = await openObjects(config, {
  lasting: true,
  onChange: () => wake.now("objects"),
  onFailure: (error) => console.error(error),
});
// Loading the client, before anything can be asked.
// A stall is counted by the turn that comes after it.
await wait(5);
const stallLoading = stall();
delay.reset();
const loaded = performance.now() - start;
wake.now("objects");
const { loop, host } = await assemble(config, (all) => objects.read(all), { writes: true });
// A node asks for its own pods until it knows that it holds an egress IP: the first plan is that of all of them.
const count = Number(process.argv[2]);
let rounds = 0;
let took: unknown;
for (let complete = false; !complete; ) {
  await wake.next();
  // Not listed yet is thrown.
  const round = await loop
    .round(rounds === 0 ? new Set(DOMAINS) : new Set(), { write: false, allObjects: rounds === 0 })
    .catch((error: unknown) => String(error));
  if (typeof round === "string") continue;
  rounds++;
  took = round.took;
  complete = [...entriesOf(round.snapshot.served.claims)].length >= count;
}
const { user, system } = process.cpuUsage(cpu);
const first = {
  ms: performance.now() - start,
  rounds,
  took,
  cpu: (user + system) / 1000,
  loaded,
  stallLoading,
  stall: stall(),
  rss: process.memoryUsage.rss() / 2 ** 20,
  peak: peak(),
};
delay.reset();
let dirty: ReadonlySet<Domain> = new Set(DOMAINS);
do {
  const { outcome } = await loop.round(dirty, { write: true, allObjects: false });
  if (outcome.failures.length > 0) throw outcome.failures[0]?.error;
  dirty = loop.unverified();
} while (dirty.size > 0);
say({ ...first, stallWriting: stall(), peakWriting: peak() });
delay.reset();

let over = false;
process.stdin.once("end", () => {
  over = true;
  wake.now("objects");
});
process.stdin.resume();
while (!over) {
  await wake.next();
  const { outcome } = await loop.round(new Set(), { write: true, allObjects: false });
  const lines = outcome.steps.flatMap((step) => step.lines);
  if (lines.length > 0) say({ at: String(process.hrtime.bigint()), lines });
}
say({
  stall: stall(),
  rss: process.memoryUsage.rss() / 2 ** 20,
  peak: peak(),
});
await host.close();
await objects.close();

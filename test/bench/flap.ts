// Runs inside the node's namespace: with everything in place, one link goes down and comes up again. In: the link, lines for
// `ip -batch` that make it what it was. Prints what either has the agent write.
import { assemble, openObjects } from "../../agent/commands/parts.ts";
import { gather, parseConfig } from "../../agent/config.ts";
import { DOMAINS } from "../../agent/inputs/host.ts";
import type { Domain } from "../../agent/model/facts.ts";
import type { Step } from "../../agent/sync/round.ts";
import { run } from "../../lib/exec/index.ts";

const [link = "", restore = ""] = process.argv.slice(2);
const config = parseConfig(gather({}, process.env));
const objects = await openObjects(config);
const { loop, host } = await assemble(config, (all) => objects.read(all), { writes: true });

/** Everything is read, as by the slow tick: what is written does not depend on what woke the agent. */
async function written(): Promise<readonly Step[]> {
  const steps: Step[] = [];
  let dirty: ReadonlySet<Domain> = new Set(DOMAINS);
  do {
    const { outcome } = await loop.round(dirty, { write: true, allObjects: true });
    if (outcome.failures.length > 0) throw outcome.failures[0]?.error;
    steps.push(...outcome.steps);
    dirty = loop.unverified();
  } while (dirty.size > 0);
  return steps;
}

await written();
await run("ip", ["link", "set", link, "down"]);
const down = await written();
await run("ip", ["-batch", "-"], { input: restore });
const up = await written();
await host.close();
await objects.close();
process.stdout.write(JSON.stringify({ down, up }));

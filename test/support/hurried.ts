// Loaded into an agent before its own code (`node --import`): what it waits between two attempts to reach the API server is a
// hundredth, and nothing else is another. On SIGUSR2 it says what it holds when all is collected that can be.
import { readdirSync } from "node:fs";
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const { setTimeout: later } = globalThis;

globalThis.setTimeout = Object.assign(
  (call: (...args: unknown[]) => void, ms: number, ...args: unknown[]) =>
    later(call, / at sleep \(\S*\/reflection\.ts/.test(new Error().stack ?? "") ? ms / 100 : ms, ...args),
  later,
) as typeof setTimeout;

process.on("SIGUSR2", () => {
  void settled().then((held) => process.stdout.write(`${JSON.stringify({ event: "settled", ...held })}\n`));
});

async function settled() {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  for (let times = 0; times < 4; times++) {
    await turn();
    collect();
  }
  const { heapUsed, rss } = process.memoryUsage();
  return { heapUsed, rss, descriptors: readdirSync("/proc/self/fd").length };
}

// What the daemon costs when nothing happens, and how much memory it holds, at 5,000 pods. In: a world. Out: figures.
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openWorld, settingsFor } from "./world.ts";

export interface IdleCost {
  /** Percent of one core, the agent and the tools it starts together. */
  readonly cpuPercent: number;
  readonly seconds: number;
  /** MiB of the agent's own process, as the kernel counts it, and of everything it keeps running. */
  readonly rss: number;
  readonly rssAll: number;
}

const TICKS_PER_SECOND = 100;

export async function measureIdle(bundle: string, seconds: number): Promise<IdleCost> {
  const world = await openWorld();
  const settings = settingsFor(world, { pods: 5000, egressIPs: 64, dual: false });
  // As an operator would start it: the file's first line says with which flags.
  const agent = spawn(
    "ip",
    ["netns", "exec", world.node, fileURLToPath(new URL(bundle, import.meta.url)), "run"],
    {
      env: { ...process.env, ...settings },
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  const pid = agent.pid as number;
  await ready(settings["EGRESSIP_DEBUG_SOCKET"] as string);
  // `ip netns exec` becomes the agent: the pid is the agent's own.
  const before = cpuTicks(pid);
  await wait(seconds * 1000);
  const used = cpuTicks(pid) - before;
  const all = [pid, ...descendants(pid)];
  const figures = {
    cpuPercent: (used / TICKS_PER_SECOND / seconds) * 100,
    seconds,
    rss: rssOf(pid),
    rssAll: all.reduce((sum, of) => sum + rssOf(of), 0),
  };
  agent.kill("SIGTERM");
  await new Promise((resolve) => agent.once("exit", resolve));
  await world.close();
  return figures;
}

/** Own time and that of children: the tools' time is in the process that starts them, which is a child that lives. */
function cpuTicks(pid: number): number {
  return [pid, ...descendants(pid)].reduce((sum, of) => {
    const path = `/proc/${of}/stat`;
    if (!existsSync(path)) return sum; // a tool that ended: its time is in its parent's now
    const fields = readFileSync(path, "utf8")
      .replace(/^.*\) /, "")
      .split(" ");
    return sum + [11, 12, 13, 14].reduce((ticks, field) => ticks + Number(fields[field]), 0);
  }, 0);
}

function descendants(pid: number): readonly number[] {
  const path = `/proc/${pid}/task/${pid}/children`;
  const children = existsSync(path)
    ? readFileSync(path, "utf8").trim().split(" ").filter(Boolean).map(Number)
    : [];
  return children.flatMap((child) => [child, ...descendants(child)]);
}

function rssOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
}

/** Waits until the agent says that a round has read back everything it wrote. */
async function ready(socketPath: string): Promise<void> {
  const deadline = performance.now() + 60_000;
  for (;;) {
    const status = await ask(socketPath);
    if (status?.ready === true && status.rounds >= 2) return;
    if (performance.now() > deadline) throw new Error("the agent did not become ready");
    await wait(200);
  }
}

function ask(socketPath: string): Promise<{ ready: boolean; rounds: number } | undefined> {
  return new Promise((resolve) => {
    const call = request({ socketPath, path: "/status" }, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on("end", () => resolve(JSON.parse(text) as { ready: boolean; rounds: number }));
    });
    call.once("error", () => resolve(undefined));
    call.end();
  });
}

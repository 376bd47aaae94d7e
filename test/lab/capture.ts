// Packets as tcpdump sees them, as its lines or as raw frames. Resolves when tcpdump listens; stop() gives all
// that passed before it was called.
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { framesOf } from "./pcap.ts";
import { outsideNames, type Place, podNetworks } from "./topology.ts";

export interface Capture<T> {
  stop(): Promise<T>;
}

/** Its lines, with time, without names. */
export async function capture(namespace: string, device: string, filter: string): Promise<Capture<string[]>> {
  const dump = await start(namespace, device, ["-l", filter]);
  return {
    stop: async () => (await dump.stop()).toString("utf8").split("\n").filter(Boolean),
  };
}

/** From the link-layer header on. Not for the device `any`, whose headers are made up. */
export async function captureFrames(
  namespace: string,
  device: string,
  filter: string,
): Promise<Capture<Uint8Array[]>> {
  const dump = await start(namespace, device, ["-U", "-w", "-", filter]);
  return { stop: async () => framesOf(await dump.stop()) };
}

/** Packets that still have a pod's address, on either network outside and on any port of it. */
export async function watchLeaks(namespace: (place: Place) => string): Promise<Capture<string[]>> {
  const filter = `src net ${podNetworks[4]} or src net ${podNetworks[6]}`;
  const watches = await Promise.all(
    outsideNames.map(async (place) => ({
      place,
      watch: await capture(namespace(place), "any", filter),
    })),
  );
  return {
    stop: async () => {
      const lines = watches.map(async ({ place, watch }) =>
        (await watch.stop()).map((line) => `${place}: ${line}`),
      );
      return (await Promise.all(lines)).flat();
    },
  };
}

interface Tcpdump {
  readonly child: ChildProcessByStdio<null, Readable, Readable>;
  /** All it said on stderr so far. */
  said: string;
  /** Called when it said something or ended. */
  wake: () => void;
}

async function start(namespace: string, device: string, args: readonly string[]): Promise<Capture<Buffer>> {
  const all = ["netns", "exec", namespace, "tcpdump", "--immediate-mode", "-n", "-i", device, ...args];
  const child = spawn("ip", all, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, LC_ALL: "C" },
  });
  const tcpdump: Tcpdump = { child, said: "", wake: () => undefined };
  const chunks: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => {
    tcpdump.said += chunk.toString("utf8");
    tcpdump.wake();
  });
  const closed = once(child, "close").finally(() => tcpdump.wake());
  await until(tcpdump, () => tcpdump.said.includes("listening on"));
  return {
    stop: async () => {
      await drained(tcpdump);
      child.kill("SIGTERM");
      await closed;
      return Buffer.concat(chunks);
    },
  };
}

/** Waits for its stderr; throws what was said when it ends first or within 5 s. */
async function until(tcpdump: Tcpdump, isSo: () => boolean): Promise<void> {
  const deadline = Date.now() + 5_000;
  const timer = setTimeout(() => tcpdump.wake(), 5_000);
  try {
    while (!isSo()) {
      const { exitCode, signalCode } = tcpdump.child;
      if (exitCode !== null || signalCode !== null || Date.now() >= deadline)
        throw new Error(`tcpdump ended or says nothing: ${tcpdump.said.trim()}`);
      await new Promise<void>((resolve) => {
        tcpdump.wake = resolve;
      });
    }
  } finally {
    clearTimeout(timer);
  }
}

/**
 * What the kernel has handed over but tcpdump has not read would be lost at the end. tcpdump counts both on
 * SIGUSR1 (tcpdump(1)): ask until they agree, or stay apart for a few rounds (the kernel also counts packets
 * from before the filter was in place).
 */
async function drained(tcpdump: Tcpdump): Promise<void> {
  let [last, unchanged] = ["", 0];
  while (unchanged < 5) {
    const from = tcpdump.said.length;
    tcpdump.child.kill("SIGUSR1");
    await until(tcpdump, () => tcpdump.said.includes("dropped by kernel", from));
    const counts = tcpdump.said.slice(from);
    const captured = /(\d+) packets? captured/.exec(counts)?.[1];
    if (captured === /(\d+) packets? received/.exec(counts)?.[1]) return;
    unchanged = counts === last ? unchanged + 1 : 0;
    last = counts;
  }
}

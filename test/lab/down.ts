// Takes a lab away: first the processes in its namespaces, then the namespaces. Needs nothing but the prefix,
// so it works after the run that made the lab was killed.
import { run } from "../../lib/exec/index.ts";
import { namespaceOf, places } from "./topology.ts";

/** Those namespaces of the lab that exist, by their exact names: `eip` is not `eip-7`. */
export async function namespacesOf(prefix: string): Promise<string[]> {
  const present = new Set(await allNamespaces());
  return places.map((place) => namespaceOf(prefix, place)).filter((name) => present.has(name));
}

/** Every named namespace of the machine. */
export async function allNamespaces(): Promise<string[]> {
  const { stdout } = await run("ip", ["netns", "list"]);
  return stdout.split("\n").map((line) => line.split(" ")[0] ?? "");
}

export async function processesIn(namespace: string): Promise<number[]> {
  const { stdout } = await run("ip", ["netns", "pids", namespace]);
  return stdout.split("\n").filter(Boolean).map(Number);
}

/** Kills until nobody is left: something may be started by a process that is about to be killed. */
async function endProcesses(namespace: string): Promise<void> {
  const deadline = Date.now() + 5_000;
  for (;;) {
    const found = await processesIn(namespace);
    if (found.length === 0) return;
    if (Date.now() > deadline) throw new Error(`${namespace}: ${found.join(" ")} cannot be killed`);
    for (const pid of found) kill(pid);
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Nothing to do is fine. Returns the names of the namespaces that were removed. */
export async function takeDown(prefix: string): Promise<readonly string[]> {
  const names = await namespacesOf(prefix);
  await removeNamespaces(names);
  return names;
}

/** With everything that runs in them. */
export async function removeNamespaces(names: readonly string[]): Promise<void> {
  await Promise.all(names.map(endProcesses));
  const input = names.map((name) => `netns del ${name}\n`).join("");
  if (names.length > 0) await run("ip", ["-batch", "-"], { input });
}

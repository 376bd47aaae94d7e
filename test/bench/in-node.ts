// Starts a script of the bench inside the node's namespace with the settings of an agent. In: script, settings. Out: its JSON.
import { fileURLToPath } from "node:url";
import type { World } from "./world.ts";

export async function inNode<T>(
  world: World,
  script: string,
  settings: Readonly<Record<string, string>>,
  ...args: readonly string[]
): Promise<T> {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const assignments = Object.entries(settings).map(([key, value]) => `${key}=${value}`);
  const out = await world.exec(world.node, "env", [...assignments, process.execPath, path, ...args]);
  return JSON.parse(out) as T;
}

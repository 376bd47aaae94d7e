// Starts a script of the bench inside the node's namespace as an agent is started. In: script, settings. Out: its JSON.
import { fileURLToPath } from "node:url";
import { flags, variables } from "../support/first-line.ts";
import type { World } from "./world.ts";

export async function inNode<T>(
  world: World,
  script: string,
  settings: Readonly<Record<string, string>>,
  ...args: readonly string[]
): Promise<T> {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const assignments = [...variables, ...Object.entries(settings).map(([key, value]) => `${key}=${value}`)];
  const command = [...assignments, process.execPath, ...flags, path, ...args];
  const out = await world.exec(world.node, "env", command);
  return JSON.parse(out) as T;
}

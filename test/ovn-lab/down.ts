// Takes an OVN lab away by its prefix alone: what runs in its namespaces, the namespaces, its folder. Works after a kill -9.
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { allNamespaces, removeNamespaces } from "../lab/down.ts";
import { folderOf, planFile } from "./plan.ts";

/** Names of places have no dash in them, so that `ovn` is not `ovn-7`. */
export const placeName = /^[a-z][a-z0-9]*$/;

export async function namespacesOf(prefix: string): Promise<string[]> {
  const start = `${prefix}-`;
  return (await allNamespaces()).filter(
    (name) => name.startsWith(start) && placeName.test(name.slice(start.length)),
  );
}

/** Nothing to do is fine. Returns the names of the namespaces that were removed. */
export async function takeDown(prefix: string): Promise<readonly string[]> {
  const names = await namespacesOf(prefix);
  await removeNamespaces(names);
  // Only a lab's folder is ours to remove.
  if (existsSync(planFile(prefix))) await rm(folderOf(prefix), { recursive: true, force: true });
  return names;
}

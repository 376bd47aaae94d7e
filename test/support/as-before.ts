// A node that something was done to is as it was, but for the order in which things that were made anew are listed.
import { expect } from "vitest";
import type { Lab } from "../lab/lab.ts";
import type { NodeName } from "../lab/topology.ts";
import { unordered } from "./agent-dump.ts";
import { until } from "./until.ts";

/** Waits until its dump is `before` again; what is different is the failure. */
export async function isAsBefore(lab: Lab, node: NodeName, before: string): Promise<void> {
  const same = async () => unordered(await lab.dump(node)) === unordered(before);
  await until(same, "the node is as it was", 10_000).catch(() => undefined);
  expect(unordered(await lab.dump(node))).toBe(unordered(before));
}

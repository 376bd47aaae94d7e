// One JSON patch of several, since some can only be applied to an object that has what others lack. In: a client, the patches. Out: one
// request after the other until one is taken.
import type { Cluster } from "../../../lib/kubernetes/index.ts";
import { statusOf } from "./writer.ts";

/** The first of these that the object is such that it can be applied to. */
export async function patchFirst(
  request: Cluster["request"],
  path: string,
  patches: readonly (readonly object[])[],
): Promise<void> {
  for (const [index, body] of patches.entries()) {
    try {
      await request("PATCH", path, { body, contentType: "application/json-patch+json" });
      return;
    } catch (error) {
      if (index === patches.length - 1 || statusOf(error as Error).code !== 422) throw error;
    }
  }
}

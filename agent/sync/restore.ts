// Gives lines to `ipset restore`. In: changes and their lines. Out: one process, or of many lines one for each family.
// Lines of two sets have nothing to do with each other, and the kernel works at two sets at a time.
import type { SetChange } from "./set-lines.ts";
import type { Tools } from "./tools.ts";

/** Fewer lines than this take less time than another process. */
const WORTH_A_PROCESS = 256;

export async function restoreSets(
  { ipset }: Pick<Tools, "ipset">,
  changes: readonly SetChange[],
  lines: readonly string[],
): Promise<void> {
  if (lines.length < 2 * WORTH_A_PROCESS) return ipset.restore(textOf(lines));
  const texts = ["4", "6"].map((family) =>
    textOf(lines.filter((_, at) => changes[at]?.set.endsWith(family))),
  );
  // To the end of both, whatever one comes to: a tool that is still at work when its round has failed would be in the way of the next.
  const ended = await Promise.allSettled(
    texts.filter((text) => text !== "").map((text) => ipset.restore(text)),
  );
  for (const result of ended) if (result.status === "rejected") throw result.reason;
}

function textOf(lines: readonly string[]): string {
  return lines.length === 0 ? "" : `${lines.join("\n")}\n`;
}

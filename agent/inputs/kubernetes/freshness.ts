// How long a kind has been silent, and whether what is known of it still counts. In: the state of its reflection, the time.
// Out: milliseconds, and a verdict. Pure.
import type { ReflectionState } from "../../../lib/kubernetes/index.ts";

/** Not known to be right for this long while it is known that something is wrong: a server that answers 500 says something, too. */
const FAILING_MS = 60_000;
/** And when nothing is known to be wrong: bookmarks come each minute, and a watch that is silent is given up before this. */
const SILENT_MS = 240_000;

/** Milliseconds since the last byte; undefined when there was none yet. */
export function silentFor(
  { lastContact }: Pick<ReflectionState, "lastContact">,
  now: number,
): number | undefined {
  return lastContact === undefined ? undefined : Math.max(0, now - lastContact);
}

export function isStale(
  { lastRight, failure }: Pick<ReflectionState, "failure" | "lastRight">,
  now: number,
): boolean {
  return lastRight !== undefined && now - lastRight > (failure === undefined ? SILENT_MS : FAILING_MS);
}

// How long nodes that wrote rows have had no Node object: an agent that has just started may not have read it yet, and a node
// that is made anew keeps its rows meanwhile. In: a clock. Out: whether the time has come.

/** Milliseconds. */
const GRACE_MS = 300_000;

export function createGoneNodes(now: () => number, graceMs: number = GRACE_MS): (node: string) => boolean {
  const seen = new Map<string, { since: number; last: number }>();
  return (node) => {
    const known = seen.get(node);
    const at = now();
    // Not asked about for longer than that: it was back in between.
    if (known === undefined || at - known.last > graceMs) {
      seen.set(node, { since: at, last: at });
      return false;
    }
    known.last = at;
    return at - known.since >= graceMs;
  };
}

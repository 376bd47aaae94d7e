// How long nodes that wrote rows have had no Node object: an agent that has just started may not have read it yet, and a node
// that is made anew keeps its rows meanwhile. In: a clock, and who is absent now. Out: who has been for long enough.

/** Milliseconds. */
const GRACE_MS = 300_000;

export type GoneNodes = (absent: readonly string[]) => readonly string[];

export function createGoneNodes(now: () => number, graceMs: number = GRACE_MS): GoneNodes {
  const since = new Map<string, number>();
  let last = now();
  return (absent) => {
    const at = now();
    // Nobody looked for so long that any of them may have been back in between.
    if (at - last > graceMs) since.clear();
    last = at;
    for (const node of [...since.keys()]) if (!absent.includes(node)) since.delete(node);
    for (const node of absent) if (!since.has(node)) since.set(node, at);
    return absent.filter((node) => at - (since.get(node) ?? at) >= graceMs);
  };
}

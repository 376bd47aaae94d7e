// Waits for a claim about the world to become true, with a deadline: what tests use in place of a sleep.
// In: a condition that is cheap to ask again. Out: its first truthy answer, or an Error naming what is late.
const stepMs = 3;

/**
 * Polls `condition` every few milliseconds until it answers something truthy, and returns that answer. What
 * the condition throws is thrown on at once: a condition that cannot be asked is a broken test, not a late
 * one.
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  what: string,
  deadlineMs = 5_000,
): Promise<Exclude<T, undefined | null | false>> {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    const answer = await condition();
    if (answer) return answer as Exclude<T, undefined | null | false>;
    if (performance.now() > deadline) throw new Error(`not within ${deadlineMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, stepMs));
  }
}

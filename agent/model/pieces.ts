// Long work as a generator, which yields where it may be interrupted. Pure: who has a clock decides whether it is (`turns.ts`).

/** The whole of it without a break. Throws what the work throws. */
export function atOnce<T>(work: Generator<unknown, T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

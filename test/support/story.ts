// How a demo is told: headings with the time so far, an end by a signal that still takes everything down, and an exit status that
// says whether everything was as expected. In: a story. Out: text and a status.
import { constants } from "node:os";

export interface Story {
  /** Throws Unexpected when something was seen that must not be. */
  show(): Promise<void>;
  /** Last lines of the agents' logs, for when it goes wrong. */
  said(): readonly string[];
  /** Takes everything away, also of a story that is still being told. */
  close(): Promise<void>;
}

/** Something was seen that must not be. */
export class Unexpected extends Error {}

const started = performance.now();

export function heading(text: string): void {
  console.log(`\n=== ${text} (${((performance.now() - started) / 1000).toFixed(1)} s)\n`);
}

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

function isSignal(error: unknown): error is (typeof signals)[number] {
  return signals.some((signal) => signal === error);
}

/** Resolves to the exit status. */
export async function tell(story: Story): Promise<number> {
  const { promise: ended, reject: end } = Promise.withResolvers<never>();
  for (const signal of signals) process.on(signal, () => end(signal));
  const shown = story.show();
  shown.catch(() => undefined); // goes wrong on its own when a signal takes the lab away under it
  try {
    await Promise.race([shown, ended]);
    heading("Everything was as expected");
    return 0;
  } catch (error) {
    if (isSignal(error)) {
      console.error(`\ndemo: ${error}, taking everything down`);
      return 128 + constants.signals[error];
    }
    for (const text of story.said()) console.error(`\n${text}`);
    const text = error instanceof Error ? error.message : String(error);
    console.error(`\ndemo: ${error instanceof Unexpected ? "NOT AS EXPECTED\n" : ""}${text}`);
    return 1;
  } finally {
    await story.close();
  }
}

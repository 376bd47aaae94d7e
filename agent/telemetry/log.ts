// The journal: one JSON line an entry on standard output, written at once so that a crash loses none.
// Event names are past-tense and stable; a failure is logged when it starts, changes and ends, not at each retry.
import { fstatSync } from "node:fs";
import { type Logger, pino } from "pino";

export type { Logger } from "pino";

export function createLog(level: string): Logger {
  const inJournal = isJournalStream(process.env["JOURNAL_STREAM"]);
  return pino(
    {
      level,
      base: null,
      timestamp: inJournal ? false : pino.stdTimeFunctions.isoTime,
      messageKey: "event",
      formatters: { level: (label) => ({ level: label }) },
    },
    inJournal ? prefixed() : pino.destination({ dest: 1, sync: true }),
  );
}

/** systemd sets JOURNAL_STREAM=DEVICE:INODE of the stream it gave us; only then the `<N>` prefix is understood. */
function isJournalStream(variable: string | undefined): boolean {
  if (variable === undefined) return false;
  try {
    const { dev, ino } = fstatSync(1);
    return variable === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

/** syslog(3) priorities by pino level, as sd-daemon(3) takes them. */
const PRIORITY: Readonly<Record<string, number>> = {
  trace: 7,
  debug: 7,
  info: 6,
  warn: 4,
  error: 3,
  fatal: 2,
};

function prefixed(): { write(line: string): void } {
  const out = pino.destination({ dest: 1, sync: true });
  return {
    write: (line) => {
      const level = /"level":"(\w+)"/.exec(line)?.[1] ?? "info";
      out.write(`<${PRIORITY[level] ?? 6}>${line}`);
    },
  };
}

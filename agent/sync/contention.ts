// Somebody keeps undoing what we do: repair it a few times, then give way for a while and say so (known-faults BL-33).
// In: the text of each repair. Out: which backends, or which lines of one, to hold back, until when. Pure but for its clock.

export interface Contention {
  /** Notes what was written. `perLine`: of this backend only the lines that are fought over are to be held. */
  note(backend: string, lines: readonly string[], perLine?: boolean): void;
  /** Milliseconds until this backend may write again what is held of it; 0 when nothing is. */
  heldFor(backend: string): number;
  /** What of this backend is not to be written now. */
  heldLines(backend: string): "all" | ReadonlySet<string>;
  /** Backends in contention, with the line that keeps coming back. */
  list(): readonly { readonly backend: string; readonly line: string; readonly times: number }[];
}

const WINDOW_MS = 60_000;
/** The same line written this often in a window is a fight. */
const FIGHT = 8;
/** Lines that stand around every change of iptables, whatever it is. */
const FRAME = /^(?:#|\*|COMMIT$)/;
const FIRST_HOLD_MS = 5_000;
const LONGEST_HOLD_MS = 60_000;
/** Whoever fights over more lines than this fights over the backend. */
const MOST_LINES = 32;

interface Fight {
  readonly backend: string;
  readonly line: string;
  readonly times: number;
}

interface Hold extends Fight {
  readonly perLine: boolean;
  readonly until: number;
  readonly ms: number;
}

export function createContention(now: () => number): Contention {
  const times = new Map<string, number[]>();
  const held = new Map<string, Hold>();
  const hold = (key: string, fight: Fight, perLine: boolean) => {
    const before = held.get(key);
    const ms = Math.min(before === undefined ? FIRST_HOLD_MS : before.ms * 2, LONGEST_HOLD_MS);
    held.set(key, { ...fight, perLine, until: now() + ms, ms });
  };
  const wholeFor = (backend: string) => Math.max(0, (held.get(backend)?.until ?? 0) - now());
  const linesOf = (backend: string) =>
    [...held.values()].filter((of) => of.perLine && of.backend === backend && of.until > now());
  return {
    note: (backend, lines, perLine = false) => {
      const from = now() - WINDOW_MS;
      const fought: Fight[] = [];
      for (const line of new Set(lines.filter((text) => !FRAME.test(text)).slice(0, 100))) {
        const key = `${backend}\n${line}`;
        const recent = [...(times.get(key) ?? []).filter((time) => time > from), now()];
        times.set(key, recent);
        if (recent.length < FIGHT) continue;
        fought.push({ backend, line, times: recent.length });
        times.delete(key);
      }
      const [first] = fought;
      if (perLine && linesOf(backend).length + fought.length <= MOST_LINES)
        for (const fight of fought) hold(`${backend}\n${fight.line}`, fight, true);
      else if (first !== undefined) hold(backend, first, false);
      // Keys whose window has passed would pile up with every pod that ever came by.
      if (times.size > 5_000)
        for (const [key, recent] of times) if ((recent.at(-1) ?? 0) <= from) times.delete(key);
    },
    heldFor: (backend) => {
      const whole = wholeFor(backend);
      if (whole > 0) return whole;
      const lines = linesOf(backend).map(({ until }) => until - now());
      return lines.length === 0 ? 0 : Math.min(...lines);
    },
    heldLines: (backend) =>
      wholeFor(backend) > 0 ? "all" : new Set(linesOf(backend).map(({ line }) => line)),
    list: () => {
      for (const [key, { until }] of held) if (until + WINDOW_MS < now()) held.delete(key);
      return [...held.values()].map(({ backend, line, times: count }) => ({ backend, line, times: count }));
    },
  };
}

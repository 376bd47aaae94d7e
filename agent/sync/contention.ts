// Somebody keeps undoing what we do: repair it a few times, then give way for a while and say so (known-faults BL-33).
// In: the text of each repair. Out: which backends to hold back, until when. Pure but for the clock it is given.

export interface Contention {
  /** Notes what was written. */
  note(backend: string, lines: readonly string[]): void;
  /** Milliseconds until this backend may write again; 0 when it may. */
  heldFor(backend: string): number;
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

export function createContention(now: () => number): Contention {
  const times = new Map<string, number[]>();
  const held = new Map<
    string,
    { readonly line: string; readonly times: number; readonly until: number; readonly hold: number }
  >();
  return {
    note: (backend, lines) => {
      const from = now() - WINDOW_MS;
      let fought: { readonly line: string; readonly times: number } | undefined;
      for (const line of new Set(lines.filter((text) => !FRAME.test(text)).slice(0, 100))) {
        const key = `${backend}\n${line}`;
        const recent = [...(times.get(key) ?? []).filter((time) => time > from), now()];
        times.set(key, recent);
        if (recent.length < FIGHT) continue;
        fought ??= { line, times: recent.length };
        times.delete(key);
      }
      if (fought !== undefined) {
        const before = held.get(backend);
        const hold = Math.min(before === undefined ? FIRST_HOLD_MS : before.hold * 2, LONGEST_HOLD_MS);
        held.set(backend, { ...fought, until: now() + hold, hold });
      }
      // Keys whose window has passed would pile up with every pod that ever came by.
      if (times.size > 5_000)
        for (const [key, recent] of times) if ((recent.at(-1) ?? 0) <= from) times.delete(key);
    },
    heldFor: (backend) => Math.max(0, (held.get(backend)?.until ?? 0) - now()),
    list: () => {
      for (const [backend, entry] of held) if (entry.until + WINDOW_MS < now()) held.delete(backend);
      return [...held].map(([backend, { line, times: count }]) => ({ backend, line, times: count }));
    },
  };
}

// A Cluster without a server: a test says what each reflection has listed and what it is told. In: raw objects. Out: reflections
// that behave as those of lib/kubernetes, which test/cluster holds the same input against.
import type {
  Cluster,
  Reflection,
  ReflectionParts,
  ReflectionState,
  Resource,
} from "../../lib/kubernetes/index.ts";

type Raw = Readonly<Record<string, unknown>>;

/** One reflection as the test sees it. */
export interface Scripted {
  readonly resource: Resource;
  readonly fieldSelector: string | undefined;
  readonly isClosed: boolean;
  /** A complete list replaces the copy. */
  list(version: number, ...raws: readonly Raw[]): void;
  /** A watch tells of one; with `undefined` for the object that it was deleted. */
  put(version: number, raw: Raw): void;
  remove(version: number, key: string): void;
  /** An object is found in an older state than was known; a list follows. */
  wentBack(): void;
  /** 404. */
  absent(): void;
  fail(error: Error): void;
  /** It fails by an answer, not by silence. */
  refuse(error: Error): void;
  /** It is as it was, and that is known. */
  contact(): void;
}

export class ScriptedCluster {
  readonly server = "https://10.0.0.1:6443";
  readonly opened: Scripted[] = [];
  readonly #clock: () => number;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** The last one opened for these that is still open. */
  of(plural: string): Scripted {
    const found = this.open(plural).at(-1);
    if (found === undefined) throw new Error(`nothing follows ${plural}`);
    return found;
  }

  open(plural: string): readonly Scripted[] {
    return this.opened.filter(({ resource, isClosed }) => resource.plural === plural && !isClosed);
  }

  readonly reflect: Cluster["reflect"] = <T>(parts: ReflectionParts<T>): Reflection<T> => {
    const objects = new Map<string, T>();
    const changed = new Set<string>();
    const counts = { lists: 0, listed: 0, watches: 0, events: 0, gaps: 0, behind: 0, replaced: 0, unread: 0 };
    let state: Omit<ReflectionState, "counts"> = {
      synced: false,
      absent: false,
      failure: undefined,
      lastContact: undefined,
      lastRight: undefined,
      resourceVersion: undefined,
      listedVersion: undefined,
    };
    let isClosed = false;
    const now = (more: Partial<typeof state>) => {
      state = { ...state, ...more };
      if (!isClosed) parts.onChange();
    };
    const well = (version: number) => ({
      resourceVersion: String(version),
      failure: undefined,
      lastContact: this.#clock(),
      lastRight: this.#clock(),
    });
    const put = (raw: Raw) => {
      const value = parts.project(raw);
      const key = keyOf(raw);
      if (value === undefined) objects.delete(key);
      else objects.set(key, value);
      changed.add(key);
      return key;
    };
    this.opened.push({
      resource: parts.resource,
      fieldSelector: parts.fieldSelector,
      get isClosed() {
        return isClosed;
      },
      list: (version, ...raws) => {
        const there = new Set(raws.map(put));
        for (const key of objects.keys()) {
          if (there.has(key)) continue;
          objects.delete(key);
          changed.add(key);
        }
        counts.lists++;
        counts.listed++;
        now({ ...well(version), listedVersion: String(version), synced: true, absent: false });
      },
      put: (version, raw) => {
        put(raw);
        now(well(version));
      },
      remove: (version, key) => {
        if (objects.delete(key)) changed.add(key);
        now(well(version));
      },
      wentBack: () => {
        counts.behind++;
      },
      absent: () => {
        for (const key of objects.keys()) changed.add(key);
        objects.clear();
        now({ absent: true, failure: undefined, lastContact: this.#clock() });
      },
      fail: (failure) => now({ failure }),
      contact: () => now({ lastContact: this.#clock(), lastRight: this.#clock() }),
      refuse: (failure) => now({ failure, lastContact: this.#clock() }),
    });
    return {
      objects,
      get state() {
        return { ...state, counts: { ...counts } };
      },
      takeChanged: () => {
        const keys = [...changed].sort();
        changed.clear();
        return keys;
      },
      close: () => {
        isClosed = true;
      },
    };
  };

  async close(): Promise<void> {}
}

function keyOf(raw: Raw): string {
  const { namespace, name } = raw["metadata"] as { readonly namespace?: string; readonly name: string };
  return namespace === undefined ? name : `${namespace}/${name}`;
}

/** Time that passes when the test says so. */
export class ManualTimers {
  now = 1_000_000;
  readonly #due = new Set<{ readonly at: number; readonly act: () => void }>();

  readonly clock = (): number => this.now;

  readonly after = (ms: number, act: () => void): (() => void) => {
    const due = { at: this.now + ms, act };
    this.#due.add(due);
    return () => void this.#due.delete(due);
  };

  pass(ms: number): void {
    const until = this.now + ms;
    for (;;) {
      const [next] = [...this.#due].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      this.#due.delete(next);
      this.now = next.at;
      next.act();
    }
    this.now = until;
  }
}

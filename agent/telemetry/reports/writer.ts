// Writes to the API server, one after the other and never more than one a second for an object. In: what is to be written now, asked
// anew each time. Out: requests; what was refused, once. There is no queue: what could not be written is not kept but worked out again
// from how things are when its time has come, so it is bounded by what there is, and nothing old is ever sent.
import { type Cluster, StatusError } from "../../../lib/kubernetes/index.ts";

export interface Write {
  /** What is written, `Kind/name`: at most one a second for each. */
  readonly object: string;
  /** What the server allows or forbids as one. */
  readonly kind: "nodes" | "events";
  /** Rejects with what the client throws. */
  send(request: Cluster["request"]): Promise<void>;
}

export interface Clock {
  now(): number;
  /** Returns what takes it back. */
  after(ms: number, call: () => void): () => void;
}

export interface WriterParts {
  readonly request: Cluster["request"];
  /** What is not as it should be, the most urgent first. */
  readonly wanted: () => Iterable<Write>;
  readonly clock: Clock;
  /** 0 to 1. */
  readonly chance: () => number;
  /** Said when it begins and when it is another; undefined when it is over. `subject` is an object, a kind, or `server`. */
  readonly onRefused: (subject: string, error: Error | undefined) => void;
}

export interface Writer {
  /** Something may be wanted. Returns at once. */
  look(): void;
  close(): void;
}

const PER_OBJECT_MS = 1_000;
/** Between two events, whatever they are of: a node that takes over hundreds of egress IPs must not crowd the server. */
const PER_EVENT_MS = 100;
const LONGEST_MS = 60_000;
/** Who may not write waits for a person. */
const FORBIDDEN_MS = 30_000;
const LONGEST_FORBIDDEN_MS = 300_000;

export function createWriter({ request, wanted, clock, chance, onRefused }: WriterParts): Writer {
  /** Nothing of this before that time; and how often it has failed by now. */
  const rests = new Map<string, { readonly until: number; readonly failures: number }>();
  const refused = new Map<string, string>();
  const ending = new AbortController();
  const asked: Cluster["request"] = (method, path, options) =>
    request(method, path, { ...options, signal: ending.signal });
  let isBusy = false;
  let lastEvent = Number.NEGATIVE_INFINITY;
  let cancel: (() => void) | undefined;

  const restOf = (subject: string): number => rests.get(subject)?.until ?? Number.NEGATIVE_INFINITY;
  const dueAt = ({ object, kind }: Write): number =>
    Math.max(
      restOf(object),
      restOf(kind),
      restOf("server"),
      kind === "events" ? lastEvent + PER_EVENT_MS : Number.NEGATIVE_INFINITY,
    );
  const tell = (subject: string, error: Error | undefined): void => {
    if (refused.get(subject) === error?.message) return;
    if (error === undefined) refused.delete(subject);
    else refused.set(subject, error.message);
    onRefused(subject, error);
  };
  const rest = (subject: string, first: number, longest: number, atLeast = 0): void => {
    const failures = (rests.get(subject)?.failures ?? 0) + 1;
    const wait = Math.min(first * 2 ** (failures - 1), longest) * (1 + chance() / 2);
    rests.set(subject, { until: clock.now() + Math.max(wait, atLeast * (1 + chance() / 10)), failures });
  };
  const wrote = ({ object, kind }: Write): void => {
    for (const subject of [kind, "server"]) rests.delete(subject);
    rests.set(object, { until: clock.now() + PER_OBJECT_MS, failures: 0 });
    for (const subject of [object, kind, "server"]) tell(subject, undefined);
  };
  const failed = ({ object, kind }: Write, error: Error): void => {
    const { code, retryAfterMs } = statusOf(error);
    // Whether it was written is not known where no answer came.
    const failures = rests.get(object)?.failures ?? 0;
    rests.set(object, { until: clock.now() + PER_OBJECT_MS, failures });
    if (code === 401 || code === 403) {
      rest(kind, FORBIDDEN_MS, LONGEST_FORBIDDEN_MS, retryAfterMs);
      tell(kind, error);
    } else if (code === undefined || code === 429 || code >= 500) {
      rest("server", PER_OBJECT_MS, LONGEST_MS, retryAfterMs);
      tell("server", error);
    } else {
      rest(object, PER_OBJECT_MS, LONGEST_MS, retryAfterMs);
      // At first that is no fault: somebody else has written, and the watch will tell of it.
      if (failures > 1 || (code !== 409 && code !== 422)) tell(object, error);
    }
  };
  const forget = (): void => {
    const now = clock.now();
    for (const [subject, { until, failures }] of rests)
      if (until + (failures === 0 ? 0 : 2 * LONGEST_FORBIDDEN_MS) < now) {
        rests.delete(subject);
        refused.delete(subject);
      }
  };
  const look = (): void => {
    if (isBusy || ending.signal.aborted) return;
    cancel?.();
    cancel = undefined;
    forget();
    const now = clock.now();
    let soonest = Number.POSITIVE_INFINITY;
    for (const write of wanted()) {
      const at = dueAt(write);
      if (at <= now) {
        send(write);
        return;
      }
      soonest = Math.min(soonest, at);
    }
    if (soonest < Number.POSITIVE_INFINITY) cancel = clock.after(Math.ceil(soonest - now), look);
  };
  const send = (write: Write): void => {
    isBusy = true;
    write
      .send(asked)
      .then(
        () => !ending.signal.aborted && wrote(write),
        (error: unknown) =>
          !ending.signal.aborted && failed(write, error instanceof Error ? error : new Error(String(error))),
      )
      .finally(() => {
        if (write.kind === "events") lastEvent = clock.now();
        isBusy = false;
        look();
      });
  };
  return {
    look,
    close: () => {
      ending.abort();
      cancel?.();
    },
  };
}

/** What the server said; nothing where there was no answer. */
export function statusOf(error: Error): Pick<Partial<StatusError>, "code" | "retryAfterMs"> {
  return error instanceof StatusError ? error : {};
}

// A kept-current copy of one kind of object: carries out the steps of course.ts, one at a time, until closed. In: what to
// reflect, and a way to the server. Out: the live map, and how it is going.
import { nextTurn } from "../turns/index.ts";
import { type Attempt, list, type Position, type Progress, progressOf, watch } from "./attempts.ts";
import type { Backoff } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import { type Course, nextStep, type Outcome, proceed, type Step, startOfCourse } from "./course.ts";
import { ParseError, StatusError } from "./errors.ts";
import { pathOf } from "./paths.ts";
import { createRight } from "./right.ts";
import { isTooLarge } from "./status.ts";
import { createStore } from "./store.ts";
import type { Transport } from "./transport.ts";
import type { Reflection, ReflectionParts, ReflectionState } from "./types.ts";

export interface ReflectionSettings {
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly backoff: Backoff;
  readonly absentMs: number;
  /** Milliseconds of silence after which a list or watch is given up. Bookmarks come every minute, where there is news. */
  readonly idleMs: number;
  /** Seconds until the server ends a watch; up to twice that. */
  readonly watchSeconds: number;
}

export const reflectionDefaults: Omit<ReflectionSettings, "clock" | "random"> = {
  backoff: { least: 800, most: 30_000 },
  absentMs: 25_000,
  idleMs: 180_000,
  watchSeconds: 300,
};

/** Of so many that changed last one should still be there. */
const NEWEST = 3;

/** What reflections of one cluster learn for each other. */
export interface ServerTraits {
  watchList: boolean;
}

export function reflect<T>(
  transport: Transport,
  traits: ServerTraits,
  { resource, namespace, labelSelector, fieldSelector, project, onChange }: ReflectionParts<T>,
  settings: ReflectionSettings,
  onClose: () => void = () => {},
): Reflection<T> {
  const { clock, random } = settings;
  const path = pathOf(resource, namespace);
  const query = {
    ...(labelSelector === undefined ? {} : { labelSelector }),
    ...(fieldSelector === undefined ? {} : { fieldSelector }),
  };
  const store = createStore(project);
  const closing = new AbortController();
  const counts = { lists: 0, listed: 0, watches: 0, events: 0, unread: 0, behind: 0 };
  let course: Course = startOfCourse;
  let lastContact: number | undefined;
  const right = createRight(clock);
  let position: Position = { resourceVersion: undefined };
  let listedVersion: string | undefined;
  /** It was listed otherwise than by a watch: a server that says 403 to that now is one that has just started. */
  let mayList = false;
  /** Of what onChange was last told. */
  let told = { course, changes: 0 };

  const tell = (): void => {
    const isAsTold =
      store.changes === told.changes &&
      course.synced === told.course.synced &&
      course.absent === told.course.absent &&
      course.failure === told.course.failure;
    if (isAsTold || closing.signal.aborted) return;
    told = { course, changes: store.changes };
    try {
      onChange();
    } catch (error) {
      // A fault of the listener's, and as loud as any: an uncaught exception.
      queueMicrotask(() => {
        throw error;
      });
    }
  };

  const note = (outcome: Outcome): number => {
    const { course: next, delayMs } = proceed(course, outcome, settings, random());
    course = next;
    if (course.absent) store.clear();
    tell();
    return delayMs;
  };

  /** In one turn with the copy itself: who looks sees either both or neither. */
  const replaced = (resourceVersion: string): void => {
    counts.listed++;
    listedVersion = resourceVersion;
    right.listed();
  };

  /** What changed last, each where it is found by its name. */
  const newest = () =>
    store.newest(NEWEST).map((known) => {
      const slash = known.key.indexOf("/");
      return { ...known, path: slash === -1 ? path : pathOf(resource, known.key.slice(0, slash)) };
    });

  /** One step, to its end. Its request is over when this resolves, whatever came of it. */
  const attempt = async (step: Step): Promise<Outcome> => {
    const abort = new AbortController();
    let openedAt: number | undefined;
    const watching = right.watching(step.how === "watch", () => void note({ type: "watching" }));
    const onContact = (): void => {
      lastContact = clock.now();
      watching.heard();
    };
    const parts: Attempt = {
      transport,
      path,
      query,
      clock,
      abort,
      idleMs: settings.idleMs,
      onContact,
      onSlice: tell,
    };
    const close = (): void => abort.abort(closing.signal.reason);
    closing.signal.addEventListener("abort", close, { once: true });
    position = { resourceVersion: step.how === "watch" ? step.resourceVersion : undefined };
    const lived = (): number => (openedAt === undefined ? 0 : clock.now() - openedAt);
    try {
      if (step.how === "list") {
        counts.lists++;
        const gathering = store.gather();
        const resourceVersion = await list(parts, gathering, step.paged);
        gathering.commit();
        replaced(resourceVersion);
        mayList = true;
        return { type: "listed", resourceVersion };
      }
      if (step.how === "watchList") counts.lists++;
      else {
        const progress = await progressIfKnown(parts, step.resourceVersion, newest(), mayList);
        if (progress === "behind") counts.behind++;
        if (progress !== "ahead") return { type: "expired", livedMs: 0, duringList: false };
      }
      counts.watches++;
      await watch(parts, store, position, {
        timeoutSeconds: Math.round(settings.watchSeconds * (1 + random())),
        gathering: step.how === "watchList" ? store.gather() : undefined,
        onOpen: () => {
          openedAt = clock.now();
          watching.opened();
        },
        onEvent: () => {
          counts.events++;
        },
        onMoved: () => watching.moved(),
        onListed: (resourceVersion) => {
          replaced(resourceVersion);
          note({ type: "listed", resourceVersion });
        },
      });
      return { type: "ended", resourceVersion: position.resourceVersion as string, livedMs: lived() };
    } catch (error) {
      if (error instanceof ParseError) counts.unread++;
      if (error instanceof StatusError) onContact();
      return outcomeOf(error as Error, {
        step,
        isOpen: openedAt !== undefined,
        livedMs: lived(),
        position,
      });
    } finally {
      closing.signal.removeEventListener("abort", close);
      abort.abort();
      watching.ended();
    }
  };

  const run = async (): Promise<void> => {
    while (!closing.signal.aborted) {
      const step = nextStep(course, traits.watchList);
      const outcome = await attempt(step);
      // A list of many thousand objects was taken over just now: who hears of it works as long on it.
      if (outcome.type === "listed") await nextTurn();
      if (closing.signal.aborted) return;
      if (outcome.type === "watchListRefused") traits.watchList = false;
      const delayMs = note(outcome);
      if (delayMs > 0) await sleep(delayMs, clock, closing.signal);
      else if (outcome.type === "listed") await nextTurn();
    }
  };
  void run();

  return {
    objects: store.objects,
    get state(): ReflectionState {
      const { synced, absent, failure, gaps } = course;
      const { lists, listed, watches, events, behind } = counts;
      const unread = counts.unread + store.unread;
      return {
        synced,
        absent,
        failure,
        lastContact,
        lastRight: right.at,
        resourceVersion: position.resourceVersion ?? course.resourceVersion,
        listedVersion,
        counts: { lists, listed, watches, events, gaps, behind, replaced: store.replaced, unread },
      };
    },
    takeChanged: () => {
      told = { ...told, changes: 0 };
      return store.takeChanged();
    },
    close: () => {
      closing.abort(new Error("closed"));
      onClose();
    },
  };
}

/** Who may not ask so is not told; the watch then is asked for as it is. */
async function progressIfKnown(
  attempt: Attempt,
  resourceVersion: string,
  known: Parameters<typeof progressOf>[2],
  mayList: boolean,
): Promise<Progress> {
  try {
    return await progressOf(attempt, resourceVersion, known);
  } catch (error) {
    if (error instanceof StatusError && error.code === 403 && !mayList) return "ahead";
    throw error;
  }
}

interface Thrown {
  readonly step: Step;
  /** The server had taken the watch. */
  readonly isOpen: boolean;
  readonly livedMs: number;
  readonly position: Position;
}

function outcomeOf(error: Error, { step, isOpen, livedMs, position }: Thrown): Outcome {
  const isWatch = step.how === "watch";
  const failed: Outcome = {
    type: "failed",
    error,
    livedMs,
    retryAfterMs: undefined,
    resourceVersion: position.resourceVersion,
    watchListCut: step.how === "watchList" && isOpen && position.resourceVersion === undefined,
  };
  // Something was told that we could not read: what it was, only a new list says.
  if (error instanceof ParseError) return { ...failed, resourceVersion: undefined };
  if (!(error instanceof StatusError)) return failed;
  const { code, retryAfterMs } = error;
  const isInvalid = code === 400 || code === 422;
  if (code === 410) return { type: "expired", livedMs, duringList: step.how === "list" };
  if (code === 404) return { type: "absent", error };
  if (isInvalid && step.how === "watchList" && !isOpen) return { type: "watchListRefused" };
  const isBusy = code === 429 || code === 503;
  const isLost = isOpen ? !isBusy : isWatch && (isInvalid || isTooLarge(error));
  return { ...failed, retryAfterMs, ...(isLost ? { resourceVersion: undefined } : {}) };
}

function sleep(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      cancel();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    signal.addEventListener("abort", done, { once: true });
  });
}

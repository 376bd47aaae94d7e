// The course of a reflection: what to do next, and when. In: what became of the last attempt. Out: the next step and a delay.
// Whoever carries the steps out (reflection.ts) decides nothing. Pure.
import { type Backoff, nextDelay } from "./backoff.ts";

export interface Course {
  /** Up to where the copy is right: a watch goes on from there. undefined: everything has to be listed. */
  readonly resourceVersion: string | undefined;
  /** Listed completely at least once. */
  readonly synced: boolean;
  readonly absent: boolean;
  readonly failure: Error | undefined;
  readonly gaps: number;
  /** 404 in a row. */
  readonly absences: number;
  /** The delay before this attempt, milliseconds; 0 when all is well. */
  readonly delay: number;
  /** The next list is not asked for as a watch: the last one that was came to nothing. */
  readonly plain: boolean;
  /** The next list is asked for in one piece: pages grew too old on the way. */
  readonly whole: boolean;
}

export const startOfCourse: Course = {
  resourceVersion: undefined,
  synced: false,
  absent: false,
  failure: undefined,
  gaps: 0,
  absences: 0,
  delay: 0,
  plain: false,
  whole: false,
};

export type Step =
  /** A watch that begins with all objects (KEP-3157). */
  | { readonly how: "watchList" }
  | { readonly how: "list"; readonly paged: boolean }
  | { readonly how: "watch"; readonly resourceVersion: string };

export type Outcome =
  /** The copy is complete, and right at this version. */
  | { readonly type: "listed"; readonly resourceVersion: string }
  /** The server took the watch. */
  | { readonly type: "watching" }
  /** A watch ended as it should. */
  | { readonly type: "ended"; readonly resourceVersion: string; readonly livedMs: number }
  /** 410, or a server that is behind what was seen: what happened since is not told any more. */
  | { readonly type: "expired"; readonly livedMs: number; readonly duringList: boolean }
  /** 404: there is no such kind. */
  | { readonly type: "absent"; readonly error: Error }
  /** The server knows no watchList, or offers it no more. */
  | { readonly type: "watchListRefused" }
  | Failed;

export interface Failed {
  readonly type: "failed";
  readonly error: Error;
  readonly livedMs: number;
  readonly retryAfterMs: number | undefined;
  /** Where a watch can go on; undefined: everything has to be listed. */
  readonly resourceVersion: string | undefined;
  /** It was a watchList, and the server had taken it. */
  readonly watchListCut: boolean;
}

export interface CourseSettings {
  readonly backoff: Backoff;
  /** Milliseconds between questions for a kind that is absent, up to twice that; half of it where the kind was there. */
  readonly absentMs: number;
}

/** A kind that was there is taken as gone after this many 404 in a row: a server that starts may not know it yet. */
export const ABSENCES = 3;

export function nextStep({ resourceVersion, plain, whole }: Course, watchListWorks: boolean): Step {
  if (resourceVersion !== undefined) return { how: "watch", resourceVersion };
  return watchListWorks && !plain ? { how: "watchList" } : { how: "list", paged: !whole };
}

/** `random` is in [0, 1). */
export function proceed(
  course: Course,
  outcome: Outcome,
  { backoff, absentMs }: CourseSettings,
  random: number,
): { readonly course: Course; readonly delayMs: number } {
  const before = "livedMs" in outcome && outcome.livedMs >= backoff.most ? 0 : course.delay;
  const later = nextDelay(backoff, before, random);
  const there: Course = { ...course, absences: 0, absent: false };
  switch (outcome.type) {
    case "watching":
      return { course: { ...there, failure: course.synced ? undefined : course.failure }, delayMs: 0 };
    case "listed": {
      const { resourceVersion } = outcome;
      const well = { resourceVersion, synced: true, failure: undefined, plain: false, whole: false };
      return { course: { ...there, ...well }, delayMs: 0 };
    }
    case "ended": {
      const { resourceVersion } = outcome;
      // A server that ends every watch at once must not be asked without pause.
      const delay = outcome.livedMs >= backoff.least ? 0 : later;
      return { course: { ...there, resourceVersion, delay }, delayMs: delay };
    }
    case "expired": {
      const gaps = course.gaps + 1;
      const whole = course.whole || outcome.duringList;
      // At once, but not again and again.
      const [delay, delayMs] = before === 0 ? [backoff.least, 0] : [later, later];
      return { course: { ...there, resourceVersion: undefined, gaps, whole, delay }, delayMs };
    }
    case "watchListRefused":
      return { course: there, delayMs: 0 };
    case "absent": {
      const absences = course.absences + 1;
      const gone = { ...course, absences, resourceVersion: undefined };
      if (course.synced && !course.absent && absences < ABSENCES)
        return { course: { ...gone, failure: outcome.error, delay: later }, delayMs: later };
      return {
        course: { ...gone, absent: true, failure: undefined, delay: 0 },
        // Of one that was there somebody waits for what is missing.
        delayMs: (absentMs * (1 + random)) / (course.synced ? 2 : 1),
      };
    }
    case "failed": {
      const { error: failure, resourceVersion, retryAfterMs, watchListCut } = outcome;
      const delayMs =
        retryAfterMs === undefined ? later : Math.max(later, retryAfterMs + backoff.least * random);
      // Of a kind that was absent, that is known until something else is.
      const { absent } = course;
      const plain = course.plain || watchListCut;
      return { course: { ...there, absent, failure, resourceVersion, plain, delay: later }, delayMs };
    }
  }
}

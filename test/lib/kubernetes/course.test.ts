// What to do next, and when: each outcome, and that no sequence of them makes a client that hammers, forgets or gives up.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { nextDelay } from "../../../lib/kubernetes/backoff.ts";
import {
  ABSENCES,
  type Course,
  type Failed,
  nextStep,
  type Outcome,
  proceed,
  startOfCourse,
} from "../../../lib/kubernetes/course.ts";

const settings = { backoff: { least: 800, most: 30_000 }, absentMs: 30_000 };
const error = new Error("x");
const failed: Failed = {
  type: "failed",
  error,
  livedMs: 0,
  retryAfterMs: undefined,
  resourceVersion: undefined,
  watchListCut: false,
};
const listed: Outcome = { type: "listed", resourceVersion: "7" };
const expired: Outcome = { type: "expired", livedMs: 0, duringList: false };
const absent: Outcome = { type: "absent", error };

/** Course and delays after all of them, with the middle of what chance gives. */
function played(outcomes: readonly Outcome[], random = 0.5) {
  let course: Course = startOfCourse;
  const delays = outcomes.map((outcome) => {
    const next = proceed(course, outcome, settings, random);
    course = next.course;
    return next.delayMs;
  });
  return { course, delays, last: delays.at(-1), step: nextStep(course, true) };
}

describe("the next step", () => {
  it("is a list as a watch, until the server refuses that or cuts it", () => {
    expect(played([]).step).toEqual({ how: "watchList" });
    expect(nextStep(startOfCourse, false)).toEqual({ how: "list", paged: true });
    expect(played([{ type: "watchListRefused" }])).toMatchObject({ last: 0, course: startOfCourse });
    const cut: Outcome = { ...failed, watchListCut: true };
    expect(played([cut]).step).toEqual({ how: "list", paged: true });
    expect(played([cut, listed, expired]).step).toEqual({ how: "watchList" });
  });

  it("is a watch from where the last one came to, however it ended", () => {
    expect(played([listed]).step).toEqual({ how: "watch", resourceVersion: "7" });
    const ended: Outcome = { type: "ended", resourceVersion: "9", livedMs: 400_000 };
    expect(played([listed, ended])).toMatchObject({ last: 0, step: { resourceVersion: "9" } });
    expect(played([listed, { ...failed, resourceVersion: "8" }]).step).toEqual({
      how: "watch",
      resourceVersion: "8",
    });
  });

  it("is a list after a gap, at once for the first time, and in one piece where pages were too slow", () => {
    const gap = played([listed, expired]);
    expect(gap).toMatchObject({ last: 0, step: { how: "watchList" }, course: { gaps: 1, synced: true } });
    expect(played([listed, expired, listed, expired]).last).toBeGreaterThanOrEqual(800);
    const slow: Outcome = { type: "expired", livedMs: 0, duringList: true };
    expect(nextStep(played([slow]).course, false)).toEqual({ how: "list", paged: false });
    expect(nextStep(played([slow, listed, expired]).course, false)).toEqual({ how: "list", paged: true });
  });
});

describe("the delay", () => {
  it("grows while nothing lasts, to its most and not beyond", () => {
    const { delays } = played(Array.from({ length: 12 }, () => failed));
    expect(delays[0]).toBe(800 + 0.5 * 1600);
    expect(delays.slice(-3)).toEqual([30_000, 30_000, 30_000]);
    expect([...delays].sort((a, b) => a - b)).toEqual(delays);
  });

  it("is as at first after a watch that lasted, also where that ended badly", () => {
    const many = Array.from({ length: 12 }, () => failed);
    const lasted: Outcome = { ...failed, livedMs: 300_000, resourceVersion: "8" };
    expect(played([...many, lasted]).last).toBe(1600);
    const brief: Outcome = { ...failed, livedMs: 2_000, resourceVersion: "8" };
    expect(played([...many, brief]).last).toBe(30_000);
  });

  it("is no less than the server asks for", () => {
    expect(played([{ ...failed, retryAfterMs: 60_000 }]).last).toBe(60_400);
    expect(played([{ ...failed, retryAfterMs: 10 }]).last).toBe(1600);
  });

  it("keeps a server that ends every watch at once from being asked without pause", () => {
    const brief: Outcome = { type: "ended", resourceVersion: "7", livedMs: 1 };
    const { delays } = played([listed, brief, brief, brief]);
    expect(delays.slice(1).every((ms) => ms >= 800)).toBe(true);
    expect(played([brief, { ...brief, livedMs: 900 }]).last).toBe(0);
  });

  it("lies between the least and three times the one before, wherever chance falls", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 0.999999, noNaN: true }),
        fc.integer({ min: 0, max: 30_000 }),
        (random, before) => {
          const ms = nextDelay(settings.backoff, before, random);
          expect(ms >= 800 && ms <= 30_000 && ms <= 3 * Math.max(800, before)).toBe(true);
        },
      ),
    );
  });
});

describe("a kind that the server does not know", () => {
  it("is absent at once where it never was there, and asked for seldom", () => {
    expect(played([absent])).toMatchObject({
      last: 45_000,
      course: { absent: true, synced: false, failure: undefined },
    });
    expect(played([absent, listed]).course).toMatchObject({ absent: false, synced: true });
    expect(played([absent, { type: "watching" }]).course.absent).toBe(false);
  });

  it("is absent only after several answers where it was there: servers that start say so too", () => {
    const answers = (count: number) => Array.from({ length: count }, () => absent);
    expect(played([listed, ...answers(ABSENCES - 1)]).course).toMatchObject({
      absent: false,
      failure: error,
    });
    expect(played([listed, ...answers(ABSENCES)]).course).toMatchObject({ absent: true, failure: undefined });
    expect(played([listed, ...answers(ABSENCES - 1), failed, absent]).course.absent).toBe(false);
    expect(
      played([listed, ...answers(ABSENCES - 1)])
        .delays.slice(1)
        .every((ms) => ms >= 800),
    ).toBe(true);
  });

  it("stays so while the server cannot be asked", () => {
    expect(played([absent, failed]).course).toMatchObject({ absent: true, failure: error });
  });
});

const outcome: fc.Arbitrary<Outcome> = fc.oneof(
  fc.constant<Outcome>({ type: "watching" }),
  fc.constant<Outcome>({ type: "watchListRefused" }),
  fc.constant(absent),
  fc.record({ type: fc.constant("listed" as const), resourceVersion: fc.nat().map(String) }),
  fc.record({
    type: fc.constant("ended" as const),
    resourceVersion: fc.nat().map(String),
    livedMs: fc.nat(600_000),
  }),
  fc.record({ type: fc.constant("expired" as const), livedMs: fc.nat(600_000), duringList: fc.boolean() }),
  fc.record({
    type: fc.constant("failed" as const),
    error: fc.constant(error),
    livedMs: fc.nat(600_000),
    retryAfterMs: fc.option(fc.nat(300_000), { nil: undefined }),
    resourceVersion: fc.option(fc.nat().map(String), { nil: undefined }),
    watchListCut: fc.boolean(),
  }),
);

describe("any course", () => {
  it("is synced only after a list, never less later, and a failure or an absence is known as such", () => {
    fc.assert(
      fc.property(fc.array(outcome), fc.double({ min: 0, max: 0.99, noNaN: true }), (outcomes, random) => {
        let course = startOfCourse;
        let synced = false;
        for (const one of outcomes) {
          const next = proceed(course, one, settings, random);
          synced ||= one.type === "listed";
          expect(next.course.synced).toBe(synced);
          if (one.type === "failed") expect(next.course.failure).toBe(error);
          if (one.type === "listed") expect(next.course.failure).toBeUndefined();
          if (one.type === "absent") expect(next.course.absent || next.course.failure === error).toBe(true);
          course = next.course;
        }
      }),
    );
  });

  it("asks no more often than once in the least delay, but for lists that succeed and watches that last", () => {
    fc.assert(
      fc.property(fc.array(outcome), (outcomes) => {
        let course = startOfCourse;
        let free = 0;
        for (const one of outcomes) {
          const { course: next, delayMs } = proceed(course, one, settings, 0);
          const isWell =
            one.type === "listed" ||
            one.type === "watching" ||
            one.type === "watchListRefused" ||
            ("livedMs" in one && one.livedMs >= settings.backoff.least);
          free = isWell ? 0 : delayMs < settings.backoff.least ? free + 1 : 0;
          // The first list after a gap is asked for at once.
          expect(free).toBeLessThanOrEqual(1);
          course = next;
        }
      }),
    );
  });
});

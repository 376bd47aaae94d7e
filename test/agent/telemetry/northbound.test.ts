// What is told of the northbound database: the log once when it begins and once when it ends, `status` at any moment.
import { describe, expect, it } from "vitest";
import type { NorthboundTold } from "../../../agent/assemble-northbound.ts";
import type { Round } from "../../../agent/loop.ts";
import { createBuild } from "../../../agent/model/build.ts";
import { nothing } from "../../../agent/plan/plan.ts";
import { createJournal } from "../../../agent/telemetry/journal.ts";
import type { Logger } from "../../../agent/telemetry/log.ts";
import { createStatus } from "../../../agent/telemetry/status.ts";
import { bareHost, notLooking, objects, settings } from "../make.ts";

function told(of: Partial<NorthboundTold> = {}): NorthboundTold {
  const usual = { endpoint: "unix:/nb.sock", since: "2026-01-01T00:00:00Z", rows: 7, leads: true };
  return { ...usual, state: "current", failure: undefined, ...of };
}

describe("the journal", () => {
  it("says what the database is like when that is new, with the reason", () => {
    const entries: string[] = [];
    const note =
      (level: string) => (of: { readonly reason?: string; readonly endpoint: string }, event: string) =>
        entries.push([level, event, of.endpoint, of.reason].filter((part) => part !== undefined).join(" "));
    const journal = createJournal({ info: note("info"), warn: note("warn") } as unknown as Logger);
    const lost = told({ state: "stale", failure: "closed by the other side" });
    for (const now of [
      undefined,
      told(),
      told({ rows: 8 }),
      lost,
      { ...lost, failure: "ECONNREFUSED" },
      told(),
      told({ state: "waiting" }),
    ])
      journal.northbound(now);
    expect(entries).toEqual([
      "info northboundFollowed unix:/nb.sock",
      "warn northboundLost unix:/nb.sock closed by the other side",
      "info northboundFollowed unix:/nb.sock",
      "warn northboundLocked unix:/nb.sock another agent has the lock of this node",
    ]);
  });

  it("says so when it begins without one", () => {
    const entries: object[] = [];
    const journal = createJournal({ warn: (of: object) => entries.push(of) } as unknown as Logger);
    journal.northbound(told({ state: "stale" }));
    expect(entries).toEqual([
      { endpoint: "unix:/nb.sock", since: "2026-01-01T00:00:00Z", reason: "not read yet" },
    ]);
  });
});

describe("status", () => {
  const round = {
    number: 1,
    objects: objects(),
    snapshot: createBuild()(settings, objects(), bareHost),
    plan: nothing,
    outcome: { steps: [], failures: [], facts: bareHost, wrote: new Map() },
    took: { read: 0, plan: 0, write: 0 },
  } as unknown as Round;
  const ask = (northbound: NorthboundTold | undefined) => {
    const config = { settings } as Parameters<typeof createStatus>[0];
    const status = createStatus(
      config,
      { list: () => [] },
      () => Promise.reject(new Error("not asked for")),
      () => northbound,
      () => undefined,
      notLooking,
    );
    status.took(round);
    return status.answer("/status", new URLSearchParams()) as {
      readonly ready: boolean;
      readonly northbound: unknown;
    };
  };

  it.each([
    ["current", true],
    ["waiting", false],
    ["stale", false],
  ] as const)("with a database that is %s is ready: %s", (state, ready) => {
    const answer = ask(told({ state, failure: state === "stale" ? "gone" : undefined }));
    expect(answer.ready).toBe(ready);
    expect(answer.northbound).toMatchObject({ state, endpoint: "unix:/nb.sock", rows: 7, leads: true });
  });

  it("without a database is ready, and says that there is none", () => {
    expect(ask(undefined)).toMatchObject({ ready: true, northbound: null });
  });
});

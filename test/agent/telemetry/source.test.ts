// How the API server is followed, as operators see it: not ready while something is in doubt, whatever the last round came to, and a
// log line when that begins and when it ends.
import { describe, expect, it } from "vitest";
import type { KubernetesTold } from "../../../agent/assemble-kubernetes.ts";
import type { Round } from "../../../agent/loop.ts";
import { createBuild } from "../../../agent/model/build.ts";
import { nothing } from "../../../agent/plan/plan.ts";
import { createJournal } from "../../../agent/telemetry/journal.ts";
import type { Logger } from "../../../agent/telemetry/log.ts";
import { createStatus } from "../../../agent/telemetry/status.ts";
import { bareHost, notLooking, objects, settings } from "../make.ts";

const kind = (of: Partial<KubernetesTold["kinds"][number]>): KubernetesTold["kinds"][number] => ({
  kind: "Pod",
  state: "current",
  why: null,
  scope: "own",
  resourceVersion: "7",
  silentSeconds: 1,
  failure: null,
  counts: null,
  ...of,
});

const told = (ready: boolean, ...kinds: KubernetesTold["kinds"]): KubernetesTold => ({
  source: "kubernetes",
  server: "https://10.0.0.1:6443",
  ready,
  kinds,
  lastGood: null,
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

  it.each([
    [true, told(true, kind({}))],
    [false, told(false, kind({ state: "doubtful", why: "nothing was heard for too long" }))],
    [true, undefined],
  ])("is ready: %s", (ready, source) => {
    const status = createStatus(
      { settings } as Parameters<typeof createStatus>[0],
      { list: () => [] },
      () => Promise.reject(new Error("not asked for")),
      () => undefined,
      () => source,
      notLooking,
    );
    status.took(round);
    expect(status.answer("/status", new URLSearchParams())).toMatchObject({
      ready,
      kubernetes: source ?? null,
    });
  });
});

describe("status after a start without the server", () => {
  const unconfirmed = { since: "2026-01-01T00:00:00Z", why: "nobody answers", assignments: false };

  it.each([
    ["a round was made of what is confirmed", true, objects(), told(true, kind({}))],
    ["the last round was made before that", false, { ...objects(), unconfirmed }, told(true, kind({}))],
    [
      "only a kind is in doubt that need not be there",
      true,
      { ...objects(), unconfirmed },
      { ...told(true, kind({ state: "absent" })), unconfirmed },
    ],
  ])("%s: ready is %s", (_, ready, of, source) => {
    const status = createStatus(
      { settings } as Parameters<typeof createStatus>[0],
      { list: () => [] },
      () => Promise.reject(new Error("not asked for")),
      () => undefined,
      () => source,
      notLooking,
    );
    status.took({
      number: 1,
      objects: of,
      snapshot: createBuild()(settings, of, bareHost),
      plan: nothing,
      outcome: { steps: [], failures: [], facts: bareHost, wrote: new Map() },
      took: { read: 0, plan: 0, write: 0 },
    } as unknown as Round);
    expect(status.answer("/status", new URLSearchParams())).toMatchObject({ ready });
  });
});

describe("the journal", () => {
  it("says when a kind is followed, of which nodes, and when it is in doubt: once each", () => {
    const lines: string[] = [];
    const note = (level: string) => (of: object, event: string) =>
      lines.push(`${level} ${event} ${Object.values(of).join(" ")}`);
    const journal = createJournal({ info: note("info"), warn: note("warn") } as unknown as Logger);
    journal.source(undefined);
    for (let times = 0; times < 2; times++) journal.source(told(true, kind({})));
    for (let times = 0; times < 2; times++)
      journal.source(told(false, kind({ state: "doubtful", why: `silent ${times}` })));
    journal.source(told(true, kind({ scope: "all" }), kind({ kind: "Node", state: "absent", scope: "all" })));
    expect(lines).toEqual([
      "info kindFollowed Pod current own",
      "warn kindDoubtful Pod doubtful silent 0",
      "info kindFollowed Pod current all",
      "info kindFollowed Node absent all",
    ]);
  });
});

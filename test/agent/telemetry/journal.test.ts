// The journal: one entry when something starts, changes and ends, none for each time it is still so.
import { describe, expect, it } from "vitest";
import type { Round } from "../../../agent/loop.ts";
import { createBuild } from "../../../agent/model/build.ts";
import type { Rival } from "../../../agent/model/facts.ts";
import type { Problem } from "../../../agent/model/objects.ts";
import { nothing } from "../../../agent/plan/plan.ts";
import { createJournal } from "../../../agent/telemetry/journal.ts";
import type { Logger } from "../../../agent/telemetry/log.ts";
import { bareHost, egressIP, node1, objects, settings } from "../make.ts";

interface Given {
  readonly steps?: Round["outcome"]["steps"];
  readonly failing?: Readonly<Record<string, string>>;
  readonly problems?: readonly Problem[];
  readonly held?: readonly string[];
  readonly rivals?: readonly Rival[];
}

function journaling() {
  const entries: string[] = [];
  const note =
    (level: string) =>
    (of: object | string, event?: string): void => {
      entries.push(typeof of === "string" ? `${level} ${of}` : `${level} ${event} ${JSON.stringify(of)}`);
    };
  const log = {
    debug: () => {},
    info: note("info"),
    warn: note("warn"),
    error: note("error"),
  } as unknown as Logger;
  const journal = createJournal(log);
  let number = 0;
  const round = ({ steps = [], failing = {}, problems = [], held = [], rivals = [] }: Given = {}) => {
    const all = objects(
      egressIP("web", { at: Object.fromEntries(held.map((address) => [address, "node1"])) }),
      node1,
    );
    const snapshot = createBuild()(settings, { ...all, problems }, { ...bareHost, rivals });
    const failures = Object.entries(failing).map(
      ([backend, text]) => ({ backend, phase: "establish", error: new Error(text) }) as const,
    );
    const outcome = { steps, failures, facts: bareHost, wrote: new Map() };
    journal.round({
      number: ++number,
      objects: all,
      snapshot,
      plan: nothing,
      outcome,
      took: { read: 0, plan: 0, write: 0 },
    });
    return entries.splice(0);
  };
  return {
    round,
    inputsFailed: (text: string) => {
      journal.inputsFailed(new Error(text));
      return entries.splice(0);
    },
  };
}

describe("the journal", () => {
  it("says nothing of a round in which nothing happened", () => {
    const { round } = journaling();
    expect([round(), round()]).toEqual([[], []]);
  });

  it("says a failure when it starts, when it changes and when it ends, not each time", () => {
    const { round } = journaling();
    expect(round({ failing: { iptables: "lock" } })).toEqual([
      'error backendFailing {"backend":"iptables","error":"lock"}',
    ]);
    expect(round({ failing: { iptables: "lock" } })).toEqual([]);
    expect(round({ failing: { iptables: "line 3", routing: "no" } })).toEqual([
      'error backendFailing {"backend":"iptables","error":"line 3"}',
      'error backendFailing {"backend":"routing","error":"no"}',
    ]);
    expect(round({ failing: { routing: "no" } })).toEqual(['info backendRecovered {"backend":"iptables"}']);
    expect(round()).toEqual(['info backendRecovered {"backend":"routing"}']);
    expect(round({ failing: { iptables: "lock" } })).toHaveLength(1);
  });

  it("does not say that the host was changed by what failed", () => {
    const { round } = journaling();
    const steps = [
      { backend: "iptables", phase: "establish", lines: ["-A X"] },
      { backend: "sets", phase: "establish", lines: ["add y"] },
    ] as const;
    const events = round({ steps, failing: { iptables: "lock" } }).filter((line) =>
      line.includes("hostChanged"),
    );
    expect(events).toEqual([
      'info hostChanged {"round":1,"backend":"sets","phase":"establish","lines":["add y"]}',
    ]);
  });

  it("shows twenty lines of a change and counts the rest", () => {
    const { round } = journaling();
    const lines = Array.from({ length: 5000 }, (_, n) => `add ${n}`);
    const [entry = ""] = round({ steps: [{ backend: "sets", phase: "establish", lines }] });
    expect(JSON.parse(entry.slice("info hostChanged ".length))).toEqual({
      round: 1,
      backend: "sets",
      phase: "establish",
      lines: lines.slice(0, 20),
      more: 4980,
    });
  });

  it("says that inputs fail when they start to, change, and recover", () => {
    const { round, inputsFailed } = journaling();
    expect(inputsFailed("no folder")).toEqual(['error inputsFailed {"error":"no folder"}']);
    expect(inputsFailed("no folder")).toEqual([]);
    expect(inputsFailed("no ip")).toEqual(['error inputsFailed {"error":"no ip"}']);
    expect(round()).toEqual(["info inputsRecovered"]);
    expect(round()).toEqual([]);
  });

  it("says a problem when it is found and when it is gone", () => {
    const { round } = journaling();
    const problem = { object: "EgressIP/x", path: "spec", text: "is missing" };
    expect(round({ problems: [problem] })).toEqual([`warn problemFound ${JSON.stringify(problem)}`]);
    expect(round({ problems: [problem] })).toEqual([]);
    expect(round({ problems: [{ ...problem, text: "is a list" }] })).toHaveLength(2);
    expect(round()).toEqual(['info problemGone {"object":"EgressIP/x","path":"spec"}']);
  });

  it("says who else answers for an address, and that he does no more", () => {
    const { round } = journaling();
    const rival = { address: "10.10.10.50", link: "eth1", mac: "02:00:00:00:00:99" };
    expect(round({ rivals: [rival] })).toEqual([`warn duplicateSeen ${JSON.stringify(rival)}`]);
    expect(round({ rivals: [rival] })).toEqual([]);
    expect(round({ rivals: [{ ...rival, mac: "02:00:00:00:00:98" }] })).toHaveLength(2);
    expect(round().map((line) => line.split(" ")[1])).toEqual(["duplicateGone"]);
  });

  it("says which egress IPs came and went", () => {
    const { round } = journaling();
    const entry = (address: string, link: string) => JSON.stringify({ egressIP: "web", address, link });
    expect(round({ held: ["172.18.0.50", "10.10.10.50"] })).toEqual([
      `info addressHeld ${entry("10.10.10.50", "eth1")}`,
      `info addressHeld ${entry("172.18.0.50", "eth0")}`,
    ]);
    expect(round({ held: ["172.18.0.50"] })).toEqual([
      `info addressReleased ${entry("10.10.10.50", "eth1")}`,
    ]);
  });
});

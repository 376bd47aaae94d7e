// The laws of the architecture, over every step of every scenario and both modes, on predicted facts; no host is touched.
// What each law compares is said where it stands. Real hosts: kernel/scenarios.test.ts.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { planAsText } from "../agent/commands/plan.ts";
import { openFiles } from "../agent/inputs/files.ts";
import { createObjectStore } from "../agent/inputs/objects.ts";
import type { Round } from "../agent/loop.ts";
import type { HostFacts } from "../agent/model/facts.ts";
import type { GatewayMode } from "../agent/model/settings.ts";
import { entriesOf, getFrom } from "../agent/model/shards.ts";
import { nothing, type Plan } from "../agent/plan/plan.ts";
import type { AnyBackend } from "../agent/sync/backend.ts";
import { createBackends } from "../agent/sync/backends.ts";
import type { FamilyChange } from "../agent/sync/iptables.ts";
import { noTools } from "../agent/sync/no-tools.ts";
import { carryOut } from "../agent/sync/round.ts";
import type { SetChange } from "../agent/sync/set-lines.ts";
import { trace } from "../agent/trace.ts";
import { destinations, nodes } from "./lab/topology.ts";
import {
  createReader,
  hostFacts,
  loadScenarios,
  modes,
  type Scenario,
  settingsOf,
} from "./support/scenario.ts";
import { factsAsLines } from "./support/scenario-facts.ts";
import { createPlayer, type Played, play } from "./support/scenario-run.ts";

const exactly = (facts: HostFacts) => factsAsLines(facts, { marks: "as they are" });
const upToMarks = (facts: HostFacts) => factsAsLines(facts, { marks: "by name" });

const cases = loadScenarios().flatMap((scenario) =>
  modes.map((mode) => ({ name: scenario.name, mode, scenario })),
);

/** A moment within a round: the facts when everything up to and including this change was done. */
interface Moment {
  readonly after: string;
  readonly facts: HostFacts;
}

/** Every moment of carrying a plan out, in the order in which the round really writes. */
async function momentsOf(plan: Plan, start: HostFacts): Promise<readonly Moment[]> {
  const written: { readonly backend: AnyBackend; readonly changes: readonly unknown[] }[] = [];
  const watched = createBackends(noTools).map(
    (backend): AnyBackend => ({
      ...backend,
      apply: (changes) => {
        written.push({ backend, changes });
        return Promise.resolve();
      },
    }),
  );
  const outcome = await carryOut(watched, plan, start, { write: true, held: () => false });
  expect(outcome.failures).toEqual([]);
  const moments: Moment[] = [];
  let facts = start;
  for (const { backend, changes } of written) {
    for (const atOnce of unitsOf(backend.name, changes)) {
      facts = backend.predict(facts, atOnce);
      moments.push({ after: backend.print(atOnce).join("\n"), facts });
    }
  }
  expect(exactly(facts)).toEqual(exactly(outcome.facts));
  return moments;
}

/** What the kernel takes as one: a table of one family for iptables, else a line. Exempt members are many and alike. */
function unitsOf(backend: string, changes: readonly unknown[]): readonly (readonly unknown[])[] {
  const unit = (change: unknown, at: number): string => {
    if (backend === "iptables") {
      const { family, change: rules } = change as FamilyChange;
      return `${family} ${rules.table}`;
    }
    const { set, op } = change as Partial<SetChange>;
    return set?.includes("exempt") ? `${op} ${set}` : String(at);
  };
  return [
    ...Map.groupBy(
      changes.map((change, at) => ({ change, unit: unit(change, at) })),
      (entry) => entry.unit,
    ),
  ].map(([, entries]) => entries.map(({ change }) => change));
}

async function uninstalled(facts: HostFacts): Promise<HostFacts> {
  const { facts: after } = await carryOut(createBackends(noTools), nothing, facts, {
    write: false,
    held: () => false,
  });
  return after;
}

const outsideOf = ["internet", "sec"] as const;

/** Where the first packet of each pod to each place outside goes: `LINK SOURCE`, or why not. */
function exits(facts: HostFacts, addresses: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    addresses.flatMap((source) =>
      outsideOf.map((to): [string, string] => {
        const destination = destinations[to][source.includes(":") ? 6 : 4];
        const { verdict, unjudged } = trace(facts, {
          source,
          destination,
          from: "ovn-k8s-mp0",
          protocol: "tcp",
          port: destinations[to].port,
        });
        expect(unjudged).toBe(0);
        return [`${source} ${to}`, verdict.leaves ? `${verdict.link} ${verdict.source}` : "dropped"];
      }),
    ),
  );
}

function podAddresses(...played: readonly Played[]): readonly string[] {
  const addresses = played.flatMap(({ objects }) =>
    [...entriesOf(objects.pods)].flatMap(([, pod]) => (pod.hostNetwork ? [] : pod.addresses)),
  );
  return [...new Set(addresses)].filter((address) => !nodeAddresses.has(address));
}

const nodeAddresses: ReadonlySet<string> = new Set(
  Object.values(nodes).flatMap(({ eth0, eth1 }) => [eth0[4], eth0[6], eth1[4], eth1[6]]),
);

function isSelected(round: Round | undefined, address: string): boolean {
  return round !== undefined && getFrom(round.snapshot.served.claims, address) !== undefined;
}

/** Exits that break the promise at one moment, given those that were and will be. */
function broken(
  now: ReadonlyMap<string, string>,
  allowed: readonly ReadonlyMap<string, string>[],
  alwaysSelected: (address: string) => boolean,
): readonly string[] {
  return [...now].flatMap(([probe, exit]) => {
    const [source = "", to] = probe.split(" ");
    const [, seen = ""] = exit.split(" ");
    if (exit === "dropped") return [];
    if (seen === source) return [`${probe}: leaves with the pod's address: ${exit}`];
    // What is on the links may become exempt (a node's address moves); the internet never is.
    if (to === "internet" && alwaysSelected(source) && nodeAddresses.has(seen))
      return [`${probe}: leaves as the node: ${exit}`];
    if (!allowed.some((known) => known.get(probe) === exit))
      return [`${probe}: neither old nor new: ${exit}`];
    return [];
  });
}

describe.each(cases)("$name, $mode gateway", ({ scenario, mode }) => {
  test("idempotent: a second round has nothing to do, in this process or another", async () => {
    const player = createPlayer(settingsOf(scenario, mode));
    for (const { objects, before, after } of await play(scenario, mode)) {
      await player(objects, before);
      expect((await player(objects, after)).outcome.steps).toEqual([]);
      const another = createPlayer(settingsOf(scenario, mode));
      expect((await another(objects, after)).outcome.steps).toEqual([]);
    }
  });

  test("path-free: a step left out, or made by a new process, leads to the same host but for which mark is whose", async () => {
    const played = await play(scenario, mode);
    const first = played[0]?.before ?? hostFacts(scenario);
    for (const [at, { objects, after }] of played.entries()) {
      for (const from of [first, ...played.slice(0, at).map((earlier) => earlier.after)]) {
        const { outcome } = await createPlayer(settingsOf(scenario, mode))(objects, from);
        expect(upToMarks(outcome.facts)).toEqual(upToMarks(after));
      }
    }
  });

  test("clean: what is uninstalled leaves the facts that were there before the first step", async () => {
    for (const { after } of await play(scenario, mode))
      expect(exactly(await uninstalled(after))).toEqual(exactly(hostFacts(scenario)));
  });

  test("switchable: to the other mode and back is the same host but for which mark is whose", async () => {
    const other = mode === "local" ? "shared" : "local";
    for (const { objects, after } of await play(scenario, mode)) {
      const there = await createPlayer(settingsOf(scenario, other))(objects, after);
      const back = await createPlayer(settingsOf(scenario, mode))(objects, there.outcome.facts);
      expect(upToMarks(back.outcome.facts)).toEqual(upToMarks(after));
    }
  });

  test("quiet: the order in which objects are told changes no byte of the plan", async () => {
    const settings = settingsOf(scenario, mode);
    const played = await play(scenario, mode);
    const keys = fc.constantFrom(...played.keys()).chain((of) => {
      const all = [...(played[of]?.step.manifests.keys() ?? [])];
      const whole = { minLength: all.length, maxLength: all.length };
      return fc.record({ of: fc.constant(of), order: fc.shuffledSubarray(all, whole) });
    });
    await fc.assert(
      fc.asyncProperty(keys, async ({ of: at, order }) => {
        const of = played[at] as Played;
        const read = createReader();
        // What an earlier step told may still count (a pod's last address).
        for (const { step } of played.slice(0, at)) read(step.manifests);
        const objects = read(new Map(order.map((key) => [key, of.step.manifests.get(key)])));
        expect(planAsText(await createPlayer(settings)(objects, of.before))).toBe(planAsText(of.round));
      }),
      { numRuns: 8 },
    );
  });

  test("crash: stopped after any change, the next start comes to the same host, and uninstall to the first one", async () => {
    const settings = settingsOf(scenario, mode);
    for (const { objects, before, round, after } of await play(scenario, mode)) {
      const wanted = upToMarks(after);
      const clean = exactly(hostFacts(scenario));
      for (const moment of await momentsOf(round.plan, before)) {
        const restarted = await createPlayer(settings)(objects, moment.facts);
        expect(upToMarks(restarted.outcome.facts), moment.after).toEqual(wanted);
        expect(exactly(await uninstalled(moment.facts)), moment.after).toEqual(clean);
      }
    }
  });

  test("fail closed: at every moment a packet leaves as before, as after, or not at all; served pods never as the node", async () => {
    const played = await play(scenario, mode);
    for (const [at, now] of played.entries()) expect(await leaksOf(played[at - 1], now)).toEqual([]);
  });
});

async function leaksOf(previous: Played | undefined, now: Played): Promise<readonly string[]> {
  const { before, after, round } = now;
  const addresses = podAddresses(...(previous === undefined ? [] : [previous]), now);
  const allowed = [exits(before, addresses), exits(after, addresses)];
  const waits = round.snapshot.settings.whenUnready === "drop";
  const always = (address: string) =>
    waits && isSelected(previous?.round, address) && isSelected(round, address);
  return (await momentsOf(round.plan, before)).flatMap((moment) =>
    broken(exits(moment.facts, addresses), allowed, always).map((what) => `after ${moment.after}: ${what}`),
  );
}

const stories = cases.filter(({ scenario }) => scenario.steps.length > 1);

test("fail closed after a crash: stopped anywhere in one step, started with the objects of the next", async () => {
  const choice = fc.record({
    story: fc.constantFrom(...stories.keys()),
    step: fc.nat({ max: 7 }),
    moment: fc.nat({ max: 255 }),
  });
  await fc.assert(
    fc.asyncProperty(choice, async ({ story, step, moment }) => {
      const { scenario, mode } = stories[story] as (typeof stories)[number];
      const played = await play(scenario, mode);
      const at = step % (played.length - 1);
      const [now, next] = [played[at], played[at + 1]];
      if (now === undefined || next === undefined) return;
      const moments = await momentsOf(now.round.plan, now.before);
      const start = moments[moment % Math.max(moments.length, 1)]?.facts ?? now.before;
      expect(await leaksFrom(start, now, next, scenario, mode)).toEqual([]);
    }),
    { numRuns: 60 },
  );
});

async function leaksFrom(
  start: HostFacts,
  now: Played,
  next: Played,
  scenario: Scenario,
  mode: GatewayMode,
): Promise<readonly string[]> {
  const addresses = podAddresses(now, next);
  const restarted = await createPlayer(settingsOf(scenario, mode))(next.objects, start);
  const known = [now.before, now.after, next.after, start].map((facts) => exits(facts, addresses));
  return (await momentsOf(restarted.plan, start)).flatMap((moment) =>
    broken(exits(moment.facts, addresses), known, () => false).map(
      (what) => `after ${moment.after}: ${what}`,
    ),
  );
}

test("quiet: which files the objects are in changes no byte of the plan", async () => {
  const folder = await mkdtemp(join(tmpdir(), "laws-"));
  try {
    const [{ scenario }] = cases as [(typeof cases)[number]];
    const [{ step, before, round }] = (await play(scenario, "local")) as unknown as [Played];
    const manifests = [...step.manifests.values()];
    const files = fc.array(fc.integer({ min: 0, max: 4 }), {
      minLength: manifests.length,
      maxLength: manifests.length,
    });
    let run = 0;
    await fc.assert(
      fc.asyncProperty(files, async (places) => {
        const directory = join(folder, String(run++));
        await mkdir(directory);
        const byFile = Map.groupBy(manifests.keys(), (at) => places[at] ?? 0);
        for (const [file, members] of byFile) {
          const list = { apiVersion: "v1", kind: "List", items: members.map((at) => manifests[at]) };
          await writeFile(join(directory, `${file}.json`), JSON.stringify(list));
        }
        const input = openFiles(directory, { onChange: () => undefined });
        const objects = createObjectStore()(await input.read({ all: true }));
        input.close();
        const text = planAsText(await createPlayer(settingsOf(scenario, "local"))(objects, before));
        expect(text).toBe(planAsText(round));
      }),
      { numRuns: 10 },
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});

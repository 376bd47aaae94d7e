// The laws of the architecture, over every step of every scenario and both modes, on predicted facts; no host is touched.
// What each law compares is said where it stands. Real hosts: kernel/scenarios.test.ts.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { planAsText } from "../agent/commands/plan.ts";
import { openFiles } from "../agent/inputs/files.ts";
import { createObjectStore } from "../agent/inputs/objects.ts";
import type { HostFacts } from "../agent/model/facts.ts";
import { atOnce } from "../agent/model/pieces.ts";
import type { GatewayMode } from "../agent/model/settings.ts";
import { nothing } from "../agent/plan/plan.ts";
import { createBackends } from "../agent/sync/backends.ts";
import { noTools } from "../agent/sync/no-tools.ts";
import { carryOut } from "../agent/sync/round.ts";
import {
  createReader,
  hostFacts,
  loadScenarios,
  modes,
  type Scenario,
  settingsOf,
} from "./support/scenario.ts";
import { damaged, opening } from "./support/scenario-damage.ts";
import { broken, exits, isSelected, podAddresses } from "./support/scenario-exits.ts";
import { factsAsLines } from "./support/scenario-facts.ts";
import { momentsOf } from "./support/scenario-moments.ts";
import { createPlayer, type Played, play } from "./support/scenario-run.ts";

// Thousands of rounds; a machine that also does something else must not fail it.
vi.setConfig({ testTimeout: 120_000 });

const exactly = (facts: HostFacts) => factsAsLines(facts, { marks: "as they are" });
const upToMarks = (facts: HostFacts) => factsAsLines(facts, { marks: "by name" });

const cases = loadScenarios().flatMap((scenario) =>
  modes.map((mode) => ({ name: scenario.name, mode, scenario })),
);

async function uninstalled(facts: HostFacts): Promise<HostFacts> {
  const { facts: after } = await carryOut(createBackends(noTools), nothing, facts, {
    write: false,
    held: () => false,
  });
  return after;
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

  test("annotated: at every moment, of uninstalling too, the record tells of an egress IP on a link that is not the primary one", async () => {
    const played = await play(scenario, mode);
    const secondary = new Set(
      played.flatMap(({ round }) =>
        round.snapshot.held.flatMap(({ primary, address }) => (primary ? [] : [address])),
      ),
    );
    for (const { before, round, after } of played) {
      const moments = [...(await momentsOf(round.plan, before)), ...(await momentsOf(nothing, after))];
      for (const { after: what, facts } of moments) {
        const onLinks = facts.network.addresses.filter(({ address }) => secondary.has(address));
        const listed = new Set(facts.record.secondaryHostEgressIPs);
        expect(
          onLinks.filter(({ address }) => !listed.has(address)),
          what,
        ).toEqual([]);
      }
    }
  });

  test("drift: what somebody took away comes back, and meanwhile nothing leaves in a third way", async () => {
    const settings = settingsOf(scenario, mode);
    const waits = settings.whenUnready === "drop";
    for (const now of richest(await play(scenario, mode))) {
      const addresses = podAddresses(now);
      const right = exits(now.after, addresses);
      for (const [what, facts] of damaged(now.after)) {
        const mended = await createPlayer(settings)(now.objects, facts);
        expect(upToMarks(mended.outcome.facts), what).toEqual(upToMarks(now.after));
        const damagedExits = exits(facts, addresses);
        const known = [right, damagedExits];
        const leaks = (await momentsOf(mended.plan, facts)).flatMap((moment) =>
          broken(exits(moment.facts, addresses), known, () => false).map(
            (leak) => `${what}, after ${moment.after}: ${leak}`,
          ),
        );
        expect(leaks).toEqual([]);
        if (waits && !opening.has(what))
          expect(
            broken(damagedExits, [right], () => false),
            what,
          ).toEqual([]);
      }
    }
  });

  test("fail closed: at every moment a packet leaves as before, as after, or not at all; served pods never as the node", async () => {
    const played = await play(scenario, mode);
    for (const [at, now] of played.entries()) expect(await leaksOf(played[at - 1], now)).toEqual([]);
  });
});

/** The step that holds most, the last of them: damage to less is the same damage. */
function richest(played: readonly Played[]): readonly Played[] {
  return played
    .toReversed()
    .sort((a, b) => b.round.snapshot.held.length - a.round.snapshot.held.length)
    .slice(0, 1);
}

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
    { numRuns: 40 },
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
        const objects = atOnce(createObjectStore()(await input.read({ all: true })));
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

// The laws of a round, for rows alone and without a database: on hundreds of random states a second round changes nothing, the
// way to a state is not in it, nor is the order of what comes in, and leaving takes away what was written.
import { describe, expect, it } from "vitest";
import { createBuild, type Objects } from "../../../../agent/model/build.ts";
import type { HostFacts } from "../../../../agent/model/facts.ts";
import type { Settings } from "../../../../agent/model/settings.ts";
import { entriesOf, shardsFrom } from "../../../../agent/model/shards.ts";
import { createMode } from "../../../../agent/plan/modes.ts";
import { leaveNorthbound } from "../../../../agent/plan/parts/northbound/leave.ts";
import { nothing } from "../../../../agent/plan/plan.ts";
import { createBackends } from "../../../../agent/sync/backends.ts";
import { noTools } from "../../../../agent/sync/no-tools.ts";
import { carryOut, type Outcome } from "../../../../agent/sync/round.ts";
import { comparable, History } from "../../../support/northbound-history.ts";
import { factsOf, type Layout } from "../../../support/northbound-scene.ts";
import { settings as plain } from "../../make.ts";

const SEEDS = Array.from({ length: 60 }, (_, at) => at + 1);

/** A round of a process that has just started. */
function round(facts: HostFacts, objects: Objects, of: Partial<Settings>): Promise<Outcome> {
  const settings: Settings = { ...plain, gatewayMode: "shared", ...of, adopt: false };
  const plan = createMode(settings.gatewayMode).plan(createBuild()(settings, objects, facts));
  return carryOut(createBackends(noTools), plan, facts, { write: false, held: () => false });
}

const lines = ({ steps }: Outcome) =>
  steps.filter(({ backend }) => backend === "northbound").flatMap((step) => step.lines);

function historyOf(seed: number, layout: Layout): History {
  const history = new History(seed, layout === "central" ? "global" : undefined);
  for (let events = 0; events < 25; events++) history.event();
  history.resettle();
  history.resolve();
  return history;
}

function backwards(objects: Objects): Objects {
  const turned = <V>(map: ReadonlyMap<string, V>) => new Map([...map].reverse());
  return {
    egressIPs: turned(objects.egressIPs),
    nodes: turned(objects.nodes),
    namespaces: turned(objects.namespaces),
    pods: shardsFrom([...entriesOf(objects.pods)].reverse()),
    problems: [],
  };
}

describe.each(["zones", "central"] as const)("rows, %s", (layout) => {
  it.each(SEEDS)("history %i", async (seed) => {
    const history = historyOf(seed, layout);
    const { settings } = history;
    const bare = factsOf("node1", layout);
    const objects = history.objects();
    const first = await round(bare, objects, settings);
    expect(first.failures).toEqual([]);
    // Idempotent, in another process.
    expect(lines(await round(first.facts, objects, settings))).toEqual([]);
    // Quiet: the order of what comes in changes no byte.
    expect(lines(await round(bare, backwards(objects), settings))).toEqual(lines(first));
    // Free of the path: another state in between.
    for (let events = 0; events < 5; events++) history.event();
    history.resolve();
    const between = await round(first.facts, history.objects(), settings);
    const again = await round(between.facts, objects, settings);
    expect(comparable(again.facts)).toEqual(comparable(first.facts));
    // Clean: nothing is left but the other feature's sets.
    const { northbound } = first.facts;
    const plan = { ...nothing, northbound: leaveNorthbound({ ...plain, ...settings }, northbound, false) };
    const left = await carryOut(createBackends(noTools), plan, first.facts, {
      write: false,
      held: () => false,
    });
    const other = left.facts.northbound.shared.filter(
      ({ ids }) => ids["k8s.ovn.org/owner-type"] === "EgressService",
    );
    expect(comparable(left.facts)).toEqual(
      comparable({ ...bare, northbound: { ...bare.northbound, shared: other } }),
    );
  });

  it.each(SEEDS)(
    "history %i, without the lead: its own rows alone, and those when the exemptions are there",
    async (seed) => {
      const history = historyOf(seed, layout);
      const objects = history.objects();
      const bare = factsOf("node1", layout);
      const following = { ...bare, northbound: { ...bare.northbound, leads: false } };
      expect(lines(await round(following, objects, history.settings))).toEqual([]);
      const whole = await round(bare, objects, history.settings);
      const { shared } = whole.facts.northbound;
      const empty = { ...bare, northbound: { ...bare.northbound, leads: false, shared } };
      const own = await round(empty, objects, history.settings);
      expect(
        lines(own).filter((line) => /priority=10[23]|Static_Route|insert Address_Set/.test(line)),
      ).toEqual([]);
      expect(comparable({ ...own.facts, northbound: { ...own.facts.northbound, leads: true } })).toEqual(
        comparable(whole.facts),
      );
    },
  );
});

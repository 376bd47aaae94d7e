// Every scenario on recorded host facts, in both modes: the printed plan of each step against its golden text, and the
// packets of packets.yaml through the tracer. Real packets of the same file: kernel/scenarios.test.ts.
// UPDATE_GOLDEN=1 writes the golden texts anew; read the difference before you commit it.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { planAsText } from "../agent/commands/plan.ts";
import { goldenPath, loadScenarios, modes } from "./support/scenario.ts";
import { shownPacket } from "./support/scenario-packets.ts";
import { type Played, play, traced } from "./support/scenario-run.ts";

const update = process.env["UPDATE_GOLDEN"] === "1" && process.env["CI"] === undefined;
const scenarios = loadScenarios();

function golden(played: readonly Played[]): string {
  return played.map(({ step, round }) => `#### ${step.name}\n\n${planAsText(round)}`).join("\n");
}

test("there are scenarios", () => {
  expect(scenarios.length).toBeGreaterThanOrEqual(12);
});

describe.each(scenarios.map((scenario) => ({ name: scenario.name, scenario })))("$name", ({ scenario }) => {
  test.each(modes)("%s: the plan of each step is the golden text", async (mode) => {
    const text = golden(await play(scenario, mode));
    const path = goldenPath(scenario, mode);
    if (update) writeFileSync(path, text);
    expect(existsSync(path), `${path} is missing; make it with UPDATE_GOLDEN=1`).toBe(true);
    expect(text).toBe(readFileSync(path, "utf8"));
  });

  test.each(modes)("%s: packets go where packets.yaml says", async (mode) => {
    const played = await play(scenario, mode);
    const wrong = played.flatMap(({ step, round, after }) =>
      step.packets.flatMap((packet) => {
        const expected = packet.expect[mode];
        const { managementPort } = round.snapshot.settings;
        const { steps, unjudged, reached } = traced(after, managementPort, packet, expected);
        const right = JSON.stringify(reached) === JSON.stringify(expected) && unjudged === 0;
        return right ? [] : [{ step: step.name, packet: shownPacket(packet), expected, reached, steps }];
      }),
    );
    expect(wrong).toEqual([]);
  });
});

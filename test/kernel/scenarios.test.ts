// Every scenario on a real kernel, in local gateway mode: the agent's plan on the live host is the golden text, what it writes
// is what was predicted, a second look finds nothing to do, real packets go where packets.yaml says, uninstall leaves no trace.
// UPDATE_GOLDEN=1 also records host facts anew.
import { readFileSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { planAsText } from "../../agent/commands/plan.ts";
import { parseFacts } from "../../agent/inputs/facts-text.ts";
import { Lab } from "../lab/lab.ts";
import { type Backend, type PodName, pods } from "../lab/topology.ts";
import { canMakeLinks, canRunKernelTests } from "../support/privileged.ts";
import { flagsOf, hostFacts, loadScenarios, type Scenario, type ScenarioStep } from "../support/scenario.ts";
import { factsAsLines } from "../support/scenario-facts.ts";
import { ScenarioNode } from "../support/scenario-node.ts";
import { shownPacket } from "../support/scenario-packets.ts";
import { play } from "../support/scenario-run.ts";

const update = process.env["UPDATE_GOLDEN"] === "1" && process.env["CI"] === undefined;
/** Those that touch each table, each with its own reason to differ between the backends. */
const alsoLegacy = new Set(["address-changed", "moved-and-back", "strangers"]);

const cases = loadScenarios().flatMap((scenario) =>
  (["nft", "legacy"] as const)
    .filter((backend) => backend === "nft" || alsoLegacy.has(scenario.name))
    .map((backend) => ({ name: scenario.name, backend, scenario })),
);
type Case = (typeof cases)[number];

const missing = ({ scenario }: Case) =>
  scenario.needs === undefined ? undefined : canMakeLinks(scenario.needs);
const [here, notHere] = [true, false].map((can) => cases.filter((of) => (missing(of) === undefined) === can));

const exactly = (text: string) => factsAsLines(parseFacts(text), { marks: "as they are" });

/** Probes that must fail wait this long for an answer that must not come. */
const silenceMs = 300;

/** Real packets of one step, all at once; those that did not come out as said. */
async function wrongPackets(lab: Lab, { packets }: ScenarioStep): Promise<readonly unknown[]> {
  // The other node's pods are in a scenario because OVN sends what they start here.
  const steered = [...new Set(packets.map(({ pod }) => pod))].filter((pod) => pods[pod].node !== "node1");
  const steerAll = (how: (pod: PodName) => Promise<void>) => Promise.all(steered.map(how));
  await steerAll((pod) => lab.steer(pod, "node1"));
  const outcomes = await Promise.all(
    packets.map(({ pod, to, protocol, family, expect: { local } }) =>
      lab.probe(pod, to, protocol, family, local === "dropped" ? silenceMs : 2_000),
    ),
  );
  await steerAll((pod) => lab.unsteer(pod));
  return packets.flatMap((packet, at) => {
    const outcome = outcomes[at];
    const expected = packet.expect.local;
    const seen = outcome === undefined || "failed" in outcome ? "dropped" : outcome;
    const right = JSON.stringify(seen) === JSON.stringify(expected);
    return right ? [] : [{ packet: shownPacket(packet), expected, outcome }];
  });
}

async function prepare(lab: Lab, scenario: Scenario): Promise<void> {
  if (scenario.hostScript !== undefined) await lab.nodeExec("node1", "sh", ["-c", scenario.hostScript]);
}

async function compareHost(agent: ScenarioNode, scenario: Scenario, backend: Backend): Promise<void> {
  const { text } = await agent.ask("facts");
  if (update && backend === "nft") writeFileSync(scenario.hostFactsPath, text);
  // Legacy tables come with all their chains.
  if (backend === "nft") expect(text).toBe(readFileSync(scenario.hostFactsPath, "utf8"));
  else expect(exactly(text)).toEqual(factsAsLines(hostFacts(scenario), { marks: "as they are" }));
}

const reason = canRunKernelTests() ?? canRunKernelTests("legacy");

describe.skipIf(reason !== undefined)(
  `scenarios in the kernel${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    test.skip.each((notHere ?? []).map((of) => ({ ...of, why: missing(of) })))(
      "$name, $backend (not here: $why)",
      () => undefined,
    );

    test.each(here ?? [])("$name, $backend", async ({ scenario, backend }) => {
      await using lab = await Lab.up({ prefix: `eip${process.pid}s`, backend });
      await prepare(lab, scenario);
      await using agent = await ScenarioNode.on(lab, flagsOf(scenario, "local"));
      await compareHost(agent, scenario, backend);
      const untouched = await lab.dump("node1");
      for (const { step, round, after } of await play(scenario, "local")) {
        await agent.tell(step.manifests);
        const planned = await agent.ask("plan");
        expect(planned.text, step.name).toBe(planAsText(round));
        expect(await agent.ask("run"), step.name).toEqual({ status: 0, text: "" });
        const again = await agent.ask("plan");
        expect(again.text, step.name).toMatch(/(^|\n)nothing to do\n$/);
        expect(again.status, step.name).toBe(0);
        const facts = await agent.ask("facts");
        expect(exactly(facts.text), step.name).toEqual(factsAsLines(after, { marks: "as they are" }));
        // A flow keeps its path for life, and a port may be drawn again: what is asked here is of new connections.
        await lab.nodeExec("node1", "conntrack", ["-F"]);
        expect(await wrongPackets(lab, step), step.name).toEqual([]);
      }
      expect((await agent.ask("uninstall")).status).toBe(0);
      expect(await lab.dump("node1")).toBe(untouched);
    });
  },
);

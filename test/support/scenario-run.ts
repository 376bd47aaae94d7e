// A scenario played without a host: each step's plan from the facts that the step before left by prediction.
// In: Scenario and mode. Out: for each step the Round and the facts before and after it. Nothing is written anywhere.
import { createLoop, type Round } from "../../agent/loop.ts";
import type { Objects } from "../../agent/model/build.ts";
import type { HostFacts } from "../../agent/model/facts.ts";
import type { GatewayMode, Settings } from "../../agent/model/settings.ts";
import { createMode } from "../../agent/plan/modes.ts";
import { createBackends } from "../../agent/sync/backends.ts";
import { createContention } from "../../agent/sync/contention.ts";
import { noTools } from "../../agent/sync/no-tools.ts";
import { trace } from "../../agent/trace.ts";
import { destinationOf } from "../lab/probe.ts";
import { nodes, pods } from "../lab/topology.ts";
import { createReader, hostFacts, type Scenario, type ScenarioStep, settingsOf } from "./scenario.ts";
import type { Expectation, Expected } from "./scenario-packets.ts";

export interface Played {
  readonly step: ScenarioStep;
  readonly objects: Objects;
  readonly before: HostFacts;
  readonly round: Round;
  readonly after: HostFacts;
}

/** Rounds of one process: what it remembers it remembers from one call to the next. */
export function createPlayer(settings: Settings): (objects: Objects, facts: HostFacts) => Promise<Round> {
  let now: { readonly objects: Objects; readonly facts: HostFacts } | undefined;
  const current = () => {
    if (now === undefined) throw new Error("nothing to read yet");
    return now;
  };
  const loop = createLoop({
    settings,
    mode: createMode(settings.gatewayMode),
    backends: createBackends(noTools),
    readHost: () => Promise.resolve(current().facts),
    assumeHost: () => undefined,
    readObjects: () => Promise.resolve(current().objects),
    contention: createContention(() => 0),
  });
  return (objects, facts) => {
    now = { objects, facts };
    return loop.round(new Set(), { write: false, allObjects: true });
  };
}

export async function play(scenario: Scenario, mode: GatewayMode): Promise<readonly Played[]> {
  const player = createPlayer(settingsOf(scenario, mode));
  const read = createReader();
  const played: Played[] = [];
  let before = hostFacts(scenario);
  for (const step of scenario.steps) {
    const objects = read(step.manifests);
    const round = await player(objects, before);
    const after = round.outcome.facts;
    played.push({ step, objects, before, round, after });
    before = after;
  }
  return played;
}

/** What the tracer says of a probe, in the words of packets.yaml. */
export function traced(facts: HostFacts, managementPort: string, packet: Expectation, expected: Expected) {
  const destination = destinationOf(packet.to);
  const { steps, unjudged, verdict } = trace(facts, {
    source: pods[packet.pod][packet.family],
    destination: destination[packet.family],
    from: managementPort,
    protocol: packet.protocol,
    port: destination.port,
  });
  const reached = verdict.leaves
    ? { server: serverBehind(verdict, expected, packet.family), source: verdict.source }
    : ("dropped" as const);
  return { steps, unjudged, reached };
}

/** The node's kernel decides on the link; who is there is the lab's business, except where the link tells. */
export function serverBehind(
  { link, destination }: { readonly link: string; readonly destination: string },
  expected: Expected,
  family: 4 | 6,
): string {
  const name = expected === "dropped" ? "" : expected.server;
  const elsewhere = name !== "ext" && name !== "sec" && link !== "ovn-k8s-mp0";
  if (elsewhere && destination === nodes.node2[link === "eth0" ? "eth0" : "eth1"][family]) return name;
  if (link === "ovn-k8s-mp0")
    return `pod ${Object.entries(pods).find(([, pod]) => pod[family] === destination)?.[0] ?? "unknown"}`;
  return link === "eth0" ? "ext" : "sec";
}

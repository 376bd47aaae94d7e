// A pod whose address is unknown for a moment, met by a process that has just started: the kernel remembers for it (BL-15).
import { describe, expect, it } from "vitest";
import { createBuild } from "../../../agent/model/build.ts";
import type { HostFacts } from "../../../agent/model/facts.ts";
import type { KubernetesObject, Pod } from "../../../agent/model/objects.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { createBackends } from "../../../agent/sync/backends.ts";
import { noTools } from "../../../agent/sync/no-tools.ts";
import { carryOut, printSteps } from "../../../agent/sync/round.ts";
import { bareHost, egressIP, namespace, node1, objects, pod, settings } from "../make.ts";

const prod = egressIP("prod", { at: { "10.10.10.50": "node1" } });
const others = [prod, namespace("shop"), node1, pod("shop/other", ["10.244.1.9"])];
const unselected = egressIP("prod", {
  ...prod,
  podSelector: [{ key: "app", operator: "In", values: ["web"] }],
});

/** A round of a process that has just started, on these facts. */
async function firstRound(facts: HostFacts, all: readonly KubernetesObject[]) {
  const plan = createMode("local").plan(createBuild()(settings, objects(...all), facts));
  return carryOut(createBackends(noTools), plan, facts, { write: false, held: () => false });
}

async function served(): Promise<HostFacts> {
  return (await firstRound(bareHost, [...others, pod("shop/web", ["10.244.1.3"])])).facts;
}

describe("after a restart", () => {
  it.each<[string, readonly Pod[], string]>([
    ["a running pod without a known address keeps its entry", [pod("shop/web")], ""],
    [
      "a pod that has not been given one yet keeps nobody's",
      [pod("shop/new", [], { running: false })],
      "== retire steering\ndel egressip4 10.244.1.3\n",
    ],
    [
      "a host-network pod keeps nobody's",
      [pod("shop/host", [], { hostNetwork: true })],
      "== retire steering\ndel egressip4 10.244.1.3\n",
    ],
    [
      "a running pod of unknown address keeps no entry whose address another has now",
      [pod("shop/web"), pod("shop/heir", ["10.244.1.3"], { node: "node2", namespace: "play" })],
      "== retire steering\ndel egressip4 10.244.1.3\n",
    ],
    [
      "its new address takes the place of the old one",
      [pod("shop/web", ["10.244.1.7"])],
      "== establish sets\nadd egressip4 10.244.1.7 skbmark 0x10000000/0x7ff00000\n\n== retire steering\ndel egressip4 10.244.1.3\n",
    ],
  ])("%s", async (_, pods, text) => {
    // `play` is no namespace that anything selects: it is not among the objects.
    const { steps } = await firstRound(await served(), [...others, ...pods]);
    expect(printSteps(steps)).toBe(text);
  });

  it("a kept entry waits when its mark is no egress IP's of this node any more", async () => {
    const away = egressIP("prod", { at: { "10.10.10.50": "node2" } });
    const { steps } = await firstRound(await served(), [away, ...others.slice(1), pod("shop/web")]);
    expect(printSteps(steps)).toContain("add egressip4 10.244.1.3\n");
  });

  it("nothing is kept for an EgressIP that selects nothing and a host where all addresses are known", async () => {
    const { steps } = await firstRound(await served(), [unselected, ...others.slice(1)]);
    expect(printSteps(steps)).toContain("del egressip4 10.244.1.3\n");
  });
});

// Pods are led to this host's kernel when that knows what to do with them, and away again before it forgets (BL-20).
import { describe, expect, it } from "vitest";
import { createBuild } from "../../../../agent/model/build.ts";
import type { HostFacts } from "../../../../agent/model/facts.ts";
import type { KubernetesObject } from "../../../../agent/model/objects.ts";
import { servedSet } from "../../../../agent/model/owner.ts";
import { withEntries } from "../../../../agent/model/shards.ts";
import { createMode } from "../../../../agent/plan/modes.ts";
import { createBackends } from "../../../../agent/sync/backends.ts";
import { carryOut } from "../../../../agent/sync/round.ts";
import { factsOf, labNodes } from "../../../support/northbound-scene.ts";
import { egressIP, namespace, objects, pod, settings } from "../../make.ts";
import { recordingTools } from "../../tools.ts";

const kernel = egressIP("kernel", {
  at: { "10.10.10.50": "node1" },
  podSelector: [{ key: "app", operator: "In", values: ["kernel"] }],
});
const gateway = egressIP("gateway", {
  at: { "172.18.0.50": "node1" },
  podSelector: [{ key: "app", operator: "In", values: ["gateway"] }],
});
const led = pod("shop/led", ["10.244.1.3"], { labels: { app: "kernel" } });
const given = pod("shop/given", ["10.244.1.4"], { labels: { app: "gateway" } });

function agent(facts: HostFacts) {
  const tools = recordingTools();
  const backends = createBackends(tools);
  const build = createBuild();
  const mode = createMode("shared");
  return {
    tools,
    facts: () => facts,
    round: async (...all: readonly KubernetesObject[]) => {
      tools.clear();
      const snapshot = build(
        { ...settings, gatewayMode: "shared" },
        objects(...labNodes(), namespace("shop"), ...all),
        facts,
      );
      const outcome = await carryOut(backends, mode.plan(snapshot), facts, {
        write: true,
        held: () => false,
      });
      facts = outcome.facts;
      return outcome;
    },
  };
}

const matched = (text: string) =>
  [...text.matchAll(/match="ip4\.src == ([\d.]+)"/g)].map(([, address]) => address);

describe("a pod that is led to the kernel", () => {
  it("is, in the same round, after the kernel has its entry", async () => {
    const { tools, round } = agent(factsOf("node1", "zones"));
    await round(kernel, led);
    const order = tools.writes.map((write) => write.slice(0, write.indexOf(":")));
    expect(order.lastIndexOf("ipset")).toBeLessThan(order.indexOf("northbound"));
    expect(matched(tools.writes.join("\n"))).toEqual(["10.244.1.3"]);
  });

  it("waits while the set cannot be written, and nobody else does", async () => {
    const { tools, round } = agent(factsOf("node1", "zones"));
    tools.fail({ ipset: "no" });
    await round(kernel, gateway, led, given);
    const text = tools.writes.filter((write) => write.startsWith("northbound")).join("\n");
    expect(matched(text)).toEqual(["10.244.1.4"]);
    expect(text).toContain("external_ip=172.18.0.50");
    tools.fail({});
    await round(kernel, gateway, led, given);
    expect(matched(tools.writes.join("\n"))).toEqual(["10.244.1.3"]);
    const { steps } = await round(kernel, gateway, led, given);
    expect(steps).toEqual([]);
  });

  it("waits where the kernel still has an entry with another mark", async () => {
    const before = agent(factsOf("node1", "zones"));
    await before.round(kernel, led);
    const sets = new Map(
      [...before.facts().sets].map(([name, set]) => [
        name,
        {
          ...set,
          members: withEntries(
            set.members,
            name === servedSet(4) ? [["10.244.1.3", "skbmark 0x12300000/0x7ff00000"]] : [],
          ),
        },
      ]),
    );
    const { tools, round } = agent({
      ...before.facts(),
      sets,
      northbound: factsOf("node1", "zones").northbound,
    });
    tools.fail({ ipset: "no" });
    await round(kernel, led, given, gateway);
    const text = () => tools.writes.filter((write) => write.startsWith("northbound")).join("\n");
    expect(matched(text())).toEqual(["10.244.1.4"]);
    tools.fail({});
    await round(kernel, led, given, gateway);
    expect(matched(text())).toEqual(["10.244.1.3"]);
  });

  it("is led away before the kernel forgets it", async () => {
    const { tools, round } = agent(factsOf("node1", "zones"));
    await round(kernel, led);
    await round(led);
    // Of the host only that it answers for the address ends before.
    const order = tools.writes.map((write) => write.slice(0, write.indexOf(":")));
    expect(order.slice(0, 4)).toEqual(["hush", "hush", "ip", "northbound"]);
    expect(tools.writes[2]).toBe("ip: address del 10.10.10.50/32 dev eth1");
    expect(order.slice(4)).toEqual(expect.arrayContaining(["ipset", "ip"]));
  });

  it("is not led away, and the kernel forgets only to answer for the address, while the database cannot be written to", async () => {
    const { tools, round } = agent(factsOf("node1", "zones"));
    await round(kernel, led);
    tools.fail({ northbound: "no" });
    const { failures } = await round(led);
    expect(failures.map(({ backend }) => backend)).toEqual(["northbound"]);
    expect(tools.writes.map((write) => write.slice(0, write.indexOf(":")))).toEqual([
      ...["hush", "hush", "ip", "northbound"],
    ]);
    expect(tools.writes[2]).toBe("ip: address del 10.10.10.50/32 dev eth1");
  });
});

// The Snapshot, and what it costs: counted in work done and lines written, not in time.
import { describe, expect, it } from "vitest";
import { createBuild, type Objects } from "../../../agent/model/build.ts";
import type { HostFacts } from "../../../agent/model/facts.ts";
import { keyOf, type Pod } from "../../../agent/model/objects.ts";
import { sizeOf, withEntries } from "../../../agent/model/shards.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { createBackends } from "../../../agent/sync/backends.ts";
import { carryOut } from "../../../agent/sync/round.ts";
import { adoptServed } from "../../../agent/sync/sets.ts";
import { bareHost, egressIP, namespace, node1, node2, objects, pod, settings } from "../make.ts";
import { recordingTools } from "../tools.ts";

const shop = namespace("shop");
const web = egressIP("web", { at: { "172.18.0.50": "node1", "10.10.10.60": "node2" } });

describe("build", () => {
  it("joins what it is given, and is frozen", () => {
    const snapshot = createBuild()(
      settings,
      objects(web, shop, node1, node2, pod("shop/a", ["10.244.1.3"])),
      bareHost,
    );
    expect(snapshot.held.map(({ address }) => address)).toEqual(["172.18.0.50"]);
    expect([...snapshot.notHeld]).toEqual(["10.10.10.60"]);
    expect(sizeOf(snapshot.served.claims)).toBe(1);
    expect(snapshot.problems).toEqual([]);
    expect([snapshot, snapshot.held, snapshot.problems, snapshot.exempt[4]].every(Object.isFrozen)).toBe(
      true,
    );
  });

  it("never takes a node's own address for one to withdraw, though an EgressIP asks for it (BL-44)", () => {
    const bad = egressIP("bad", {
      at: { "172.18.0.12": "node2", "10.10.10.11": "node1", "10.10.10.61": "node2" },
    });
    const snapshot = createBuild()(settings, objects(bad, node1, node2), bareHost);
    expect([...snapshot.notHeld]).toEqual(["10.10.10.61"]);
  });

  it("names pods that claim one address, and which of them counts", () => {
    const twins = [pod("shop/b", ["10.244.1.3"]), pod("shop/a", ["10.244.1.3"])];
    const snapshot = createBuild()(settings, objects(web, shop, node1, ...twins), bareHost);
    expect(snapshot.problems).toEqual([
      {
        object: "Pod/shop/b",
        path: "status.podIPs",
        text: "10.244.1.3 is also the address of pod shop/a, which counts",
      },
    ]);
  });

  it("hands the problems of the inputs on", () => {
    const problem = { object: "EgressIP/x", path: "spec", text: "is missing" };
    const snapshot = createBuild()(settings, { ...objects(node1), problems: [problem] }, bareHost);
    expect(snapshot.problems).toEqual([problem]);
  });

  it("derives nothing again of what did not change", () => {
    const build = createBuild();
    const all = objects(web, shop, node1, pod("shop/a", ["10.244.1.3"]));
    const first = build(settings, all, bareHost);
    const again = build(settings, all, { ...bareHost });
    expect(again.held).toBe(first.held);
    expect(again.served).toBe(first.served);
    expect(again.exempt).toBe(first.exempt);
    expect(again.notHeld).toBe(first.notHeld);
    const morePods = { ...all, pods: withEntries(all.pods, [["Pod/shop/b", pod("shop/b", ["10.244.1.4"])]]) };
    const third = build(settings, morePods, bareHost);
    expect(third.held).toBe(first.held);
    expect(third.exempt).toBe(first.exempt);
    expect(third.served).not.toBe(first.served);
  });

  it("keeps what is held, and every entry, when the host changes in nothing that they are made from", () => {
    const build = createBuild();
    const mode = createMode("local");
    const all = objects(web, shop, node1, pod("shop/a", ["10.244.1.3"]));
    const first = build(settings, all, bareHost);
    const entries = mode.plan(first).sets.served[4];
    const withLinks = (links: HostFacts["network"]["links"]) =>
      build(settings, all, { ...bareHost, network: { ...bareHost.network, links } });
    const [link] = bareHost.network.links;
    const pods = withLinks([
      ...bareHost.network.links,
      { ...link, name: "veth77", index: 77 } as typeof link & object,
    ]);
    expect(pods.held).toBe(first.held);
    expect(pods.notHeld).toBe(first.notHeld);
    expect(mode.plan(pods).sets.served[4]).toBe(entries);
    // A link that is down is something else to hold an egress IP on, and no other mark.
    const down = withLinks(bareHost.network.links.map((one) => ({ ...one, running: false })));
    expect(down.held.map(({ linkUp }) => linkUp)).toEqual([false]);
    expect(mode.plan(down).sets.served[4]).toBe(entries);
  });

  it("comes to the same as a build that starts now, whatever it has built before", () => {
    const build = createBuild();
    const pods = Array.from({ length: 30 }, (_, n) => pod(`shop/p${n}`, [`10.244.1.${n + 3}`]));
    const histories: readonly Objects[] = [
      objects(web, shop, node1, ...pods),
      objects(shop, node1, ...pods),
      objects(web, node1, ...pods),
      objects(web, shop, node1, node2, ...pods.slice(7)),
      objects(
        web,
        egressIP("older", { at: { "172.18.0.51": "node1" }, created: "2020-01-01T00:00:00Z" }),
        shop,
        node1,
        ...pods,
      ),
    ];
    for (const all of [...histories, ...histories.toReversed()])
      expect(build(settings, all, bareHost)).toEqual(createBuild()(settings, all, bareHost));
  });

  it("comes to the same when what it was preparing is given up after any piece", () => {
    const pods = Array.from({ length: 2_000 }, (_, n) => pod(`shop/p${n}`, [`10.244.${n >> 8}.${n & 255}`]));
    const before = objects(web, shop, node1, ...pods);
    // Each has the address of another one, whose piece comes at another time.
    const after = objects(
      web,
      shop,
      node1,
      ...pods.map(({ name }, n) => pod(`shop/${name}`, pods[1_999 - n]?.addresses ?? [])),
    );
    const wanted = createBuild()(settings, before, bareHost);
    const pieces = [...createBuild().prepare(settings, after)].length;
    expect(pieces).toBeGreaterThan(16);
    for (let given = 1; given < pieces; given += 5) {
      const build = createBuild();
      build(settings, before, bareHost);
      const work = build.prepare(settings, after);
      for (let piece = 0; piece < given; piece++) work.next();
      expect(build(settings, before, bareHost)).toEqual(wanted);
    }
  });
});

/** 20 000 pods that count how often they are looked at, served, on a host where everything is as it should be. */
async function settled() {
  const looks = { pods: 0 };
  const watched = (of: Pod): Pod =>
    Object.defineProperty({ ...of }, "hostNetwork", {
      enumerable: true,
      get: () => {
        looks.pods++;
        return false;
      },
    });
  const many = Array.from({ length: 20_000 }, (_, n) =>
    watched(pod(`shop/p${n}`, [`10.244.${n >> 8}.${n & 255}`])),
  );
  const tools = recordingTools();
  const parts = { build: createBuild(), mode: createMode("local"), backends: createBackends(tools) };
  let facts: HostFacts = bareHost;
  const round = async (all: Objects) => {
    tools.clear();
    looks.pods = 0;
    const plan = parts.mode.plan(parts.build(settings, all, facts));
    const outcome = await carryOut(parts.backends, plan, adoptServed(plan, facts), {
      write: true,
      held: () => false,
    });
    facts = adoptServed(plan, outcome.facts);
    return { plan, outcome };
  };
  const all = objects(web, shop, node1, ...many);
  await round(all);
  await round(all);
  return { all, many, round, tools, looks, watched };
}

describe("with 20 000 pods", () => {
  it("adding one looks at the pods of one shard and writes one line (BL-78)", async () => {
    const { all, round, tools, looks, watched } = await settled();
    const before = await round(all);
    expect([before.outcome.steps, tools.writes, looks.pods]).toEqual([[], [], 0]);
    const added = watched(pod("shop/new", ["10.250.0.1"]));
    const { plan, outcome } = await round({ ...all, pods: withEntries(all.pods, [[keyOf(added), added]]) });
    expect(looks.pods).toBeLessThan(60); // 20 000 in 1024 shards: about twenty
    expect(looks.pods).toBeGreaterThan(0);
    expect(outcome.steps).toEqual([
      {
        backend: "sets",
        phase: "establish",
        lines: ["add egressip4 10.250.0.1 skbmark 0x10000000/0x7ff00000"],
      },
    ]);
    expect(tools.writes).toEqual(["ipset: add egressip4 10.250.0.1 skbmark 0x10000000/0x7ff00000\n"]);
    const differing = plan.sets.served[4].shards.filter(
      (shard, at) => shard !== before.plan.sets.served[4].shards[at],
    );
    // Those in which an address of one of these pods lies.
    expect(differing.length).toBeLessThanOrEqual(looks.pods);
    expect(plan.iptables).toBe(before.plan.iptables);
    expect(plan.routes).toBe(before.plan.routes);
  });

  it("removing one, ending one, and giving one another address are a line or two each", async () => {
    const { all, many, round, watched } = await settled();
    const [first, second, third] = many as [Pod, Pod, Pod];
    const linesAfter = async (...entries: readonly (readonly [string, Pod | undefined])[]) => {
      const { outcome } = await round({ ...all, pods: withEntries(all.pods, entries) });
      await round(all);
      return outcome.steps.flatMap(({ lines }) => lines);
    };
    expect(await linesAfter([keyOf(first), undefined])).toEqual(["del egressip4 10.244.0.0"]);
    expect(await linesAfter([keyOf(second), pod("shop/p1", ["10.244.0.1"], { finished: true })])).toEqual([
      "del egressip4 10.244.0.1",
    ]);
    expect(await linesAfter([keyOf(third), watched(pod("shop/p2", ["10.250.0.2"]))])).toEqual([
      "add egressip4 10.250.0.2 skbmark 0x10000000/0x7ff00000",
      "del egressip4 10.244.0.2",
    ]);
  });
});

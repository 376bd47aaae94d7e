// The annotation k8s.ovn.org/secondary-host-egress-ips as it is written: early, once, beside what others write into it.
import { describe, expect, it } from "vitest";
import { KEY, World } from "./world.ts";

const prod = { prod: { "10.10.10.50": "node1", "fd00:10:10::50": "node1" } };

describe("the annotation", () => {
  it("is sent once there is a plan, before the address is on its link, and once only", async () => {
    const world = new World();
    world.assigned = prod;
    await world.roundOnly(() => {
      expect(world.server.annotations).toEqual({ [KEY]: '["10.10.10.50","fd00:10:10::50"]' });
      expect(world.host.network.addresses.some(({ address }) => address === "10.10.10.50")).toBe(false);
    });
    // The watch is slow.
    for (let times = 0; times < 5; times++) await world.round();
    world.watch();
    await world.round();
    expect(world.takeWrites().filter((what) => what.startsWith("Node"))).toEqual(["Node/node1"]);
  });

  it("keeps an address until it is off its link, and goes when there is none left", async () => {
    const world = new World();
    world.assigned = prod;
    await world.round();
    world.watch();
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    world.failing = { ip: "no" };
    await world.round();
    expect(world.server.annotations?.[KEY]).toBe('["10.10.10.50","fd00:10:10::50"]');
    world.failing = {};
    await world.roundOnly(() => {
      expect(world.server.annotations?.[KEY]).toBe('["10.10.10.50","fd00:10:10::50"]');
    });
    await world.pass(1_000);
    expect(world.server.annotations?.[KEY]).toBe('["10.10.10.50"]');
    world.watch();
    world.assigned = {};
    await world.round();
    expect(world.server.annotations).toEqual({});
  });

  it("keeps entries and annotations of others, and does not put back what they take out", async () => {
    const world = new World();
    world.server.annotations = { other: "x", [KEY]: '["10.10.10.77"]' };
    world.watch();
    world.assigned = prod;
    await world.round();
    expect(world.server.annotations).toEqual({
      other: "x",
      [KEY]: '["10.10.10.50","10.10.10.77","fd00:10:10::50"]',
    });
    world.server.annotations = { [KEY]: '["fd00:10:10::50","10.10.10.50"]' };
    world.watch();
    world.takeWrites();
    world.failing = { record: "disk full" };
    await world.round();
    world.failing = {};
    await world.round();
    // Another order is no difference.
    expect(world.takeWrites()).toEqual([]);
  });

  it.each([undefined, "[]", '["10.10.10.77"]'])(
    "does not overwrite what somebody has written since it was read as %s",
    async (read) => {
      const world = new World();
      world.seen = read;
      world.assigned = prod;
      world.server.annotations = { [KEY]: '["10.10.10.88"]' };
      await world.round();
      expect(world.server.annotations).toEqual({ [KEY]: '["10.10.10.88"]' });
      expect(world.told).toEqual([]);
      world.watch();
      await world.round();
      await world.pass(2_000);
      expect(world.server.annotations).toEqual({ [KEY]: '["10.10.10.50","10.10.10.88","fd00:10:10::50"]' });
    },
  );

  it("is told as failing, once, when it is refused again and again", async () => {
    const world = new World();
    world.assigned = prod;
    world.server.annotations = { [KEY]: '["10.10.10.88"]' };
    await world.round();
    await world.pass(600_000);
    expect(world.told).toEqual([expect.stringMatching(/^Node\/node1: model: 422/)]);
    const patches = world.server.requests.filter(({ method }) => method === "PATCH");
    // The two forms of the first write each time; 1, 2, 4 … 60 s apart and longer.
    expect(patches.length).toBeLessThan(40);
    world.watch();
    await world.round();
    await world.pass(120_000);
    expect(world.told.slice(1)).toEqual(["Node/node1: well"]);
  });

  it("is taken back also where the EgressIP goes before the watch has told of it", async () => {
    const world = new World();
    world.assigned = prod;
    await world.roundOnly();
    world.assigned = {};
    await world.roundOnly();
    world.watch();
    await world.round();
    expect(world.server.annotations).toEqual({});
    await world.round();
    world.watch();
    await world.round();
    expect(world.server.annotations).toEqual({});
    expect(world.takeWrites().filter((what) => what.startsWith("Node"))).toHaveLength(2);
  });

  it("can be the first one that the Node has", async () => {
    const world = new World();
    world.server.annotations = undefined;
    world.assigned = prod;
    await world.round();
    expect(world.server.annotations).toEqual({ [KEY]: '["10.10.10.50","fd00:10:10::50"]' });
  });

  it.each(["10.10.10.77", '{"10.10.10.77":1}', '["10.10.10.77",5]', '["10.10.10.77/24"]'])(
    "stays as it is where nobody can read it: %s",
    async (text) => {
      const world = new World();
      world.server.annotations = { [KEY]: text };
      world.watch();
      world.assigned = prod;
      await world.round();
      expect(world.server.annotations).toEqual({ [KEY]: text });
    },
  );

  it("is written again when somebody has put it back as it was", async () => {
    const world = new World();
    world.assigned = prod;
    await world.round();
    world.server.annotations = {};
    await world.round();
    expect(world.server.annotations).toEqual({});
    await world.pass(30_000);
    await world.round();
    expect(world.server.annotations[KEY]).toBe('["10.10.10.50","fd00:10:10::50"]');
  });

  it("is not written where it says what it should", async () => {
    const world = new World();
    await world.round();
    world.assigned = prod;
    world.server.annotations = { [KEY]: '["10.10.10.50","fd00:10:10::50"]' };
    world.watch();
    await world.round();
    world.restart();
    await world.round();
    expect(world.server.requests.filter(({ path }) => path.includes("nodes"))).toEqual([]);
  });
});

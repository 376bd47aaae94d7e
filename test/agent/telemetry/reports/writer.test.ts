// How reports are written, for any history of what happens and of what the server says: never two writes of one object within a
// second, never faster than a server wants it, nothing after the end; and how things are in the end is what is there in the end.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Refused } from "./model-server.ts";
import { KEY, World } from "./world.ts";

const addresses = ["10.10.10.50", "10.10.10.51", "fd00:10:10::50", "172.18.0.50", "192.0.2.9"] as const;

/** A moment of a history. */
type Moment =
  | { readonly kind: "assign"; readonly at: readonly (readonly [number, number, string])[] }
  | { readonly kind: "down"; readonly is: boolean }
  | { readonly kind: "rival"; readonly is: boolean }
  | { readonly kind: "tools"; readonly fail: boolean }
  | { readonly kind: "server"; readonly says: Refused | undefined }
  | { readonly kind: "others"; readonly say: readonly string[] }
  | { readonly kind: "expire" | "watch" | "round" | "restart" }
  | { readonly kind: "pass"; readonly ms: number };

const moment: fc.Arbitrary<Moment> = fc.oneof(
  fc.record({
    kind: fc.constant("assign" as const),
    at: fc.array(
      fc.tuple(fc.nat(2), fc.nat(addresses.length - 1), fc.constantFrom("node1", "node1", "node2")),
      { maxLength: 5 },
    ),
  }),
  fc.record({ kind: fc.constant("down" as const), is: fc.boolean() }),
  fc.record({ kind: fc.constant("rival" as const), is: fc.boolean() }),
  fc.record({ kind: fc.constant("tools" as const), fail: fc.boolean() }),
  fc.record({
    kind: fc.constant("server" as const),
    says: fc.constantFrom<Refused | undefined>(
      undefined,
      undefined,
      "unreachable",
      { code: 429, retryAfterMs: 7_000 },
      { code: 503 },
      { code: 403 },
      { code: 409 },
      { code: 422 },
      { code: 404 },
    ),
  }),
  fc.record({
    kind: fc.constant("others" as const),
    say: fc.subarray(["10.10.10.77", "fd00:10:10::77"]),
  }),
  fc.record({
    kind: fc.constantFrom("expire" as const, "watch" as const, "round" as const, "restart" as const),
  }),
  fc.record({ kind: fc.constant("pass" as const), ms: fc.nat(3_000) }),
);

async function happens(world: World, now: Moment): Promise<void> {
  switch (now.kind) {
    case "assign": {
      const assigned: Record<string, Record<string, string>> = {};
      for (const [name, at, node] of now.at)
        assigned[`e${name}`] = { ...assigned[`e${name}`], [addresses[at] ?? addresses[0]]: node };
      world.assigned = assigned;
      break;
    }
    case "down":
      world.down = new Set(now.is ? ["eth1"] : []);
      break;
    case "rival":
      world.rivals = now.is ? [{ address: "10.10.10.50", link: "eth1", mac: "02:00:00:00:00:99" }] : [];
      break;
    case "tools":
      world.failing = now.fail ? { ip: "no" } : {};
      break;
    case "server":
      world.server.refuse = now.says === undefined ? undefined : () => now.says;
      break;
    case "others": {
      const entries = JSON.parse(world.server.annotations?.[KEY] ?? "[]") as string[];
      const kept = entries.filter((entry) => !entry.endsWith("77"));
      world.server.annotations = {
        ...world.server.annotations,
        [KEY]: JSON.stringify([...kept, ...now.say]),
      };
      break;
    }
    case "expire":
      world.server.events.clear();
      break;
    case "watch":
      world.watch();
      break;
    case "restart":
      world.restart();
      break;
    case "round":
      return world.roundOnly();
    case "pass":
      return world.pass(now.ms);
  }
  return world.roundOnly();
}

/** Everything is well from here on, and the watch follows. */
async function settle(world: World): Promise<void> {
  world.server.refuse = undefined;
  world.failing = {};
  for (let times = 0; times < 3; times++) {
    world.watch();
    await world.roundOnly();
    await world.pass(100_000);
  }
}

function writesOf(world: World): ReadonlyMap<string, readonly number[]> {
  const writes = new Map<string, number[]>();
  for (const { wrote, at } of world.server.requests)
    if (wrote !== undefined) writes.set(wrote, [...(writes.get(wrote) ?? []), at]);
  return writes;
}

const history = fc.array(moment, { minLength: 1, maxLength: 25 });

describe("for any history", () => {
  it("no object is written twice within a second, nor events faster than ten a second", async () => {
    await fc.assert(
      fc.asyncProperty(history, async (moments) => {
        const world = new World();
        // Of two processes each knows only its own writes.
        for (const now of moments) if (now.kind !== "restart") await happens(world, now);
        await settle(world);
        for (const [object, times] of writesOf(world))
          for (const [index, at] of times.slice(1).entries())
            expect(at - (times[index] ?? 0), object).toBeGreaterThanOrEqual(1_000);
        const events = world.server.requests.filter(({ wrote }) => wrote?.startsWith("Event"));
        for (const [index, { at }] of events.slice(1).entries())
          expect(at - (events[index]?.at ?? 0)).toBeGreaterThanOrEqual(100);
        world.close();
      }),
      { numRuns: 150 },
    );
  }, 120_000);

  it("the last state is there in the end: the annotation, and of each EgressIP what was last said of it", async () => {
    await fc.assert(
      fc.asyncProperty(history, async (moments) => {
        const world = new World();
        // A process that ends before the watch has told of what it wrote, and finds the EgressIP deleted when it starts, takes its own
        // entry for somebody else's: the record only has what a round has seen there.
        const restarts = moments.some(({ kind }) => kind === "restart");
        for (const now of moments) {
          if (restarts) world.watch();
          await happens(world, now);
        }
        await settle(world);
        const held = world.host.record.addresses.map(({ address }) => address);
        const listed = JSON.parse(world.server.annotations?.[KEY] ?? "[]") as string[];
        expect(new Set(listed.filter((entry) => !entry.endsWith("77")))).toEqual(
          new Set(held.filter((address) => !address.startsWith("172."))),
        );
        const before = world.server.requests.length;
        world.watch();
        await world.roundOnly();
        await world.pass(100_000);
        expect(world.server.requests.length - before).toBe(0);
        // What one more process would say is nothing new: what is wrong is said, in these words.
        const saying = JSON.stringify([...world.server.events]);
        world.restart();
        await world.roundOnly();
        await world.pass(10_000);
        const isExpired = moments.some(({ kind }) => kind === "expire" || kind === "restart");
        if (!isExpired) expect(JSON.stringify([...world.server.events])).toBe(saying);
        world.close();
      }),
      { numRuns: 150 },
    );
  }, 120_000);
});

describe("a server that refuses", () => {
  const start = async (says: Refused) => {
    const world = new World();
    world.assigned = { prod: { "10.10.10.50": "node1" }, web: { "192.0.2.9": "node1" } };
    world.server.refuse = () => says;
    await world.roundOnly();
    return world;
  };

  it("is not asked again before the time that it names, whatever for", async () => {
    const world = await start({ code: 429, retryAfterMs: 20_000 });
    await world.pass(19_000);
    expect(world.server.requests).toHaveLength(1);
    world.server.refuse = undefined;
    await world.pass(5_000);
    expect(world.said).toHaveLength(2);
    expect(world.told).toEqual([expect.stringMatching(/^server: model: 429/), "server: well"]);
  });

  it("is asked less and less often while it is away, told of once", async () => {
    const world = await start("unreachable");
    await world.pass(600_000);
    expect(world.server.requests.length).toBeGreaterThan(6);
    expect(world.server.requests.length).toBeLessThan(20);
    expect(world.told).toEqual(["server: connect ECONNREFUSED"]);
  });

  it("that allows one kind and forbids the other is asked for the other once in a while", async () => {
    const world = new World();
    world.assigned = { prod: { "10.10.10.50": "node1" }, web: { "192.0.2.9": "node1" } };
    world.server.refuse = (_, path) => (path.includes("events") ? { code: 403 } : undefined);
    await world.round();
    world.watch();
    await world.roundOnly();
    await world.pass(600_000);
    expect(world.server.annotations?.[KEY]).toBe('["10.10.10.50"]');
    const events = world.server.requests.filter(({ path }) => path.includes("events"));
    expect(events.length).toBeGreaterThan(1);
    expect(events.length).toBeLessThan(6);
    expect(world.told).toEqual([expect.stringMatching(/^events: model: 403/)]);
  });

  it("keeps one object waiting and no other", async () => {
    const world = new World();
    world.assigned = { prod: { "10.10.10.50": "node1" }, web: { "192.0.2.9": "node1" } };
    world.server.refuse = (_, path) => (path.includes("nodes") ? { code: 404 } : undefined);
    await world.roundOnly();
    await world.pass(1_000);
    expect(world.said).toHaveLength(2);
    await world.pass(60_000);
    expect(world.told).toEqual([expect.stringMatching(/^Node\/node1: model: 404/)]);
  });

  it("is not asked for what is over by the time it answers", async () => {
    const world = await start("unreachable");
    await world.pass(60_000);
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.roundOnly();
    world.server.refuse = undefined;
    await world.pass(300_000);
    expect(world.said).toEqual([expect.stringContaining("prod AddressProgrammed 1")]);
  });
});

it("after the end nothing is asked, and nothing is set that would keep a process", async () => {
  const world = new World();
  world.assigned = { prod: { "10.10.10.50": "node1" } };
  await world.roundOnly();
  const { length } = world.server.requests;
  world.close();
  expect(world.clock.waiting).toBe(0);
  world.assigned = { prod: { "10.10.10.51": "node1" } };
  await world.roundOnly();
  await world.pass(10_000);
  expect(world.server.requests).toHaveLength(length);
});

it("the end waits for no answer, and says nothing of one that will not come", async () => {
  const world = new World((_, __, { signal } = {}) => {
    // The world waits for answers.
    return new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
  });
  world.assigned = { prod: { "10.10.10.50": "node1" } };
  const round = world.roundOnly();
  world.close();
  await round;
  expect(world.told).toEqual([]);
  expect(world.clock.waiting).toBe(0);
});

// Events on EgressIP objects: what is said, in which words, how often, and what is not said at all.
import { describe, expect, it } from "vitest";
import { World } from "./world.ts";

const rival = { address: "10.10.10.50", link: "eth1", mac: "02:00:00:00:00:99" };

describe("events", () => {
  it("say that an address is given, and once only", async () => {
    const world = new World();
    await world.round();
    expect(world.server.events.size).toBe(0);
    world.assigned = { prod: { "10.10.10.50": "node1", "172.18.0.50": "node2" } };
    await world.round();
    expect(world.said).toEqual(["prod AddressProgrammed 1: node node1 gives 10.10.10.50 on link eth1 now"]);
    const { length } = world.server.requests;
    await world.round();
    await world.pass(600_000);
    await world.round();
    // One of them is the annotation, which the watch has not brought.
    expect(world.server.requests.slice(length).filter(({ path }) => path.includes("events"))).toEqual([]);
  });

  it("are as the API and kubectl describe want them", async () => {
    const world = new World();
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.round();
    const [event] = world.server.events.values();
    expect(event).toEqual({
      apiVersion: "v1",
      kind: "Event",
      metadata: { name: expect.stringMatching(/^prod\.[0-9a-f]{16}$/), namespace: "default" },
      involvedObject: { apiVersion: "k8s.ovn.org/v1", kind: "EgressIP", name: "prod", uid: "uid-prod" },
      reason: "AddressProgrammed",
      type: "Normal",
      message: "node node1 gives 10.10.10.50 on link eth1 now",
      source: { component: "egressip-agent", host: "node1" },
      reportingComponent: "egressip-agent",
      reportingInstance: "node1",
      firstTimestamp: "2026-01-01T00:00:00Z",
      lastTimestamp: "2026-01-01T00:00:00Z",
      count: 1,
    });
  });

  it.each([
    ["another node", { prod: { "10.10.10.50": "node2" } }, {}, "assigned to node node2"],
    ["no node", {}, { prod: ["10.10.10.50"] }, "assigned to no node"],
    ["nobody's wish", { prod: { "10.10.10.51": "node2" } }, {}, "does not ask for"],
  ] as const)("say where an address is when it goes to %s", async (_, assigned, pending, where) => {
    const world = new World();
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.round();
    Object.assign(world, { assigned, pending });
    await world.round();
    expect(world.said.slice(1)).toEqual([
      expect.stringMatching(
        `^prod AddressMovedAway 1: node node1 does not give any more: 10.10.10.50, .*${where}`,
      ),
    ]);
  });

  it("of an EgressIP that is deleted there are none", async () => {
    const world = new World();
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.round();
    world.assigned = {};
    await world.round();
    expect(world.said).toHaveLength(1);
  });

  it("say who else has it: another EgressIP, a node, a host by its MAC; and when that is over", async () => {
    const world = new World();
    world.assigned = {
      a: { "10.10.10.50": "node1" },
      b: { "10.10.10.50": "node1" },
      c: { "10.10.10.12": "node1" },
    };
    await world.round();
    world.rivals = [rival];
    await world.round();
    expect(world.said).toEqual([
      "a AddressProgrammed 1: node node1 gives 10.10.10.50 on link eth1 now",
      "b AddressConflict 1: on node node1, 10.10.10.50: already given by EgressIP a, which is older",
      "c AddressConflict 1: on node node1, 10.10.10.12: is an address of node node2; an egress IP must be an unused address",
      "a AddressConflict 1: on node node1, 10.10.10.50: is also answered for on eth1 by 02:00:00:00:00:99; two hosts have this address - find that host by its MAC, and take the address away there",
    ]);
    world.rivals = [];
    world.assigned = { ...world.assigned, b: { "10.10.10.60": "node1" } };
    await world.round();
    expect(world.said.slice(4)).toEqual([
      "a AddressRestored 1: node node1 gives 10.10.10.50 on link eth1 again: what kept it from that is over",
      "b AddressProgrammed 1: node node1 gives 10.10.10.60 on link eth1 now",
    ]);
  });

  it("say which EgressIP has an address that two ask for, when it goes from one to the other", async () => {
    const world = new World();
    world.assigned = { a: { "10.10.10.50": "node1" }, b: { "10.10.10.50": "node1" } };
    await world.round();
    world.pending = { a: ["10.10.10.50"] };
    world.assigned = { b: { "10.10.10.50": "node1" } };
    await world.round();
    world.restart();
    await world.round();
    expect(world.said.map((line) => line.split(":")[0])).toEqual([
      "a AddressProgrammed 1",
      "b AddressConflict 1",
      "a AddressMovedAway 1",
      "b AddressProgrammed 1",
    ]);
  });

  it("say why an address cannot be given, anew when the reason is another", async () => {
    const world = new World();
    world.assigned = { prod: { "192.0.2.9": "node1" } };
    await world.round();
    expect(world.said).toEqual([
      expect.stringMatching(/^prod AddressUnservable 1: on node node1, 192.0.2.9: ./),
    ]);
    const [event] = world.server.events.values();
    expect(event?.["type"]).toBe("Warning");
    world.assigned = { prod: { "192.0.2.10": "node1" } };
    await world.round();
    expect(world.said).toEqual([
      expect.stringMatching(/^prod AddressUnservable 2: on node node1, 192.0.2.10: ./),
    ]);
  });

  it("of one kind are one object, however often: counted, with the first and the last time", async () => {
    const world = new World();
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.round();
    for (let times = 0; times < 3; times++) {
      world.down = new Set(["eth1"]);
      await world.round();
      world.down = new Set();
      await world.round();
    }
    expect(world.said).toEqual([
      "prod AddressProgrammed 1: node node1 gives 10.10.10.50 on link eth1 now",
      expect.stringMatching(/^prod AddressUnservable 3: on node node1, 10.10.10.50: link eth1 is/),
      "prod AddressRestored 3: node node1 gives 10.10.10.50 on link eth1 again: what kept it from that is over",
    ]);
    const unservable = [...world.server.events.values()][1];
    expect(unservable?.["firstTimestamp"]).toBe("2026-01-01T00:00:01Z");
    expect(unservable?.["lastTimestamp"]).toBe("2026-01-01T00:00:07Z");
  });

  it("say nothing of what came and went within a moment", async () => {
    const world = new World();
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.round();
    world.takeWrites();
    world.down = new Set(["eth1"]);
    await world.roundOnly();
    world.down = new Set();
    await world.round();
    expect(world.takeWrites().filter((what) => what.startsWith("Event"))).toEqual([]);
  });

  it("are none of what nobody confirms", async () => {
    const world = new World();
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.round();
    world.takeWrites();
    world.unconfirmed = { since: "2026-01-01T00:00:00Z", why: "no answer", assignments: false };
    world.assigned = { prod: { "10.10.10.50": "node2" }, web: { "192.0.2.9": "node1" } };
    await world.round();
    expect(world.takeWrites()).toEqual([]);
    world.unconfirmed = { ...world.unconfirmed, assignments: true };
    await world.round();
    expect(world.said.slice(1)).toEqual([
      expect.stringContaining("prod AddressMovedAway 1: "),
      expect.stringContaining("web AddressUnservable 1: "),
    ]);
  });

  it("wait until a round has worked", async () => {
    const world = new World();
    await world.round();
    world.failing = { ip: "no" };
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.round();
    await world.round();
    expect(world.said).toEqual([]);
    world.failing = {};
    await world.round();
    expect(world.said).toHaveLength(1);
    world.failing = { ip: "no" };
    world.assigned = { prod: { "10.10.10.50": "node2" } };
    await world.round();
    expect(world.said).toHaveLength(1);
    world.failing = {};
    await world.round();
    expect(world.said[1]).toContain("AddressMovedAway");
  });

  it("do not say that an address is given, or not any more, while anything else about it fails", async () => {
    const world = new World();
    await world.round();
    world.failing = { iptables4: "lock" };
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.round();
    expect(world.host.network.addresses.some(({ address }) => address === "10.10.10.50")).toBe(true);
    expect(world.said).toEqual([]);
    world.failing = {};
    await world.round();
    expect(world.said).toHaveLength(1);
  });

  it("begin anew when the server has let them go", async () => {
    const world = new World();
    world.assigned = { prod: { "192.0.2.9": "node1" } };
    await world.round();
    world.server.events.clear();
    await world.round();
    expect(world.said).toEqual([]);
    world.assigned = { prod: { "192.0.2.10": "node1" } };
    await world.round();
    expect(world.said).toEqual([expect.stringContaining("AddressUnservable 1: on node node1, 192.0.2.10")]);
  });
});

it("a first round says what it has given, also where another one follows at once and finds it there", async () => {
  const world = new World();
  world.assigned = { prod: { "10.10.10.50": "node1" } };
  await world.roundOnly();
  await world.round();
  expect(world.said).toEqual(["prod AddressProgrammed 1: node node1 gives 10.10.10.50 on link eth1 now"]);
});

describe("events after a restart", () => {
  const start = async () => {
    const world = new World();
    world.assigned = { prod: { "10.10.10.50": "node1" }, web: { "192.0.2.9": "node1" } };
    await world.round();
    world.watch();
    await world.round();
    expect(world.takeWrites()).toHaveLength(3);
    return world;
  };

  it("are none where nothing changed, of what is well and of what is not", async () => {
    const world = await start();
    const before = JSON.stringify([...world.server.events]);
    for (let times = 0; times < 3; times++) {
      world.restart();
      await world.round();
      await world.round();
    }
    expect(world.takeWrites()).toEqual([]);
    expect(JSON.stringify([...world.server.events])).toBe(before);
  });

  it("say what is not right where it was not said, and count on where it was said in other words", async () => {
    const world = await start();
    world.restart();
    world.rivals = [rival];
    world.assigned = { ...world.assigned, web: { "192.0.2.10": "node1" } };
    await world.round();
    expect(world.said.slice(1)).toEqual([
      expect.stringContaining("web AddressUnservable 2: on node node1, 192.0.2.10"),
      expect.stringContaining("prod AddressConflict 1: "),
    ]);
  });

  it("say what became another while no agent ran", async () => {
    const world = await start();
    world.restart();
    world.assigned = { prod: { "10.10.10.50": "node2" }, web: { "10.10.10.60": "node1" } };
    await world.round();
    expect(world.said.slice(2).sort()).toEqual([
      expect.stringContaining("prod AddressMovedAway 1: "),
      expect.stringContaining("web AddressProgrammed 1: "),
    ]);
  });

  it("say that it is well again only of what this process has said", async () => {
    const world = await start();
    world.restart();
    await world.round();
    world.assigned = { ...world.assigned, web: { "10.10.10.60": "node1" } };
    await world.round();
    expect(world.said.slice(2)).toEqual([expect.stringContaining("web AddressProgrammed 1: ")]);
  });
});

// The API server as a source, over reflections that a test drives: what counts as known, which pods are followed, what is held back
// and for how long. The same input over a real server is in test/cluster.
import { describe, expect, it } from "vitest";
import { encode } from "../../../../agent/inputs/kubernetes/encode.ts";
import type { LastGood } from "../../../../agent/inputs/kubernetes/last-good.ts";
import { openKubernetes } from "../../../../agent/inputs/kubernetes.ts";
import type { Objects } from "../../../../agent/model/build.ts";
import { type KubernetesObject, keyOf } from "../../../../agent/model/objects.ts";
import { entriesOf } from "../../../../agent/model/shards.ts";
import { ManualTimers, ScriptedCluster } from "../../../support/scripted-cluster.ts";
import { cidr, egressIP, namespace, node, pod } from "../../make.ts";

const CONFIRM_MS = 30_000;

const node1 = node("node1", { hostCidrs: [cidr("10.10.10.11/24")], primary: [cidr("172.18.0.11/24")] });
const node2 = node("node2", { primary: [cidr("172.18.0.12/24")] });
const shop = namespace("shop", { tier: "web" });
const own = pod("shop/a", ["10.244.1.3"]);
const remote = pod("shop/b", ["10.244.2.3"], { node: "node2" });
const web = (...on: readonly string[]) =>
  egressIP("web", { at: Object.fromEntries(on.map((name, at) => [`10.10.10.5${at}`, name])) });

function lastGoodOf(...all: readonly KubernetesObject[]): LastGood {
  const objects = new Map(all.map((object) => [keyOf(object), object]));
  return {
    written: "2026-01-01T00:00:00.000Z",
    objects,
    problems: [],
    changed: [...objects.keys()],
    versions: { EgressIP: "100", Node: "100", Namespace: "100", Pod: "100" },
  };
}

function following({ lastGood, firstWaitMs = 0 }: { lastGood?: LastGood; firstWaitMs?: number } = {}) {
  const timers = new ManualTimers();
  const cluster = new ScriptedCluster(timers.clock);
  let woken = 0;
  const input = openKubernetes({
    cluster,
    node: "node1",
    lastGood,
    onChange: () => {
      woken++;
    },
    clock: timers.clock,
    now: () => new Date(timers.now),
    after: timers.after,
    firstWaitMs,
    confirmMs: CONFIRM_MS,
  });
  return {
    timers,
    cluster,
    input,
    read: () => input.read(),
    woken: () => woken,
    /** Everything listed, in whatever scope of pods is asked for. */
    listed: async (...egressIPs: readonly KubernetesObject[]) => {
      cluster.of("egressips").list(10, ...egressIPs.map(encode));
      cluster.of("nodes").list(10, encode(node1), encode(node2));
      cluster.of("namespaces").list(10, encode(shop));
      await input.read().catch(() => undefined);
      const { fieldSelector } = cluster.of("pods");
      const pods = fieldSelector === undefined ? [own, remote] : [own];
      cluster.of("pods").list(10, ...pods.map(encode));
      return await input.read();
    },
  };
}

const pods = (objects: Objects) => [...entriesOf(objects.pods)].map(([key]) => key).sort();
const assigned = ({ egressIPs }: Objects) =>
  [...egressIPs.values()].flatMap(({ name, assignments }) =>
    assignments.map((one) => `${name} ${one.address} ${one.node}`),
  );

describe("a source that was never listed", () => {
  it.each(["egressips", "nodes", "namespaces", "pods"])(
    "cannot be read while %s were not, and says which and why (BL-91)",
    async (missing) => {
      const { cluster, read, woken } = following();
      const answer = {
        egressips: [web("node1")],
        nodes: [node1, node2],
        namespaces: [shop],
        pods: [own, remote],
      } as Readonly<Record<string, readonly KubernetesObject[]>>;
      for (const [plural, objects] of Object.entries(answer)) {
        await read().catch(() => undefined);
        if (plural === "pods" && missing === "egressips") continue;
        if (plural === missing) cluster.of(plural).fail(new Error("403 forbidden"));
        else cluster.of(plural).list(10, ...objects.map(encode));
      }
      await expect(read()).rejects.toThrow(
        missing === "pods" || missing !== "egressips" ? `${missing} not listed` : "egressips not listed",
      );
      await expect(read()).rejects.toThrow("403 forbidden");
      await expect(read()).rejects.toThrow("nothing is changed");
      expect(woken()).toBe(0);
    },
  );

  it("is waited for by the first reading", async () => {
    const { cluster, timers, read } = following({ firstWaitMs: 5_000 });
    const reading = read();
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    cluster.of("nodes").list(10, encode(node1));
    cluster.of("namespaces").list(10, encode(shop));
    cluster.of("egressips").list(10, encode(web("node2")));
    await turn();
    cluster.of("pods").list(10, encode(own));
    const objects = await reading;
    expect([pods(objects), objects.unconfirmed]).toEqual([["Pod/shop/a"], undefined]);
    timers.pass(10_000);
  });

  it("ends the first reading when its time has passed", async () => {
    const { timers, read } = following({ firstWaitMs: 5_000 });
    const reading = expect(read()).rejects.toThrow("not listed since the agent started");
    await new Promise((resolve) => setImmediate(resolve));
    timers.pass(5_000);
    await reading;
  });
});

describe("objects", () => {
  it("are the decoded ones, the same while unchanged, with the problems of those that are wrong", async () => {
    const { cluster, listed, read } = following();
    const first = await listed(web("node2"));
    expect(first.egressIPs.get("web")).toEqual(web("node2"));
    expect(first.nodes.get("node1")).toEqual(node1);
    const bad = { metadata: { name: "bad" }, spec: { egressIPs: ["10.10.10.60"] } };
    cluster.of("egressips").put(11, bad);
    const second = await read();
    expect(second.problems.map(({ object, path }) => `${object} ${path}`)).toEqual([
      "EgressIP/bad spec.namespaceSelector",
    ]);
    expect([second.nodes, second.pods]).toEqual([first.nodes, first.pods]);
    expect(second.nodes).toBe(first.nodes);
    cluster.of("egressips").remove(12, "bad");
    expect((await read()).problems).toEqual([]);
  });

  it("keep the address of a running pod whose status has none for a moment (BL-15)", async () => {
    const { cluster, listed, read } = following();
    await listed(web("node2"));
    cluster.of("pods").put(11, encode({ ...own, addresses: [] }));
    expect([...entriesOf((await read()).pods)][0]?.[1]).toMatchObject({ addresses: ["10.244.1.3"] });
    cluster.of("pods").put(12, encode({ ...own, uid: "another", addresses: [] }));
    expect([...entriesOf((await read()).pods)][0]?.[1]).toMatchObject({ addresses: [] });
  });
});

describe("pods", () => {
  it("are this node's while it holds nothing, and all while it holds an egress IP", async () => {
    const holding = following();
    expect(pods(await holding.listed(web("node1")))).toEqual(["Pod/shop/a", "Pod/shop/b"]);
    expect(holding.cluster.open("pods").map(({ fieldSelector }) => fieldSelector)).toEqual([undefined]);
    const idle = following();
    expect(pods(await idle.listed(web("node2")))).toEqual(["Pod/shop/a"]);
    expect(idle.cluster.open("pods").map(({ fieldSelector }) => fieldSelector)).toEqual([
      "spec.nodeName=node1",
    ]);
  });

  it("are all known before an egress IP is gained; everything else goes on meanwhile", async () => {
    const { cluster, listed, read, woken } = following();
    await listed(web("node2"));
    cluster.of("egressips").put(11, encode(web("node2", "node1")));
    let objects = await read();
    expect(cluster.open("pods").map(({ fieldSelector }) => fieldSelector)).toEqual([
      "spec.nodeName=node1",
      undefined,
    ]);
    expect(assigned(objects)).toEqual(["web 10.10.10.50 node2"]);
    cluster.open("pods")[0]?.put(12, encode(pod("shop/c", ["10.244.1.9"])));
    cluster.of("egressips").put(13, encode(web("node3", "node1")));
    objects = await read();
    expect([pods(objects), assigned(objects)]).toEqual([
      ["Pod/shop/a", "Pod/shop/c"],
      ["web 10.10.10.50 node3"],
    ]);
    const before = woken();
    cluster.open("pods")[1]?.list(14, encode(own), encode(remote));
    expect(woken()).toBe(before + 1);
    objects = await read();
    expect([pods(objects), assigned(objects)]).toEqual([
      ["Pod/shop/a", "Pod/shop/b"],
      ["web 10.10.10.50 node3", "web 10.10.10.51 node1"],
    ]);
    expect(cluster.open("pods").map(({ fieldSelector }) => fieldSelector)).toEqual([undefined]);
  });

  it("of other nodes are let go of when nothing has been held for a while, after the own ones were listed", async () => {
    const { cluster, listed, read, timers } = following();
    await listed(web("node1"));
    cluster.of("egressips").put(11, encode(web("node2")));
    expect(pods(await read())).toHaveLength(2);
    expect(cluster.open("pods")).toHaveLength(1);
    timers.pass(200_000);
    for (const plural of ["egressips", "nodes", "namespaces", "pods"]) cluster.of(plural).contact();
    cluster.of("egressips").put(12, encode(web("node1")));
    await read();
    cluster.of("egressips").put(13, encode(web("node2")));
    timers.pass(200_000);
    await read();
    expect(cluster.open("pods")).toHaveLength(1);
    timers.pass(200_000);
    for (const plural of ["egressips", "nodes", "namespaces", "pods"]) cluster.of(plural).contact();
    expect(pods(await read())).toHaveLength(2);
    expect(cluster.open("pods").map(({ fieldSelector }) => fieldSelector)).toEqual([
      undefined,
      "spec.nodeName=node1",
    ]);
    // A node may have no pods of its own where there were others.
    cluster.of("pods").list(20);
    expect([pods(await read()), (await read()).unconfirmed]).toEqual([[], undefined]);
    expect(cluster.open("pods")).toHaveLength(1);
  });

  it("are all kept when an egress IP comes back while the narrower list is on its way", async () => {
    const { cluster, listed, read, timers } = following();
    await listed(web("node1"));
    cluster.of("egressips").put(11, encode(web("node2")));
    await read();
    timers.pass(400_000);
    await read();
    expect(cluster.open("pods")).toHaveLength(2);
    cluster.of("egressips").put(12, encode(web("node1")));
    expect(assigned(await read())).toEqual(["web 10.10.10.50 node1"]);
    expect(cluster.open("pods").map(({ fieldSelector }) => fieldSelector)).toEqual([undefined]);
  });
});

describe("the last good state", () => {
  const good = lastGoodOf(web("node1"), node1, node2, shop, own, remote);

  it("is what there is while the server is away, and says so", async () => {
    const { cluster, read, input } = following({ lastGood: good });
    for (const plural of ["egressips", "nodes", "namespaces", "pods"])
      cluster.of(plural).fail(new Error("connect ECONNREFUSED"));
    const objects = await read();
    expect([assigned(objects), pods(objects)]).toEqual([
      ["web 10.10.10.50 node1"],
      ["Pod/shop/a", "Pod/shop/b"],
    ]);
    expect(objects.unconfirmed).toMatchObject({ assignments: false });
    expect(objects.problems).toMatchObject([{ object: "kubernetes" }]);
    expect(objects.problems[0]?.text).toMatch(
      /egressips: not listed since the agent started: connect ECONNREFUSED.*2026-01-01T00:00:00.000Z/,
    );
    expect(input.told()).toMatchObject({ ready: false, lastGood: "2026-01-01T00:00:00.000Z" });
  });

  it("has all pods followed at once where it holds an egress IP", () => {
    const { cluster } = following({ lastGood: good });
    expect(cluster.open("pods").map(({ fieldSelector }) => fieldSelector)).toEqual([undefined]);
  });

  it("gives way kind by kind: what is another node's is known as soon as EgressIPs and Nodes are", async () => {
    const { cluster, read } = following({ lastGood: good });
    cluster.of("egressips").list(101, encode(web("node2")));
    expect((await read()).unconfirmed?.assignments).toBe(false);
    cluster.of("nodes").list(101, encode(node1), encode(node2));
    const objects = await read();
    expect(objects.unconfirmed?.assignments).toBe(true);
    expect([assigned(objects), pods(objects)]).toEqual([
      ["web 10.10.10.50 node2"],
      ["Pod/shop/a", "Pod/shop/b"],
    ]);
  });

  it("is what stays of what this node had, and nothing is gained, before the pods are known", async () => {
    const { cluster, read } = following({ lastGood: good });
    cluster.of("egressips").list(101, encode(web("node1", "node1")));
    expect(assigned(await read())).toEqual(["web 10.10.10.50 node1"]);
    cluster.of("pods").list(101, encode(own));
    expect(assigned(await read())).toEqual(["web 10.10.10.50 node1", "web 10.10.10.51 node1"]);
  });

  it("is forgotten when everything was listed, with what is no more", async () => {
    const { cluster, read, input } = following({ lastGood: good });
    cluster.of("egressips").list(101, encode(web("node1")));
    cluster.of("nodes").list(101, encode(node1));
    cluster.of("namespaces").list(101, encode(shop));
    cluster.of("pods").list(101, encode(own));
    const objects = await read();
    expect([objects.unconfirmed, objects.problems, pods(objects)]).toEqual([undefined, [], ["Pod/shop/a"]]);
    expect([...objects.nodes.keys()]).toEqual(["node1"]);
    expect(input.told().ready).toBe(true);
    expect(input.versions()).toEqual({ EgressIP: "101", Node: "101", Namespace: "101", Pod: "101" });
  });
});

describe("a list that is hard to believe", () => {
  it.each([
    ["egressips", "the list is empty, and there were 1"],
    ["nodes", "this agent's own node is not among them"],
    ["namespaces", "the list is empty, and there were 1"],
    ["pods", "the list is empty, and there were 2"],
  ])("of no %s is held back until a second one says so too (BL-91 iv)", async (plural, why) => {
    const { cluster, listed, read, timers, woken } = following();
    const before = await listed(web("node1"));
    cluster.of(plural).list(20);
    const doubted = await read();
    expect(doubted.unconfirmed?.why).toBe(`${plural}: ${why}`);
    expect(doubted.problems).toMatchObject([{ object: "kubernetes" }]);
    const all = (of: Objects) => [assigned(of), pods(of), [...of.nodes.keys()], [...of.namespaces.keys()]];
    expect(all(doubted)).toEqual(all(before));
    const first = cluster.of(plural);
    timers.pass(CONFIRM_MS - 1);
    expect((await read()).unconfirmed).toBeDefined();
    expect(cluster.of(plural)).toBe(first);
    timers.pass(1);
    const second = cluster.of(plural);
    expect(second).not.toBe(first);
    expect((await read()).unconfirmed).toBeDefined();
    const wakes = woken();
    second.list(21);
    expect(woken()).toBe(wakes + 1);
    const believed = await read();
    expect(believed.unconfirmed).toBeUndefined();
    expect(all(believed)).not.toEqual(all(before));
    expect(first.isClosed).toBe(true);
  });

  it("is one of no pods of this node's, too", async () => {
    const { cluster, listed, read } = following();
    await listed(web("node2"));
    cluster.of("pods").list(20);
    expect((await read()).unconfirmed?.why).toBe("pods: the list is empty, and there were 1");
  });

  it("is forgotten when the objects are back before that, and nothing was ever taken away", async () => {
    const { cluster, listed, read, timers } = following();
    await listed(web("node1"));
    cluster.of("egressips").list(20);
    await read();
    cluster.of("egressips").list(21, encode(web("node1")));
    expect((await read()).unconfirmed).toBeUndefined();
    timers.pass(CONFIRM_MS);
    await read();
    expect(cluster.open("egressips")).toHaveLength(1);
  });

  it("lets what is new through meanwhile, so that a new pod is held back or served at once", async () => {
    const { cluster, listed, read } = following();
    await listed(web("node1"));
    cluster.of("pods").list(20);
    await read();
    cluster.of("pods").put(21, encode(pod("shop/new", ["10.244.1.9"])));
    expect(pods(await read())).toEqual(["Pod/shop/a", "Pod/shop/b", "Pod/shop/new"]);
  });

  it("is one of an older state than was known: nothing of it is taken over before it is confirmed", async () => {
    const { cluster, listed, read, timers } = following();
    await listed(web("node2"));
    cluster.of("egressips").put(30, encode(web("node3")));
    await read();
    cluster.of("egressips").list(9, encode(web("node2")));
    const doubted = await read();
    expect(doubted.unconfirmed?.why).toMatch(/at resourceVersion 9, and was at 30.*older data/);
    expect(assigned(doubted)).toEqual(["web 10.10.10.50 node3"]);
    timers.pass(CONFIRM_MS);
    cluster.of("egressips").list(10, encode(web("node2")));
    const believed = await read();
    expect([assigned(believed), believed.unconfirmed]).toEqual([["web 10.10.10.50 node2"], undefined]);
    cluster.of("egressips").list(11, encode(web("node2")));
    expect((await read()).unconfirmed).toBeUndefined();
  });

  it("is one that follows an object in an older state, though the server has come further", async () => {
    const { cluster, listed, read, timers } = following();
    await listed(web("node2"));
    cluster.of("egressips").put(30, encode(web("node3")));
    await read();
    cluster.of("egressips").wentBack();
    cluster.of("egressips").list(40, encode(web("node2")));
    const doubted = await read();
    expect(doubted.unconfirmed?.why).toMatch(/^egressips: .*an object in an older state.*older data$/);
    expect(assigned(doubted)).toEqual(["web 10.10.10.50 node3"]);
    timers.pass(CONFIRM_MS);
    cluster.of("egressips").list(41, encode(web("node2")));
    const believed = await read();
    expect([assigned(believed), believed.unconfirmed]).toEqual([["web 10.10.10.50 node2"], undefined]);
    cluster.of("egressips").list(42);
    expect((await read()).unconfirmed?.why).toMatch(/the list is empty/);
  });

  it("is told by what an earlier process had seen, too", async () => {
    const { cluster, read, timers } = following({ lastGood: lastGoodOf(web("node2"), node1, shop, own) });
    cluster.of("egressips").list(99, encode(web("node3")));
    cluster.of("nodes").list(101);
    const doubted = await read();
    expect(assigned(doubted)).toEqual(["web 10.10.10.50 node2"]);
    expect(doubted.unconfirmed?.why).toMatch(/egressips: .*older data; nodes: this agent's own node/);
    timers.pass(CONFIRM_MS);
    cluster.of("egressips").list(99, encode(web("node3")));
    expect(assigned(await read())).toEqual(["web 10.10.10.50 node3"]);
  });

  it("is a first list of nodes without this one; a second one like it is believed", async () => {
    const { cluster, read, timers } = following();
    cluster.of("egressips").list(10);
    cluster.of("namespaces").list(10);
    cluster.of("nodes").list(10, encode(node2));
    await read().catch(() => undefined);
    cluster.of("pods").list(10);
    for (let times = 0; times < 5; times++)
      await expect(read()).rejects.toThrow("own node is not among them");
    expect(cluster.opened.filter(({ resource }) => resource.plural === "nodes")).toHaveLength(1);
    timers.pass(CONFIRM_MS);
    cluster.of("nodes").list(11, encode(node2));
    expect([...(await read()).nodes.keys()]).toEqual(["node2"]);
    cluster.of("nodes").list(12, encode(node2));
    expect((await read()).unconfirmed).toBeUndefined();
  });

  it("is none where a watch has told of the deletion", async () => {
    const { cluster, listed, read } = following();
    await listed(web("node1"));
    cluster.of("egressips").remove(11, "web");
    cluster.of("nodes").remove(11, "node1");
    const objects = await read();
    expect([assigned(objects), objects.nodes.has("node1"), objects.unconfirmed]).toEqual([
      [],
      false,
      undefined,
    ]);
  });
});

describe("a kind that the server does not know", () => {
  it("is empty, and no cause to take anything away; what comes with its CRD is followed", async () => {
    const { cluster, read, input } = following();
    cluster.of("egressips").absent();
    cluster.of("nodes").list(10, encode(node1));
    cluster.of("namespaces").list(10, encode(shop));
    await read().catch(() => undefined);
    cluster.of("pods").list(10, encode(own));
    const objects = await read();
    expect(objects.egressIPs.size).toBe(0);
    expect(objects.unconfirmed?.why).toMatch("does not know this kind");
    expect(input.told()).toMatchObject({
      ready: true,
      kinds: [{ kind: "EgressIP", state: "doubtful" }, {}, {}, {}],
    });
    cluster.of("egressips").list(20, encode(web("node2")));
    const there = await read();
    expect([assigned(there), there.unconfirmed]).toEqual([["web 10.10.10.50 node2"], undefined]);
  });

  it("leaves what was known, for as long as it is away", async () => {
    const { cluster, listed, read, timers, input } = following();
    await listed(web("node1"));
    cluster.of("egressips").absent();
    for (let times = 0; times < 3; times++) {
      const objects = await read();
      expect([assigned(objects), objects.unconfirmed?.assignments]).toEqual([
        ["web 10.10.10.50 node1"],
        false,
      ]);
      timers.pass(CONFIRM_MS);
    }
    expect(input.told().ready).toBe(false);
    cluster.of("egressips").list(20, encode(web("node2")));
    expect(assigned(await read())).toEqual(["web 10.10.10.50 node2"]);
  });

  it("leaves the last good state, and then counts as a whole, with what is no more", async () => {
    const gone = egressIP("gone", { at: { "10.10.10.60": "node1" } });
    const { cluster, read } = following({ lastGood: lastGoodOf(web("node1"), gone, node1, shop, own) });
    cluster.of("egressips").absent();
    cluster.of("pods").list(101, encode(own));
    expect(assigned(await read())).toHaveLength(2);
    cluster.of("egressips").list(110, encode(web("node1")));
    expect(assigned(await read())).toEqual(["web 10.10.10.50 node1"]);
  });
});

describe("a server that is silent", () => {
  it("makes what is known doubtful: sooner where something is known to be wrong", async () => {
    const { cluster, listed, read, timers, input } = following();
    await listed(web("node1"));
    cluster.of("pods").fail(new Error("connect ECONNREFUSED"));
    timers.pass(60_000);
    for (const plural of ["egressips", "nodes", "namespaces"]) cluster.of(plural).contact();
    expect((await read()).unconfirmed).toBeUndefined();
    timers.pass(1);
    const objects = await read();
    expect(objects.unconfirmed).toMatchObject({
      why: "pods: nothing was heard for too long: connect ECONNREFUSED",
      assignments: true,
    });
    expect(pods(objects)).toHaveLength(2);
    expect(input.told()).toMatchObject({
      ready: false,
      kinds: [
        { kind: "EgressIP", state: "current", silentSeconds: 0 },
        { kind: "Node", state: "current" },
        { kind: "Namespace", state: "current" },
        { kind: "Pod", state: "doubtful", silentSeconds: 60, failure: "connect ECONNREFUSED" },
      ],
    });
    cluster.of("pods").list(20, encode(own), encode(remote));
    expect((await read()).unconfirmed).toBeUndefined();
    timers.pass(240_001);
    expect((await read()).unconfirmed?.assignments).toBe(false);
  });
});

describe("a server that has nothing but errors to say", () => {
  it("makes what is known doubtful as well, though it is not silent", async () => {
    const { cluster, listed, read, timers } = following();
    await listed(web("node1"));
    for (let times = 0; times < 7; times++) {
      cluster.of("pods").refuse(new Error("it is InternalError"));
      for (const plural of ["egressips", "nodes", "namespaces"]) cluster.of(plural).contact();
      expect((await read()).unconfirmed).toBeUndefined();
      timers.pass(times === 6 ? 1 : 10_000);
    }
    expect((await read()).unconfirmed).toMatchObject({
      why: "pods: nothing was heard for too long: it is InternalError",
      assignments: true,
    });
    cluster.of("pods").contact();
    expect((await read()).unconfirmed).toBeUndefined();
  });
});

it("closes everything", async () => {
  const { cluster, listed, input, timers } = following();
  await listed(web("node1"));
  cluster.of("nodes").list(20);
  await input.read();
  await input.close();
  timers.pass(CONFIRM_MS);
  expect(cluster.opened.filter(({ isClosed }) => !isClosed)).toEqual([]);
});

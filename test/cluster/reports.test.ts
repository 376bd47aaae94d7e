// What is reported, written to a real API server as an agent's service account: events as kubectl describe asks for them, the
// annotation beside others who write at the same time, and nothing at all after a restart.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, openCluster } from "../../lib/kubernetes/index.ts";
import { KEY, World } from "../agent/telemetry/reports/world.ts";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { type KubeObject, readKustomization, readManifests } from "../cluster-lab/objects.ts";
import { noKubePrograms } from "../support/kube-programs.ts";
import { until } from "../support/until.ts";

const missing = noKubePrograms();
const folder = join(import.meta.dirname, "../../packaging/kubernetes");
const node: KubeObject = { apiVersion: "v1", kind: "Node", metadata: { name: "node1" } };

const egressIP = (name: string): KubeObject => ({
  apiVersion: "k8s.ovn.org/v1",
  kind: "EgressIP",
  metadata: { name },
  spec: { egressIPs: ["10.10.10.50"], namespaceSelector: {} },
});

describe.skipIf(missing !== undefined)(`reports${missing === undefined ? "" : `: ${missing}`}`, () => {
  let api: ApiServer;
  let cluster: Cluster;
  let uids: Record<string, string> = {};

  beforeAll(async () => {
    api = await ApiServer.up();
    await api.objects.apply(
      ...readManifests(join(folder, "crd-egressip.yaml")),
      ...readKustomization(folder),
      node,
    );
    const applied = await api.objects.apply(...["prod", "web", "late"].map(egressIP));
    uids = Object.fromEntries(applied.map(({ metadata }) => [metadata.name, String(metadata["uid"])]));
    const token = await api.token({ namespace: "egressip-agent", name: "egressip-agent" });
    cluster = await openCluster({ kubeconfig: await api.kubeconfig({ token }) });
  });
  afterAll(async () => {
    await cluster.close();
    await api.close();
  });

  const agent = (request = cluster.request) => Object.assign(new World(request), { uids });

  /** As kubectl describe asks (kubectl/pkg/describe, searchEvents). */
  const described = async (name: string): Promise<readonly KubeObject[]> => {
    const selector = `involvedObject.kind=EgressIP,involvedObject.name=${name},involvedObject.namespace=,involvedObject.uid=${uids[name]}`;
    const path = `/api/v1/events?fieldSelector=${encodeURIComponent(selector)}`;
    return ((await api.objects.request("GET", path)) as { readonly items: readonly KubeObject[] }).items;
  };

  const annotations = async () =>
    (await api.objects.get(node)).metadata["annotations"] as Readonly<Record<string, string>> | undefined;

  /** The watch has told. */
  const follow = async (world: World) => {
    world.seen = (await annotations())?.[KEY];
  };

  it("kubectl describe finds an event, once, however often it happens", async () => {
    const world = agent();
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.round();
    expect(world.told).toEqual([]);
    for (let times = 0; times < 3; times++) {
      world.down = new Set(["eth1"]);
      await world.round();
      world.down = new Set();
      await world.round();
    }
    const events = await described("prod");
    const printed = events.map(({ type, reason, count, message, source }) => [
      type,
      reason,
      count,
      String(message).slice(0, 30),
      source,
    ]);
    const source = { component: "egressip-agent", host: "node1" };
    expect(new Set(printed)).toEqual(
      new Set([
        ["Normal", "AddressProgrammed", 1, "node node1 gives 10.10.10.50 o", source],
        ["Warning", "AddressUnservable", 3, "on node node1, 10.10.10.50: li", source],
        ["Normal", "AddressRestored", 3, "node node1 gives 10.10.10.50 o", source],
      ]),
    );
    const unservable = events.find(({ reason }) => reason === "AddressUnservable");
    expect(unservable).toMatchObject({
      firstTimestamp: "2026-01-01T00:00:01Z",
      lastTimestamp: "2026-01-01T00:00:07Z",
      metadata: { namespace: "default" },
    });
    // The newer form of the same.
    const newer = await api.objects.list("events.k8s.io/v1", "Event", "default");
    expect(newer.find(({ reason }) => reason === "AddressUnservable")).toMatchObject({
      note: unservable?.["message"],
      deprecatedCount: 3,
      reportingController: "egressip-agent",
      regarding: { kind: "EgressIP", name: "prod", uid: uids["prod"] },
    });
    world.close();
  });

  it("an event that the server has let go begins anew", async () => {
    const world = agent();
    world.assigned = { late: { "192.0.2.9": "node1" } };
    await world.round();
    const [event] = await described("late");
    if (event === undefined) throw new Error("no event");
    await api.objects.remove({ ...event, apiVersion: "v1", kind: "Event" });
    world.assigned = { late: { "192.0.2.10": "node1" } };
    await world.round();
    expect(await described("late")).toMatchObject([{ reason: "AddressUnservable", count: 1 }]);
    expect(world.told).toEqual([]);
    world.close();
  });

  it("a restart writes nothing, whatever is well and what is not", async () => {
    const world = agent();
    world.assigned = { prod: { "10.10.10.50": "node1" }, web: { "192.0.2.9": "node1" } };
    await follow(world);
    await world.round();
    await follow(world);
    await world.round();
    const versions = async () => {
      const all = [...(await described("prod")), ...(await described("web")), await api.objects.get(node)];
      return all.map(({ metadata }) => metadata["resourceVersion"]);
    };
    const before = await versions();
    expect(before.length).toBeGreaterThan(2);
    for (let times = 0; times < 2; times++) {
      world.restart();
      await follow(world);
      await world.round();
      await world.round();
    }
    expect(await versions()).toEqual(before);
    world.restart();
    await follow(world);
    world.assigned = { ...world.assigned, web: { "192.0.2.10": "node1" } };
    await world.round();
    expect(await described("web")).toMatchObject([{ reason: "AddressUnservable", count: 2 }]);
    world.close();
  });

  it("the annotation is the first that a Node has, and the last that it loses", async () => {
    await api.objects.patch(node, { metadata: { annotations: null } });
    const world = agent();
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.round();
    expect(await annotations()).toEqual({ [KEY]: '["10.10.10.50"]' });
    await follow(world);
    world.assigned = {};
    await world.round();
    expect(await annotations()).toBeUndefined();
    await follow(world);
    await api.objects.patch(node, { metadata: { annotations: { "example.org/kept": "yes" } } });
    world.assigned = { prod: { "10.10.10.50": "node1" } };
    await world.round();
    expect(await annotations()).toEqual({ "example.org/kept": "yes", [KEY]: '["10.10.10.50"]' });
    expect(world.told).toEqual([]);
    world.close();
  });

  it("others who write annotations, and into this one, at the same time lose nothing", async () => {
    const world = agent();
    await api.objects.patch(node, { metadata: { annotations: null } });
    const mine = ["10.10.10.50", "10.10.10.51"];
    const theirs = ["10.10.10.77", "10.10.10.78", "10.10.10.79"];
    const his = new Set<string>();
    const turns = { written: 0, refused: 0, lost: 0, ending: false };
    /** Reads the Node, puts an entry of his in or takes it out, and writes it if the Node is still the one that he read. */
    const other = async () => {
      while (!turns.ending) {
        const { metadata } = await api.objects.get(node);
        const all = (metadata["annotations"] ?? {}) as Partial<Record<string, string>>;
        const entries = new Set(JSON.parse(all[KEY] ?? "[]") as string[]);
        if (theirs.some((entry) => his.has(entry) !== entries.has(entry))) turns.lost++;
        const entry = theirs[turns.written % theirs.length] ?? "";
        const isIn = !his.delete(entry);
        if (isIn) his.add(entry);
        for (const one of theirs) entries.delete(one);
        const annotations = {
          [KEY]: JSON.stringify([...entries, ...his]),
          "example.org/turn": `${turns.written}`,
        };
        const body = { metadata: { annotations, resourceVersion: metadata["resourceVersion"] } };
        const isWritten = await api.objects.patch(node, body).then(
          () => true,
          () => false,
        );
        if (isWritten) turns.written++;
        else {
          turns.refused++;
          if (isIn) his.delete(entry);
          else his.add(entry);
        }
      }
    };
    const writing = other();
    for (let times = 0; times < 40; times++) {
      await follow(world);
      const before = turns.written;
      // What is known of the Node is late, every other time.
      if (times % 2 === 0) await until(() => turns.written > before, "he has written meanwhile");
      world.assigned = times % 4 < 2 ? { prod: { [mine[times % 2] ?? ""]: "node1" } } : {};
      await world.round();
    }
    turns.ending = true;
    await writing;
    for (let times = 0; times < 3; times++) {
      await follow(world);
      world.assigned = { prod: { "10.10.10.50": "node1" } };
      await world.round();
      await world.pass(60_000);
    }
    const all = await annotations();
    expect(new Set(JSON.parse(all?.[KEY] ?? "[]") as string[])).toEqual(new Set(["10.10.10.50", ...his]));
    expect(all?.["example.org/turn"]).toBe(`${turns.written - 1}`);
    expect(turns.lost).toBe(0);
    expect(turns.written).toBeGreaterThan(20);
    world.close();
  });

  it("who may not is told so once for each kind, and asks again rarely", async () => {
    await api.objects.apply({
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { namespace: "default", name: "nobody" },
    });
    await api.objects.patch(node, { metadata: { annotations: null } });
    const token = await api.token({ namespace: "default", name: "nobody" });
    const nobody = await openCluster({ kubeconfig: await api.kubeconfig({ token }) });
    let asked = 0;
    const world = agent((...of) => {
      asked++;
      return nobody.request(...of);
    });
    world.assigned = { prod: { "10.10.10.50": "node1" }, web: { "192.0.2.9": "node1" } };
    await world.round();
    await world.pass(60_000);
    expect(world.told).toEqual([
      expect.stringMatching(/^nodes: .*403.*cannot patch resource "nodes"/),
      expect.stringMatching(/^events: .*403.*cannot create resource "events"/),
    ]);
    expect(asked).toBeLessThan(8);
    world.close();
    await nobody.close();
  });
});

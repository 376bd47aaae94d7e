// The last good state on disk: what was written decodes to the same objects, a folder of manifests is what it is, and it is written
// when it should be, whole or not at all.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openFiles } from "../../../../agent/inputs/files.ts";
import { encode } from "../../../../agent/inputs/kubernetes/encode.ts";
import { lastGoodIn } from "../../../../agent/inputs/kubernetes/last-good.ts";
import { createBuild, type Objects } from "../../../../agent/model/build.ts";
import { decode } from "../../../../agent/model/decode.ts";
import { parseSelector } from "../../../../agent/model/select.ts";
import { createReader, hostFacts, loadScenarios, settingsOf } from "../../../support/scenario.ts";
import { ManualTimers } from "../../../support/scripted-cluster.ts";
import {
  bareHost,
  cidr,
  egressIP,
  namespace,
  node,
  node1,
  node2,
  objects,
  pod,
  settings,
} from "../../make.ts";

let directory = "";
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "egressip-last-good-"));
});
afterAll(() => rm(directory, { recursive: true }));

let folders = 0;
function opened(of: Partial<Parameters<typeof lastGoodIn>[0]> = {}) {
  const timers = new ManualTimers();
  const failures: string[] = [];
  const stateDirectory = join(directory, String(folders++));
  const file = lastGoodIn({
    stateDirectory,
    node: "node1",
    now: () => new Date(timers.now),
    after: timers.after,
    firstMs: 1_000,
    everyMs: 30_000,
    onFailure: ({ message }) => failures.push(message),
    ...of,
  });
  return { timers, failures, file, folder: join(stateDirectory, "last-good"), stateDirectory };
}

const good = (of: Objects) => ({
  objects: of,
  selected: createBuild()(settings, of, bareHost).served.selected,
  versions: { Node: "12" },
});

const selector = (raw: unknown) => {
  const parsed = parseSelector(raw, "");
  if (!("selector" in parsed)) throw new Error(JSON.stringify(parsed.faults));
  return parsed.selector;
};

describe("encode", () => {
  const requirement = { key: "tier", operator: "NotIn", values: ["batch", "web"] };
  it.each([
    egressIP("web", {
      at: { "10.10.10.50": "node1", "fd00:10:10::50": "node2" },
      namespaceSelector: selector({ matchLabels: { a: "b" }, matchExpressions: [requirement] }),
      podSelector: selector({ matchExpressions: [{ key: "x", operator: "Exists" }] }),
    }),
    egressIP("none", { requested: ["10.10.10.50"], created: "" }),

    node("bare"),
    node("full", {
      internalAddresses: ["172.18.0.11"],
      hostCidrs: [cidr("10.10.10.11/24"), cidr("fd00:10:10::11/64")],
      secondaryEgressIPs: ["10.10.10.60"],
      secondaryEgressIPsText: '["10.10.10.60"]',
      primary: [cidr("172.18.0.11/24"), cidr("fd00:172:18::11/64")],
      zone: "full",
      transit: [cidr("100.88.0.2/16")],
      podSubnets: [cidr("10.244.1.0/24")],
    }),
    node("leaving", { leaving: "label egressip-agent.io/leaving", assignable: true }),
    node("tainted", { leaving: "taint ToBeDeletedByClusterAutoscaler" }),
    node("deleted", { leaving: "it is being deleted" }),
    node("listed", { secondaryEgressIPs: ["10.10.10.60"], secondaryEgressIPsText: '[ "10.10.10.60" ]' }),
    node("unread", { secondaryEgressIPsText: "[" }),
    node("cloud", { primary: [cidr("10.0.128.0/18")], cloud: true }),
    node("unread", { cloud: true }),
    namespace("shop", { tier: "web" }),
    pod("shop/a", ["10.244.1.3", "fd00:10:244:1::3"], { labels: { app: "a" } }),
    pod("shop/host", [], { hostNetwork: true }),
    pod("shop/done", [], { finished: true, running: false }),
    pod("shop/new", [], { node: "", running: false }),
  ])("of $kind $name decodes to the same", (object) => {
    expect(decode(JSON.parse(JSON.stringify(encode(object)))).object).toEqual(object);
  });

  it("of whatever was decoded in any scenario decodes to the same", () => {
    let seen = 0;
    for (const scenario of loadScenarios()) {
      for (const { manifests } of scenario.steps)
        for (const raw of manifests.values()) {
          const { object } = decode(raw);
          if (object === undefined) continue;
          seen++;
          expect(decode(encode(object)).object).toEqual(object);
        }
    }
    expect(seen).toBeGreaterThan(100);
  });

  it("of pods with any labels decodes to the same", () => {
    const label = fc.stringMatching(/^[a-z]([-a-z0-9]{0,10}[a-z0-9])?$/);
    fc.assert(
      fc.property(
        fc.dictionary(label, label),
        fc.boolean(),
        fc.boolean(),
        (labels, finished, hostNetwork) => {
          const made = pod("shop/a", [], { labels, finished, hostNetwork, running: !finished });
          expect(decode(JSON.parse(JSON.stringify(encode(made)))).object).toEqual(made);
        },
      ),
    );
  });
});

describe("the last good state", () => {
  const web = egressIP("web", {
    at: { "172.18.0.50": "node1" },
    namespaceSelector: selector({ matchLabels: { team: "a" } }),
  });
  const own = pod("shop/a", ["10.244.1.3"]);
  const idle = pod("idle/a", ["10.244.1.4"]);
  const remote = pod("shop/b", ["10.244.2.3"], { node: "node2" });
  const all = objects(
    ...[web, node1, node2, namespace("shop", { team: "a" }), namespace("idle")],
    ...[own, idle, remote, pod("idle/b", ["10.244.2.4"], { node: "node2" })],
    pod("idle/host", [], { hostNetwork: true }),
  );

  it("is what concerns this node: its pods with addresses of their own, and those it gives an egress IP", async () => {
    const { file, timers } = opened();
    file.offer(good(all));
    await file.flush();
    const read = await file.read();
    expect([...(read?.objects.keys() ?? [])].sort()).toEqual([
      "EgressIP/web",
      "Namespace/idle",
      "Namespace/shop",
      "Node/node1",
      "Node/node2",
      "Pod/idle/a",
      "Pod/shop/a",
      "Pod/shop/b",
    ]);
    expect(read?.objects.get("Pod/shop/a")).toEqual(own);
    expect(read?.written).toBe(new Date(timers.now).toISOString());
    expect(read?.versions).toEqual({ Node: "12" });
  });

  it("is a folder that --manifests reads", async () => {
    const { file, folder } = opened();
    file.offer(good(all));
    await file.flush();
    const files = openFiles(folder, { onChange: () => {} });
    const { objects: read, problems } = await files.read();
    files.close();
    expect(problems).toEqual([]);
    expect([...read.values()]).toEqual([...((await file.read())?.objects.values() ?? [])]);
  });

  it("gives the plan that the objects gave", async () => {
    const [scenario] = loadScenarios().filter(({ name }) => name === "secondary-dual-stack");
    if (scenario === undefined) throw new Error("no such scenario");
    const settings_ = settingsOf(scenario, "local");
    const step = scenario.steps[0];
    if (step === undefined) throw new Error("no steps");
    const of = createReader()(step.manifests);
    const host = hostFacts(scenario);
    const before = createBuild()(settings_, of, host);
    const { file } = opened();
    file.offer({ objects: of, selected: before.served.selected, versions: {} });
    await file.flush();
    const read = await file.read();
    const after = createBuild()(settings_, objects(...(read?.objects.values() ?? [])), host);
    expect(after.held).toEqual(before.held);
    expect(after.served.claims).toEqual(before.served.claims);
  });

  it("is written soon, then once in a while, and not when nothing but the server's version is another", async () => {
    const { file, timers, folder, failures } = opened();
    const path = join(folder, "objects.json");
    const inode = () => statSync(path).ino;
    expect(await file.read()).toBeUndefined();
    const first = good(all);
    file.offer(first);
    timers.pass(1_000);
    await file.flush();
    const written = inode();
    file.offer({ ...first, versions: { Node: "13" } });
    timers.pass(60_000);
    await file.flush();
    expect(inode()).toBe(written);
    file.offer(good(objects(web, node1, namespace("shop", { team: "a" }), own)));
    timers.pass(29_999);
    expect(inode()).toBe(written);
    timers.pass(1);
    await file.flush();
    expect((await file.read())?.objects.size).toBe(4);
    expect(readdirSync(folder)).toEqual(["objects.json"]);
    expect(failures).toEqual([]);
  });

  it("can be read by root alone", async () => {
    const { file, folder } = opened();
    file.offer(good(all));
    await file.flush();
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, "objects.json")).mode & 0o777).toBe(0o600);
  });

  it.each<[string, (text: string) => string, RegExp]>([
    ["cut off", (text) => text.slice(0, -20), /not a list of objects; it is not used/],
    ["empty", () => "", /not a list of objects/],
    ["another node's", (text) => text.replace('"node1"', '"node9"'), /state of node node9, not of node1/],
    [
      "of a form that is not known",
      (text) => text.replace('"kind":"EgressIP"', '"kind":"Other"'),
      /agent of this version/,
    ],
  ])("that is %s is refused by name", async (_, damage, why) => {
    const { file, folder } = opened();
    file.offer(good(all));
    await file.flush();
    const path = join(folder, "objects.json");
    writeFileSync(path, damage(readFileSync(path, "utf8")));
    await expect(file.read()).rejects.toThrow(why);
    await expect(file.read()).rejects.toThrow(path);
  });

  it("says when it cannot be written, and is tried with the next offer", async () => {
    const blocked = join(directory, "blocked");
    writeFileSync(blocked, "");
    const { file, timers, failures } = opened({ stateDirectory: blocked });
    file.offer(good(all));
    timers.pass(1_000);
    await expect(file.flush()).rejects.toThrow("ENOTDIR");
    expect(failures).toHaveLength(1);
  });

  it("is written in slices, so that nothing else waits for long", async () => {
    const many = Array.from({ length: 5_000 }, (_, i) => pod(`shop/p${i}`, [`10.244.${i >> 8}.${i & 255}`]));
    const { file, folder } = opened();
    file.offer(good(objects(web, node1, namespace("shop", { team: "a" }), ...many)));
    let turns = 0;
    const count = setInterval(() => turns++, 0);
    await file.flush();
    clearInterval(count);
    expect(turns).toBeGreaterThan(1);
    expect(statSync(join(folder, "objects.json")).size).toBeGreaterThan(500_000);
  });
});

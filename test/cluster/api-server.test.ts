// The lab's own promises: who is let in, what a compaction and a restored backup do, that agents in a lab's nodes reach it, and that
// nothing of it outlives who started it.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, readFile, readlink, rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Agent, request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { FaultProxy } from "../cluster-lab/fault-proxy.ts";
import { mountAccount } from "../cluster-lab/identities.ts";
import type { KubeObject } from "../cluster-lab/objects.ts";
import { apiPort, outside } from "../lab/topology.ts";
import { OvnLab } from "../ovn-lab/lab.ts";
import { noKubePrograms } from "../support/kube-programs.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const exec = promisify(execFile);
const missing = noKubePrograms();
const named = (suite: string, why: string | undefined) => `${suite}${why === undefined ? "" : `: ${why}`}`;

const namespace = (name: string): KubeObject => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } });
const pod = (name: string, labels = {}): KubeObject => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { namespace: "shop", name, labels },
  spec: { nodeName: "node1", containers: [{ name: "main", image: "registry.example/main:1" }] },
  status: { phase: "Running", podIP: "10.244.1.3", podIPs: [{ ip: "10.244.1.3" }] },
});

describe.skipIf(missing !== undefined)(named("the API server of the cluster lab", missing), () => {
  let api: ApiServer;
  const account = { namespace: "shop", name: "reader" };

  beforeAll(async () => {
    api = await ApiServer.up();
    await api.objects.apply(namespace("shop"), {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: account,
    });
  });
  afterAll(() => api.close());

  const statusOf = (token: string) =>
    api.objects.request("GET", "/api/v1/pods", { token }).then(
      () => 200,
      ({ status }: { status: number }) => status,
    );

  it("is a version that it says", async () => {
    const { gitVersion } = (await api.objects.request("GET", "/version")) as { gitVersion: string };
    expect(gitVersion).toBe(api.version);
  });

  it("knows service accounts by token, and lets them do nothing of themselves", async () => {
    expect(await statusOf(await api.token(account))).toBe(403);
    expect(await statusOf(await api.token(account, { seconds: 30 }))).toBe(403);
    expect(await statusOf(await api.token(account, { seconds: -120 }))).toBe(401);
    expect(await statusOf("somebody")).toBe(401);
  });

  it("applies, changes and removes as kubectl, kubelet and controllers together would", async () => {
    const { objects } = api;
    await objects.apply(pod("a1", { app: "web" }));
    expect(await objects.get(pod("a1"))).toMatchObject({ status: { podIP: "10.244.1.3", phase: "Running" } });
    await objects.apply(pod("a1", { tier: "front" }));
    expect((await objects.get(pod("a1"))).metadata["labels"]).toEqual({ tier: "front" });
    await objects.create(...["a2", "a3", "a4"].map((name) => pod(name)));
    expect(await objects.list("v1", "Pod", "shop")).toHaveLength(4);
    await objects.startRemoving(pod("a2"));
    expect((await objects.get(pod("a2"))).metadata["deletionTimestamp"]).toBeDefined();
    await objects.remove(pod("a2"));
    await objects.apply(namespace("gone"), { ...pod("x"), metadata: { namespace: "gone", name: "x" } });
    await objects.remove(namespace("gone"));
    expect(await objects.list("v1", "Pod")).toHaveLength(3);
  });

  it("forgets by compaction: who was away too long is told so", async () => {
    const { objects } = api;
    const { metadata } = (await objects.request("GET", "/api/v1/pods")) as {
      metadata: { resourceVersion: string };
    };
    await objects.patch(pod("a1"), { metadata: { labels: { tier: "back" } } });
    await api.compact();
    await api.restart();
    const watch = `/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=${metadata.resourceVersion}`;
    expect(await objects.request("GET", watch)).toMatchObject({ type: "ERROR", object: { code: 410 } });
  });

  it("goes back to what a backup holds", async () => {
    const saved = await api.saveData();
    const before = (await api.objects.get(pod("a1"))).metadata;
    await api.objects.remove(pod("a1"));
    await api.objects.apply(pod("a1"), pod("a9"));
    await api.restoreData(saved);
    expect((await api.objects.get(pod("a1"))).metadata).toEqual(before);
    expect(await api.objects.isThere(pod("a9"))).toBe(false);
  });

  it("shows another certificate after its authority was replaced", async () => {
    const before = readFileSync(api.file("ca.crt"), "utf8");
    await api.rotateAuthority();
    await using proxy = await FaultProxy.open(api);
    for (const url of [api.url, proxy.url]) {
      const ask = async (ca: string) => {
        const dispatcher = new Agent({ connect: { ca } });
        const asked = request(`${url}/readyz`, { dispatcher }).then(async ({ statusCode, body }) => {
          await body.dump();
          return statusCode;
        });
        return await asked.catch(({ code }: { code: string }) => code).finally(() => dispatcher.destroy());
      };
      expect(await ask(before)).toMatch(/CERT|SELF_SIGNED|UNABLE_TO_VERIFY/);
      expect(await ask(readFileSync(api.file("ca.crt"), "utf8"))).toBe(200);
    }
  });

  it("mounts an account's files and replaces them all in one moment", async () => {
    const mount = join(api.folder, "mount");
    await mkdir(mount);
    const read = async () => [
      await readFile(join(mount, "token"), "utf8"),
      await readFile(join(mount, "ca.crt"), "utf8"),
    ];
    await mountAccount(mount, { token: "first", "ca.crt": "one", namespace: "shop" });
    expect([await readlink(join(mount, "token")), ...(await read())]).toEqual([
      "..data/token",
      "first",
      "one",
    ]);
    const [folder] = [await readlink(join(mount, "..data"))];
    await mountAccount(mount, { token: "second", "ca.crt": "two", namespace: "shop" });
    expect([...(await read()), (await readlink(join(mount, "..data"))) === folder]).toEqual([
      "second",
      "two",
      false,
    ]);
  });
});

const noLab = missing ?? canRunKernelTests() ?? noOvn();

describe.skipIf(noLab !== undefined)(named("the API server in a lab", noLab), () => {
  it("is reached by every node of the OVN lab, by both families, as that node", async () => {
    const lab = await OvnLab.up({ prefix: `kube${process.pid}`, nodes: 3 });
    try {
      await using api = await ApiServer.up();
      await using proxy = await FaultProxy.open(api);
      const urls = [
        await proxy.listenIn(lab.namespace("ext"), outside.ext.server[4], apiPort),
        await proxy.listenIn(lab.namespace("ext"), outside.ext.server[6], apiPort),
      ];
      expect(urls).toEqual(["https://172.18.0.100:6443", "https://[fd00:172:18::100]:6443"]);
      await api.objects.apply({
        apiVersion: "v1",
        kind: "ServiceAccount",
        metadata: { namespace: "default", name: "agent" },
      });
      const token = await api.token({ namespace: "default", name: "agent" });
      const ask = `
        const [url, token] = process.argv.slice(1);
        const answer = await fetch(url + "/api/v1/nodes", { headers: { authorization: "Bearer " + token } });
        console.log(answer.status, (await answer.json()).message);`;
      for (const node of ["node1", "node2", "node3"] as const)
        for (const url of urls) {
          const words = [
            `NODE_EXTRA_CA_CERTS=${api.file("ca.crt")}`,
            process.execPath,
            "-e",
            ask,
            url,
            token,
          ];
          const { stdout } = await lab.nodeExec(node, "env", words);
          expect(stdout).toMatch(/^403 .*"system:serviceaccount:default:agent" cannot list resource "nodes"/);
        }
      expect(proxy.count("list", "nodes")).toBe(6);
    } finally {
      await lab.down();
    }
  });
});

describe.skipIf(missing !== undefined)(named("who ends", missing), () => {
  it("takes etcd and the server along, however it ends", async () => {
    const source = fileURLToPath(new URL("../cluster-lab/api-server.ts", import.meta.url));
    const text = `
      const { ApiServer } = await import(${JSON.stringify(source)});
      const api = await ApiServer.up();
      console.log(JSON.stringify({ folder: api.folder, pids: [api.etcd.pid, api.server.pid] }));
      setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", text], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
    child.kill("SIGKILL");
    const { folder, pids } = JSON.parse(line) as { folder: string; pids: number[] };
    const isThere = (pid: number) => existsSync(`/proc/${pid}`);
    await until(() => !pids.some(isThere), "both have ended");
    await rm(folder, { recursive: true });
    const { stdout } = await exec("ps", ["-eo", "args"]);
    expect(stdout).not.toContain(folder);
  });
});

// Requests, and who makes them: where the configuration comes from, credentials that are replaced on disk, connections that are shared
// and bounded, and the errors of each way in which an answer does not come.
import { mkdir, rename, symlink } from "node:fs/promises";
import path from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  ConfigurationError,
  openCluster,
  type ParseError,
  StatusError,
  UnreachableError,
} from "../../../lib/kubernetes/index.ts";
import { until } from "../../support/until.ts";
import { manualClock } from "../ovsdb-client/manual-clock.ts";
import { authority } from "./certificates.ts";
import { clusterOf, folder, kubeconfig, quick } from "./configured.ts";
import { type Handler, type ScriptedServer, scriptedServer } from "./scripted-server.ts";

const ok: Handler = (_, reply) => reply.send(200, { ok: true });
const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );
const tokens = ({ questions }: ScriptedServer) => questions.map(({ headers }) => headers["authorization"]);

afterEach(() => {
  vi.unstubAllEnvs();
});

describe("a request", () => {
  it("asks once, with what was given, and gives the answer", async () => {
    await using server = await scriptedServer(ok);
    await using cluster = await clusterOf(server);
    const answer = await cluster.request("PATCH", "/api/v1/nodes/n1", {
      query: { fieldManager: "a b" },
      body: { metadata: { annotations: { a: "ü" } } },
      contentType: "application/merge-patch+json",
    });
    expect([answer, server.questions.length]).toEqual([{ ok: true }, 1]);
    expect(server.questions[0]).toMatchObject({
      method: "PATCH",
      path: "/api/v1/nodes/n1",
      query: { fieldManager: "a b" },
      headers: {
        authorization: "Bearer secret",
        accept: "application/json",
        "content-type": "application/merge-patch+json",
      },
      protocol: "2.0",
      body: '{"metadata":{"annotations":{"a":"ü"}}}',
    });
  });

  it("is never made again by itself, whatever came of it", async () => {
    let turn = 0;
    const answers: readonly Handler[] = [
      (_, reply) => reply.send(500, "no"),
      (_, reply) => reply.send(503, "no", { "retry-after": "1" }),
      (_, reply) => reply.send(302, "", { location: "/elsewhere" }),
      (_, reply) => reply.reset(),
      (_, reply) => {
        reply.writeBytes('{"half":');
        setImmediate(() => reply.reset());
      },
      (_, reply) => reply.send(200, "<html>"),
    ];
    await using server = await scriptedServer((question, reply) => answers[turn++]?.(question, reply));
    await using cluster = await clusterOf(server);
    const errors = [];
    for (const method of ["GET", "POST", "PUT", "GET", "DELETE", "GET"])
      errors.push(await failureOf(cluster.request(method, "/x")));
    expect(errors.map((error) => (error as Error).name)).toEqual([
      "StatusError",
      "StatusError",
      "StatusError",
      "UnreachableError",
      "UnreachableError",
      "ParseError",
    ]);
    expect(errors[1]).toMatchObject({ code: 503, retryAfterMs: 1_000 });
    expect((errors[5] as ParseError).message).toContain("GET https://127.0.0.1");
    expect(server.questions).toHaveLength(6);
  });

  it("ends in time, or when its signal says so", async () => {
    await using server = await scriptedServer((_, reply) => reply.writeBytes("{"));
    const clock = manualClock();
    await using cluster = await clusterOf(server, { clock });
    const late = failureOf(cluster.request("GET", "/x"));
    await until(() => server.streams === 1, "an answer that began");
    clock.advance(30_000);
    expect(await late).toBeInstanceOf(UnreachableError);
    expect(String(await late)).toContain("no answer within 30 s");
    const giving = new AbortController();
    const given = failureOf(cluster.request("GET", "/x", { signal: giving.signal }));
    await until(() => server.questions.length === 2, "a question");
    giving.abort(new Error("given up"));
    expect(await given).toBe(giving.signal.reason);
    await until(() => server.streams === 0, "nothing open");
    expect(clock.waiting).toBe(0);
  });

  it("cannot be made to a server whose certificate another CA signed, nor to none", async () => {
    await using server = await scriptedServer(ok);
    await using place = await folder();
    const file = await place.write("config", kubeconfig(server, authority("other").cert, { token: "t" }));
    const wrong = await openCluster({ kubeconfig: file });
    expect(await failureOf(wrong.request("GET", "/x"))).toBeInstanceOf(UnreachableError);
    expect(server.questions).toEqual([]);
    await wrong.close();
    await server.close();
    await using cluster = await clusterOf(server);
    expect(await failureOf(cluster.request("GET", "/x"))).toMatchObject({
      name: "UnreachableError",
      cause: { code: "ECONNREFUSED" },
    });
  });
});

describe("a request that is given up", () => {
  it("at whatever moment, takes nothing with it when its connection ends", async () => {
    // An uncaught exception fails the run.
    await using server = await scriptedServer(ok);
    await using cluster = await clusterOf(server);
    const moments: readonly ((abort: () => void) => void)[] = [
      (abort) => abort(),
      (abort) => queueMicrotask(abort),
      (abort) => process.nextTick(abort),
      (abort) => void Promise.resolve().then(() => queueMicrotask(abort)),
      (abort) => setImmediate(abort),
      (abort) => setImmediate(() => setImmediate(abort)),
    ];
    const given: unknown[] = [];
    for (let at = 0; at < 60; at++) {
      if (at % 12 !== 0) await failureOf(cluster.request("GET", "/warm"));
      const giving = new AbortController();
      const asked = failureOf(cluster.request("GET", "/x", { signal: giving.signal }));
      moments[at % moments.length]?.(() => giving.abort());
      given.push(await asked);
      if (at % 12 === 11) server.cut();
    }
    // Some were answered before.
    expect(given.filter((error) => error !== undefined).length).toBeGreaterThan(30);
    await until(() => server.streams === 0, "no stream");
  });
});

describe("connections", () => {
  it("are few with HTTP/2, however much is asked", async () => {
    await using server = await scriptedServer(({ query }, reply) =>
      query["watch"] === undefined ? reply.send(200, {}) : reply.write(),
    );
    await using cluster = await clusterOf(server);
    const reflections = Array.from({ length: 8 }, (_, at) =>
      cluster.reflect({
        resource: { group: "", version: "v1", plural: `kind${at}` },
        project: () => true,
        onChange: () => {},
      }),
    );
    await until(() => server.streams === 8, "eight watches");
    await Promise.all(Array.from({ length: 500 }, () => cluster.request("GET", "/x")));
    expect(server.questions).toHaveLength(508);
    expect(server.accepted).toBeLessThanOrEqual(16);
    for (const reflection of reflections) reflection.close();
    await until(() => server.streams === 0, "no watch");
  });

  it("are bounded without it, and there is one for each watch", async () => {
    await using server = await scriptedServer(
      ({ query }, reply) => (query["watch"] === undefined ? reply.send(200, {}) : reply.write()),
      { http2: false },
    );
    await using cluster = await clusterOf(server, {}, { connections: 10 });
    for (let at = 0; at < 8; at++)
      cluster.reflect({
        resource: { group: "", version: "v1", plural: `kind${at}` },
        project: () => true,
        onChange: () => {},
      });
    await until(() => server.streams === 8, "eight watches");
    // Two are left for everything else.
    await Promise.all(Array.from({ length: 100 }, () => cluster.request("GET", "/x")));
    expect(server.questions[0]?.protocol).toBe("1.1");
    expect(server.accepted).toBeLessThanOrEqual(10);
  });
});

describe("a watch that waits for a connection", () => {
  it("is given up in time, and says so", async () => {
    await using server = await scriptedServer(
      ({ query }, reply) => (query["watch"] === undefined ? reply.send(200, {}) : reply.write()),
      { http2: false },
    );
    const clock = manualClock();
    await using cluster = await clusterOf(server, { clock, idleMs: 180_000 }, { connections: 1 });
    const reflect = () =>
      cluster.reflect({
        resource: { group: "", version: "v1", plural: "pods" },
        project: () => true,
        onChange: () => {},
      });
    const first = reflect();
    await until(() => first.state.lastContact !== undefined, "the first");
    const second = reflect();
    await until(() => clock.waiting === 2, "the second");
    clock.advance(180_000);
    await until(() => second.state.failure !== undefined, "a failure");
    expect(second.state.failure?.message).toContain("nothing heard for 180 s");
    expect(server.questions).toHaveLength(1);
  });
});

describe("a token file", () => {
  /** As kubelet has it: `token` is a link through `..data`, which is replaced in one step. */
  async function projected(place: string, version: string, files: Readonly<Record<string, string>>) {
    const { writeFile } = await import("node:fs/promises");
    await mkdir(path.join(place, version), { recursive: true });
    for (const [name, text] of Object.entries(files)) await writeFile(path.join(place, version, name), text);
    await symlink(version, path.join(place, "..data_tmp"));
    await rename(path.join(place, "..data_tmp"), path.join(place, "..data"));
    for (const name of Object.keys(files))
      await symlink(`..data/${name}`, path.join(place, name)).catch(() => {});
  }

  it("of a pod is found, read again every minute, and at once after 401", async () => {
    await using place = await folder();
    await using server = await scriptedServer(({ headers }, reply) =>
      headers["authorization"] === "Bearer one" ? reply.send(200, {}) : reply.send(401, "Unauthorized"),
    );
    const account = path.join(place.path, "var/run/secrets/kubernetes.io/serviceaccount");
    const ca = server.ca.cert;
    await projected(account, "..v1", { token: "one\n", "ca.crt": ca });
    vi.stubEnv("KUBECONFIG", "");
    vi.stubEnv("HOME", place.path);
    const { port } = new URL(server.url);
    vi.stubEnv("KUBERNETES_SERVICE_HOST", "127.0.0.1");
    vi.stubEnv("KUBERNETES_SERVICE_PORT", port);
    const clock = manualClock();
    const cluster = await openCluster({ root: place.path }, { clock });
    expect(cluster.server).toBe(server.url);
    await cluster.request("GET", "/1");
    await projected(account, "..v2", { token: "two", "ca.crt": ca });
    clock.advance(59_000);
    await cluster.request("GET", "/2");
    clock.advance(1_000);
    expect(await failureOf(cluster.request("GET", "/3"))).toBeInstanceOf(StatusError);
    await projected(account, "..v3", { token: "one", "ca.crt": ca });
    await cluster.request("GET", "/4");
    expect(tokens(server)).toEqual(["Bearer one", "Bearer one", "Bearer two", "Bearer one"]);
    expect(server.accepted).toBe(1);
    await cluster.close();
  });

  it("of a kubeconfig is found from there, as kubectl does", async () => {
    await using place = await folder();
    await using server = await scriptedServer(ok);
    await place.write("secret", "from file\n");
    const user = { tokenFile: "secret", token: "older" };
    const file = await place.write("config", kubeconfig(server, server.ca.cert, user));
    const clock = manualClock();
    const cluster = await openCluster({ kubeconfig: file }, { clock });
    await cluster.request("GET", "/1");
    await place.write("secret", "new");
    clock.advance(60_000);
    await cluster.request("GET", "/2");
    expect(tokens(server)).toEqual(["Bearer from file", "Bearer new"]);
    await cluster.close();
  });

  it("that is gone for a moment leaves what was, and the refusal says so", async () => {
    await using place = await folder();
    await using server = await scriptedServer((_, reply) => reply.send(401, "Unauthorized"));
    await place.write("secret", "one");
    const file = await place.write("config", kubeconfig(server, server.ca.cert, { tokenFile: "secret" }));
    const cluster = await openCluster({ kubeconfig: file });
    await rename(path.join(place.path, "secret"), path.join(place.path, "gone"));
    await failureOf(cluster.request("GET", "/1"));
    const error = await failureOf(cluster.request("GET", "/2"));
    expect(tokens(server)).toEqual(["Bearer one", "Bearer one"]);
    expect(error).toMatchObject({ code: 401, cause: { name: "ConfigurationError" } });
    await cluster.close();
  });
});

describe("certificates", () => {
  it("of the server may be another CA's, once that is on disk; running watches stay", async () => {
    await using place = await folder();
    const [before, after] = [authority("before"), authority("after")];
    const list = { kind: "PodList", metadata: { resourceVersion: "1" }, items: [] };
    await using server = await scriptedServer(
      ({ query }, reply) => (query["watch"] === undefined ? reply.send(200, list) : reply.write()),
      { ca: before },
    );
    await place.write("ca.crt", before.cert);
    const config = JSON.parse(kubeconfig(server, "", { token: "t" }));
    config.clusters[0].cluster = { server: server.url, "certificate-authority": "ca.crt" };
    const file = await place.write("config", JSON.stringify(config));
    const cluster = await openCluster({ kubeconfig: file }, quick);
    const resource = { group: "", version: "v1", plural: "pods" };
    const reflection = cluster.reflect({ resource, project: () => true, onChange: () => {} });
    await until(() => server.streams === 1, "a watch");
    await cluster.request("GET", "/1");
    server.certify(after.server());
    await place.write("ca.crt", after.cert);
    await cluster.request("GET", "/2");
    // What is open goes on; a new connection finds that the CA is no longer right, and what follows reads the new one.
    expect([server.streams, server.accepted]).toEqual([1, 1]);
    server.cut();
    await until(() => server.open === 0 || server.accepted > 1, "cut");
    await until(async () => (await failureOf(cluster.request("GET", "/3"))) === undefined, "an answer");
    await until(() => server.streams === 1, "the watch again");
    expect(server.open).toBeLessThanOrEqual(2);
    reflection.close();
    await cluster.close();
  });

  it("of the client are read again, and connections made anew with them", async () => {
    await using place = await folder();
    await using server = await scriptedServer(ok);
    const write = async (name: string) => {
      const { cert, key } = server.ca.client(name);
      await place.write("key", key);
      await place.write("crt", cert);
    };
    await write("first");
    const user = { "client-certificate": "crt", "client-key": "key" };
    const file = await place.write("config", kubeconfig(server, server.ca.cert, user));
    const clock = manualClock();
    const cluster = await openCluster({ kubeconfig: file }, { clock });
    await cluster.request("GET", "/1");
    await write("second");
    await cluster.request("GET", "/2");
    clock.advance(60_000);
    await cluster.request("GET", "/3");
    // Half of the next rotation: a key that is not the certificate's.
    await place.write("key", server.ca.client("third").key);
    clock.advance(60_000);
    await cluster.request("GET", "/4");
    expect(server.questions.map(({ client }) => client)).toEqual(["first", "first", "second", "second"]);
    // Idle ones end by themselves, after four seconds.
    await until(() => server.open === 1, "the old connection to be closed", 2_000);
    expect(server.accepted).toBe(2);
    await cluster.close();
  });
});

describe("an exec plug-in", () => {
  it("is run when it is needed, and again after 401, not every minute", async () => {
    await using place = await folder();
    await using server = await scriptedServer(({ headers }, reply) =>
      headers["authorization"] === "Bearer run 3" ? reply.send(200, {}) : reply.send(401, "Unauthorized"),
    );
    const script = `
      const fs = require("node:fs");
      const runs = Number(fs.existsSync(process.argv[2]) ? fs.readFileSync(process.argv[2]) : 0) + 1;
      fs.writeFileSync(process.argv[2], String(runs));
      console.log(JSON.stringify({ kind: "ExecCredential", apiVersion: "client.authentication.k8s.io/v1", status: { token: "run " + runs } }));`;
    const plugin = await place.write("plugin.cjs", script);
    const exec = {
      apiVersion: "client.authentication.k8s.io/v1",
      command: process.execPath,
      args: [plugin, path.join(place.path, "runs")],
      interactiveMode: "Never",
    };
    const file = await place.write("config", kubeconfig(server, server.ca.cert, { exec }));
    const clock = manualClock();
    const cluster = await openCluster({ kubeconfig: file }, { clock });
    for (let at = 0; at < 2; at++) await failureOf(cluster.request("GET", `/${at}`));
    for (let at = 0; at < 3; at++) {
      clock.advance(60_000);
      await cluster.request("GET", `/ok${at}`);
    }
    expect(tokens(server)).toEqual([
      "Bearer run 1",
      "Bearer run 2",
      "Bearer run 3",
      "Bearer run 3",
      "Bearer run 3",
    ]);
    await cluster.close();
  });
});

describe("configuration", () => {
  it("is of the context that is named, or of the server that is given", async () => {
    await using place = await folder();
    await using server = await scriptedServer(ok);
    const config = JSON.parse(kubeconfig({ url: "https://192.0.2.1:1" }, server.ca.cert, { token: "one" }));
    config.contexts.push({ name: "b", context: { cluster: "c", user: "v" } });
    config.users.push({ name: "v", user: { username: "u", password: "p" } });
    const file = await place.write("config", JSON.stringify(config));
    const cluster = await openCluster({ kubeconfig: file, context: "b", server: server.url });
    await cluster.request("GET", "/1");
    expect([cluster.server, tokens(server)]).toEqual([
      server.url,
      [`Basic ${Buffer.from("u:p").toString("base64")}`],
    ]);
    await cluster.close();
  });

  it("is of the files in $KUBECONFIG, of which some may be missing", async () => {
    await using place = await folder();
    await using server = await scriptedServer(ok);
    const one = JSON.parse(kubeconfig(server, server.ca.cert, { token: "one" }));
    const first = await place.write("first", JSON.stringify({ ...one, users: [] }));
    const second = await place.write("second", JSON.stringify({ ...one, clusters: [], contexts: [] }));
    vi.stubEnv("KUBECONFIG", [first, path.join(place.path, "missing"), second].join(":"));
    const cluster = await openCluster();
    await cluster.request("GET", "/1");
    expect(tokens(server)).toEqual(["Bearer one"]);
    await cluster.close();
  });

  const refused = async (text: string, options = {}) => {
    await using place = await folder();
    const file = await place.write("config", text);
    return failureOf(openCluster({ kubeconfig: file, ...options }));
  };
  const config = (user: object, url = "https://127.0.0.1:1") =>
    kubeconfig({ url }, authority("x").cert, user);

  it.each([
    ["no YAML", "{", {}],
    ["no configuration", "[]", {}],
    ["nothing in it", "", {}],
    ["no context", "{}", {}],
    ["another context", config({}), { context: "other" }],
    ["a token that would go unencrypted", config({ token: "t" }, "http://127.0.0.1:1"), {}],
    [
      "a certificate that is none",
      config({ "client-certificate-data": "eA==", "client-key-data": "eA==" }),
      {},
    ],
    ["a file that is missing", config({ "client-certificate": "/nowhere", "client-key": "/nowhere" }), {}],
    ["a plug-in that is missing", config({ exec: { command: "/nowhere/plugin" } }), {}],
  ])("is refused with %s", async (_, text, options) => {
    expect(await refused(text, options)).toBeInstanceOf(ConfigurationError);
  });

  it("that is missing is said so, with where it was looked for", async () => {
    await using place = await folder();
    vi.stubEnv("KUBECONFIG", "");
    vi.stubEnv("HOME", place.path);
    const error = await failureOf(openCluster({ root: place.path }));
    expect(String(error)).toMatch(
      /^ConfigurationError: no cluster is configured: .*\$KUBECONFIG.*serviceaccount/,
    );
    const named = await failureOf(openCluster({ kubeconfig: path.join(place.path, "none") }));
    expect(String(named)).toMatch(/^ConfigurationError: kubeconfig \S+none: ENOENT/);
    expect(String(await refused(config({}), { context: "other" }))).toContain(
      "no context other; there is test",
    );
  });
});

// What is served to scrapers and probes: three paths, read only; and a port that somebody has is waited for, not died for.
import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Answers, serveHttp } from "../../../agent/telemetry/http.ts";
import { until } from "../../support/until.ts";

interface Answered {
  readonly status: number | undefined;
  readonly type: string | undefined;
  readonly body: string;
}

function ask(host: string, port: number, path: string, method = "GET"): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const call = request({ host, port, path, method, agent: false }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        body += chunk;
      });
      response.on("end", () =>
        resolve({ status: response.statusCode, type: response.headers["content-type"], body }),
      );
    });
    call.on("error", reject);
    call.end();
  });
}

const well: Answers = {
  stuck: () => undefined,
  notReady: () => undefined,
  metrics: async () => "a 1\n",
  contentType: "text/plain; version=0.0.4; charset=utf-8",
};

/** A server on a port that was just free; log lines as they come. */
async function serving(of: Partial<Answers> = {}, host = "127.0.0.1") {
  const taken = createServer().listen(0, host);
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  const lines: string[] = [];
  const note = (_: object, event: string) => void lines.push(event);
  const log = { info: note, warn: note } as unknown as Parameters<typeof serveHttp>[1];
  const server = serveHttp({ host, port }, log, { ...well, ...of });
  onTestFinished(() => server.close());
  await until(() => lines.length > 0, "it says that the port is taken");
  taken.close();
  await until(() => lines.includes("metricsServed"), "it has the port");
  return { port, lines, server, ask: (path: string, method?: string) => ask(host, port, path, method) };
}

describe("what is served", () => {
  it("waits for a port that somebody has, and says so once", async () => {
    const { lines } = await serving();
    expect(lines).toEqual(["metricsNotServed", "metricsServed"]);
  });

  it.each(["127.0.0.1", "::1"])("is metrics and two probes, at %s", async (host) => {
    const at = await serving({}, host);
    expect(await at.ask("/metrics")).toEqual({ status: 200, type: well.contentType, body: "a 1\n" });
    const ok = { status: 200, type: "text/plain; charset=utf-8", body: "ok\n" };
    expect(await at.ask("/livez")).toEqual(ok);
    expect(await at.ask("/readyz?verbose")).toEqual(ok);
    expect(await at.ask("/readyz", "HEAD")).toEqual({ ...ok, body: "" });
  });

  it("says why not", async () => {
    const { ask: at } = await serving({
      stuck: () => "a round has not ended for 700 s",
      notReady: () => "sets: no",
      metrics: () => Promise.reject(new Error("broken")),
    });
    expect(await at("/livez")).toMatchObject({ status: 503, body: "a round has not ended for 700 s\n" });
    expect(await at("/readyz")).toMatchObject({ status: 503, body: "sets: no\n" });
    expect(await at("/metrics")).toMatchObject({ status: 500, body: "Error: broken\n" });
    expect(await at("/metrics")).toMatchObject({ status: 500 });
  });

  it("changes nothing and has nothing else", async () => {
    const { ask: at } = await serving();
    expect(await at("/livez", "POST")).toMatchObject({ status: 405 });
    for (const path of ["/", "/status", "/drain", "/metrics/", "//metrics"])
      expect(await at(path)).toMatchObject({ status: 404 });
  });

  it("is gone when it is closed, whoever still holds a connection", async () => {
    const { port, ask: at, server } = await serving();
    await at("/livez");
    server.close();
    await expect(ask("127.0.0.1", port, "/livez")).rejects.toThrow(/ECONNREFUSED/);
  });
});

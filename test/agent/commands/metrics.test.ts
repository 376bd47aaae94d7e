// What probes are told from the first moment on: alive at once, ready when a round was verified and status says so. And that nothing is
// served, or in the way of anything, where no address was given.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { openDisabledMetrics, openMetrics } from "../../../agent/commands/metrics.ts";
import type { Round } from "../../../agent/loop.ts";
import { createBuild } from "../../../agent/model/build.ts";
import { nothing } from "../../../agent/plan/plan.ts";
import type { AnyBackend } from "../../../agent/sync/backend.ts";
import type { Logger } from "../../../agent/telemetry/log.ts";
import { createPulse } from "../../../agent/telemetry/pulse.ts";
import { until } from "../../support/until.ts";
import { bareHost, objects, settings } from "../make.ts";

const log = { info: () => {}, warn: () => {} } as unknown as Logger;

async function freePort(): Promise<number> {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  taken.close();
  return port;
}

const round: Round = {
  number: 1,
  objects: objects(),
  snapshot: createBuild()(settings, objects(), bareHost),
  plan: nothing,
  outcome: { steps: [], failures: [], facts: bareHost, wrote: new Map() },
  took: { read: 0, plan: 0, write: 0 },
};

const noCounters = { otherLink: 0, unready: 0, untranslated: 0, unclaimed: 0 };

async function scraped() {
  const port = await freePort();
  const metrics = { host: "127.0.0.1", port };
  const opened = await openMetrics({ metrics, settings }, log, createPulse());
  onTestFinished(() => opened.close());
  const ask = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    return { status: response.status, body: await response.text() };
  };
  await until(
    () =>
      ask("/livez").then(
        () => true,
        () => false,
      ),
    "it listens",
  );
  return { opened, ask };
}

describe("what probes are told", () => {
  it("is from the start that it lives, and what it is ready for when that is so", async () => {
    const { opened, ask } = await scraped();
    expect(await ask("/livez")).toEqual({ status: 200, body: "ok\n" });
    expect(await ask("/readyz")).toEqual({ status: 503, body: "nothing has been read yet\n" });
    expect((await ask("/metrics")).body).not.toMatch(/^egressip_agent_ready /m);
    let why: string | undefined = "no round has been made yet";
    let reads = 0;
    opened.tell({
      notReady: () => why,
      contention: () => [],
      northbound: () => undefined,
      kubernetes: () => undefined,
      counters: async () => {
        reads++;
        throw new Error("no iptables");
      },
      duplicateClaims: () => ({}),
    });
    expect(await ask("/readyz")).toEqual({ status: 503, body: "no round has been made yet\n" });
    why = undefined;
    opened.ended(round, false);
    expect(await ask("/readyz")).toEqual({ status: 503, body: "no round has been verified yet\n" });
    const { body } = await ask("/metrics");
    expect(body).toMatch(/^egressip_agent_ready 0$/m);
    expect(body).not.toMatch(/^egressip_agent_last_success_timestamp_seconds /m);
    opened.ended(round, true);
    expect(await ask("/readyz")).toEqual({ status: 200, body: "ok\n" });
    // A later one need not be: what is being read back was right before it.
    opened.ended(round, false);
    expect(await ask("/readyz")).toEqual({ status: 200, body: "ok\n" });
    why = "sets: no";
    opened.ended(new Error("unreadable"), false);
    expect(await ask("/readyz")).toEqual({ status: 503, body: "sets: no\n" });
    const after = await ask("/metrics");
    expect(after.body).toMatch(/^egressip_agent_ready 0$/m);
    expect(after.body).toMatch(/^egressip_agent_rounds_total\{result="unreadable"\} 1$/m);
    expect(after.body).toMatch(/^egressip_agent_last_success_timestamp_seconds \d/m);
    // Counters that cannot be read are missing, and the rest is told.
    expect(after.body).toMatch(/^egressip_agent_counters_readable 0$/m);
    expect(after.body).not.toMatch(/^egressip_agent_guard_dropped_packets_total/m);
    expect(reads).toBeGreaterThan(0);
  });

  it("asks the tools once, however many scrape at a time", async () => {
    const { opened, ask } = await scraped();
    let reads = 0;
    let answer = () => {};
    opened.tell({
      notReady: () => undefined,
      contention: () => [],
      northbound: () => undefined,
      kubernetes: () => undefined,
      counters: async () => {
        reads++;
        await new Promise<void>((resolve) => {
          answer = resolve;
        });
        return { dropped: { ...noCounters, unready: 7 }, connections: {}, duplicateClaims: {} };
      },
      duplicateClaims: () => ({}),
    });
    const asked = ["/metrics", "/metrics", "/metrics"].map(ask);
    await until(() => reads > 0, "the tools are asked");
    expect(await ask("/livez")).toEqual({ status: 200, body: "ok\n" });
    answer();
    for (const { body } of await Promise.all(asked))
      expect(body).toMatch(/^egressip_agent_guard_dropped_packets_total\{guard="unready"\} 7$/m);
    expect(reads).toBe(1);
  });

  it("is of an agent that gives nothing that it lives, and whether all is gone", async () => {
    const port = await freePort();
    let why: string | undefined = "sets: busy";
    const metrics = { host: "127.0.0.1", port };
    const opened = await openDisabledMetrics({ metrics, settings }, log, () => why);
    onTestFinished(() => opened.close());
    const at = (path: string) => fetch(`http://127.0.0.1:${port}${path}`);
    await until(
      () =>
        at("/livez").then(
          () => true,
          () => false,
        ),
      "it listens",
    );
    expect((await at("/livez")).status).toBe(200);
    expect(await (await at("/readyz")).text()).toBe("sets: busy\n");
    why = undefined;
    expect((await at("/readyz")).status).toBe(200);
    const body = await (await at("/metrics")).text();
    expect(body).toMatch(/^egressip_agent_enabled 0$/m);
    expect(body).not.toMatch(/^egressip_agent_rounds_total/m);
  });

  it("is nothing without an address, and backends are the very same", async () => {
    const opened = await openMetrics({ metrics: undefined, settings }, log, createPulse());
    const backends: readonly AnyBackend[] = [];
    expect(opened.timed(backends)).toBe(backends);
    opened.ended(round, true);
    opened.close();
  });
});

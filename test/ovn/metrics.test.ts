// Metrics and probes of the daemon while its northbound database goes, comes back, and has its rows taken away by somebody else.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { openWorld, settingsFor, type World } from "../bench/world.ts";
import { Agent } from "../support/agent.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { Scraper, Series } from "../support/scrape.ts";
import { until } from "../support/until.ts";

const SIZE = { pods: 20, egressIPs: 2, dual: false };
const program = fileURLToPath(new URL("../../agent/main.ts", import.meta.url));
const missing = noOvn() ?? canRunKernelTests();

describe.skipIf(missing !== undefined)(`metrics${missing === undefined ? "" : `: ${missing}`}`, () => {
  let world: World;
  let server: NorthboundServer;
  let agent: Agent | undefined;
  beforeAll(async () => {
    [world, server] = await Promise.all([openWorld(), NorthboundServer.open()]);
  });
  afterAll(async () => {
    if (agent?.ended === false) await agent.kill();
    await server?.close();
    await world?.close();
  });

  test("through an outage of the northbound database", async () => {
    const settings: Readonly<Record<string, string>> = {
      ...settingsFor(world, SIZE),
      EGRESSIP_OVN_NB: server.endpoint,
      EGRESSIP_METRICS_ADDRESS: "127.0.0.1:9409",
    };
    const debugSocket = settings["EGRESSIP_DEBUG_SOCKET"] as string;
    agent = new Agent(
      { namespace: world.node, debugSocket },
      [program, "run", "--resync-seconds", "3600"],
      settings,
    );
    const scraper = new Scraper(
      (command, args, options) => run("ip", ["netns", "exec", world.node, command, ...args], options),
      "127.0.0.1:9409",
    );
    const when = (isSo: (series: Series) => boolean, what: string) =>
      until(
        async () => {
          const { status, body } = await scraper.ask("/metrics");
          const series = new Series(body);
          return status === 200 && isSo(series) && series;
        },
        what,
        20_000,
      );
    const states = (series: Series) =>
      ["current", "waiting", "stale"].filter(
        (state) => series.get(`northbound_state{state="${state}"}`) === 1,
      );
    const rows = 'owned_objects{kind="northbound_row"}';
    const errors = 'backend_errors_total{backend="northbound",phase="establish"}';

    const followed = await when((now) => now.get("ready") === 1, "it is ready");
    expect([states(followed), followed.get("northbound_stale_seconds"), followed.get(errors)]).toEqual([
      ["current"],
      0,
      0,
    ]);
    expect(followed.get(rows)).toBeGreaterThanOrEqual(SIZE.pods);
    expect(await scraper.ask("/readyz")).toEqual({ status: 200, body: "ok\n" });

    await server.kill();
    const gone = await when(
      (now) => (now.get("northbound_stale_seconds") ?? 0) > 0,
      "it is told how long it is gone",
    );
    // What is there now nobody knows, and two egress IPs are given all the same.
    expect([states(gone), gone.get("ready"), gone.get(rows)]).toEqual([["stale"], 0, undefined]);
    expect(gone.get('egress_ips{state="serving"}')).toBe(2);
    const { status, body } = await scraper.ask("/readyz");
    expect([status, body]).toEqual([503, expect.stringContaining("northbound")]);
    expect(await scraper.ask("/livez")).toEqual({ status: 200, body: "ok\n" });
    // It goes on waiting, for longer each time that it is asked.
    const since = gone.get("northbound_stale_seconds") ?? 0;
    await when((now) => (now.get("northbound_stale_seconds") ?? 0) > since, "it gets longer");

    await server.start();
    const back = await when((now) => now.get("ready") === 1, "it is ready again");
    expect([states(back), back.get("northbound_stale_seconds"), back.get(rows)]).toEqual([
      ["current"],
      0,
      followed.get(rows),
    ]);

    const drift = 'drift_repaired_total{backend="northbound",kind="put_back"}';
    const before = await when((now) => now.get("ready") === 1, "it is at rest");
    await server.nbctl("lr-policy-del", "ovn_cluster_router", "100", "ip4.src == 10.244.2.3");
    await when((now) => (now.get(drift) ?? 0) === (before.get(drift) ?? 0) + 1, "the row is put back");
    const latency = 'event_to_verified_seconds_count{cause="northbound"}';
    await when((now) => (now.get(latency) ?? 0) > (before.get(latency) ?? 0), "and that was verified");
    expect(await agent.stop()).toBe(0);
    expect((await scraper.ask("/livez")).status).toBe(0);
  }, 90_000);
});

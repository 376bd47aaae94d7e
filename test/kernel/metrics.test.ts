// Metrics and probes of agents at work, scraped as Prometheus does: through an egress IP that moves, packets that must not get out,
// somebody else's changes, somebody else who has an egress IP, and inputs that cannot be read.
import { rename } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createSender } from "../../lib/frames/index.ts";
import { garp } from "../../lib/frames/pure.ts";
import { Lab } from "../lab/lab.ts";
import type { NodeName } from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { Manifests } from "../support/agent-manifests.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { noPromtool, promtool } from "../support/promtool.ts";
import { Scraper, type Series } from "../support/scrape.ts";
import { assignProd, egress, secondLink } from "../support/second-network.ts";
import { until } from "../support/until.ts";

const reason = canRunKernelTests();
const noTool = noPromtool();
const addresses = { node1: "0.0.0.0:9409", node2: "[::]:9409" } as const;

describe.skipIf(reason !== undefined)(
  `metrics${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let manifests: Manifests;
    let homes: Readonly<Record<NodeName, Home>>;
    let agents: Readonly<Record<NodeName, Agent>>;
    let scrapers: Readonly<Record<NodeName, Scraper>>;
    beforeAll(async () => {
      lab = await Lab.up({ prefix: `eim${process.pid}` });
      const asked = { node1: "172.18.0.11:9409", node2: "[fd00:172:18::12]:9409" };
      const of = (node: NodeName) => new Scraper((...command) => lab.nodeExec(node, ...command), asked[node]);
      scrapers = { node1: of("node1"), node2: of("node2") };
    });
    beforeEach(async () => {
      manifests = await Manifests.ofExamples();
      homes = { node1: await Home.of(lab, "node1"), node2: await Home.of(lab, "node2") };
      const start = (node: NodeName) =>
        homes[node].start(manifests.directory, { "metrics-address": addresses[node] });
      agents = { node1: await start("node1"), node2: await start("node2") };
    });
    afterEach(async () => {
      for (const home of Object.values(homes)) {
        await home.uninstall();
        await home.remove();
      }
      await manifests.remove();
    });
    afterAll(async () => {
      await lab?.down();
    });

    /** Waits for a scrape of which this is so. */
    const when = (node: NodeName, isSo: (series: Series) => boolean, what: string) =>
      until(
        async () => {
          const series = await scrapers[node].metrics();
          return isSo(series) && series;
        },
        what,
        20_000,
      );
    const more = (series: Series, than: Series, name: string) =>
      (series.get(name) ?? 0) - (than.get(name) ?? 0);
    const serving = (address: string) => `egress_ip_serving{egress_ip="${address}",object="prod"}`;
    const shell = (node: NodeName, script: string) => lab.nodeExec(node, "sh", ["-ec", script]);

    it("say what an agent has done at its start, in a form that Prometheus' own linter likes", async () => {
      const series = await when("node1", (now) => now.get("ready") === 1, "it is ready");
      expect(series.get('egress_ips{state="serving"}')).toBe(4);
      expect(series.get(serving(egress[4]))).toBe(1);
      expect(series.get('owned_objects{kind="address"}')).toBe(4);
      expect(series.get('rounds_total{result="changed"}')).toBeGreaterThan(0);
      expect(series.get('event_to_verified_seconds_count{cause="reload"}')).toBe(1);
      expect(series.get('backend_apply_seconds_count{backend="iptables"}')).toBeGreaterThan(0);
      expect(series.get("announcements_total")).toBe(4);
      expect(series.of("northbound_state")).toEqual([]);
      expect(series.of("kubernetes_state")).toEqual([]);
      // Of all that the tests' pods are there is one figure.
      expect(series.get("selected_addresses")).toBeGreaterThan(0);
      expect(series.text).not.toMatch(/10\.244\.|a1|shop/);
      expect(series.text.split("\n").length).toBeLessThan(900);
      const again = await scrapers.node1.metrics();
      expect(again.text.split("\n").length).toBe(series.text.split("\n").length);
      if (noTool !== undefined) return;
      expect(promtool(["check", "metrics"], series.text)).toEqual({ status: 0, said: "" });
    });

    it("follow an egress IP that moves: its series go with it", async () => {
      const [one, two] = [await scrapers.node1.metrics(), await scrapers.node2.metrics()];
      expect([one.get(serving(egress[4])), two.get(serving(egress[4]))]).toEqual([1, undefined]);
      await assignProd(manifests, "node2");
      const gained = await when("node2", (now) => now.get(serving(egress[4])) === 1, "node2 has it");
      const lost = await when("node1", (now) => now.get(serving(egress[4])) === undefined, "node1 has not");
      expect(more(gained, two, "announcements_total")).toBe(2);
      expect(more(lost, one, "announcements_total")).toBe(0);
      expect(lost.text).not.toContain(egress[4]);
      expect(lost.text).not.toContain(egress[6]);
      for (const [node, before] of [
        ["node1", one],
        ["node2", two],
      ] as const) {
        const name = 'event_to_verified_seconds_count{cause="objects"}';
        await when(node, (now) => more(now, before, name) > 0, `${node} has verified what it did`);
        const { status, body } = await scrapers[node].ask("/readyz");
        expect([status, body]).toEqual([200, "ok\n"]);
      }
      const drift = lost.of("drift_repaired_total").filter((name) => lost.get(name) !== 0);
      expect(drift).toEqual([]);
    });

    it("count packets that were held back: nobody gives their egress IP, or nothing translates them", async () => {
      const unready = 'guard_dropped_packets_total{guard="unready"}';
      const untranslated = 'guard_dropped_packets_total{guard="untranslated"}';
      const connections = `connections_total{egress_ip="${egress[4]}"}`;
      const before = await scrapers.node1.metrics();
      expect([before.get(unready), before.get(untranslated), before.get("counters_readable")]).toEqual([
        0, 0, 1,
      ]);
      expect(await lab.view(["a1"], ["internet"])).toContain(`a1 internet tcp 4: sec saw ${egress[4]}`);
      await when("node1", (now) => more(now, before, connections) > 0, "its connections are counted");
      // Nobody repairs it meanwhile, so the guard behind NAT is all there is.
      await agents.node1.paused(async () => {
        await shell(
          "node1",
          "for chain in $(iptables-nft -t nat -S | sed -n 's/^-N \\(EGRESSIP-SNAT.*\\)/\\1/p'); do iptables-nft -t nat -F $chain; done",
        );
        const leaks = await lab.watchLeaks();
        expect(await lab.probe("a1", "internet", "udp", 4)).toHaveProperty("failed");
        expect(await leaks.stop()).toEqual([]);
      });
      await when("node1", (now) => (now.get(untranslated) ?? 0) > 0, "the leak guard's drops are counted");
      await manifests.edit("egressips.yaml", "prod", (object) => {
        object["status"] = { items: [] };
      });
      await when("node1", (now) => now.of("egress_ip_serving").length === 2, "prod is nobody's");
      expect(await lab.probe("a1", "internet", "udp", 4)).toHaveProperty("failed");
      await when("node1", (now) => (now.get(unready) ?? 0) > 0, "what waits is counted");
    });

    it("count what somebody else takes away or adds, and is put right", async () => {
      const before = await scrapers.node1.metrics();
      const putBack = 'drift_repaired_total{backend="routing",kind="put_back"}';
      const takenAway = 'drift_repaired_total{backend="addresses",kind="taken_away"}';
      expect([before.get(putBack), before.get(takenAway)]).toEqual([0, 0]);
      await shell("node1", "ip rule del pref 6000");
      const after = await when("node1", (now) => (now.get(putBack) ?? 0) > 0, "the rule is put back");
      expect(after.get(putBack)).toBe(1);
      const host = 'event_to_verified_seconds_count{cause="host"}';
      await when("node1", (now) => more(now, before, host) > 0, "it was verified");
      await assignProd(manifests, "node2");
      await when("node2", (now) => now.get(serving(egress[4])) === 1, "node2 has it");
      await when("node1", (now) => now.get(serving(egress[4])) === undefined, "node1 has not");
      expect((await scrapers.node1.metrics()).get(takenAway)).toBe(0);
      await shell("node1", `ip address add ${egress[4]}/32 dev eth1`);
      await when("node1", (now) => (now.get(takenAway) ?? 0) > 0, "the address is taken away");
    });

    it("count who else says that he has an egress IP, by egress IP, until that leaves", async () => {
      const { mac, ifindex } = await secondLink(lab, "node2");
      const stranger = createSender((...command) => lab.nodeExec("node2", ...command));
      const claims = `duplicate_claims_total{egress_ip="${egress[4]}"}`;
      expect((await scrapers.node1.metrics()).of("duplicate_claims_total")).toEqual([]);
      const seen = async (isSo: (series: Series) => boolean, what: string) =>
        until(
          async () => {
            await stranger.send([{ ifindex, frame: garp(mac, egress[4]) }]);
            return isSo(await scrapers.node1.metrics());
          },
          what,
          20_000,
        );
      await seen((now) => (now.get(claims) ?? 0) > 0, "his claims are counted");
      await seen(
        (now) => now.get("rivals") === 1 && now.get('problems{kind="EgressIP",reason="conflict"}') === 1,
        "he is a rival, and a problem",
      );
      await assignProd(manifests, "node2");
      await when("node1", (now) => now.of("duplicate_claims_total").length === 0, "they went with it");
    });

    it("stay there while nothing can be read: not ready, and alive", async () => {
      await when(
        "node1",
        (now) => now.get("last_success_timestamp_seconds") !== undefined,
        "it was right once",
      );
      await rename(manifests.directory, `${manifests.directory}.away`);
      const series = await when(
        "node1",
        (now) => (now.get('rounds_total{result="unreadable"}') ?? 0) > 0,
        "it cannot read its objects",
      );
      expect(series.get("ready")).toBe(0);
      const { status, body } = await scrapers.node1.ask("/readyz");
      expect(status).toBe(503);
      expect(body).toContain(manifests.directory);
      expect(await scrapers.node1.ask("/livez")).toEqual({ status: 200, body: "ok\n" });
      await rename(`${manifests.directory}.away`, manifests.directory);
      await when("node1", (now) => now.get("ready") === 1, "it is ready again");
      expect(await scrapers.node1.ask("/readyz")).toEqual({ status: 200, body: "ok\n" });
    });

    it("of an agent that gives nothing say so, and it is alive and ready", async () => {
      await agents.node1.stop();
      const agent = await homes.node1.spawn(manifests.directory, {
        "metrics-address": addresses.node1,
        "enable-egress-ip": "false",
      });
      const series = await when("node1", (now) => now.get("ready") === 1, "everything was removed");
      expect(series.get("enabled")).toBe(0);
      expect(series.of("egress_ip_serving")).toEqual([]);
      expect(await scrapers.node1.ask("/livez")).toEqual({ status: 200, body: "ok\n" });
      expect(await scrapers.node1.ask("/readyz")).toEqual({ status: 200, body: "ok\n" });
      await agent.stop();
    });

    it("are served nowhere without an address", async () => {
      await agents.node1.stop();
      expect((await scrapers.node1.ask("/livez")).status).toBe(0);
      await homes.node1.start(manifests.directory);
      const { stdout } = await lab.nodeExec("node1", "ss", ["-Hltn"]);
      expect(stdout).not.toContain(":9409");
      expect((await scrapers.node1.ask("/livez")).status).toBe(0);
    });
  },
);

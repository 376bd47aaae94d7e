// Figures from Rounds, without a host: what counts as what, what is missing because it is not known, what goes with its object, and that
// no label has more values than the table says.
import { describe, expect, it } from "vitest";
import type { NorthboundTold } from "../../../../agent/assemble-northbound.ts";
import type { Round } from "../../../../agent/loop.ts";
import { createBuild } from "../../../../agent/model/build.ts";
import type { HostFacts, Rival } from "../../../../agent/model/facts.ts";
import type { KubernetesObject, Problem } from "../../../../agent/model/objects.ts";
import { createMode } from "../../../../agent/plan/modes.ts";
import { createBackends } from "../../../../agent/sync/backends.ts";
import { carryOut, type Failure } from "../../../../agent/sync/round.ts";
import { type LabelValues, METRICS, type Sample } from "../../../../agent/telemetry/metrics/definitions.ts";
import { figuresOf, type Moment } from "../../../../agent/telemetry/metrics/figures.ts";
import { createMetrics } from "../../../../agent/telemetry/metrics/metrics.ts";
import { createMetricRegistry } from "../../../../agent/telemetry/metrics/registry.ts";
import { createTally } from "../../../../agent/telemetry/metrics/tally.ts";
import { bareHost, egressIP, namespace, node1, objects, pod, settings } from "../../make.ts";
import { recordingTools } from "../../tools.ts";

const web = egressIP("web", { at: { "10.10.10.50": "node1", "10.10.10.51": "node1" } });
const shop = [node1, namespace("shop"), pod("shop/a", ["10.244.1.3"])];

interface Given {
  readonly all?: readonly KubernetesObject[];
  readonly problems?: readonly Problem[];
  readonly rivals?: readonly Rival[];
}

/** Rounds of one agent: its plan is the same object while nothing in it is another. */
function rounds() {
  const build = createBuild();
  const mode = createMode("local");
  const backends = createBackends(recordingTools());
  let host: HostFacts = bareHost;
  let number = 0;
  let known: { readonly all: readonly KubernetesObject[]; readonly of: Round["objects"] } | undefined;
  return {
    backends,
    change: (to: (facts: HostFacts) => HostFacts) => {
      host = to(host);
    },
    round: async ({ all = [web, ...shop], problems = [], rivals = [] }: Given = {}): Promise<Round> => {
      if (known?.all !== all) known = { all, of: objects(...all) };
      const of = problems.length === 0 ? known.of : { ...known.of, problems };
      host = rivals.length === 0 ? host : { ...host, rivals };
      const snapshot = build(settings, of, host);
      const plan = mode.plan(snapshot);
      const outcome = await carryOut(backends, plan, host, { write: true, held: () => false });
      host = outcome.facts;
      return { number: ++number, objects: of, snapshot, plan, outcome, took: { read: 1, plan: 2, write: 3 } };
    },
  };
}

const quiet: Moment = {
  now: Date.parse("2026-01-01T00:01:00Z"),
  ready: true,
  round: undefined,
  contention: [],
  northbound: undefined,
  kubernetes: undefined,
  counters: { dropped: { otherLink: 1, unready: 2, untranslated: 3, unclaimed: 4 }, connections: {} },
  duplicateClaims: {},
  tools: {},
};

const print = ({ name, labels, value }: Sample) => {
  const inside = Object.entries(labels).map(([label, said]) => `${label}=${said}`);
  return `${name.replace("egressip_agent_", "")}{${inside.join(",")}} ${value}`;
};
/** Series of this metric, those that are 0 left out. */
const shown = (samples: readonly Sample[], name: string) =>
  samples.filter((one) => one.name.endsWith(name) && one.value !== 0).map(print);

/** Labels and values that the table does not know. */
function strangers(samples: readonly Sample[]): readonly string[] {
  return samples
    .filter(({ name, labels }) => {
      const known: Readonly<Record<string, LabelValues>> = METRICS[name].labels;
      const isKnown = ([label, said]: readonly [string, string]) =>
        typeof known[label] === "string" || known[label]?.includes(said) === true;
      return (
        Object.keys(known).join() !== Object.keys(labels).join() || !Object.entries(labels).every(isKnown)
      );
    })
    .map(print);
}

describe("the table", () => {
  it("has every backend, in its order", () => {
    const names = createBackends(recordingTools()).map(({ name }) => name);
    expect(METRICS.egressip_agent_backend_apply_seconds.labels.backend).toEqual(names);
  });

  it.each(Object.entries(METRICS))(
    "%s: name and help as Prometheus wants them",
    (name, { type, help, labels }) => {
      expect(name).toMatch(/^(egressip_agent|process|nodejs)_[a-z_]+$/);
      expect(name.endsWith("_total")).toBe(type === "counter");
      expect(help).toMatch(/^[A-Z0-9].*\.$/);
      // No more series than a node's egress IPs, or what is counted here: none by pod, none by address of anything else.
      const open = Object.entries<LabelValues>(labels).filter(([, values]) => typeof values === "string");
      expect(["", "egress_ip", "egress_ip,object", "tool", "version,node_version"]).toContain(
        open.map(([label]) => label).join(),
      );
      const closed = Object.values<LabelValues>(labels).flatMap((values) =>
        typeof values === "string" ? [] : [values.length],
      );
      expect(closed.reduce((product, size) => product * size, 1)).toBeLessThanOrEqual(64);
    },
  );
});

describe("figures", () => {
  it("say what is served, what is owned and who is selected, by no pod", async () => {
    const agent = rounds();
    await agent.round();
    const samples = figuresOf({ ...quiet, round: await agent.round() });
    expect(shown(samples, "egress_ips")).toEqual(["egress_ips{state=serving} 2"]);
    expect(shown(samples, "egress_ip_serving")).toEqual([
      "egress_ip_serving{egress_ip=10.10.10.50,object=web} 1",
      "egress_ip_serving{egress_ip=10.10.10.51,object=web} 1",
    ]);
    expect(shown(samples, "selected_addresses")).toEqual(["selected_addresses{} 1"]);
    const owned = Object.fromEntries(
      samples
        .filter(({ name }) => name.endsWith("owned_objects"))
        .map(({ labels, value }) => [labels["kind"], value]),
    );
    expect(owned).toMatchObject({ address: 2, rule: 1, nft_table: 1 });
    for (const kind of ["route", "set_entry", "iptables_rule"]) expect(owned[kind]).toBeGreaterThan(0);
    expect(owned).not.toHaveProperty("northbound_row");
    expect(samples.filter((one) => JSON.stringify(one).match(/shop|10\.244\.1\.3/))).toEqual([]);
    expect(strangers(samples)).toEqual([]);
  });

  it("of an egress IP go with it, and with the last all that is owned but what holds pods back", async () => {
    const agent = rounds();
    await agent.round();
    const one = egressIP("web", { at: { "10.10.10.51": "node1" } });
    const samples = figuresOf({ ...quiet, round: await agent.round({ all: [one, ...shop] }) });
    expect(shown(samples, "egress_ip_serving")).toEqual([
      "egress_ip_serving{egress_ip=10.10.10.51,object=web} 1",
    ]);
    const none = figuresOf({ ...quiet, round: await agent.round({ all: shop }) });
    expect(none.filter(({ name }) => name.endsWith("egress_ip_serving"))).toEqual([]);
    expect(shown(none, "owned_objects")).toEqual([]);
  });

  it("name an egress IP that cannot be given with 0", async () => {
    const of = egressIP("far", { at: { "203.0.113.9": "node1" } });
    const samples = figuresOf({ ...quiet, round: await rounds().round({ all: [of, ...shop] }) });
    expect(samples.filter(({ name }) => name.endsWith("egress_ip_serving")).map(print)).toEqual([
      "egress_ip_serving{egress_ip=203.0.113.9,object=far} 0",
    ]);
    expect(shown(samples, "egress_ips")).toEqual(["egress_ips{state=unready} 1"]);
    expect(shown(samples, "problems")).toEqual(["problems{kind=EgressIP,reason=unservable} 1"]);
  });

  it("tell why there is a problem, in words that are known", async () => {
    const clash = egressIP("younger", { at: { "10.10.10.50": "node1" }, created: "2026-02-01T00:00:00Z" });
    const twice = pod("shop/b", ["10.244.1.3"]);
    const said = (object: string, path = "", text = "x") => ({ object, path, text });
    const round = await rounds().round({
      all: [web, clash, ...shop, twice],
      rivals: [{ address: "10.10.10.51", link: "eth1", mac: "02:00:00:00:00:99" }],
      problems: [
        said("file:a.yaml"),
        said("kubernetes"),
        said("host", "northbound"),
        said("host"),
        said("EgressIP/bad", "spec.egressIPs[1]", "x is no address"),
        said("Node/node1", "metadata.annotations"),
        said("Whatever/from/nowhere"),
      ],
    });
    const samples = figuresOf({ ...quiet, round });
    expect(new Set(shown(samples, "problems"))).toEqual(
      new Set([
        "problems{kind=EgressIP,reason=conflict} 2",
        "problems{kind=EgressIP,reason=invalid} 1",
        "problems{kind=Node,reason=invalid} 1",
        "problems{kind=Pod,reason=conflict} 1",
        "problems{kind=file,reason=unreadable} 1",
        "problems{kind=host,reason=host} 1",
        "problems{kind=host,reason=northbound} 1",
        "problems{kind=kubernetes,reason=unconfirmed} 1",
        "problems{kind=other,reason=invalid} 1",
      ]),
    );
    expect(shown(samples, "rivals")).toEqual(["rivals{} 1"]);
    expect(strangers(samples)).toEqual([]);
    const leaving = { ...round, snapshot: { ...round.snapshot, settings: { ...settings, draining: true } } };
    const own = { ...leaving, snapshot: { ...leaving.snapshot, problems: [said("Node/node1")] } };
    expect(shown(figuresOf({ ...quiet, round: own }), "problems")).toEqual([
      "problems{kind=Node,reason=leaving} 1",
    ]);
  });

  it("say of inputs how they are, and for how long they have been so", () => {
    const database: NorthboundTold = {
      ...{ endpoint: "unix:/nb.sock", since: "2026-01-01T00:00:00Z", rows: 7, leads: true },
      ...{ state: "current", failure: undefined },
    };
    const current = figuresOf({ ...quiet, northbound: database });
    expect(shown(current, "northbound_state")).toEqual(["northbound_state{state=current} 1"]);
    expect(current.filter(({ name }) => name.endsWith("stale_seconds")).map(print)).toEqual([
      "northbound_stale_seconds{} 0",
    ]);
    expect(shown(current, "owned_objects")).toEqual(["owned_objects{kind=northbound_row} 7"]);
    const stale = figuresOf({ ...quiet, northbound: { ...database, state: "stale" } });
    expect(shown(stale, "northbound_state")).toEqual(["northbound_state{state=stale} 1"]);
    expect(shown(stale, "stale_seconds")).toEqual(["northbound_stale_seconds{} 60"]);
    expect(stale.filter(({ name }) => name.endsWith("owned_objects"))).toEqual([]);
    const kind = { why: null, scope: null, resourceVersion: null, failure: null, counts: null } as const;
    const samples = figuresOf({
      ...quiet,
      kubernetes: {
        ...{ source: "kubernetes", server: "https://10.0.0.1:6443", ready: false, lastGood: null },
        unconfirmed: { since: "2026-01-01T00:00:30Z", why: "silent", assignments: false },
        kinds: [
          { ...kind, kind: "Pod", state: "doubtful", silentSeconds: 240 },
          { ...kind, kind: "Node", state: "unsynced", silentSeconds: null },
        ],
      },
    });
    expect(shown(samples, "kubernetes_state")).toEqual([
      "kubernetes_state{kind=Pod,state=doubtful} 1",
      "kubernetes_state{kind=Node,state=unsynced} 1",
    ]);
    expect(shown(samples, "seconds")).toEqual([
      "kubernetes_silent_seconds{kind=Pod} 240",
      "kubernetes_unconfirmed_seconds{} 30",
    ]);
    expect(strangers(samples)).toEqual([]);
  });

  it("have what the kernel counted, and nothing in its place where that cannot be read", () => {
    const counters = { ...quiet.counters, connections: { "10.10.10.50": 9 } } as Moment["counters"];
    const samples = figuresOf({ ...quiet, counters, duplicateClaims: { "10.10.10.50": 2 } });
    expect(shown(samples, "_total")).toEqual([
      "guard_dropped_packets_total{guard=other_link} 1",
      "guard_dropped_packets_total{guard=unready} 2",
      "guard_dropped_packets_total{guard=untranslated} 3",
      "guard_dropped_packets_total{guard=unclaimed} 4",
      "connections_total{egress_ip=10.10.10.50} 9",
      "duplicate_claims_total{egress_ip=10.10.10.50} 2",
    ]);
    const unread = figuresOf({ ...quiet, counters: undefined });
    expect(unread.filter(({ name }) => name.endsWith("_total"))).toEqual([]);
    expect(unread.filter(({ name }) => name.endsWith("readable")).map(print)).toEqual([
      "counters_readable{} 0",
    ]);
  });

  it("count fights by backend", () => {
    const fight = { line: "x", times: 8 };
    const contention = [
      { ...fight, backend: "addresses" },
      { ...fight, backend: "addresses", line: "y" },
      { ...fight, backend: "iptables" },
    ];
    const samples = figuresOf({ ...quiet, contention });
    expect(shown(samples, "contention")).toEqual([
      "contention{backend=iptables} 1",
      "contention{backend=addresses} 2",
    ]);
  });
});

describe("the tally", () => {
  it("begins at 0 with every series that there can be", () => {
    const samples = createTally().samples();
    expect(samples.every(({ value }) => value === 0)).toBe(true);
    expect(samples.filter(({ name }) => name.endsWith("errors_total"))).toHaveLength(36);
    expect(strangers(samples)).toEqual([]);
  });

  it("counts rounds, lines by backend and phase, announcements", async () => {
    const agent = rounds();
    const tally = createTally();
    const first = await agent.round();
    tally.took(first);
    tally.took(await agent.round());
    tally.unreadable();
    tally.announcementFailed();
    const samples = tally.samples();
    expect(shown(samples, "rounds_total")).toEqual([
      "rounds_total{result=unchanged} 1",
      "rounds_total{result=changed} 1",
      "rounds_total{result=unreadable} 1",
    ]);
    expect(shown(samples, "operations_total")).toEqual(
      expect.arrayContaining(["backend_operations_total{backend=addresses,phase=establish} 2"]),
    );
    expect(shown(samples, "announcements_total")).toEqual(["announcements_total{} 2"]);
    expect(shown(samples, "announcement_failures_total")).toEqual(["announcement_failures_total{} 1"]);
    expect(shown(samples, "drift_repaired_total")).toEqual([]);
    expect(strangers(samples)).toEqual([]);
  });

  it("counts a failure as an error, and not the lines that it did not write", async () => {
    const round = await rounds().round();
    const failures: readonly Failure[] = [
      { backend: "addresses", phase: "establish", error: new Error("no") },
    ];
    const tally = createTally();
    tally.took({ ...round, outcome: { ...round.outcome, failures } });
    const samples = tally.samples();
    expect(shown(samples, "rounds_total")).toEqual(["rounds_total{result=failed} 1"]);
    expect(shown(samples, "errors_total")).toEqual([
      "backend_errors_total{backend=addresses,phase=establish} 1",
    ]);
    expect(shown(samples, "operations_total").join()).not.toContain("backend=addresses");
  });

  it("counts as drift what is put back or taken away although the plan is the same, and nothing else", async () => {
    const agent = rounds();
    const tally = createTally();
    const all = [web, ...shop];
    const drift = () => shown(tally.samples(), "drift_repaired_total");
    tally.took(await agent.round({ all }));
    tally.took(await agent.round({ all }));
    expect(drift()).toEqual([]);
    agent.change((host) => ({ ...host, nft: "" }));
    tally.took(await agent.round({ all }));
    expect(drift()).toEqual(["drift_repaired_total{backend=leak-guard,kind=put_back} 20"]);
    agent.change((host) => ({
      ...host,
      network: { ...host.network, rules: host.network.rules.filter(({ protocol }) => protocol !== "233") },
    }));
    tally.took(await agent.round({ all }));
    expect(drift()).toContain("drift_repaired_total{backend=routing,kind=put_back} 1");
    // One more pod is no drift, nor is an egress IP that goes.
    const before = drift();
    const more = [...all, pod("shop/c", ["10.244.1.4"])];
    tally.took(await agent.round({ all: more }));
    tally.took(await agent.round({ all: shop }));
    expect(drift()).toEqual(before);
  });

  it("does not take an announcement, or what a doubt or a drain has kept back, for drift", async () => {
    const all = [web, ...shop];
    const undoing = async (second: (round: Round) => Round) => {
      const agent = rounds();
      const tally = createTally();
      tally.took(await agent.round({ all }));
      agent.change((host) => ({ ...host, nft: "", announced: new Set() }));
      tally.took(second(await agent.round({ all })));
      return shown(tally.samples(), "drift_repaired_total");
    };
    const unconfirmed = { since: "2026-01-01T00:00:00Z", why: "silent", assignments: false };
    expect(await undoing((round) => round)).toEqual([
      "drift_repaired_total{backend=leak-guard,kind=put_back} 20",
    ]);
    const doubted = (round: Round): Round => ({ ...round, objects: { ...round.objects, unconfirmed } });
    expect(await undoing(doubted)).toEqual([]);
    const drained = (round: Round): Round => ({
      ...round,
      snapshot: { ...round.snapshot, settings: { ...settings, draining: true } },
    });
    expect(await undoing(drained)).toEqual([]);
  });

  it("does not take what a failure left undone for drift", async () => {
    const agent = rounds();
    const tally = createTally();
    const all = [web, ...shop];
    const round = await agent.round({ all });
    const failures: readonly Failure[] = [{ backend: "sets", phase: "establish", error: new Error("no") }];
    tally.took({ ...round, outcome: { ...round.outcome, failures } });
    agent.change((host) => ({ ...host, nft: "" }));
    tally.took(await agent.round({ all }));
    expect(shown(tally.samples(), "drift_repaired_total")).toEqual([]);
  });
});

describe("the text of a scrape", () => {
  it("has only series that are there now", async () => {
    const registry = createMetricRegistry();
    const serving = (address: string): Sample => ({
      name: "egressip_agent_egress_ip_serving",
      labels: { egress_ip: address, object: "web" },
      value: 1,
    });
    const first = await registry.text([serving("10.10.10.50"), serving("10.10.10.51")]);
    expect(first).toContain('egress_ip_serving{egress_ip="10.10.10.50",object="web"} 1\n');
    const second = await registry.text([serving("10.10.10.51")]);
    expect(second).not.toContain("10.10.10.50");
    expect(second).toContain('egress_ip_serving{egress_ip="10.10.10.51",object="web"} 1\n');
    // What nobody has said is not 0.
    expect(second.split("\n").filter((line) => line.startsWith("egressip_agent_ready"))).toEqual([]);
    expect(second).toContain("# TYPE egressip_agent_ready gauge\n");
  });

  it("times each write of a backend, also one that fails", async () => {
    const metrics = createMetrics(
      { ended: () => ({ cause: "objects", seconds: 0.3 }) },
      { version: "1", node_version: "24", gateway_mode: "local" },
    );
    const { backends, round } = rounds();
    const [record, ...others] = metrics.timed(backends);
    expect(others.map(({ name }) => name)).toEqual(backends.slice(1).map(({ name }) => name));
    const failing = metrics.timed([
      {
        ...(backends[0] as (typeof backends)[number]),
        name: "sets",
        apply: () => Promise.reject(new Error("no")),
      },
    ])[0];
    await expect(failing?.apply([], [])).rejects.toThrow("no");
    expect(record?.reads).toBe(backends[0]?.reads);
    metrics.took(await round(), true);
    const text = await metrics.text(undefined);
    expect(text).toContain('egressip_agent_backend_apply_seconds_count{backend="sets"} 1\n');
    expect(text).not.toContain('_count{backend="iptables"}');
    expect(text).toContain('egressip_agent_event_to_verified_seconds_bucket{le="0.5",cause="objects"} 1\n');
    expect(text).toContain('egressip_agent_event_to_verified_seconds_bucket{le="0.25",cause="objects"} 0\n');
    expect(text).toContain('egressip_agent_round_seconds_sum{stage="write"} 0.003\n');
    expect(text).toContain(
      'egressip_agent_build_info{version="1",node_version="24",gateway_mode="local"} 1\n',
    );
  });
});

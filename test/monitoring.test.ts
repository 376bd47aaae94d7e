// packaging/monitoring says only what there is: alerts and dashboard name metrics, labels and values of the table, each alert has a page and
// fires when it should, and the reference is the table as text. UPDATE_GOLDEN=1 writes the reference anew.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type Definition, METRICS } from "../agent/telemetry/metrics/definitions.ts";
import { ALERT_CASES, type AlertCase } from "./support/alert-cases.ts";
import { metricsIn, unknownIn } from "./support/promql.ts";
import { noPromtool, promtool } from "./support/promtool.ts";

const packaging = path.join(import.meta.dirname, "../packaging");
const file = (name: string) => path.join(packaging, name);
const read = (name: string) => readFileSync(file(name), "utf8");
const update = process.env["UPDATE_GOLDEN"] === "1" && process.env["CI"] === undefined;

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: Readonly<Record<string, string>>;
}

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly type: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string }[];
}

const alerts = (
  parse(read("monitoring/alerts.yaml")) as { groups: readonly { rules: readonly Alert[] }[] }
).groups.flatMap(({ rules }) => rules);
const dashboard = JSON.parse(read("monitoring/dashboard.json")) as {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] };
};
const shown = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ title, expr })),
);

function reference(): string {
  const rows = Object.entries<Definition>(METRICS).map(([name, { type, help, labels, buckets }]) => {
    const said = Object.entries(labels).map(
      ([label, values]) =>
        `\`${label}\`: ${typeof values === "string" ? values : values.map((value) => `\`${value}\``).join(" ")}`,
    );
    const bounds = buckets === undefined ? [] : [`bounds ${buckets.join(" ")} s`];
    return `| \`${name}\` | ${type} | ${help} | ${[...said, ...bounds].join("; ")} |`;
  });
  return [
    "# Metrics",
    "",
    "Served at `/metrics` of `--metrics-address`, in the text format of Prometheus. Made from `agent/telemetry/metrics/definitions.ts` by",
    "`UPDATE_GOLDEN=1 vitest run test/monitoring.test.ts`; do not edit.",
    "",
    "Nothing has a label for each pod. What is of an egress IP goes when that leaves the node. What is not known is missing, never 0.",
    "Counters of the kernel's rules begin anew when the agent writes these rules anew, which `rate` and `increase` take into account.",
    "",
    "| metric | type | what it says | labels and what they can be |",
    "| --- | --- | --- | --- |",
    ...rows,
    "",
  ].join("\n");
}

describe("the reference of metrics", () => {
  test("is the table", () => {
    if (update) writeFileSync(file("docs/metrics.md"), reference());
    expect(read("docs/metrics.md")).toBe(reference());
  });
});

describe("what an expression names", () => {
  test.each([
    ['rate(egressip_agent_rounds_total{instance=~"$instance"}[5m])', []],
    ["egressip_agent_rounds", ["egressip_agent_rounds"]],
    ["egressip_agent_round_seconds", ["egressip_agent_round_seconds"]],
    ["sum by (le, stage) (egressip_agent_round_seconds_bucket)", []],
    ["sum by (le) (egressip_agent_ready)", ["by (le)"]],
    ["egressip_agent_ready_count", ["egressip_agent_ready_count"]],
    ['egressip_agent_rounds_total{result=~"failed|bad"}', ['egressip_agent_rounds_total{result="bad"}']],
    ['egressip_agent_rounds_total{pod="a"}', ["egressip_agent_rounds_total{pod}"]],
  ])("%s", (expr, unknown) => {
    expect(unknownIn(expr)).toEqual(unknown);
  });
});

describe("alerts", () => {
  test.each(alerts.map((alert) => [alert.alert, alert] as const))(
    "%s",
    (name, { expr, labels, annotations }) => {
      expect(unknownIn(expr)).toEqual([]);
      expect(metricsIn(expr)).not.toEqual([]);
      expect(["critical", "warning", "info"]).toContain(labels.severity);
      expect(annotations["summary"]).toBeTruthy();
      expect(annotations["description"]).toBeTruthy();
      expect(annotations["runbook_url"]).toBe(`packaging/docs/runbooks.md#${name.toLowerCase()}`);
    },
  );

  test("have a runbook each, in the same order, that says what it means, what to ask and what to do", () => {
    const [, ...parts] = read("docs/runbooks.md").split(/^## /m);
    expect(parts.map((part) => part.split("\n")[0])).toEqual(alerts.map(({ alert }) => alert));
    for (const part of parts)
      for (const word of ["Means", "Ask", "Do"]) expect(part).toContain(`\n**${word}**: `);
  });

  test("that a runbook sends one to are there", () => {
    const named = [...read("docs/runbooks.md").matchAll(/\bEgressIP[A-Z]\w+/g)].map(([name]) => name);
    expect(named.filter((name) => !alerts.some(({ alert }) => alert === name))).toEqual([]);
  });

  test("have a case each", () => {
    expect(Object.keys(ALERT_CASES)).toEqual(alerts.map(({ alert }) => alert));
  });
});

describe("the dashboard", () => {
  test.each(shown.map(({ title, expr }) => [title, expr]))("%s: %s", (_, expr) => {
    expect(unknownIn(expr)).toEqual([]);
    expect(metricsIn(expr)).not.toEqual([]);
  });

  test("shows every metric", () => {
    const named = new Set(shown.flatMap(({ expr }) => metricsIn(expr)));
    expect(Object.keys(METRICS).filter((name) => !named.has(name))).toEqual([]);
  });

  test("has panels of their own, side by side, and names only variables that it has", () => {
    const { panels, templating } = dashboard;
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    const overlaps = panels.flatMap((one, at) =>
      panels
        .slice(at + 1)
        .filter(
          ({ gridPos: b }) =>
            one.gridPos.x < b.x + b.w &&
            b.x < one.gridPos.x + one.gridPos.w &&
            one.gridPos.y < b.y + b.h &&
            b.y < one.gridPos.y + one.gridPos.h,
        )
        .map(({ title }) => `${one.title} / ${title}`),
    );
    expect(overlaps).toEqual([]);
    const variables = new Set(["__rate_interval", "__all", ...templating.list.map(({ name }) => name)]);
    const used = [...JSON.stringify(dashboard).matchAll(/\$\{?(\w+)/g)].map(([, name = ""]) => name);
    expect(used.filter((name) => !variables.has(name))).toEqual([]);
    expect(unknownIn(templating.list.find(({ name }) => name === "instance")?.definition ?? "x")).toEqual([]);
  });
});

const noTool = noPromtool();

describe.skipIf(noTool !== undefined)(
  `promtool${noTool === undefined ? "" : ` (not here: ${noTool})`}`,
  () => {
    let folder = "";
    beforeAll(() => {
      folder = mkdtempSync(path.join(tmpdir(), "egressip-rules-"));
    });
    afterAll(() => {
      rmSync(folder, { recursive: true });
    });

    const written = (name: string, content: unknown) => {
      const at = path.join(folder, name);
      writeFileSync(at, JSON.stringify(content));
      return at;
    };
    /** Whether it fires, and that no other one does. */
    const tested = (
      name: string,
      { at }: AlertCase,
      series: Readonly<Record<string, string>>,
      fires: boolean,
    ) => {
      const found = alerts.map(({ alert }) => ({
        eval_time: `${at}m`,
        alertname: alert,
        ...(alert === name && fires ? { exp_alerts: [expected(name, series)] } : {}),
      }));
      const input_series = Object.entries(series).map(([one, values]) => ({ series: one, values }));
      return promtool([
        "test",
        "rules",
        written(`${name}-${fires}.json`, {
          rule_files: [written("rules.json", withoutAnnotations())],
          evaluation_interval: "1m",
          tests: [{ interval: "1m", input_series, alert_rule_test: found }],
        }),
      ]);
    };
    /** Their texts have figures in them, which are not what is tested here. */
    const withoutAnnotations = () => ({
      groups: [{ name: "g", rules: alerts.map(({ annotations: _, ...rule }) => rule) }],
    });
    const expected = (name: string, series: Readonly<Record<string, string>>) => {
      const alert = alerts.find((one) => one.alert === name);
      const labels = Object.fromEntries(
        [...(Object.keys(series)[0] ?? "").matchAll(/(\w+)="([^"]*)"/g)].map(([, label = "", value]) => [
          label,
          value,
        ]),
      );
      const [, by] = /\bby \(([^)]*)\)/.exec(alert?.expr ?? "") ?? [];
      const kept = by?.split(", ").filter((label) => label !== "le");
      const left = Object.entries(labels).filter(([label]) => kept?.includes(label) ?? true);
      return { exp_labels: { ...Object.fromEntries(left), ...alert?.labels } };
    };

    test("finds nothing wrong with the alerts", () => {
      const { status, said } = promtool(["check", "rules", file("monitoring/alerts.yaml")]);
      expect([status, said]).toEqual([0, expect.stringContaining(`SUCCESS: ${alerts.length} rules found`)]);
    });

    test("can read what the dashboard asks", () => {
      const rules = shown.map(({ expr }, at) => ({
        record: `panel:${at}`,
        expr: expr.replaceAll("$__rate_interval", "5m").replaceAll("$instance", ".*"),
      }));
      const { status, said } = promtool([
        "check",
        "rules",
        written("panels.json", { groups: [{ name: "g", rules }] }),
      ]);
      expect([status, said]).toEqual([0, expect.stringContaining(`SUCCESS: ${shown.length} rules found`)]);
    });

    test.each(Object.entries(ALERT_CASES))("%s fires when it should, and nothing else does", (name, of) => {
      expect(tested(name, of, of.fires, true)).toMatchObject({ status: 0 });
    });

    test.each(Object.entries(ALERT_CASES))("%s does not fire for what is nearly that", (name, of) => {
      expect(tested(name, of, of.nearly, false)).toMatchObject({ status: 0 });
    });
  },
);

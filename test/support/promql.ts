// What a PromQL expression names, held against the table of metrics. In: an expression. Out: what of it there is not. It reads selectors
// and groupings as this project writes them; whether the expression is right PromQL says promtool.
import { type Definition, METRICS } from "../../agent/telemetry/metrics/definitions.ts";

/** Prometheus' own. */
const OF_PROMETHEUS: Readonly<Record<string, Definition>> = {
  up: { type: "gauge", help: "", labels: {} },
};
const OF_TARGET = ["instance", "job"];

const METRIC = /\b(up|(?:egressip_agent|process|nodejs)_\w+)(\{[^}]*\})?/g;

function definitionOf(name: string): Definition | undefined {
  const known: Readonly<Record<string, Definition>> = { ...METRICS, ...OF_PROMETHEUS };
  const own = known[name];
  if (own !== undefined) return own.type === "histogram" ? undefined : own;
  const [, base = "", suffix] = /^(.*)_(bucket|sum|count)$/.exec(name) ?? [];
  const of = known[base];
  if (of?.type !== "histogram") return undefined;
  return suffix === "bucket" ? { ...of, labels: { ...of.labels, le: "a bound" } } : of;
}

/** Names of the metrics in it, as the table has them. */
export function metricsIn(expr: string): readonly string[] {
  return [...expr.matchAll(METRIC)].map(([, name = ""]) => name.replace(/_(bucket|sum|count)$/, ""));
}

export function unknownIn(expr: string): readonly string[] {
  const unknown: string[] = [];
  const labels = new Set(OF_TARGET);
  for (const [, name = "", matchers = ""] of expr.matchAll(METRIC)) {
    const definition = definitionOf(name);
    if (definition === undefined) {
      unknown.push(name);
      continue;
    }
    for (const label of Object.keys(definition.labels)) labels.add(label);
    for (const [, label = "", , value = ""] of matchers.matchAll(/(\w+)(=~|!~|!=|=)"([^"]*)"/g)) {
      const values = definition.labels[label];
      if (values === undefined && !OF_TARGET.includes(label)) unknown.push(`${name}{${label}}`);
      if (typeof values !== "object") continue;
      for (const one of value.split("|"))
        if (!values.includes(one)) unknown.push(`${name}{${label}="${one}"}`);
    }
  }
  for (const [, grouped = ""] of expr.matchAll(/\b(?:by|without|on|ignoring) \(([^)]*)\)/g))
    for (const label of grouped.split(", ")) if (!labels.has(label)) unknown.push(`by (${label})`);
  return unknown;
}

// Routes of the link tables, then the rules that lead to them. In: plan, facts. Out: lines of `ip -batch`.
// Only what carries our protocol number is ever touched.
import { type Route, type Rule, routeSlot, routeWords, ruleWords } from "../../lib/netlink/pure.ts";
import type { HostFacts } from "../model/facts.ts";
import { byCodeUnit } from "../model/names.ts";
import { ROUTE_PROTOCOL } from "../model/owner.ts";
import type { Backend, Diff } from "./backend.ts";
import type { Tools } from "./tools.ts";

export type RoutingChange =
  | { readonly op: "replace" | "del"; readonly route: Route }
  | { readonly op: "add" | "del"; readonly rule: Rule };

export function routing(tools: Pick<Tools, "netlink">): Backend<RoutingChange> {
  return {
    name: "routing",
    reads: { plan: ["routes", "rules"], facts: ["network"] },
    beside: true,
    verifies: "network",
    diff: (plan, facts) => {
      const routes = diffRoutes(plan.routes, facts.network.routes.filter(ours));
      const rules = diffRules(plan.rules, facts.network.rules.filter(ours));
      return {
        establish: [...routes.establish, ...rules.establish],
        retire: [...rules.retire, ...routes.retire],
      };
    },
    print: (changes) => changes.map((change) => `ip ${line(change)}`),
    predict,
    apply: (changes) => tools.netlink.batch(changes.map(line)),
  };
}

function ours({ protocol }: { readonly protocol: string }): boolean {
  return protocol === ROUTE_PROTOCOL;
}

function line(change: RoutingChange): string {
  if ("route" in change) return `route ${change.op} ${routeWords(change.route)}`;
  return `${change.rule.family === 6 ? "-6 " : ""}rule ${change.op} ${ruleWords(change.rule)}`;
}

function diffRoutes(wanted: readonly Route[], observed: readonly Route[]): Diff<RoutingChange> {
  const there = new Set(observed.map(keyed));
  const wantedKeys = new Set(wanted.map(keyed));
  // What stands in the slot of a wanted route is replaced by establishing that one.
  const slots = new Set(wanted.map(routeSlot));
  return {
    establish: wanted.filter((route) => !there.has(keyed(route))).map((route) => ({ op: "replace", route })),
    retire: observed
      .filter((route) => !wantedKeys.has(keyed(route)) && !slots.has(routeSlot(route)))
      .sort((a, b) => byCodeUnit(keyed(a), keyed(b)))
      .map((route) => ({ op: "del", route })),
  };
}

function keyed(route: Route): string {
  return `${route.family} ${routeWords(route)}`;
}

function diffRules(wanted: readonly Rule[], observed: readonly Rule[]): Diff<RoutingChange> {
  const selector = (rule: Rule) => `${rule.family} ${rule.priority} ${rule.selector}`;
  const there = new Set(observed.map(ruleKey));
  const wantedKeys = new Set(wanted.map(ruleKey));
  const missing = wanted.filter((rule) => !there.has(ruleKey(rule)));
  const replaced = new Set(missing.map(selector));
  const stale = observed.filter((rule) => !wantedKeys.has(ruleKey(rule)));
  // Two rules with one selector: the kernel takes the older, so that one goes in the same batch (a link came back with
  // another index, and its table is another one now).
  const inTheWay = new Set(stale.filter((rule) => replaced.has(selector(rule))));
  return {
    establish: [
      ...missing.map((rule) => ({ op: "add", rule }) as const),
      ...[...inTheWay].map((rule) => ({ op: "del", rule }) as const),
    ],
    retire: stale
      .filter((rule) => !inTheWay.has(rule))
      .sort((a, b) => byCodeUnit(ruleKey(a), ruleKey(b)))
      .map((rule) => ({ op: "del", rule })),
  };
}

/** Linear in what is there and what changes: a link may have the routes of a whole internet. */
function predict(facts: HostFacts, changes: readonly RoutingChange[]): HostFacts {
  if (changes.length === 0) return facts;
  const routes = new Map<string, Route | undefined>();
  const rules = new Map<string, Rule | undefined>();
  for (const change of changes) {
    if ("route" in change)
      routes.set(routeSlot(change.route), change.op === "del" ? undefined : change.route);
    else rules.set(ruleKey(change.rule), change.op === "del" ? undefined : change.rule);
  }
  const tables = new Set([...routes.keys()].map((slot) => slot.split(" ")[1]));
  /** Replacing takes the place of what another program put into that slot, too. */
  const isGone = (route: Route) =>
    tables.has(route.table) &&
    routes.has(routeSlot(route)) &&
    (ours(route) || routes.get(routeSlot(route)) !== undefined);
  const { network } = facts;
  const after = {
    routes: [...network.routes.filter((route) => !isGone(route)), ...present(routes)],
    rules: [...network.rules.filter((rule) => !rules.has(ruleKey(rule))), ...present(rules)],
  };
  return { ...facts, network: { ...network, ...after } };
}

function present<T>(entries: ReadonlyMap<string, T | undefined>): readonly T[] {
  return [...entries.values()].filter((entry) => entry !== undefined);
}

function ruleKey(rule: Rule): string {
  return `${rule.family} ${ruleWords(rule)}`;
}

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
  const key = (rule: Rule) => `${rule.family} ${ruleWords(rule)}`;
  const selector = (rule: Rule) => `${rule.family} ${rule.priority} ${rule.selector}`;
  const there = new Set(observed.map(key));
  const wantedKeys = new Set(wanted.map(key));
  const missing = wanted.filter((rule) => !there.has(key(rule)));
  const replaced = new Set(missing.map(selector));
  const stale = observed.filter((rule) => !wantedKeys.has(key(rule)));
  // Two rules with one selector: the kernel takes the older, so that one goes in the same batch (a link came back with
  // another index, and its table is another one now).
  const inTheWay = stale.filter((rule) => replaced.has(selector(rule)));
  return {
    establish: [
      ...missing.map((rule) => ({ op: "add", rule }) as const),
      ...inTheWay.map((rule) => ({ op: "del", rule }) as const),
    ],
    retire: stale
      .filter((rule) => !inTheWay.includes(rule))
      .sort((a, b) => byCodeUnit(key(a), key(b)))
      .map((rule) => ({ op: "del", rule })),
  };
}

function predict(facts: HostFacts, changes: readonly RoutingChange[]): HostFacts {
  let { routes, rules } = facts.network;
  for (const change of changes) {
    if ("route" in change) {
      const slot = routeSlot(change.route);
      const others = routes.filter((route) => routeSlot(route) !== slot || !ours(route));
      routes = change.op === "del" ? others : [...others, change.route];
    } else {
      const words = ruleWords(change.rule);
      const others = rules.filter((rule) => rule.family !== change.rule.family || ruleWords(rule) !== words);
      rules = change.op === "del" ? others : [...others, change.rule];
    }
  }
  return changes.length === 0 ? facts : { ...facts, network: { ...facts.network, routes, rules } };
}

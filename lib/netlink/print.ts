// Values to the words `ip` takes. Pure. Destinations are always written with their prefix, so one batch serves both families.
import type { Route, Rule } from "./types.ts";

/** `0.0.0.0/0 via 10.10.10.1 dev eth1 table 1005 metric 100 proto 233`; also the identity of a route's content. */
export function routeWords(route: Route): string {
  const words: string[] = [];
  if (route.type !== "unicast") words.push(route.type);
  words.push(route.destination);
  const [only, ...more] = route.hops;
  if (only !== undefined && more.length === 0) words.push(...hopWords(only));
  words.push("table", route.table);
  if (route.metric !== 0) words.push("metric", String(route.metric));
  words.push("proto", route.protocol);
  if (route.mtu !== 0) words.push("mtu", String(route.mtu));
  if (more.length > 0) {
    for (const hop of route.hops) words.push("nexthop", ...hopWords(hop), "weight", String(hop.weight));
  }
  return words.join(" ");
}

function hopWords(hop: Route["hops"][number]): readonly string[] {
  return [
    ...(hop.gateway === "" ? [] : ["via", hop.gateway]),
    ...(hop.link === "" ? [] : ["dev", hop.link]),
    ...(hop.onlink ? ["onlink"] : []),
  ];
}

/** What the kernel takes for the same route: a second one with this key is refused or replaces the first. */
export function routeSlot(route: Route): string {
  return `${route.family} ${route.table} ${route.destination} ${route.metric}`;
}

/** `fwmark 0x100000/0x700000 lookup 1005 pref 6000 protocol 233`. */
export function ruleWords({ selector, table, priority, protocol }: Rule): string {
  const words = [selector === "" ? "from all" : selector];
  if (table !== "") words.push("lookup", table);
  words.push("pref", String(priority));
  if (protocol !== "") words.push("protocol", protocol);
  return words.join(" ");
}

// Where the kernel sends a packet: rules by priority, then the best route of the table that has one. In: network facts, a packet
// as it stands. Out: the way, what was looked at, or why there is none. Pure. Only what a first packet shows can be asked of it.

import type { Route, Rule } from "../lib/netlink/pure.ts";
import { parseDestination } from "./model/destination.ts";
import type { NetworkFacts } from "./model/facts.ts";
import { type Cidr, contains } from "./model/ip.ts";
import { perObject } from "./model/memo.ts";
import { hasBits, within } from "./trace-rule.ts";
import type { Step } from "./trace-step.ts";

/** What rules and routes may ask about. */
export interface Routed {
  readonly family: 4 | 6;
  readonly source: string;
  readonly destination: string;
  /** The link by which it came in. */
  readonly from: string;
  readonly mark: number;
  readonly protocol: string;
  readonly port: number | undefined;
}

export interface Way {
  readonly steps: readonly Step[];
  /** Rules that may have meant this packet and could not be judged. */
  readonly unjudged: number;
  readonly end:
    | { readonly link: string; readonly nextHop: string }
    | { readonly at: "rule" | "route"; readonly why: string };
}

interface ParsedRoute {
  readonly route: Route;
  readonly cidr: Cidr;
}

const parsedRoutes = perObject((routes: readonly Route[]): readonly ParsedRoute[] =>
  routes.flatMap((route) => {
    const cidr = parseDestination(route.destination);
    return cidr === undefined ? [] : [{ route, cidr }];
  }),
);

const ENDINGS: ReadonlySet<string> = new Set(["blackhole", "unreachable", "prohibit"]);

export function lookUp(network: NetworkFacts, packet: Routed): Way {
  const steps: Step[] = [];
  let unjudged = 0;
  const done = (end: Way["end"]): Way => ({ steps, unjudged, end });
  // The kernel's own table `local` is not among the facts: what is for this host is told by its addresses.
  const rules = network.rules.filter(({ family, table }) => family === packet.family && table !== "local");
  for (const rule of rules.toSorted((a, b) => a.priority - b.priority)) {
    const object = `ip rule ${rule.priority}`;
    const found = rule.selector === "" ? "everything" : rule.selector;
    const judged = judge(rule, packet, isInVrf(network, packet.from));
    if (judged === undefined) {
      unjudged++;
      steps.push({ step: "unjudged", object, found, verdict: "not understood, passed over" });
    }
    if (judged === undefined || judged === "no") continue;
    if (judged !== "yes") {
      steps.push({ step: "rule", object, found, verdict: "drops" });
      return done({ at: "rule", why: `${judged} rule at ${rule.priority}: ${found}` });
    }
    const best = bestRoute(network.routes, rule, packet);
    if (best === undefined || best.type === "throw") {
      // Every host asks `main` and `default` in the end: that the last has nothing is no news.
      if (rule.selector !== "")
        steps.push({ step: "rule", object, found, verdict: `table ${rule.table} has no route, so on` });
      continue;
    }
    steps.push({ step: "rule", object, found, verdict: `table ${rule.table} decides` });
    return done(follow(best, packet.destination, steps));
  }
  return done({ at: "route", why: "no route" });
}

function bestRoute(
  routes: readonly Route[],
  { table, selector }: Rule,
  { family, destination }: Routed,
): Route | undefined {
  const shortest = Number(/(?:^| )suppress_prefixlength (\d+)/.exec(selector)?.[1] ?? -1);
  let best: ParsedRoute | undefined;
  for (const one of parsedRoutes(routes)) {
    const { route, cidr } = one;
    if (route.family !== family || route.table !== table || !contains(cidr, destination)) continue;
    const longer = best === undefined ? 1 : cidr.length - best.cidr.length;
    if (longer > 0 || (longer === 0 && best !== undefined && route.metric < best.route.metric)) best = one;
  }
  return best !== undefined && best.cidr.length > shortest ? best.route : undefined;
}

function follow(route: Route, destination: string, steps: Step[]): Way["end"] {
  const [hop, ...others] = route.hops;
  const object = `table ${route.table}`;
  if (hop === undefined) {
    steps.push({ step: "route", object, found: `${route.destination} ${route.type}`, verdict: "drops" });
    return { at: "route", why: `${route.type} route in table ${route.table}` };
  }
  const via = `${hop.gateway === "" ? "" : `via ${hop.gateway} `}dev ${hop.link}`;
  const more = others.length === 0 ? "" : `, the first of ${route.hops.length} next hops`;
  steps.push({
    step: "route",
    object,
    found: `${route.destination} ${via}`,
    verdict: `goes on by ${hop.link}${more}`,
  });
  // An IPv6 gateway of an IPv4 route (RFC 5549) has two words.
  const onLink = hop.gateway === "" || hop.gateway.includes(" ");
  return { link: hop.link, nextHop: onLink ? destination : hop.gateway };
}

function isInVrf({ links }: NetworkFacts, name: string): boolean {
  return links.some((link) => link.name === name && link.vrf !== undefined);
}

/**
 * Selectors as lib/netlink writes them: pairs of words, and the action last. For an action that ends it its word; undefined where
 * what is understood fits, and not all of it is.
 */
function judge({ selector }: Rule, packet: Routed, inVrf: boolean): "yes" | "no" | string | undefined {
  const words = selector === "" ? [] : selector.split(" ");
  const ending = ENDINGS.has(words.at(-1) ?? "") ? words.pop() : undefined;
  // What it says is turned round, whatever that is.
  let known = words[0] !== "not";
  for (let at = known ? 0 : words.length; at < words.length; at += 2) {
    // The kernel's own rule for VRFs, which stands alone: only what came in by a link of one is meant.
    if (words[at] === "l3mdev" && !inVrf) return "no";
    const truth = asks(words[at] as string, words[at + 1] ?? "", packet);
    if (truth === false) return "no";
    if (truth === undefined) known = false;
  }
  return known ? (ending ?? "yes") : undefined;
}

function asks(key: string, value: string, packet: Routed): boolean | undefined {
  switch (key) {
    case "fwmark":
      return hasBits(packet.mark, value);
    case "from":
      return within(value, packet.source);
    case "to":
      return within(value, packet.destination);
    case "iif":
      return value === packet.from;
    case "ipproto":
      return value === packet.protocol;
    case "dport": {
      const [first = 0, last = first] = value.split("-").map(Number);
      return packet.port !== undefined && packet.port >= first && packet.port <= last;
    }
    case "suppress_prefixlength":
      return true;
    default:
      return undefined;
  }
}

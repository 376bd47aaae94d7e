// One routing table and one rule per hosting link and family, whatever the number of pods. Pure. A link with more egress IPs
// than a block of marks holds (model/marks.ts) has a rule for each of its blocks.
// The table follows the link's routes in main, or in its VRF's table (reference D.4 and D.10; the quirk of a snapshot that is
// never followed is not repeated). Preferred sources are not in a Route at all: SNAT decides.

import { type Route, type Rule, routeSlot, routeWords } from "../../../lib/netlink/pure.ts";
import { parseDestination } from "../../model/destination.ts";
import type { NetworkFacts } from "../../model/facts.ts";
import { contains } from "../../model/ip.ts";
import { hex, type MarkLayout } from "../../model/marks.ts";
import { BLACKHOLE_METRIC, ROUTE_PROTOCOL, RULE_PRIORITY } from "../../model/owner.ts";
import type { Held } from "../../model/snapshot.ts";

interface LinkTable {
  readonly family: 4 | 6;
  readonly link: string;
  readonly table: string;
  readonly up: boolean;
}

function tablesOf(held: readonly Held[]): readonly LinkTable[] {
  const tables = new Map<string, LinkTable>();
  for (const { family, link, table, linkUp } of held)
    tables.set(`${table} ${family}`, { family, link, table, up: linkUp });
  return [...tables].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, table]) => table);
}

export function routesOf(
  managementPort: string,
  held: readonly Held[],
  network: NetworkFacts,
): readonly Route[] {
  return Object.freeze(tablesOf(held).flatMap((table) => tableRoutes(table, managementPort, network)));
}

function tableRoutes(
  { family, link, table, up }: LinkTable,
  managementPort: string,
  network: NetworkFacts,
): readonly Route[] {
  const anywhere = family === 4 ? "0.0.0.0/0" : "::/0";
  const over = (name: string, from: string) =>
    network.routes.flatMap((route): readonly Route[] => {
      if (route.family !== family || route.table !== from || route.type !== "unicast") return [];
      const hops = route.hops.filter((hop) => hop.link === name);
      return hops.length === 0 ? [] : [{ ...route, table, hops, protocol: ROUTE_PROTOCOL }];
    });
  // Without these a restored reply to a pod would follow the default back out (known-faults BL-71).
  const toPods =
    link === managementPort
      ? []
      : over(managementPort, "main").filter(
          ({ destination }) => destination !== anywhere && !destination.startsWith("fe80:"),
        );
  const from = network.links.find(({ name }) => name === link)?.vrf ?? "main";
  const ofLink = over(link, from).filter((route) => !isWithin(route, toPods));
  const hasDefault = ofLink.some(({ destination }) => destination === anywhere);
  const common = { family, table, destination: anywhere, protocol: ROUTE_PROTOCOL, mtu: 0 };
  const ownDefault: Route = {
    ...common,
    type: "unicast",
    // The kernel gives an IPv6 route without a metric 1024; saying it keeps what we ask and what we read the same.
    metric: family === 4 ? 0 : 1024,
    hops: [{ gateway: "", link, onlink: false, weight: 1 }],
  };
  return [
    ...onePerSlot(ofLink),
    ...(hasDefault || !up ? [] : [ownDefault]),
    ...onePerSlot(toPods),
    { ...common, type: "blackhole", metric: BLACKHOLE_METRIC, hops: [] },
  ];
}

/** A VRF may know the pods' networks as something else of its own; what pods send there is exempt, so only replies would go astray. */
function isWithin({ destination }: Route, wider: readonly Route[]): boolean {
  const inner = parseDestination(destination);
  if (inner === undefined) return false;
  return wider.some((route) => {
    const outer = parseDestination(route.destination);
    return outer !== undefined && outer.length <= inner.length && contains(outer, inner.address);
  });
}

/**
 * Main may have several routes of one destination and metric that are no multipath route (two routers of one network that
 * advertise themselves, IPv6 routes for single sources); in a table of ours each would replace the other for ever.
 */
function onePerSlot(routes: readonly Route[]): readonly Route[] {
  const bySlot = new Map<string, Route>();
  for (const route of routes) {
    const other = bySlot.get(routeSlot(route));
    if (other === undefined || routeWords(route) < routeWords(other)) bySlot.set(routeSlot(route), route);
  }
  return routes.filter((route) => bySlot.get(routeSlot(route)) === route);
}

export function rulesOf(layout: MarkLayout, held: readonly Held[], network: NetworkFacts): readonly Rule[] {
  const vrfs = new Set(network.links.flatMap(({ name, vrf }) => (vrf === undefined ? [] : [name])));
  const rules = new Map<string, Rule>();
  for (const { family, link, table, mark } of held) {
    const selector = `fwmark ${hex((mark & layout.linkMask) >>> 0)}/${hex(layout.linkMask)}`;
    rules.set(`${table} ${family} ${selector}`, {
      family,
      priority: vrfs.has(link) ? beforeVrfs(family, network.rules) : RULE_PRIORITY,
      table,
      protocol: ROUTE_PROTOCOL,
      selector,
    });
  }
  return Object.freeze([...rules].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, rule]) => rule));
}

/**
 * A reply comes in by a link of the VRF, so the kernel's rule `l3mdev` (1000, made with the first VRF) would look the pod up in
 * the VRF's table: a default route there, or the `unreachable` that belongs at the end of such tables, takes it before any rule
 * of 6000 is asked. Ours has to be asked first. It does not say `iif`: whether that is the link or the VRF has changed more than
 * once between kernel versions (net/l3mdev/l3mdev.c), and the mark says enough. What pods send is not concerned: it comes in
 * by the management port, which is of no VRF.
 */
function beforeVrfs(family: 4 | 6, rules: readonly Rule[]): number {
  const theirs = rules.filter((rule) => rule.family === family && rule.selector === "l3mdev");
  return Math.max(0, Math.min(RULE_PRIORITY, ...theirs.map(({ priority }) => priority - 1)));
}

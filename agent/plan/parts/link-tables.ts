// One routing table and one rule per hosting link and family, whatever the number of egress IPs and pods. Pure.
// The table follows the link's routes in main (reference D.4, and its quirk of a snapshot never followed is not repeated).
import type { Route, Rule } from "../../../lib/netlink/pure.ts";
import type { NetworkFacts } from "../../model/facts.ts";
import { hex, type MarkLayout } from "../../model/marks.ts";
import { BLACKHOLE_METRIC, ROUTE_PROTOCOL, RULE_PRIORITY } from "../../model/owner.ts";
import type { Held } from "../../model/snapshot.ts";

interface LinkTable {
  readonly family: 4 | 6;
  readonly link: string;
  readonly table: string;
  readonly up: boolean;
  readonly bits: (layout: MarkLayout) => number;
}

function tablesOf(held: readonly Held[]): readonly LinkTable[] {
  const tables = new Map<string, LinkTable>();
  for (const { family, link, table, mark, linkUp } of held) {
    const bits = (layout: MarkLayout) => (mark & layout.linkMask) >>> 0;
    tables.set(`${table} ${family}`, { family, link, table, up: linkUp, bits });
  }
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
  const main = network.routes.filter(
    (route) => route.family === family && route.table === "main" && route.type === "unicast",
  );
  const over = (name: string) =>
    main.flatMap((route): readonly Route[] => {
      const hops = route.hops.filter((hop) => hop.link === name);
      return hops.length === 0 ? [] : [{ ...route, table, hops, protocol: ROUTE_PROTOCOL }];
    });
  const ofLink = over(link);
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
    ...ofLink,
    ...(hasDefault || !up ? [] : [ownDefault]),
    // Without these a restored reply to a pod would follow the default back out (known-faults BL-71).
    ...(link === managementPort
      ? []
      : over(managementPort).filter(
          ({ destination }) => destination !== anywhere && !destination.startsWith("fe80:"),
        )),
    { ...common, type: "blackhole", metric: BLACKHOLE_METRIC, hops: [] },
  ];
}

export function rulesOf(layout: MarkLayout, held: readonly Held[]): readonly Rule[] {
  return Object.freeze(
    tablesOf(held).map(({ family, table, bits }) => ({
      family,
      priority: RULE_PRIORITY,
      table,
      protocol: ROUTE_PROTOCOL,
      selector: `fwmark ${hex(bits(layout))}/${hex(layout.linkMask)}`,
    })),
  );
}

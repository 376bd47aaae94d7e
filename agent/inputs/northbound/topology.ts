// The logical network as egress IPs need it: routers, switches, addresses of their ports, routes by source. In: the replica.

import type { Changes, Session } from "../../../lib/ovsdb-client/index.ts";
import { parseDestination } from "../../model/destination.ts";
import type { Address, Cidr } from "../../model/ip.ts";
import { CLUSTER_ROUTER, type PerFamily, type Topology } from "../../model/northbound.ts";
import { OWNER_KEY } from "../../model/northbound-ids.ts";
import {
  LogicalRouter,
  LogicalRouterPort,
  LogicalSwitch,
  managementPortTable,
  Qos,
  StaticRoute,
} from "../../model/northbound-schema.ts";
import type { Settings } from "../../model/settings.ts";

const TABLES: readonly string[] = [
  "Logical_Router",
  "Logical_Switch",
  "Logical_Router_Port",
  "Logical_Switch_Port",
  "Logical_Router_Static_Route",
];

export function touchesTopology({ tables }: Changes): boolean {
  return TABLES.some((table) => tables.has(table));
}

export function topologyOf(
  { replica, schema }: Pick<Session, "replica" | "schema">,
  { node, northboundOwner }: Pick<Settings, "node" | "northboundOwner">,
): Topology {
  const routers = new Map<string, string>();
  for (const { name, _uuid } of replica.table(LogicalRouter).rows.values()) routers.set(name, _uuid);
  const switches = new Map<string, string>();
  for (const { name, _uuid } of replica.table(LogicalSwitch).rows.values()) switches.set(name, _uuid);
  const gateways = new Map<string, PerFamily<Address>>();
  const outside = new Map<string, PerFamily<Address>>();
  let transitPort = "";
  let join: PerFamily<string> = {};
  let podNetworks: readonly string[] = [];
  for (const { name, networks } of replica.table(LogicalRouterPort).rows.values()) {
    const [, port, of] = /^(rtoj|rtoe)-GR_(.+)$/.exec(name) ?? [];
    if (of !== undefined)
      (port === "rtoj" ? gateways : outside).set(
        of,
        perFamily(networks, ({ address }) => address),
      );
    else if (name === `rtoj-${CLUSTER_ROUTER}`)
      join = perFamily(networks, ({ network, length }) => `${network}/${length}`);
    else if (name === `rtos-${node}`) podNetworks = networks;
    else if (name === `rtots-${node}`) transitPort = name;
  }
  const management = [...replica.table(managementPortTable(node)).rows.values()].flatMap(({ addresses }) =>
    addresses.flatMap((text) => text.split(" ").slice(1)),
  );
  const sourceRoutes = new Map<string, string>();
  for (const { ip_prefix, nexthop, external_ids } of replica.table(StaticRoute).rows.values())
    if (external_ids[OWNER_KEY] !== northboundOwner) sourceRoutes.set(ip_prefix, nexthop);
  return {
    routers: sorted(routers),
    switches: sorted(switches),
    transitPort,
    gateways: sorted(gateways),
    outside: sorted(outside),
    management: perFamily(management, ({ address }) => address),
    podNetworks,
    join,
    marksReplies: canMark(schema),
    sourceRoutes: sorted(sourceRoutes),
  };
}

/** Since schema 7.1: what a QoS row may do is an enumeration. */
function canMark(schema: Session["schema"]): boolean {
  const actions = schema?.tables.get(Qos.name)?.columns.get("action")?.key.enum;
  return actions?.includes("mark") ?? true;
}

export function describeTopology(topology: Topology): string {
  return JSON.stringify(Object.values(topology).map((part) => (part instanceof Map ? [...part] : part)));
}

/** The first of each family that is no link-local one; an address without a length is a whole one. */
function perFamily(texts: readonly string[], of: (cidr: Cidr) => string): PerFamily<string> {
  const found: { 4?: string; 6?: string } = {};
  for (const text of texts) {
    const cidr = parseDestination(text);
    if (cidr !== undefined && !text.startsWith("fe80:")) found[cidr.family] ??= of(cidr);
  }
  return found;
}

function sorted<V>(map: ReadonlyMap<string, V>): ReadonlyMap<string, V> {
  return new Map([...map].sort(([a], [b]) => (a < b ? -1 : 1)));
}

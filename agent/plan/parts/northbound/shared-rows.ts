// The rows that all nodes of a zone share: who is exempt from rerouting, how replies are told, the sets these rows name. Pure.
// Reference B.3, S1 to S8. What it leaves wrong is right here (J.3): one row for each pair of cluster networks.
import { type Address, compareAddresses, type Family, familyOf, formatPrefix } from "../../../model/ip.ts";
import { byCodeUnit } from "../../../model/names.ts";
import {
  CLUSTER_ROUTER,
  type ColumnValue,
  type PerFamily,
  type Row,
  type RowTable,
  type Topology,
} from "../../../model/northbound.ts";
import {
  addressSet,
  egressServiceSet,
  type Ids,
  type IpFamily,
  policyIds,
  routeIds,
} from "../../../model/northbound-ids.ts";
import { GLOBAL_ZONE, type Node } from "../../../model/objects.ts";
import type { Settings } from "../../../model/settings.ts";
import { isAlone } from "../../../model/zone.ts";
import { arrivalGuard, isGuarded } from "./arrival-guard.ts";
import { gatewayGuard, hasGatewayGuard } from "./gateway-guard.ts";

const EXEMPT_PRIORITY = 102;
const REPLY_PRIORITY = 103;
/** Packet mark of replies: what came in another way than by the egress node goes back that way. */
const REPLY_MARK = 42;
/** Packet mark by which the bridge, or the host, gives a packet for a node the own node's address (B.6, C.1). */
const TO_NODE_MARK = "1008";

/** Rows in the order in which a person would explain them. Without the cluster router those that stand on it are left out. */
export function sharedRows(
  settings: Settings,
  nodes: ReadonlyMap<string, Node>,
  topology: Topology,
): readonly Row[] {
  const ids: Ids = { owner: settings.northboundOwner };
  const families = ([4, 6] as const).filter((family) =>
    settings.clusterNetworks.some((network) => network.family === family),
  );
  const switches = topology.marksReplies ? zoneSwitches(settings, nodes, topology) : [];
  const hasRouter = topology.routers.has(CLUSTER_ROUTER);
  return Object.freeze([
    ...families.flatMap((family) => setRows(ids, family, nodes)),
    ...(hasRouter ? families : []).flatMap((family) => exemptions(settings, ids, family, topology.join)),
    ...(hasRouter ? [policy(ids, "EIP-No-Reroute-reply-traffic", "ip", `pkt.mark == ${REPLY_MARK}`)] : []),
    ...families.flatMap((family) => replyRows(ids, family, switches)),
    ...(hasRouter ? families : []).flatMap((family) => arrivalRoutes(settings, ids, family, nodes, topology)),
    ...(hasRouter && isGuarded(settings, nodes, topology) ? families : []).flatMap((family) =>
      arrivalGuard(settings, family, topology),
    ),
    ...(hasGatewayGuard(settings, nodes, topology) ? families : []).flatMap((family) =>
      gatewayGuard(settings, nodes, family, topology),
    ),
  ]);
}

/** What the node-ips set holds, and what the other sets are made with. */
function setRows(ids: Ids, family: Family, nodes: ReadonlyMap<string, Node>): readonly Row[] {
  const row = ({ name, ids: own }: ReturnType<typeof addressSet>, addresses?: readonly Address[]): Row => ({
    table: "Address_Set",
    on: [],
    columns: { name, ...(addresses === undefined ? {} : { addresses }) },
    ids: own,
  });
  const nodeAddresses = new Set([...nodes.values()].flatMap((node) => addressesOf(node, family)));
  return [
    row(addressSet(ids.owner, "node-ips", family), [...nodeAddresses].sort(compareAddresses)),
    row(addressSet(ids.owner, "egressip-served-pods", family)),
    row(egressServiceSet(family)),
  ];
}

/** A node that does not say its addresses has the ones that Kubernetes knows it by (known-faults BL-18). */
function addressesOf({ hostCidrs, internalAddresses }: Node, family: Family): readonly Address[] {
  const own = hostCidrs.length > 0 ? hostCidrs.map(({ address }) => address) : internalAddresses;
  return own.filter((address) => familyOf(address) === family);
}

/** S1 to S3: pods to pods, to the join network, and to nodes. */
function exemptions(settings: Settings, ids: Ids, family: Family, join: PerFamily<string>): readonly Row[] {
  const source = `ip${family}.src`;
  const destination = `ip${family}.dst`;
  const ip = `ip${family}` as const;
  const networks = settings.clusterNetworks.filter((network) => network.family === family).map(formatPrefix);
  const joinNetwork = join[family];
  const served = addressSet(ids.owner, "egressip-served-pods", family).name;
  const services = egressServiceSet(family).name;
  const nodeIps = addressSet(ids.owner, "node-ips", family).name;
  return [
    ...networks.flatMap((from) =>
      networks.map((to) =>
        policy(ids, "EIP-No-Reroute-Pod-To-Pod", ip, `${source} == ${from} && ${destination} == ${to}`),
      ),
    ),
    ...(joinNetwork === undefined ? [] : networks).map((from) =>
      policy(
        ids,
        "EIP-No-Reroute-Pod-To-Join",
        ip,
        `${source} == ${from} && ${destination} == ${String(joinNetwork)}`,
      ),
    ),
    policy(
      ids,
      "EIP-No-Reroute-Pod-To-Node",
      ip,
      `(${source} == $${served} || ${source} == $${services}) && ${destination} == $${nodeIps}`,
      { pkt_mark: TO_NODE_MARK },
    ),
  ];
}

function policy(
  ids: Ids,
  name: string,
  family: IpFamily,
  match: string,
  options: Readonly<Record<string, string>> = {},
): Row {
  const columns = { priority: EXEMPT_PRIORITY, match, action: "allow", nexthops: [], options };
  return row(
    "Logical_Router_Policy",
    [CLUSTER_ROUTER],
    columns,
    policyIds(ids, EXEMPT_PRIORITY, name, family),
  );
}

/** S6: one row a family, which every node's switch refers to. */
function replyRows(ids: Ids, family: Family, switches: readonly string[]): readonly Row[] {
  if (switches.length === 0) return [];
  const served = addressSet(ids.owner, "egressip-served-pods", family).name;
  const columns = {
    priority: REPLY_PRIORITY,
    direction: "from-lport",
    match: `ip${family}.src == $${served} && ct.trk && ct.rpl`,
    action: { mark: String(REPLY_MARK) },
  };
  const name = "EgressIP-Mark-Reply-Traffic";
  return [row("QoS", switches, columns, policyIds(ids, REPLY_PRIORITY, name, `ip${family}`))];
}

function zoneSwitches(
  settings: Settings,
  nodes: ReadonlyMap<string, Node>,
  topology: Topology,
): readonly string[] {
  const zone = nodes.get(settings.node)?.zone;
  return [...nodes.values()]
    .filter((node) => node.zone === zone && topology.switches.has(node.name))
    .map(({ name }) => name)
    .sort(byCodeUnit);
}

/**
 * S7: pods of other zones arrive by the transit switch and must find a route before any policy is looked at. Where nodes share
 * a zone they reach each gateway router over the join switch, and which of them it would be could not be said.
 */
function arrivalRoutes(
  settings: Settings,
  ids: Ids,
  family: Family,
  nodes: ReadonlyMap<string, Node>,
  topology: Topology,
): readonly Row[] {
  const zone = nodes.get(settings.node)?.zone ?? GLOBAL_ZONE;
  const gateway = topology.gateways.get(settings.node)?.[family];
  if (zone === GLOBAL_ZONE || gateway === undefined || !isAlone(settings.node, nodes, topology)) return [];
  return (
    settings.clusterNetworks
      // One that somebody else made is as good, or a Problem: two of the same prefix would share the packets.
      .filter((network) => network.family === family && !topology.sourceRoutes.has(formatPrefix(network)))
      .map((network) =>
        row(
          "Logical_Router_Static_Route",
          [CLUSTER_ROUTER],
          { ip_prefix: formatPrefix(network), policy: ["src-ip"], nexthop: gateway },
          routeIds(ids),
        ),
      )
  );
}

function row(
  table: RowTable,
  on: readonly string[],
  columns: Readonly<Record<string, ColumnValue>>,
  ids: Readonly<Record<string, string>>,
): Row {
  return { table, on, columns, ids };
}

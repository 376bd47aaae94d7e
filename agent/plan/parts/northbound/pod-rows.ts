// The rows that one pod address needs: the policy that reroutes its packets, the NAT row that gives them the egress IP. Pure.
// Reference B.4.1 (templates T-RR and T-NAT) and the decision tables B.4.3 and B.4.4.
import type { Claims } from "../../../model/address-index.ts";
import { type Address, type Family, familyOf } from "../../../model/ip.ts";
import {
  CLUSTER_ROUTER,
  type FoundRow,
  gatewayRouter,
  type Row,
  type Topology,
} from "../../../model/northbound.ts";
import { type Ids, natIds, podRowName, policyIds } from "../../../model/northbound-ids.ts";
import { REROUTE_PRIORITY } from "../../../model/northbound-pod.ts";
import type { EgressIP, Node } from "../../../model/objects.ts";
import { LED_MARK } from "../../../model/owner.ts";
import type { SelectedPod } from "../../../model/selection.ts";
import type { Settings } from "../../../model/settings.ts";
import type { Shard } from "../../../model/shards.ts";
import type { Held } from "../../../model/snapshot.ts";
import { nextHopsFor, throughGateway } from "./next-hops.ts";

/** Rows of one pod address, policy first; not empty. */
export type PodRows = readonly Row[];

/** Makes the rows of all pod addresses of a shard. Parents that are not there get no rows: they are named as Problems. */
export function podRowsFor(
  settings: Settings,
  held: readonly Held[],
  nodes: ReadonlyMap<string, Node>,
  topology: Topology,
): (claims: Shard<Claims>, found: Shard<readonly FoundRow[]>) => Shard<PodRows> {
  const ids: Ids = { owner: settings.northboundOwner, node: settings.node };
  const zone = nodes.get(settings.node)?.zone;
  const hopsOf = nextHopsFor(settings, held, nodes, topology);
  const gateway = gatewayRouter(settings.node);
  const [onCluster, onGateway] = [Object.freeze([CLUSTER_ROUTER]), Object.freeze([gateway])];
  const heldOf = heldByName(held);

  const policyOf = (
    address: Address,
    family: Family,
    { pod, by }: SelectedPod,
    found: readonly FoundRow[],
  ): Row | undefined => {
    if (!topology.routers.has(CLUSTER_ROUTER)) return undefined;
    const hops = pod.node === settings.node ? readyHops(by, family, found) : arrivalOf(family, by, pod.node);
    if (hops === undefined || (hops.length === 0 && settings.whenUnready === "node-ip")) return undefined;
    return {
      table: "Logical_Router_Policy",
      on: onCluster,
      columns: {
        priority: REROUTE_PRIORITY,
        match: `ip${family}.src == ${address}`,
        // Nowhere to go yet: held back, since it must not leave with the node's address.
        action: hops.length === 0 ? "drop" : "reroute",
        nexthops: hops,
        options: optionsOf(hops, topology.management[family]),
      },
      ids: policyIds(ids, REROUTE_PRIORITY, podRowName(by.name, pod), `ip${family}`),
    };
  };
  /** Not to a gateway router that has no NAT row for this address: the pod would leave with that node's address. */
  const readyHops = (by: EgressIP, family: Family, found: readonly FoundRow[]): readonly Address[] =>
    hopsOf(by, family)
      .filter(
        ({ router }) =>
          router === undefined || found.some(({ table, on }) => table === "NAT" && on.includes(router)),
      )
      .map(({ address }) => address);
  /**
   * A pod of another zone arrives by the transit switch; what leaves through this kernel has to be led to it (B.4.4), and what
   * was sent here and cannot be given has nowhere to go. In the own zone the agent of the pod's node writes the policy, for both
   * hops of the way.
   */
  const arrivalOf = (family: Family, by: EgressIP, podNode: string): readonly Address[] | undefined => {
    if (nodes.get(podNode)?.zone === zone) return undefined;
    const entry = heldOf.get(`${by.name} ${family}`);
    if (entry !== undefined && throughGateway(settings, entry.primary)) return undefined;
    if (entry === undefined && !isSentHere(by, family)) return undefined;
    const hop = entry === undefined ? undefined : topology.management[family];
    return hop === undefined ? [] : [hop];
  };
  const isSentHere = ({ assignments }: EgressIP, family: Family) =>
    assignments.some((assignment) => assignment.node === settings.node && assignment.family === family);
  const natOf = (address: Address, family: Family, { pod, by }: SelectedPod): Row | undefined => {
    const entry = heldOf.get(`${by.name} ${family}`);
    if (entry === undefined || !throughGateway(settings, entry.primary)) return undefined;
    if (!topology.routers.has(gateway)) return undefined;
    return {
      table: "NAT",
      on: onGateway,
      columns: {
        type: "snat",
        external_ip: entry.address,
        logical_ip: address,
        logical_port: `k8s-${settings.node}`,
        options: STATEFUL,
        match: "",
      },
      ids: natIds(ids, podRowName(by.name, pod), `ip${family}`),
    };
  };
  return (shard, found) => {
    const rows = new Map<Address, PodRows>();
    for (const [address, claims] of shard) {
      const first = claims[0] as SelectedPod;
      const family = familyOf(address);
      const policy = policyOf(address, family, first, found.get(address) ?? NO_ROWS);
      const nat = natOf(address, family, first);
      if (policy !== undefined) rows.set(address, nat === undefined ? [policy] : [policy, nat]);
      else if (nat !== undefined) rows.set(address, [nat]);
    }
    return rows;
  };
}

const NO_ROWS: readonly FoundRow[] = [];

const STATEFUL: Row["columns"][string] = Object.freeze({ stateless: "false" });
const LED: Row["columns"][string] = Object.freeze({ pkt_mark: String(LED_MARK) });
const UNMARKED: Row["columns"][string] = Object.freeze({});

/**
 * What comes to this host's kernel says that OVN has led it there (reference I.1), so that it is told from others even where
 * nothing here knows its pod. Not where some of it goes on by a tunnel: an option is the row's, not the hop's, and a tunnel's own
 * packets are routed by the mark of what they carry.
 */
function optionsOf(hops: readonly Address[], management: Address | undefined): Row["columns"][string] {
  return hops.length > 0 && hops.every((hop) => hop === management) ? LED : UNMARKED;
}

/** What is held here by `NAME FAMILY`: one object has one address of a family on a node (reference A.1). */
function heldByName(held: readonly Held[]): ReadonlyMap<string, Held> {
  const found = new Map<string, Held>();
  for (const entry of held) {
    const key = `${entry.egressIP.name} ${entry.family}`;
    if (!found.has(key)) found.set(key, entry);
  }
  return found;
}

// With one database for all nodes: what a node's gateway router is sent of selected pods leaves it with an egress IP or not at all,
// whatever the agents and OVN's programs have come to by then, and in whatever order. Not in the reference. Pure.
// Before NAT, what another node's pod sends and nobody here gives an egress IP is dropped, so that no connection is tied to this node's
// address. Behind NAT the last look: rows follow one another, but what Open vSwitch remembers of a packet's way does so in pieces,
// one before and one behind conntrack, and a packet may meet the old one and then the new one (README, "The order of work").
import { type Cidr, type Family, formatPrefix } from "../../../model/ip.ts";
import { gatewayRouter, outsideSwitch, type Row, type Topology } from "../../../model/northbound.ts";
import { ARRIVING_PODS, addressSet, podSet, policyIds } from "../../../model/northbound-ids.ts";
import type { Node } from "../../../model/objects.ts";
import { LED_MARK } from "../../../model/owner.ts";
import { ownPodNetworks } from "../../../model/pod-networks.ts";
import type { Settings } from "../../../model/settings.ts";
import { isAlone } from "../../../model/zone.ts";

const LET_PASS = 99;
const DROP = 98;
const LAST_LOOK = 1000;

/** Replies of pods that this router has balanced connections to are theirs by now; to OVN `!ct.rpl` alone is false for all else. */
const NO_REPLY = "(!ct.trk || !ct.rpl)";

export function hasGatewayGuard(
  { node, whenUnready, gatewayMode }: Settings,
  nodes: ReadonlyMap<string, Node>,
  topology: Topology,
): boolean {
  return (
    whenUnready === "drop" &&
    gatewayMode === "shared" &&
    topology.routers.has(gatewayRouter(node)) &&
    !isAlone(node, nodes, topology)
  );
}

/** All of them are this node's own. None where nobody says what networks its pods are in: others could not be told from them. */
export function gatewayGuard(
  { node, northboundOwner: owner, clusterNetworks }: Settings,
  nodes: ReadonlyMap<string, Node>,
  family: Family,
  topology: Topology,
): readonly Row[] {
  const ofFamily = ({ family: of }: Cidr) => of === family;
  const own = [...new Set(ownPodNetworks(node, nodes, topology).filter(ofFamily).map(formatPrefix))];
  if (own.length === 0) return [];
  const networks = clusterNetworks.filter(ofFamily).map(formatPrefix);
  const ids = { owner, node };
  const router = gatewayRouter(node);
  const source = `ip${family}.src`;
  const arriving = podSet(ids, ARRIVING_PODS, family);
  const served = addressSet(owner, "egressip-served-pods", family).name;
  const policy = (priority: number, name: string, match: string, more: Row["columns"]): Row => ({
    table: "Logical_Router_Policy",
    on: [router],
    columns: { priority, match: `inport == "rtoj-${router}" && ${NO_REPLY} && ${match}`, ...more },
    ids: policyIds(ids, priority, `${name}_${node}`, `ip${family}`),
  });
  const isOwn = own.map((network) => `${source} == ${network}`).join(" || ");
  const selected = `(${source} == $${arriving.name} || (${source} == $${served} && (${isOwn})))`;
  const notOwn = own.map((network) => `${source} != ${network}`).join(" && ");
  return [
    { table: "Address_Set", on: [], columns: { name: arriving.name }, ids: arriving.ids },
    // Another mark says that it is exempt: on its way to a node, it leaves as its own one.
    policy(LET_PASS, "EIP-Mark-Selected", `pkt.mark == 0 && ${selected}`, {
      action: "allow",
      nexthops: [],
      options: { pkt_mark: String(LED_MARK) },
    }),
    ...networks.map((network) =>
      policy(DROP, "EIP-Drop-Unclaimed-Arrivals", `${source} == ${network} && ${notOwn}`, {
        action: "drop",
        nexthops: [],
        options: {},
      }),
    ),
    ...lastLook(ids, family, networks, topology),
  ];
}

/** Marked by this router, and with its own address now, or still with the pod's: no row was there that gives an egress IP. */
function lastLook(
  ids: { readonly owner: string; readonly node: string },
  family: Family,
  networks: readonly string[],
  { outside, switches }: Topology,
): readonly Row[] {
  const address = outside.get(ids.node)?.[family];
  const on = outsideSwitch(ids.node);
  if (address === undefined || !switches.has(on)) return [];
  const from = `inport == "etor-${gatewayRouter(ids.node)}"`;
  return [
    {
      table: "ACL",
      on: [on],
      columns: {
        priority: LAST_LOOK,
        direction: "from-lport",
        match: `${from} && pkt.mark == ${LED_MARK} && ip${family}.src == {${[address, ...networks].join(", ")}}`,
        action: "drop",
      },
      ids: policyIds(ids, LAST_LOOK, `EIP-Drop-Untranslated_${ids.node}`, `ip${family}`),
    },
  ];
}

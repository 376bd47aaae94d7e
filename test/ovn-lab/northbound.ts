// The rows of one zone's databases as OVN-Kubernetes writes them before there is any egress IP: routers, switches, routes,
// the node's own policies and NAT, what belongs to namespaces. Names, options and external_ids are as there. Nothing of the
// EgressIP feature itself: those rows are what is tested. Pure.
import type { Family } from "../lab/topology.ts";
import {
  clusterPorts,
  gatewayRouter,
  localRoutes,
  managementPort,
  nodeSwitch,
  podPort,
  podSnat,
  remoteRoutes,
  sameNodePolicies,
} from "./node-rows.ts";
import { hashed, lengthOf, owned, portNameOf, routerPort, switchRouterPort } from "./row-parts.ts";
import {
  type Cluster,
  joinGateway,
  joinNetworks,
  type OvnNode,
  type OvnPod,
  ovnMac,
  ovnNodePlans,
  transitNetworks,
  type Zone,
} from "./topology.ts";
import { Transaction } from "./transaction.ts";

const clusterRouter = "ovn_cluster_router";

/** Everything of a zone's Northbound database. */
export function northbound(cluster: Cluster, zone: Zone, pods: readonly OvnPod[]): Transaction {
  const rows = new Transaction();
  rows.insert("NB_Global", {
    name: zone.name,
    options: { mac_prefix: "0a:58:fe", use_logical_dp_groups: "true", northd_probe_interval: "5000" },
  });
  const local = pods.filter(({ node }) => zone.nodes.includes(node));
  const remote = cluster.interconnect ? cluster.nodes.filter((node) => !zone.nodes.includes(node)) : [];
  const ports = local.map((pod) => podPort(rows, cluster, pod));
  const management = zone.nodes.map((node) => managementPort(rows, cluster, node));

  rows.insert("Logical_Router", {
    name: clusterRouter,
    external_ids: { "k8s-cluster-router": "yes" },
    options: { always_learn_from_arp_request: "false" },
    ports: [
      routerPort(rows, cluster, `rtoj-${clusterRouter}`, joinGateway, joinNetworks),
      ...zone.nodes.flatMap((node) => clusterPorts(rows, cluster, node)),
    ],
    static_routes: [
      ...zone.nodes.flatMap((node) => localRoutes(rows, cluster, node)),
      ...remote.flatMap((node) => remoteRoutes(rows, cluster, node)),
    ],
    policies: zone.nodes.flatMap((node) => sameNodePolicies(rows, cluster, node)),
  });
  rows.insert("Logical_Switch", {
    name: "join",
    ports: [
      switchRouterPort(rows, `jtor-${clusterRouter}`, `rtoj-${clusterRouter}`),
      ...zone.nodes.map((node) => switchRouterPort(rows, `jtor-GR_${node}`, `rtoj-GR_${node}`)),
    ],
  });
  for (const [at, node] of zone.nodes.entries()) {
    gatewayRouter(
      rows,
      cluster,
      node,
      local.filter((pod) => pod.node === node),
    );
    const own = ports.filter((_, pod) => local[pod]?.node === node);
    nodeSwitch(
      rows,
      cluster,
      node,
      [management[at], ...own].filter((port) => port !== undefined),
    );
  }
  if (cluster.interconnect) transitSwitch(rows, zone.nodes, remote);
  for (const family of cluster.families)
    for (const namespace of new Set(pods.map((pod) => pod.namespace))) {
      const members = pods.filter((pod) => pod.namespace === namespace).map((pod) => pod[family]);
      rows.insert("Address_Set", { ...namespaceSet(namespace, family), addresses: members });
    }
  const group = owned("Cluster", "ClusterPortGroup");
  rows.insert("Port_Group", {
    name: hashed(group["k8s.ovn.org/id"]),
    external_ids: group,
    ports: management,
  });
  return rows;
}

/** The other zones' nodes in this zone's Southbound database. */
export function southbound(cluster: Cluster, zone: Zone): Transaction {
  const rows = new Transaction();
  for (const node of cluster.nodes.filter((other) => !zone.nodes.includes(other))) {
    const { chassis, "br-ex": addresses } = ovnNodePlans[node];
    const encap = rows.insert("Encap", {
      chassis_name: chassis,
      ip: addresses[4],
      type: "geneve",
      options: { csum: "true" },
    });
    const row = { name: chassis, hostname: node, encaps: encap, other_config: { "is-remote": "true" } };
    rows.insert("Chassis", row);
  }
  return rows;
}

/** What appears in the zone of a pod's node when the pod does. */
export function addPodRows(cluster: Cluster, pod: OvnPod): Transaction {
  const rows = new Transaction();
  rows.change("Logical_Switch", pod.node, "ports", "insert", podPort(rows, cluster, pod));
  if (cluster.disableSnatMultipleGws)
    rows.change("Logical_Router", `GR_${pod.node}`, "nat", "insert", podSnat(rows, cluster, pod));
  return rows;
}

/** Takes a pod's rows away again; `nbctl` is of its node. */
export async function removePodRows(
  perPodSnat: boolean,
  pod: OvnPod,
  nbctl: (...args: string[]) => Promise<unknown>,
): Promise<void> {
  await nbctl("--if-exists", "lsp-del", portNameOf(pod));
  if (!perPodSnat) return;
  for (const address of [pod[4], pod[6]])
    await nbctl("--if-exists", "lr-nat-del", `GR_${pod.node}`, "snat", address);
}

/** A namespace's address set has the pods of all zones. */
export function addressSetRows(cluster: Cluster, pod: OvnPod, how: "insert" | "delete"): Transaction {
  const rows = new Transaction();
  for (const family of cluster.families) {
    const { name } = namespaceSet(pod.namespace, family);
    rows.change("Address_Set", name, "addresses", how, [pod[family]]);
  }
  return rows;
}

function namespaceSet(namespace: string, family: Family) {
  const external_ids = owned("Namespace", namespace, { "ip-family": `v${family}` }, [`v${family}`]);
  return { name: hashed(external_ids["k8s.ovn.org/id"]), external_ids };
}

function transitSwitch(rows: Transaction, local: readonly OvnNode[], remote: readonly OvnNode[]): void {
  const key = (node: OvnNode) => String(ovnNodePlans[node].id);
  rows.insert("Logical_Switch", {
    name: "transit_switch",
    // The same in every zone, as is each port's: it is what a tunnel carries.
    other_config: { "interconn-ts": "transit_switch", "requested-tnl-key": "16711683" },
    ports: [
      ...local.map((node) =>
        switchRouterPort(rows, `tstor-${node}`, `rtots-${node}`, {
          options: { "requested-tnl-key": key(node) },
        }),
      ),
      ...remote.map((node) => {
        const { transit } = ovnNodePlans[node];
        const networks = `${transit[4]}/${lengthOf(transitNetworks[4])} ${transit[6]}/${lengthOf(transitNetworks[6])}`;
        return rows.insert("Logical_Switch_Port", {
          name: `tstor-${node}`,
          type: "remote",
          addresses: `${ovnMac(transit[4])} ${networks}`,
          external_ids: { node },
          options: { "requested-tnl-key": key(node), "requested-chassis": node },
        });
      }),
    ],
  });
}

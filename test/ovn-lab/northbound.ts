// The rows of one zone's databases as OVN-Kubernetes writes them before there is any egress IP: routers, switches, routes,
// the node's own policies and NAT, what belongs to namespaces. Names, options and external_ids are as there. Nothing of the
// EgressIP feature itself: those rows are what is tested. Pure.
import { type Family, outside, podNetworks } from "../lab/topology.ts";
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
import { type Ref, type Row, Transaction } from "./transaction.ts";

const clusterRouter = "ovn_cluster_router";
const router = "default-network-controller";
const defaultRoute = { 4: "0.0.0.0/0", 6: "::/0" } as const;
const lengthOf = (network: string) => network.split("/")[1] ?? "";

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

export const portNameOf = ({ namespace, name }: OvnPod) => `${namespace}_${name}`;

/** OVN's name of an address set or port group: `a` and the FNV-1a-64 of its id. */
export function hashed(id: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(id)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return `a${hash}`;
}

function owned<More extends Row>(type: string, name: string, more?: More, suffix: readonly string[] = []) {
  return {
    "k8s.ovn.org/id": [router, type, name, ...suffix].join(":"),
    "k8s.ovn.org/name": name,
    "k8s.ovn.org/owner-controller": router,
    "k8s.ovn.org/owner-type": type,
    ...more,
  } as Readonly<Record<string, string>> & { readonly "k8s.ovn.org/id": string };
}

function namespaceSet(namespace: string, family: Family) {
  const external_ids = owned("Namespace", namespace, { "ip-family": `v${family}` }, [`v${family}`]);
  return { name: hashed(external_ids["k8s.ovn.org/id"]), external_ids };
}

/** The addresses of the cluster's families, with the length that a network has. */
function networks({ families }: Cluster, addresses: Both, like: Both): string[] {
  return families.map((family) => `${addresses[family]}/${lengthOf(like[family])}`);
}

type Both = Readonly<Record<Family, string>>;

function routerPort(
  rows: Transaction,
  cluster: Cluster,
  name: string,
  addresses: Both,
  like: Both,
  more: Row = {},
) {
  const mac = ovnMac(addresses[4]);
  return rows.insert("Logical_Router_Port", {
    name,
    mac,
    networks: networks(cluster, addresses, like),
    ...more,
  });
}

function switchRouterPort(
  rows: Transaction,
  name: string,
  peer: string,
  { addresses = "router", options = {} }: { addresses?: string; options?: Record<string, string> } = {},
) {
  return rows.insert("Logical_Switch_Port", {
    name,
    type: "router",
    addresses,
    options: { "router-port": peer, ...options },
  });
}

function clusterPorts(rows: Transaction, cluster: Cluster, node: OvnNode): Ref[] {
  const plan = ovnNodePlans[node];
  const chassis = rows.insert("Gateway_Chassis", {
    name: `rtos-${node}-${plan.chassis}`,
    chassis_name: plan.chassis,
    priority: 1,
  });
  const toSwitch = routerPort(rows, cluster, `rtos-${node}`, plan.gateway, plan.podNetwork, {
    gateway_chassis: [chassis],
  });
  if (!cluster.interconnect) return [toSwitch];
  const toTransit = routerPort(rows, cluster, `rtots-${node}`, plan.transit, transitNetworks, {
    options: { mcast_flood: "true" },
  });
  return [toSwitch, toTransit];
}

function route(rows: Transaction, prefix: string, nexthop: string, more: Row = {}) {
  return rows.insert("Logical_Router_Static_Route", { ip_prefix: prefix, nexthop, ...more });
}

/** Where the pods of a node of this zone go by themselves, and its gateway router. */
function localRoutes(rows: Transaction, { families, gateway }: Cluster, node: OvnNode): Ref[] {
  const { podNetwork, join, "ovn-k8s-mp0": mp0 } = ovnNodePlans[node];
  const way = gateway === "shared" ? join : mp0;
  return families.flatMap((family) => [
    route(rows, podNetwork[family], way[family], { policy: "src-ip" }),
    route(rows, join[family], join[family]),
  ]);
}

function remoteRoutes(rows: Transaction, { families }: Cluster, node: OvnNode): Ref[] {
  const { podNetwork, join, transit } = ovnNodePlans[node];
  const more = { external_ids: { "ic-node": node } };
  return families.flatMap((family) =>
    [podNetwork[family], join[family]].map((prefix) => route(rows, prefix, transit[family], more)),
  );
}

/** A pod reaches the addresses of its own node through the management port. */
function sameNodePolicies(rows: Transaction, { families }: Cluster, node: OvnNode): Ref[] {
  const plan = ovnNodePlans[node];
  return families.flatMap((family) =>
    [plan["br-ex"], plan.eth1].map((address) =>
      rows.insert("Logical_Router_Policy", {
        priority: 1004,
        match: `inport == "rtos-${node}" && ip${family}.dst == ${address[family]} /* ${node} */`,
        action: "reroute",
        nexthops: [plan["ovn-k8s-mp0"][family]],
        external_ids: { "k8s.ovn.org/network": "default", "k8s.ovn.org/topology": "layer3" },
      }),
    ),
  );
}

function snat(rows: Transaction, external: string, logical: string) {
  const row = { type: "snat", external_ip: external, logical_ip: logical, options: { stateless: "false" } };
  return rows.insert("NAT", row);
}

function podSnat(rows: Transaction, { families }: Cluster, pod: OvnPod): Ref[] {
  return families.map((family) => snat(rows, ovnNodePlans[pod.node]["br-ex"][family], pod[family]));
}

function gatewayRouter(rows: Transaction, cluster: Cluster, node: OvnNode, pods: readonly OvnPod[]): void {
  const plan = ovnNodePlans[node];
  const { families, disableSnatMultipleGws } = cluster;
  const addresses = families.map((family) => plan["br-ex"][family]);
  rows.insert("Logical_Router", {
    name: `GR_${node}`,
    external_ids: { physical_ip: addresses[0] ?? "", physical_ips: addresses.join(",") },
    options: {
      always_learn_from_arp_request: "false",
      chassis: plan.chassis,
      dynamic_neigh_routers: "true",
      lb_force_snat_ip: "router_ip",
      mac_binding_age_threshold: "300",
      "snat-ct-zone": "0",
    },
    ports: [
      routerPort(rows, cluster, `rtoj-GR_${node}`, plan.join, joinNetworks),
      rows.insert("Logical_Router_Port", {
        name: `rtoe-GR_${node}`,
        mac: plan.bridgeMac,
        networks: families.map((family) => `${plan["br-ex"][family]}/${family === 4 ? 24 : 64}`),
        external_ids: { "gateway-physical-ip": "yes" },
      }),
    ],
    static_routes: families.flatMap((family) => [
      route(rows, podNetworks[family], joinGateway[family]),
      route(rows, defaultRoute[family], outside.ext.gateway[family], { output_port: `rtoe-GR_${node}` }),
    ]),
    nat: disableSnatMultipleGws
      ? pods.flatMap((pod) => podSnat(rows, cluster, pod))
      : families.map((family) => snat(rows, plan["br-ex"][family], podNetworks[family])),
  });
  const physical = rows.insert("Logical_Switch_Port", {
    name: `br-ex_${node}`,
    type: "localnet",
    addresses: "unknown",
    options: { network_name: "physnet" },
  });
  const toRouter = switchRouterPort(rows, `etor-GR_${node}`, `rtoe-GR_${node}`, {
    addresses: plan.bridgeMac,
    // The first makes ovn-controller announce each address that the router translates to.
    options: { "nat-addresses": "router", "exclude-lb-vips-from-garp": "true" },
  });
  rows.insert("Logical_Switch", { name: `ext_${node}`, ports: [physical, toRouter] });
}

function nodeSwitch(rows: Transaction, cluster: Cluster, node: OvnNode, ports: readonly Ref[]): void {
  const { podNetwork, "ovn-k8s-mp0": mp0 } = ovnNodePlans[node];
  const subnet: Readonly<Record<Family, Record<string, string>>> = {
    4: { subnet: podNetwork[4], exclude_ips: mp0[4] },
    6: { ipv6_prefix: podNetwork[6].split("/")[0] ?? "" },
  };
  // With such a rule all of the switch's traffic passes connection tracking, as it always does in a cluster.
  const fromNode = cluster.families.map((family) =>
    rows.insert("ACL", {
      priority: 1001,
      direction: "to-lport",
      action: "allow-related",
      match: `ip${family}.src==${mp0[family]}`,
      external_ids: owned("NetpolNode", node, { ip: mp0[family] }, [mp0[family]]),
    }),
  );
  rows.insert("Logical_Switch", {
    name: node,
    other_config: Object.assign({}, ...cluster.families.map((family) => subnet[family])),
    acls: fromNode,
    ports: [switchRouterPort(rows, `stor-${node}`, `rtos-${node}`), ...ports],
  });
}

function managementPort(rows: Transaction, { families }: Cluster, node: OvnNode): Ref {
  const plan = ovnNodePlans[node];
  const addresses = families.map((family) => plan["ovn-k8s-mp0"][family]);
  const row = { name: `k8s-${node}`, addresses: [plan.mp0Mac, ...addresses].join(" ") };
  return rows.insert("Logical_Switch_Port", row);
}

function podPort(rows: Transaction, { families }: Cluster, pod: OvnPod): Ref {
  const addresses = [podMac(pod), ...families.map((family) => pod[family])].join(" ");
  return rows.insert("Logical_Switch_Port", {
    name: portNameOf(pod),
    addresses,
    port_security: addresses,
    external_ids: { namespace: pod.namespace, pod: "true" },
    options: { "iface-id-ver": pod.uid, "requested-chassis": pod.node },
  });
}

export const podMac = (pod: OvnPod) => ovnMac(pod[4]);

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

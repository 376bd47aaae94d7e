// A node's rows in its zone: what of the cluster router is its, its gateway router, its switch and its pods' ports. Pure.
import { type Family, outside, podNetworks } from "../lab/topology.ts";
import { owned, podMac, portNameOf, route, routerPort, switchRouterPort } from "./row-parts.ts";
import {
  type Cluster,
  joinGateway,
  joinNetworks,
  type OvnNode,
  type OvnPod,
  ovnNodePlans,
  transitNetworks,
} from "./topology.ts";
import type { Ref, Transaction } from "./transaction.ts";

const defaultRoute = { 4: "0.0.0.0/0", 6: "::/0" } as const;

export function clusterPorts(rows: Transaction, cluster: Cluster, node: OvnNode): Ref[] {
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

/** Where the pods of a node of this zone go by themselves, and its gateway router. */
export function localRoutes(rows: Transaction, { families, gateway }: Cluster, node: OvnNode): Ref[] {
  const { podNetwork, join, "ovn-k8s-mp0": mp0 } = ovnNodePlans[node];
  const way = gateway === "shared" ? join : mp0;
  return families.flatMap((family) => [
    route(rows, podNetwork[family], way[family], { policy: "src-ip" }),
    route(rows, join[family], join[family]),
  ]);
}

export function remoteRoutes(rows: Transaction, { families }: Cluster, node: OvnNode): Ref[] {
  const { podNetwork, join, transit } = ovnNodePlans[node];
  const more = { external_ids: { "ic-node": node } };
  return families.flatMap((family) =>
    [podNetwork[family], join[family]].map((prefix) => route(rows, prefix, transit[family], more)),
  );
}

/** A pod reaches the addresses of its own node through the management port. */
export function sameNodePolicies(rows: Transaction, { families }: Cluster, node: OvnNode): Ref[] {
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

export function podSnat(rows: Transaction, { families }: Cluster, pod: OvnPod): Ref[] {
  return families.map((family) => snat(rows, ovnNodePlans[pod.node]["br-ex"][family], pod[family]));
}

export function gatewayRouter(
  rows: Transaction,
  cluster: Cluster,
  node: OvnNode,
  pods: readonly OvnPod[],
): void {
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

export function nodeSwitch(rows: Transaction, cluster: Cluster, node: OvnNode, ports: readonly Ref[]): void {
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

export function managementPort(rows: Transaction, { families }: Cluster, node: OvnNode): Ref {
  const plan = ovnNodePlans[node];
  const addresses = families.map((family) => plan["ovn-k8s-mp0"][family]);
  const row = { name: `k8s-${node}`, addresses: [plan.mp0Mac, ...addresses].join(" ") };
  return rows.insert("Logical_Switch_Port", row);
}

export function podPort(rows: Transaction, { families }: Cluster, pod: OvnPod): Ref {
  const addresses = [podMac(pod), ...families.map((family) => pod[family])].join(" ");
  return rows.insert("Logical_Switch_Port", {
    name: portNameOf(pod),
    addresses,
    port_security: addresses,
    external_ids: { namespace: pod.namespace, pod: "true" },
    options: { "iface-id-ver": pod.uid, "requested-chassis": pod.node },
  });
}

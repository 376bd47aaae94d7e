// What stands for OVN: routes, rules and marks of the fabric, as text for `ip -batch` and nft. Pure.
import { address, bits } from "./lines.ts";
import {
  type Family,
  families,
  type NodeName,
  nodeNames,
  nodes,
  type PodName,
  podNames,
  podNetworks,
  pods,
  serviceNetworks,
} from "./topology.ts";

/** Table and connection mark of a node in the fabric. */
function tableOf(node: NodeName): number {
  return nodes[node].number;
}

/** The fabric's leg to a node's management port. */
export function legOf(node: NodeName): string {
  return `mp-${node}`;
}

// Between the fabric's other rules, see fabricRules.
const steeredPreference = 500;

/** Links up, addresses, routes; needs the links to exist. */
export function fabricBatch(): string[] {
  const lines = ["link set lo up"];
  for (const node of nodeNames) {
    const [leg, plan] = [legOf(node), nodes[node]];
    lines.push(...address(plan.gateway, bits, leg), `link set ${leg} up`);
    // Otherwise an answer for a pod waits for up to 0.8 s (RFC 4861 7.2.8).
    for (const cache of ["arp_cache", "ndisc_cache"])
      lines.push(`ntable change name ${cache} dev ${leg} proxy_delay 0`);
    for (const family of families) {
      const port = plan["ovn-k8s-mp0"][family];
      lines.push(
        `route add ${port}/${bits[family]} dev ${leg}`,
        `route add default via ${port} dev ${leg} onlink table ${tableOf(node)}`,
      );
    }
  }
  for (const pod of podNames) {
    const { node } = pods[pod];
    lines.push(...address(nodes[node].gateway, bits, pod), `link set ${pod} up`);
    for (const family of families) {
      lines.push(`route add ${pods[pod][family]}/${bits[family]} dev ${pod}`);
      // A management port has its whole /24 or /64 on the link, as with OVN: somebody must answer.
      lines.push(`neigh add proxy ${pods[pod][family]} dev ${legOf(node)}`);
    }
  }
  return lines;
}

/** The fabric's rules in one family; a `rule add` line in a batch has no family of its own. */
export function fabricRules(family: Family): string[] {
  const toNodes = nodeNames.flatMap((node) => [nodes[node].eth0[family], nodes[node].eth1[family]]);
  return [
    `rule add to ${podNetworks[family]} lookup main pref 100`,
    ...nodeNames.map((node) => `rule add fwmark ${tableOf(node)} lookup ${tableOf(node)} pref 200`),
    // OVN's reroute leaves out what is for the cluster itself.
    ...[...toNodes, serviceNetworks[family]].map((network) => `rule add to ${network} goto 1000 pref 300`),
    // Here, at `steeredPreference`, is what steer() adds.
    ...nodeNames.map(
      (node) => `rule add from ${nodes[node].podNetwork[family]} lookup ${tableOf(node)} pref 1000`,
    ),
  ];
}

/**
 * A reply goes back through the node its connection came in by, steered or not: OVN marks such replies and lets
 * them past the reroute.
 */
export function fabricRuleset(): string {
  const cameInBy = nodeNames.map(
    (node) => `iifname "${legOf(node)}" ct state new ct mark set ${tableOf(node)}`,
  );
  return [
    "table inet fabric {",
    "  chain prerouting {",
    "    type filter hook prerouting priority mangle;",
    ...cameInBy.map((rule) => `    ${rule}`),
    "    ct direction reply meta mark set ct mark",
    "  }",
    "}",
    "",
  ].join("\n");
}

/** `ip rule` arguments that send what a pod starts, in one family, to a node. */
export function steerRule(pod: PodName, node: NodeName, family: Family): string {
  return `from ${pods[pod][family]} lookup ${tableOf(node)} pref ${steeredPreference}`;
}

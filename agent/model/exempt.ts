// Destinations that keep the pod's own source: everything inside the cluster, every node, what never leaves a link. Pure.
// known-faults BL-24, BL-28: all addresses of all nodes, floating ones included, and the in-cluster ranges always.

import { formatDestination, isSingle, parseDestination } from "./destination.ts";
import type { IntentRecord, NetworkFacts } from "./facts.ts";
import { type Address, type Cidr, contains, parseCidr } from "./ip.ts";
import { byCodeUnit } from "./names.ts";
import type { Node } from "./objects.ts";
import type { Settings } from "./settings.ts";

/** Link-local, multicast, loopback and limited broadcast. */
const ALWAYS: readonly string[] = [
  "169.254.0.0/16",
  "224.0.0.0/4",
  "127.0.0.0/8",
  "255.255.255.255/32",
  "fe80::/10",
  "ff00::/8",
  "::1/128",
];

export function exemptFor(
  settings: Settings,
  nodes: ReadonlyMap<string, Node>,
  network: NetworkFacts,
  record: IntentRecord,
  /** Egress IPs that are others': one that is found here all the same is going to be taken away, and is no address of this node. */
  notHeld: ReadonlySet<Address>,
): { readonly 4: readonly string[]; readonly 6: readonly string[] } {
  const members = { 4: new Set<string>(), 6: new Set<string>() };
  const always = ALWAYS.map(parseCidr).filter((cidr) => cidr !== undefined);
  const add = (cidr: Cidr | undefined) => {
    if (cidr === undefined || cidr.length === 0) return;
    const covered = always.some((wide) => wide.length < cidr.length && contains(wide, cidr.address));
    if (!covered) members[cidr.family].add(formatDestination(cidr));
  };
  const addHost = (address: string) => add(parseDestination(address));
  for (const text of ALWAYS) add(parseCidr(text));
  for (const cidr of [...settings.clusterNetworks, ...settings.serviceNetworks, ...settings.exemptNetworks])
    add(cidr);
  for (const node of nodes.values()) {
    for (const { address } of node.hostCidrs) addHost(address);
    for (const address of node.internalAddresses) addHost(address);
  }
  const ours = new Set(record.addresses.map(({ address }) => address));
  for (const entry of network.addresses) {
    const astray = isSingle(entry) && notHeld.has(entry.address);
    if (!ours.has(entry.address) && !astray) addHost(entry.address);
  }
  // Whatever is behind the management port is the cluster's, also networks that no setting names.
  for (const { table, destination, hops } of network.routes) {
    if (table === "main" && hops.some(({ link }) => link === settings.managementPort)) {
      add(parseDestination(destination));
    }
  }
  return Object.freeze({
    4: Object.freeze([...members[4]].sort(byCodeUnit)),
    6: Object.freeze([...members[6]].sort(byCodeUnit)),
  });
}

// Which link of this node an egress IP lives on: the primary one, another one, or none and why. Pure.
// Reference A.5 (annotations) and D.3 (longest prefix over the addresses that are there now). Of the own node the kernel is
// asked: `host-cidrs` is what another component published of it some time ago, and an address that is gone from the link
// answers for nothing. It only serves to say why the control plane chose this node. Nodes that cannot be looked at are told
// by it alone (plan/parts/northbound/next-hops.ts).
import type { Link, LinkAddress } from "../../lib/netlink/pure.ts";
import { isSingle } from "./destination.ts";
import type { NetworkFacts } from "./facts.ts";
import { type Address, type Cidr, contains, familyOf, formatCidr, longestPrefix, parseCidr } from "./ip.ts";
import type { Node } from "./objects.ts";
import { linkTable } from "./owner.ts";

export type Hosting =
  | { readonly kind: "primary" | "secondary"; readonly link: string }
  | { readonly kind: "nowhere"; readonly reason: string };

interface Candidate {
  readonly link: string;
  readonly cidr: Cidr;
  /** Why nothing can leave by this link; it hosts where no other does, to say so. */
  readonly refused?: string;
}

/** The kernel allows almost anything; a name that is a wildcard, quote or comment to a tool hosts nothing. */
const SAFE_NAME = /^[A-Za-z0-9][-A-Za-z0-9_.@]*$/;

/** Addresses by which a link can host: what reference D.3 leaves over. */
export function candidatesOf(network: NetworkFacts, managementPort: string): readonly Candidate[] {
  const links = new Map(network.links.map((link) => [link.name, link]));
  const vrfTables = new Map(
    network.links.flatMap(({ vrf, master, name }) => (vrf ? [[vrf, master || name] as const] : [])),
  );
  return network.addresses.flatMap((entry): readonly Candidate[] => {
    if (entry.link === managementPort || !SAFE_NAME.test(entry.link) || !canHost(entry)) return [];
    const cidr = parseCidr(`${entry.address}/${entry.length}`);
    if (cidr === undefined) return [];
    const refused = refusalOf(links.get(entry.link), vrfTables);
    return [{ link: entry.link, cidr, ...(refused === undefined ? {} : { refused }) }];
  });
}

function refusalOf(link: Link | undefined, vrfTables: ReadonlyMap<string, string>): string | undefined {
  if (link === undefined) return undefined;
  const { name, master, vrf } = link;
  if (master === "" && vrf !== undefined)
    return `link ${name} is a VRF: packets leave by the links that are enslaved to it`;
  // What arrives at a port is the bridge's or bond's, answers to ARP included: no neighbour is ever found through it.
  if (master !== "" && vrf === undefined)
    return `link ${name} is a port of ${master}: its addresses have to be on ${master}`;
  const table = linkTable(link);
  const other = vrfTables.get(table);
  return other === undefined
    ? undefined
    : `routing table ${table} of link ${name} is in use for VRF ${other}; give that VRF another table`;
}

function canHost(entry: LinkAddress): boolean {
  return (
    entry.scope === "global" &&
    !isSingle(entry) &&
    !entry.label.endsWith("vip") &&
    !entry.flags.some((flag) => flag === "secondary" || flag === "deprecated" || flag === "dadfailed")
  );
}

export function hostingOf(
  address: Address,
  node: Node | undefined,
  candidates: readonly Candidate[],
): Hosting {
  const family = familyOf(address);
  const primary = (node?.primary ?? []).find((cidr) => cidr.family === family);
  const usable = candidates.filter(({ refused }) => refused === undefined);
  if (primary !== undefined && contains(primary, address)) {
    const isOn = ({ cidr }: Candidate) =>
      node?.cloud ? contains(primary, cidr.address) : cidr.address === primary.address;
    const link = usable.find(isOn)?.link;
    if (link !== undefined) return { kind: "primary", link };
    const without = `no link of this node has the primary address ${primary.address}`;
    return { kind: "nowhere", reason: candidates.find(isOn)?.refused ?? without };
  }
  if (node?.cloud) {
    return { kind: "nowhere", reason: "outside the network that the cloud gave this node (egress-ipconfig)" };
  }
  const best = longestPrefix(usable, ({ cidr }) => cidr, address);
  if (best === undefined) return { kind: "nowhere", reason: whyNowhere(address, node, candidates) };
  // Without the annotation the link of the node's own address is its primary one.
  const isPrimary =
    primary === undefined &&
    usable.some(({ link, cidr }) => link === best.link && node?.internalAddresses.includes(cidr.address));
  return { kind: isPrimary ? "primary" : "secondary", link: best.link };
}

function whyNowhere(address: Address, node: Node | undefined, candidates: readonly Candidate[]): string {
  const refused = longestPrefix(candidates, ({ cidr }) => cidr, address)?.refused;
  if (refused !== undefined) return refused;
  const none = `no link of this node has an address whose network contains ${address}`;
  const published = longestPrefix(node?.hostCidrs ?? [], (cidr) => cidr, address);
  return published === undefined
    ? none
    : `${none}; k8s.ovn.org/host-cidrs has ${formatCidr(published)}, which no link has now, or only as a secondary, deprecated or floating address`;
}

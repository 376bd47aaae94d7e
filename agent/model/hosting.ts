// Which link of this node an egress IP lives on: the primary one, another one, or none and why. Pure.
// Reference A.5 (annotations) and D.3 (longest prefix over the addresses that are there now).
import type { LinkAddress } from "../../lib/netlink/pure.ts";
import type { NetworkFacts } from "./facts.ts";
import { type Address, type Cidr, contains, familyOf, longestPrefix, parseCidr } from "./ip.ts";
import type { Node } from "./objects.ts";

export type Hosting =
  | { readonly kind: "primary" | "secondary"; readonly link: string }
  | { readonly kind: "nowhere"; readonly reason: string };

interface Candidate {
  readonly link: string;
  readonly cidr: Cidr;
}

/** The kernel allows almost anything; a name that is a wildcard, quote or comment to a tool hosts nothing. */
const SAFE_NAME = /^[A-Za-z0-9][-A-Za-z0-9_.@]*$/;

/** Addresses by which a link can host: what reference D.3 leaves over. */
export function candidatesOf(network: NetworkFacts, managementPort: string): readonly Candidate[] {
  return network.addresses.flatMap((entry) => {
    if (entry.link === managementPort || !SAFE_NAME.test(entry.link) || !canHost(entry)) return [];
    const cidr = parseCidr(`${entry.address}/${entry.length}`);
    return cidr === undefined ? [] : [{ link: entry.link, cidr }];
  });
}

function canHost(entry: LinkAddress): boolean {
  return (
    entry.scope === "global" &&
    entry.length < (entry.family === 4 ? 32 : 128) &&
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
  const best = longestPrefix(candidates, ({ cidr }) => cidr, address);
  if (primary !== undefined && contains(primary, address)) {
    const link = node?.cloud
      ? candidates.find(({ cidr }) => contains(primary, cidr.address))?.link
      : candidates.find(({ cidr }) => cidr.address === primary.address)?.link;
    if (link === undefined) {
      return { kind: "nowhere", reason: `no link of this node has the primary address ${primary.address}` };
    }
    return { kind: "primary", link };
  }
  if (node?.cloud) {
    return { kind: "nowhere", reason: "outside the network that the cloud gave this node (egress-ipconfig)" };
  }
  if (best === undefined) {
    return {
      kind: "nowhere",
      reason: `no link of this node has an address whose network contains ${address}`,
    };
  }
  // Without the annotation the link of the node's own address is its primary one.
  const isPrimary =
    primary === undefined &&
    candidates.some(({ link, cidr }) => link === best.link && node?.internalAddresses.includes(cidr.address));
  return { kind: isPrimary ? "primary" : "secondary", link: best.link };
}

// Which nodes can host an address, by the networks that they publish (reference A.5): primary, or another of their links.
// In: nodes. Out: a function of an address, which asks by prefix length and not node by node. Pure.
import {
  type Address,
  type Cidr,
  familyOf,
  isLinkLocal,
  isLoopback,
  isMulticast,
  isUnspecified,
  networkOf,
} from "../model/ip.ts";
import type { Node } from "../model/objects.ts";
import type { Member } from "./objects.ts";
import { union, without } from "./sets.ts";

export interface Hosts {
  readonly primary: ReadonlySet<string>;
  readonly secondary: ReadonlySet<string>;
}

type Networks = Map<number, Map<Address, Set<string>>>;

export function hostsOf(members: readonly Member[]): (address: Address) => Hosts {
  const primary: Networks = new Map();
  const secondary: Networks = new Map();
  for (const { name, node } of members) {
    for (const cidr of node.primary) note(primary, cidr, name);
    for (const cidr of secondaryOf(node)) note(secondary, cidr, name);
  }
  return (address) => {
    const first = find(primary, address);
    const other = find(secondary, address);
    // Inside its primary network a node hosts it there, whatever else it has.
    return { primary: first, secondary: without(other, first) };
  };
}

/** Networks by which a node hosts besides its primary one; a cloud delivers to no other. */
function secondaryOf({ cloud, hostCidrs, primary }: Node): readonly Cidr[] {
  if (cloud) return [];
  const own = new Set(primary.map(({ address }) => address));
  return hostCidrs.filter(({ address }) => !own.has(address) && isGlobal(address));
}

function isGlobal(address: Address): boolean {
  return !isLinkLocal(address) && !isLoopback(address) && !isMulticast(address) && !isUnspecified(address);
}

/** Lengths of IPv6 are told apart by 1000, so that one number is the key. */
const keyOf = (family: number, length: number) => (family === 4 ? length : 1000 + length);

function note(networks: Networks, { family, network, length }: Cidr, name: string): void {
  const key = keyOf(family, length);
  const known = networks.get(key) ?? new Map<Address, Set<string>>();
  networks.set(key, known);
  known.set(network, (known.get(network) ?? new Set()).add(name));
}

const nobody: ReadonlySet<string> = new Set();

function find(networks: Networks, address: Address): ReadonlySet<string> {
  const six = familyOf(address) === 6;
  let found: ReadonlySet<string> = nobody;
  for (const [key, known] of networks) {
    if (key >= 1000 !== six) continue;
    const names = known.get(networkOf(address, six ? key - 1000 : key));
    if (names !== undefined) found = union(found, names);
  }
  return found;
}

// The addresses of one pool: which may never be given, and the lowest that is free. In: a pool, what is taken. Out: an address. Pure.
import { type Address, addressAt, type Cidr, contains } from "../model/ip.ts";
import type { Pool } from "./kinds/egressipam.ts";
import type { Member } from "./objects.ts";

/** Why an address of the pool is nobody's to have, in words; undefined where it may be given. */
export type Refusal = (address: Address) => string | undefined;

/** Clouds keep the first three of a subnet for themselves. */
const CLOUD_KEEPS = new Set(["aws", "azure"]);

export function refusalOf({ cidr, reserved }: Pool, members: readonly Member[]): Refusal {
  const [first, last] = edgesOf(cidr);
  const nodes = new Map<Address, string>();
  const gateways = new Set<Address>();
  for (const { name, node, gateways: hops } of members) {
    for (const hop of hops) gateways.add(hop);
    for (const { address } of [...node.hostCidrs, ...node.primary]) nodes.set(address, name);
    for (const address of node.internalAddresses) nodes.set(address, name);
  }
  const kept = members.some(({ provider }) => CLOUD_KEEPS.has(provider))
    ? new Set([1, 2, 3].map((place) => addressAt(cidr, place)))
    : new Set<Address>();
  return (address) => {
    if (cidr.length <= 30 && address === first) return "is the network's own address";
    if (cidr.length <= 30 && address === last) return "is the network's broadcast address";
    if (reserved.has(address)) return "is in reservedIPs";
    if (gateways.has(address)) return "is a gateway";
    if (kept.has(address)) return "is kept by the cloud";
    const node = nodes.get(address);
    return node === undefined ? undefined : `is an address of node ${node}`;
  };
}

function edgesOf(cidr: Cidr): readonly [Address, Address] {
  return [cidr.network, addressAt(cidr, 2 ** (32 - cidr.length) - 1)];
}

/** Gives the lowest free addresses one after the other; undefined when there is none left. */
export function openPool(pool: Pool, refused: Refusal, taken: ReadonlyMap<Address, string>) {
  const size = 2 ** (32 - pool.cidr.length);
  let place = 0;
  return (): Address | undefined => {
    for (; place < size; place++) {
      const address = addressAt(pool.cidr, place);
      if (refused(address) === undefined && !taken.has(address)) return address;
    }
    return undefined;
  };
}

export const inPool = ({ cidr }: Pool, address: Address) => contains(cidr, address);

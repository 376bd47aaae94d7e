// Addresses and networks in one place of text: `10.1.2.3` is 10.1.2.3/32, and /32 is not written. As ip, nft, ipset and OVN do. Pure.
import { type Cidr, type Family, formatPrefix, parseCidr } from "./ip.ts";

/** Whether a prefix of this length is one address. */
export function isSingle({ family, length }: { readonly family: Family; readonly length: number }): boolean {
  return length === (family === 4 ? 32 : 128);
}

export function parseDestination(text: string): Cidr | undefined {
  return parseCidr(text.includes("/") ? text : `${text}/${text.includes(":") ? 128 : 32}`);
}

/** The network, without a length for a single address. */
export function formatDestination(cidr: Cidr): string {
  return isSingle(cidr) ? cidr.network : formatPrefix(cidr);
}

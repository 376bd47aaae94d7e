// Frames that ask who has an address without saying that the asker has it: no neighbour learns anything from them.
// In: MAC and IP addresses as text. Out: whole Ethernet frames. Pure.
// Sources: RFC 5227 section 2.1.1, RFC 4861 sections 4.3 and 7.2, RFC 4862 section 5.4.2, RFC 4291 section 2.7.1.
import { arpRequest, hostBytes, icmpV6, linkLocalBytes, macBytes } from "./bytes.ts";

const UNSPECIFIED = Array<number>(16).fill(0);

/** An ARP probe: a request for `address` from 0.0.0.0. */
export function arpProbe(mac: string, address: string): Uint8Array {
  const target = hostBytes(address);
  if (target.length !== 4) throw new RangeError(`not an IPv4 address: ${address}`);
  return arpRequest(macBytes(mac), [0, 0, 0, 0], target);
}

/**
 * A neighbour solicitation for `address` to its solicited-node group. From `source`, a link-local address, it is answered
 * to that address alone; without one it is what duplicate address detection sends, and the answer goes to all nodes, with
 * Override: their neighbour entries follow it.
 */
export function solicitation(mac: string, source: string | undefined, address: string): Uint8Array {
  const link = macBytes(mac);
  const target = hostBytes(address);
  if (target.length !== 16) throw new RangeError(`not an IPv6 address: ${address}`);
  const from = source === undefined ? UNSPECIFIED : linkLocalBytes(source);
  // Option 1, length 1: source link-layer address. Not with the unspecified source (RFC 4861 section 4.3).
  const option = source === undefined ? [] : [1, 1, ...link];
  const group = [0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0xff, ...target.slice(13)];
  return icmpV6(link, from, group, [135, 0, 0, 0, 0, 0, 0, 0, ...target, ...option]);
}

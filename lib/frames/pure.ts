// Announcement frames as bytes: a gratuitous ARP request and an unsolicited neighbor advertisement.
// In: MAC and IP addresses as text. Out: whole Ethernet frames. Pure.
// Sources: RFC 826, RFC 5227, RFC 4861, RFC 4291.
import { arpRequest, hostBytes, icmpV6, linkLocalBytes, macBytes } from "./bytes.ts";

export { type Answer, answersIn, claimFilter, claimIn, type Instruction } from "./claims.ts";
export { arpProbe, solicitation } from "./questions.ts";

const ALL_NODES = [0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01] as const;

/**
 * A gratuitous ARP request for `address` (dotted quad): sender = target = address, target MAC all zeros.
 * A request and not a reply, because that is what RFC 5227 section 3 found every stack to accept.
 * Throws RangeError for text that is not such an address, and for 0.0.0.0: that would be a probe.
 */
export function garp(mac: string, address: string): Uint8Array {
  const link = macBytes(mac);
  const ip = hostBytes(address);
  if (ip.length !== 4) throw new RangeError(`not an IPv4 address: ${address}`);
  return arpRequest(link, ip, ip);
}

/**
 * An unsolicited neighbor advertisement for `address` to all nodes of the link, sent from `linkLocalSource`.
 * Throws RangeError for text that is not such an address, a source outside fe80::/10, and a target that is
 * unspecified, multicast (RFC 4861 section 7.1.2) or an IPv4 address in IPv6 clothes.
 */
export function unsolicitedNa(mac: string, linkLocalSource: string, address: string): Uint8Array {
  const link = macBytes(mac);
  const source = linkLocalBytes(linkLocalSource);
  const target = hostBytes(address);
  if (target.length !== 16) throw new RangeError(`not an IPv6 address: ${address}`);
  // Flags: Router and Solicited clear, Override set, or neighbours would keep the MAC they have (7.2.5).
  // Option 2, length 1 (times 8 bytes): target link-layer address.
  return icmpV6(link, source, ALL_NODES, [136, 0, 0, 0, 0x20, 0, 0, 0, ...target, 2, 1, ...link]);
}

/** The link-local address that a link with this MAC gives itself: fe80::/64 and the modified EUI-64. */
export function linkLocalFromMac(mac: string): string {
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = macBytes(mac);
  const id = [((a ^ 0x02) << 8) | b, (c << 8) | 0xff, 0xfe00 | d, (e << 8) | f];
  // RFC 5952: the longest run of zero groups is shortened, and a zero first group belongs to that run.
  return `fe80::${(id[0] === 0 ? id.slice(1) : id).map((group) => group.toString(16)).join(":")}`;
}

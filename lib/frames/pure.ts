// Announcement frames as bytes: a gratuitous ARP request and an unsolicited neighbor advertisement.
// In: MAC and IP addresses as text. Out: whole Ethernet frames. Pure.
// Sources: RFC 826, RFC 5227, RFC 4861, RFC 4291.

/** Ethernet without its checksum; a shorter frame is padded here, not left to the driver. */
const SHORTEST_FRAME = 60;
const BROADCAST = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] as const;
const NO_MAC = [0, 0, 0, 0, 0, 0] as const;
/** ff02::1 and the multicast MAC it maps to (RFC 2464 section 7). */
const ALL_NODES = [0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01] as const;
const ALL_NODES_MAC = [0x33, 0x33, 0, 0, 0, 0x01] as const;
const ICMPV6 = 58;

/**
 * A gratuitous ARP request for `address` (dotted quad): sender = target = address, target MAC all zeros.
 * A request and not a reply, because that is what RFC 5227 section 3 found every stack to accept.
 * Throws RangeError for text that is not such an address, and for 0.0.0.0: that would be a probe.
 */
export function garp(mac: string, address: string): Uint8Array {
  const link = macBytes(mac);
  const ip = ipv4Bytes(address);
  if (ip.every((byte) => byte === 0)) throw new RangeError(`${address} cannot be announced`);
  const frame = new Uint8Array(SHORTEST_FRAME);
  frame.set([...BROADCAST, ...link, 0x08, 0x06]);
  // Hardware Ethernet, protocol IPv4, lengths 6 and 4, operation request.
  frame.set([0, 1, 0x08, 0x00, 6, 4, 0, 1, ...link, ...ip, ...NO_MAC, ...ip], 14);
  return frame;
}

/**
 * An unsolicited neighbor advertisement for `address` to all nodes of the link, sent from `linkLocalSource`.
 * Throws RangeError for text that is not such an address, a source outside fe80::/10, and a target that is
 * unspecified, multicast (RFC 4861 section 7.1.2) or an IPv4 address in IPv6 clothes.
 */
export function unsolicitedNa(mac: string, linkLocalSource: string, address: string): Uint8Array {
  const link = macBytes(mac);
  const source = ipv6Bytes(linkLocalSource);
  const target = ipv6Bytes(address);
  if (source[0] !== 0xfe || ((source[1] ?? 0) & 0xc0) !== 0x80) {
    throw new RangeError(`not a link-local address: ${linkLocalSource}`);
  }
  if (!isAnnounceable(target)) throw new RangeError(`${address} cannot be announced`);
  // Flags: Router and Solicited clear, Override set, or neighbours would keep the MAC they have (7.2.5).
  // Option 2, length 1 (times 8 bytes): target link-layer address.
  const icmp = Uint8Array.of(136, 0, 0, 0, 0x20, 0, 0, 0, ...target, 2, 1, ...link);
  const pseudoHeader = [...source, ...ALL_NODES, 0, 0, 0, icmp.length, 0, 0, 0, ICMPV6];
  const checksum = internetChecksum([...pseudoHeader, ...icmp]);
  icmp.set([checksum >> 8, checksum & 0xff], 2);
  // Hop limit 255: receivers drop anything less (7.1.2), it proves that no router forwarded this.
  const ipv6 = [0x60, 0, 0, 0, 0, icmp.length, ICMPV6, 255, ...source, ...ALL_NODES];
  return Uint8Array.of(...ALL_NODES_MAC, ...link, 0x86, 0xdd, ...ipv6, ...icmp);
}

/** The link-local address that a link with this MAC gives itself: fe80::/64 and the modified EUI-64. */
export function linkLocalFromMac(mac: string): string {
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = macBytes(mac);
  const id = [((a ^ 0x02) << 8) | b, (c << 8) | 0xff, 0xfe00 | d, (e << 8) | f];
  // RFC 5952: the longest run of zero groups is shortened, and a zero first group belongs to that run.
  return `fe80::${(id[0] === 0 ? id.slice(1) : id).map((group) => group.toString(16)).join(":")}`;
}

function isAnnounceable(ip: readonly number[]): boolean {
  const mapped = ip.slice(0, 10).every((byte) => byte === 0) && ip[10] === 0xff && ip[11] === 0xff;
  return !mapped && ip[0] !== 0xff && ip.some((byte) => byte !== 0);
}

/** RFC 1071: the complement of the one's complement sum of 16-bit words. */
function internetChecksum(bytes: readonly number[]): number {
  let sum = 0;
  for (const [at, byte] of bytes.entries()) sum += at % 2 === 0 ? byte << 8 : byte;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

function macBytes(text: string): readonly number[] {
  if (!/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i.test(text)) throw new RangeError(`not a MAC address: ${text}`);
  return text.split(":").map((byte) => Number.parseInt(byte, 16));
}

/**
 * Four bytes, read from the text itself. Taking the first four of a 16-byte form is how 0.0.0.0 gets announced:
 * there the IPv4 address sits at the end.
 */
function ipv4Bytes(text: string): readonly number[] {
  const bytes = text.split(".").map((part) => (/^(0|[1-9]\d{0,2})$/.test(part) ? Number(part) : 256));
  if (bytes.length !== 4 || bytes.some((byte) => byte > 255))
    throw new RangeError(`not an IPv4 address: ${text}`);
  return bytes;
}

/** RFC 4291 section 2.2, all three forms; no zone, no prefix length. */
function ipv6Bytes(text: string): readonly number[] {
  const hex = text.replace(/(?<=:)\d+\.\d+\.\d+\.\d+$/, (quad) => {
    const [a = 0, b = 0, c = 0, d = 0] = ipv4Bytes(quad);
    return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  });
  const [head = [], tail, ...more] = hex.split("::").map((half) => (half === "" ? [] : half.split(":")));
  const missing = 8 - head.length - (tail?.length ?? 0);
  const groups = [...head, ...Array<string>(Math.max(0, missing)).fill("0"), ...(tail ?? [])];
  const complete = tail === undefined ? missing === 0 : missing > 0 && more.length === 0;
  if (!complete || !groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) {
    throw new RangeError(`not an IPv6 address: ${text}`);
  }
  return groups.map((group) => Number.parseInt(group, 16)).flatMap((group) => [group >> 8, group & 0xff]);
}

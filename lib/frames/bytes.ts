// What all frames are made of: addresses as bytes, an ARP request, an ICMPv6 message in its headers. In: text. Out: bytes. Pure.
// Text that is not an address of the right family is a RangeError: it never becomes a frame with zeros in it.

/** Ethernet without its checksum; a shorter frame is padded here, not left to the driver. */
const SHORTEST_FRAME = 60;
const BROADCAST = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] as const;
const NO_MAC = [0, 0, 0, 0, 0, 0] as const;
const ICMPV6 = 58;

/** A broadcast ARP request (RFC 826): hardware Ethernet, protocol IPv4, lengths 6 and 4, operation 1, target MAC zeros. */
export function arpRequest(
  mac: readonly number[],
  sender: readonly number[],
  target: readonly number[],
): Uint8Array {
  const frame = new Uint8Array(SHORTEST_FRAME);
  frame.set([...BROADCAST, ...mac, 0x08, 0x06]);
  frame.set([0, 1, 0x08, 0x00, 6, 4, 0, 1, ...mac, ...sender, ...NO_MAC, ...target], 14);
  return frame;
}

/** An ICMPv6 message to a multicast group; its checksum (bytes 2 and 3) is put in here. */
export function icmpV6(
  mac: readonly number[],
  source: readonly number[],
  group: readonly number[],
  message: readonly number[],
): Uint8Array {
  const icmp = [...message];
  const pseudoHeader = [...source, ...group, 0, 0, 0, icmp.length, 0, 0, 0, ICMPV6];
  const checksum = internetChecksum([...pseudoHeader, ...icmp]);
  icmp.splice(2, 2, checksum >> 8, checksum & 0xff);
  // Hop limit 255: receivers drop anything less (RFC 4861 section 7.1), it proves that no router forwarded this.
  const ipv6 = [0x60, 0, 0, 0, 0, icmp.length, ICMPV6, 255, ...source, ...group];
  // RFC 2464 section 7: the MAC of a group is 33:33 and its last four bytes.
  return Uint8Array.of(0x33, 0x33, ...group.slice(12), ...mac, 0x86, 0xdd, ...ipv6, ...icmp);
}

/** RFC 1071: the complement of the one's complement sum of 16-bit words. */
function internetChecksum(bytes: readonly number[]): number {
  let sum = 0;
  for (const [at, byte] of bytes.entries()) sum += at % 2 === 0 ? byte << 8 : byte;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

export function macBytes(text: string): readonly number[] {
  if (!/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i.test(text)) throw new RangeError(`not a MAC address: ${text}`);
  return text.split(":").map((byte) => Number.parseInt(byte, 16));
}

export function macText(bytes: Iterable<number>): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

/** The bytes of an address that one host can have, 4 or 16: neither unspecified nor multicast nor IPv4 in IPv6 clothes. */
export function hostBytes(address: string): readonly number[] {
  const ip = address.includes(":") ? ipv6Bytes(address) : ipv4Bytes(address);
  const mapped =
    ip.length === 16 && ip.slice(0, 10).every((byte) => byte === 0) && ip[10] === 0xff && ip[11] === 0xff;
  const multicast = ip.length === 16 && ip[0] === 0xff;
  if (mapped || multicast || ip.every((byte) => byte === 0))
    throw new RangeError(`${address} cannot be announced`);
  return ip;
}

export function linkLocalBytes(address: string): readonly number[] {
  const ip = ipv6Bytes(address);
  if (ip[0] === 0xfe && ((ip[1] ?? 0) & 0xc0) === 0x80) return ip;
  throw new RangeError(`not a link-local address: ${address}`);
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

// IP addresses and prefixes: strict reading, one canonical text each, and the arithmetic on them.
// In: text from an API, a file or a tool. Out: canonical text that compares with ===, or undefined. Pure.
// Text stays the currency because everything the agent prints, hashes or hands to a tool is text.

export type Family = 4 | 6;

/** Canonical text: dotted quad, or IPv6 as RFC 5952 writes it (what Go's `net.IP.String()` prints). */
export type Address = string;

export interface Cidr {
  readonly family: Family;
  /** As written, host bits kept: `172.18.0.3` of `172.18.0.3/16`. */
  readonly address: Address;
  /** Host bits cleared: `172.18.0.0`. */
  readonly network: Address;
  /** Prefix length in bits. */
  readonly length: number;
}

/** Eight 16-bit groups; numbers, not one bigint, which takes twice as long to build. */
type Groups = readonly number[];

const zero = 48;
const colon = 58;
const dot = 46;

/**
 * Reads one address and nothing around it: no mask, no zone id, no blanks, no leading zeros in a dotted quad
 * (octal to some tools, decimal to others), no short forms like `10.1`. IPv4-mapped IPv6 (`::ffff:0:0/96`,
 * RFC 4291 2.5.5.2) is refused: Go takes it for IPv4, the kernel for IPv6, so the same text would mean two
 * things in one dataplane.
 */
export function parseAddress(text: string): Address | undefined {
  if (text.length > 45) return undefined;
  if (!text.includes(":")) return quad(text, 0) < 0 ? undefined : text;
  const groups = readGroups(text);
  return groups === undefined || isMapped(groups) ? undefined : printGroups(groups);
}

/** Reads `ADDRESS/LENGTH`; the length is required, in range, and has no leading zero or sign. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf("/");
  if (slash < 0) return undefined;
  const address = parseAddress(text.slice(0, slash));
  if (address === undefined) return undefined;
  const written = text.slice(slash + 1);
  if (!/^(0|[1-9]\d{0,2})$/.test(written)) return undefined;
  const length = Number(written);
  const family = familyOf(address);
  if (length > bitsOf(family)) return undefined;
  return { family, address, network: networkOf(address, length), length };
}

export function formatCidr(cidr: Cidr): string {
  return `${cidr.address}/${cidr.length}`;
}

export function familyOf(address: Address): Family {
  return address.includes(":") ? 6 : 4;
}

/** The address with all but its first `length` bits cleared. */
export function networkOf(address: Address, length: number): Address {
  const family = familyOf(address);
  if (!(Number.isInteger(length) && length >= 0 && length <= bitsOf(family)))
    throw new RangeError(`${length} is not a prefix length for ${address}`);
  if (family === 4) return printQuad(quadOf(address) & quadMask(length));
  return printGroups(groupsOf(address).map((group, at) => group & groupMask(length - at * 16)));
}

/** Whether `address` lies in the prefix; an address of the other family never does. */
export function contains(cidr: Cidr, address: Address): boolean {
  if (familyOf(address) !== cidr.family) return false;
  if (cidr.family === 4) return ((quadOf(address) ^ quadOf(cidr.network)) & quadMask(cidr.length)) === 0;
  const ours = groupsOf(cidr.network);
  return groupsOf(address).every(
    (group, at) => ((group ^ (ours[at] ?? 0)) & groupMask(cidr.length - at * 16)) === 0,
  );
}

/** The prefix with its host bits cleared, `10.244.0.0/16`. */
export function formatPrefix({ network, length }: Cidr): string {
  return `${network}/${length}`;
}

/** The address at this place of a prefix: place 2 of 10.244.1.0/24 is 10.244.1.2. Places of the last group or octet only. */
export function addressAt({ family, network }: Cidr, place: number): Address {
  if (family === 4) return printQuad(quadOf(network) + place);
  return printGroups(groupsOf(network).map((group, at) => (at === 7 ? group + place : group)));
}

/**
 * The item whose prefix is the longest that contains `address`; of equally long ones the first in the list.
 */
export function longestPrefix<T>(
  items: Iterable<T>,
  cidrOf: (item: T) => Cidr,
  address: Address,
): T | undefined {
  let best: T | undefined;
  let length = -1;
  for (const item of items) {
    const cidr = cidrOf(item);
    if (cidr.length <= length || !contains(cidr, address)) continue;
    best = item;
    length = cidr.length;
  }
  return best;
}

/** IPv4 before IPv6, then by number; for `sort`. */
export function compareAddresses(a: Address, b: Address): number {
  const family = familyOf(a);
  if (family !== familyOf(b)) return family === 4 ? -1 : 1;
  if (family === 4) return (quadOf(a) >>> 0) - (quadOf(b) >>> 0);
  const right = groupsOf(b);
  for (const [at, group] of groupsOf(a).entries()) {
    const difference = group - (right[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Sorted by compareAddresses and frozen. */
export function sortedAddresses(addresses: Iterable<Address>): readonly Address[] {
  return Object.freeze([...addresses].sort(compareAddresses));
}

/** Network byte order: four or sixteen numbers from 0 to 255. */
export function toBytes(address: Address): readonly number[] {
  if (familyOf(address) === 6) return groupsOf(address).flatMap((group) => [group >> 8, group & 0xff]);
  const value = quadOf(address);
  return [value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff];
}

/** 169.254.0.0/16 (RFC 3927) or fe80::/10 (RFC 4291 2.5.6). */
export function isLinkLocal(address: Address): boolean {
  return within(address, 0xa9fe0000, 16, 0xfe80, 10);
}

/** 224.0.0.0/4 (RFC 5771) or ff00::/8 (RFC 4291 2.7). */
export function isMulticast(address: Address): boolean {
  return within(address, 0xe0000000, 4, 0xff00, 8);
}

/** 127.0.0.0/8 (RFC 1122 3.2.1.3) or ::1. */
export function isLoopback(address: Address): boolean {
  return address === "::1" || (familyOf(address) === 4 && (quadOf(address) & quadMask(8)) === 0x7f000000);
}

/** 0.0.0.0 or ::, "no address". */
export function isUnspecified(address: Address): boolean {
  return address === "0.0.0.0" || address === "::";
}

function within(address: Address, quadPrefix: number, quadBits: number, group: number, groupBits: number) {
  if (familyOf(address) === 4) return ((quadOf(address) ^ quadPrefix) & quadMask(quadBits)) === 0;
  return (((groupsOf(address)[0] ?? 0) ^ group) & groupMask(groupBits)) === 0;
}

function bitsOf(family: Family): 32 | 128 {
  return family === 4 ? 32 : 128;
}

/**
 * As a signed 32-bit number, for the bit operators. A shift by 32 is a shift by 0 in JavaScript, hence the
 * question.
 */
function quadMask(length: number): number {
  return length === 0 ? 0 : -1 << (32 - length);
}

/** Mask of one group when `length` prefix bits are left from its first bit on; may be below 0 or above 16. */
function groupMask(length: number): number {
  if (length <= 0) return 0;
  return length >= 16 ? 0xffff : (0xffff << (16 - length)) & 0xffff;
}

/** A canonical address only comes from parseAddress, so anything else here is a mistake in the program. */
function quadOf(address: Address): number {
  const value = quad(address, 0);
  if (value < 0) throw new TypeError(`not an IPv4 address: ${JSON.stringify(address)}`);
  return value | 0;
}

function groupsOf(address: Address): Groups {
  const groups = readGroups(address);
  if (groups === undefined) throw new TypeError(`not an IPv6 address: ${JSON.stringify(address)}`);
  return groups;
}

/** The dotted quad that is all of `text` from `from` on, as an unsigned number; -1 when it is not one. */
function quad(text: string, from: number): number {
  let value = 0;
  let octet = -1;
  let dots = 0;
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === dot) {
      if (octet < 0 || ++dots > 3) return -1;
      value = value * 256 + octet;
      octet = -1;
    } else {
      const digit = code - zero;
      // octet 0 followed by a digit is a leading zero
      if (digit < 0 || digit > 9 || octet === 0) return -1;
      octet = octet < 0 ? digit : octet * 10 + digit;
      if (octet > 255) return -1;
    }
  }
  return dots === 3 && octet >= 0 ? value * 256 + octet : -1;
}

/** Eight groups of any valid IPv6 text (RFC 4291 2.2, all three forms); undefined when it is not one. */
function readGroups(text: string): number[] | undefined {
  const groups: number[] = [];
  let gap = -1;
  let at = 0;
  if (text.charCodeAt(0) === colon) {
    if (text.charCodeAt(1) !== colon) return undefined;
    gap = 0;
    at = 2;
  }
  while (at < text.length) {
    if (groups.length === 8) return undefined;
    const start = at;
    let group = 0;
    for (; at < text.length; at++) {
      const digit = hexDigit(text.charCodeAt(at));
      if (digit < 0) break;
      group = group * 16 + digit;
    }
    if (text.charCodeAt(at) === dot) {
      const value = quad(text, start);
      if (value < 0 || groups.length > 6) return undefined;
      groups.push(value >>> 16, value & 0xffff);
      break;
    }
    if (at === start || at - start > 4) return undefined;
    groups.push(group);
    if (at === text.length) break;
    if (text.charCodeAt(at) !== colon) return undefined;
    at++;
    if (text.charCodeAt(at) === colon) {
      if (gap >= 0) return undefined;
      gap = groups.length;
      at++;
    } else if (at === text.length) return undefined;
  }
  if (gap < 0) return groups.length === 8 ? groups : undefined;
  // "::" stands for at least one group
  if (groups.length > 7) return undefined;
  groups.splice(gap, 0, ...new Array<number>(8 - groups.length).fill(0));
  return groups;
}

function hexDigit(code: number): number {
  if (code >= zero && code <= 57) return code - zero;
  const lower = code | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}

function isMapped(groups: Groups): boolean {
  return groups[5] === 0xffff && groups.every((group, at) => at >= 5 || group === 0);
}

function printQuad(value: number): Address {
  return `${value >>> 24}.${(value >>> 16) & 0xff}.${(value >>> 8) & 0xff}.${value & 0xff}`;
}

/**
 * RFC 5952 section 4: lower case, no leading zeros, the longest run of two or more zero groups (the first of
 * equals) as `::`.
 */
function printGroups(groups: Groups): Address {
  let start = -1;
  let longest = 1;
  for (let at = 0; at < 8; at++) {
    let end = at;
    while (end < 8 && groups[end] === 0) end++;
    if (end - at > longest) {
      start = at;
      longest = end - at;
    }
    at = end;
  }
  const hex = (from: number, to?: number) =>
    groups
      .slice(from, to)
      .map((group) => group.toString(16))
      .join(":");
  return start < 0 ? hex(0) : `${hex(0, start)}::${hex(start + longest)}`;
}

// What is seen of others: a frame that says "this address is at this MAC", and the filter that lets only such frames in.
// In: frames, printed by perl as hex. Out: claims; filters as instructions of classic BPF. Pure.
// Sources: RFC 826, RFC 5227 section 2.4, RFC 4861 sections 4.4 and 7.1.2, Linux' filter.rst.
import { hostBytes, macText } from "./bytes.ts";

/** Somebody says that they have this address. */
export interface Answer {
  readonly ifindex: number;
  readonly address: string;
  readonly mac: string;
}

/** Code, jump if true, jump if false, operand. */
export type Instruction = readonly [code: number, jt: number, jf: number, k: number];

/** Beyond that a filter would be charged more memory than older kernels allow a socket: everything passes, and is sorted out here. */
const MOST_IN_FILTER = 500;

const LOAD_WORD = 0x20;
const LOAD_BYTE = 0x30;
const JUMP_IF_EQUAL = 0x15;
const RETURN = 0x06;
const REJECT: Instruction = [RETURN, 0, 0, 0];
const ACCEPT: Instruction = [RETURN, 0, 0, 0x40000];

/** Offsets in a frame. */
const ARP = { operation: 20, senderMac: 22, senderIp: 28, end: 42 } as const;
const NA = { nextHeader: 20, hopLimit: 21, type: 54, target: 62, options: 78 } as const;
const ADVERTISEMENT = 136;

/**
 * For a socket that gets the frames of one family: ARP whose sender is one of the addresses, neighbour advertisements with
 * one as target. Of IPv6 the last four bytes are compared: who reads what passes compares the rest.
 */
export function claimFilter(family: 4 | 6, addresses: readonly string[]): readonly Instruction[] {
  const has = (at: number, value: number): readonly Instruction[] => [
    [LOAD_BYTE, 0, 0, at],
    [JUMP_IF_EQUAL, 1, 0, value],
    REJECT,
  ];
  const kind =
    family === 4 ? [] : [...has(NA.nextHeader, 58), ...has(NA.hopLimit, 255), ...has(NA.type, ADVERTISEMENT)];
  const words = new Set(addresses.map((address) => lastWord(hostBytes(address))));
  if (words.size > MOST_IN_FILTER) return [...kind, ACCEPT];
  return [
    ...kind,
    [LOAD_WORD, 0, 0, family === 4 ? ARP.senderIp : NA.target + 12],
    ...[...words].flatMap((word): readonly Instruction[] => [[JUMP_IF_EQUAL, 0, 1, word], ACCEPT]),
    REJECT,
  ];
}

function lastWord(bytes: readonly number[]): number {
  return bytes.slice(-4).reduce((word, byte) => word * 256 + byte, 0);
}

/**
 * Whose claim a frame is: the address as hex digits, and the MAC that neighbours would send to. Undefined for any other
 * frame: a probe has no sender address, and a solicitation only asks.
 */
export function claimIn(frame: Uint8Array): { readonly key: string; readonly mac: string } | undefined {
  const claim = startsWith(frame, 12, [0x08, 0x06]) ? arpClaim(frame) : advertised(frame);
  if (claim === undefined) return undefined;
  const { ip, mac } = claim;
  // A group is no host, and nobody is at zeros.
  const nobody =
    ((mac[0] ?? 1) & 1) === 1 || mac.every((byte) => byte === 0) || ip.every((byte) => byte === 0);
  return nobody ? undefined : { key: hexOf(ip), mac: macText(mac) };
}

function arpClaim(frame: Uint8Array): { readonly ip: Uint8Array; readonly mac: Uint8Array } | undefined {
  const isArp = frame.length >= ARP.end && startsWith(frame, 14, [0, 1, 0x08, 0x00, 6, 4, 0]);
  const operation = frame[ARP.operation + 1];
  if (!isArp || (operation !== 1 && operation !== 2)) return undefined;
  return {
    ip: frame.subarray(ARP.senderIp, ARP.senderIp + 4),
    mac: frame.subarray(ARP.senderMac, ARP.senderMac + 6),
  };
}

function advertised(frame: Uint8Array): { readonly ip: Uint8Array; readonly mac: Uint8Array } | undefined {
  const isAdvertisement =
    frame.length >= NA.options &&
    startsWith(frame, 12, [0x86, 0xdd]) &&
    startsWith(frame, NA.nextHeader, [58, 255]) &&
    startsWith(frame, NA.type, [ADVERTISEMENT, 0]);
  if (!isAdvertisement) return undefined;
  const ip = frame.subarray(NA.target, NA.options);
  for (let at = NA.options; at + 8 <= frame.length; at += 8 * (frame[at + 1] ?? 0)) {
    if (frame[at + 1] === 0) return undefined; // receivers throw such a message away
    if (startsWith(frame, at, [2, 1])) return { ip, mac: frame.subarray(at + 2, at + 8) };
  }
  return { ip, mac: frame.subarray(6, 12) };
}

function startsWith(frame: Uint8Array, at: number, bytes: readonly number[]): boolean {
  return bytes.every((byte, index) => frame[at + index] === byte);
}

function hexOf(bytes: Iterable<number>): string {
  return macText(bytes).replaceAll(":", "");
}

/** Claims among lines `seen IFINDEX HEX` for one of the watched addresses of that link, as they were written there. */
export function answersIn(
  lines: readonly string[],
  watched: readonly Pick<Answer, "ifindex" | "address">[],
): readonly Answer[] {
  const names = new Map(
    watched.map(({ ifindex, address }) => [`${ifindex} ${hexOf(hostBytes(address))}`, address]),
  );
  const found = new Map<string, Answer>();
  for (const line of lines) {
    const [, ifindex, hex] = /^seen (\d{1,10}) ((?:[0-9a-f]{2})+)$/.exec(line) ?? [];
    const claim = claimIn(Uint8Array.from(hex?.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16)));
    const address = claim && names.get(`${ifindex} ${claim.key}`);
    if (claim !== undefined && address !== undefined)
      found.set(`${ifindex} ${address} ${claim.mac}`, { ifindex: Number(ifindex), address, mac: claim.mac });
  }
  return [...found.values()];
}

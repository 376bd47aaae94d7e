// Which bits of the packet mark mean which link and which egress IP. Pure.
// Allocation needs no memory: what is programmed is a fact. An egress IP keeps the mark its SNAT rule carries; a new one
// takes the lowest that no rule carries, stale rules included, so a mark is never used again before its flows are gone.

import type { Address, Family } from "./ip.ts";
import { onLink } from "./on-link.ts";

/**
 * Bits that name a block of marks: fifteen blocks, with the rest left for the egress IPs in each of them. A link has one
 * block, and a further one when that is full, so neither many links nor many egress IPs on one of them need another mask.
 */
const LINK_BITS = 4;
/** What a block has at least, at the cost of blocks. */
const ADDRESS_BITS = 2;
const FEWEST_BITS = 5;

export interface MarkLayout {
  readonly mask: number;
  /** Bits that say which block, and with it which link. */
  readonly linkMask: number;
  readonly linkShift: number;
  readonly addressShift: number;
  /** How many blocks there are. */
  readonly links: number;
  /** How many egress IPs a block has room for. */
  readonly addresses: number;
}

/** Cuts a contiguous mask into block bits (high) and egress IP bits (low). `undefined` when the mask cannot be cut. */
export function layoutOf(mask: number): MarkLayout | undefined {
  if (!Number.isInteger(mask) || mask <= 0 || mask > 0xffffffff) return undefined;
  const shift = Math.log2(mask & -mask ? (mask & -mask) >>> 0 : 1);
  const bits = Math.log2(mask / 2 ** shift + 1);
  if (!Number.isInteger(bits) || bits < FEWEST_BITS) return undefined;
  const blockBits = Math.min(LINK_BITS, bits - ADDRESS_BITS);
  const addressBits = bits - blockBits;
  const linkShift = shift + addressBits;
  return {
    mask,
    linkMask: (2 ** blockBits - 1) * 2 ** linkShift,
    linkShift,
    addressShift: shift,
    links: 2 ** blockBits - 1,
    addresses: 2 ** addressBits,
  };
}

/** A mark that an SNAT rule of ours carries now. */
export interface ProgrammedMark {
  readonly family: Family;
  readonly link: string;
  readonly address: Address;
  readonly mark: number;
  readonly mask: number;
}

/** An egress IP that needs a mark: its address and the link that hosts it. */
export interface MarkRequest {
  readonly family: Family;
  readonly link: string;
  readonly address: Address;
  /** Name of its EgressIP. */
  readonly of?: string;
}

export interface Marks {
  /** By `onLink`; an absent key found no free mark. */
  readonly byAddress: ReadonlyMap<string, number>;
  /** Some request has no mark from before: only then do the traces matter. */
  readonly fresh: boolean;
  /** Link name to the bits of its blocks, in place. */
  readonly byLink: ReadonlyMap<string, readonly number[]>;
}

/**
 * What else still tells of marks when the SNAT rules are gone (somebody flushed the nat table): the routing rules say which
 * link has which bits, and entries of pods carry marks that must not suddenly mean another egress IP.
 */
export interface Traces {
  readonly links: readonly { readonly link: string; readonly bits: number }[];
  /** `FAMILY MARK` of every entry, to the EgressIPs whose pods carry it; "" for pods that none selects any more. */
  readonly entries: ReadonlyMap<string, ReadonlySet<string>>;
}

const NO_TRACES: Traces = { links: [], entries: new Map() };

/** Gives each request its mark. The result depends on the set of requests and on what is programmed, on nothing else. */
export function allocateMarks(
  layout: MarkLayout,
  programmed: readonly ProgrammedMark[],
  requests: readonly MarkRequest[],
  traces: Traces = NO_TRACES,
): Marks {
  // Rules made under another mask keep nothing: everything gets a mark under this one. So does what no packet can carry.
  const valid = programmed.filter(({ mark, mask }) => mask === layout.mask && (mark & ~mask) === 0);
  const blocks = blocksOf(layout, valid, requests, traces);
  const byAddress = new Map<string, number>();
  const used = new Set(valid.map(({ family, mark }) => `${family} ${mark}`));
  const kept = new Map(valid.map((entry) => [onLink(entry), entry]));
  const taken = new Set<string>();
  const fresh: MarkRequest[] = [];
  for (const request of requests) {
    const entry = kept.get(onLink(request));
    const given = `${request.family} ${entry?.mark}`;
    const isOfLink = entry !== undefined && blocks.of(request.link).includes(linkBits(layout, entry.mark));
    if (isOfLink && !taken.has(given)) {
      byAddress.set(onLink(request), entry.mark);
      taken.add(given);
    } else fresh.push(request);
  }
  for (const request of fresh) {
    const isFree = (mark: number) => !used.has(`${request.family} ${mark}`);
    const untold = (mark: number) => isFree(mark) && !traces.entries.has(`${request.family} ${mark}`);
    const here = blocks.of(request.link);
    const own = carriedOnlyBy(request, traces.entries).find(
      (mark) => isFree(mark) && here.includes(linkBits(layout, mark)),
    );
    const mark =
      own ??
      lowest(layout, here, untold) ??
      lowest(layout, blocks.another(request.link), untold) ??
      lowest(layout, here, isFree);
    if (mark === undefined) continue;
    used.add(`${request.family} ${mark}`);
    byAddress.set(onLink(request), mark);
  }
  return { byAddress, byLink: blocks.byLink, fresh: fresh.length > 0 };
}

/**
 * Marks that only pods of this request's EgressIP carry. It keeps one of them: else a mark whose SNAT rule cannot be
 * programmed would make room for another one at each attempt, and all its pods would be written anew each time.
 */
function carriedOnlyBy({ of, family }: MarkRequest, entries: Traces["entries"]): readonly number[] {
  if (of === undefined) return [];
  return [...entries]
    .filter(([key, names]) => key.startsWith(`${family} `) && names.size === 1 && names.has(of))
    .map(([key]) => Number(key.slice(2)))
    .sort((a, b) => a - b);
}

/** Found after as many looks as marks are taken, however wide the mask. */
function lowest(
  layout: MarkLayout,
  blocks: readonly number[],
  suits: (mark: number) => boolean,
): number | undefined {
  for (const block of blocks)
    for (let index = 0; index < layout.addresses; index++) {
      const mark = block + index * 2 ** layout.addressShift;
      if (suits(mark)) return mark;
    }
  return undefined;
}

function linkBits(layout: MarkLayout, mark: number): number {
  return (mark & layout.linkMask) >>> 0;
}

interface Blocks {
  readonly byLink: ReadonlyMap<string, readonly number[]>;
  of(link: string): readonly number[];
  /** One more block for the link if one is free, and only that. */
  another(link: string): readonly number[];
}

/** What rules of either kind say, and for a link without any the first free block. */
function blocksOf(
  layout: MarkLayout,
  programmed: readonly ProgrammedMark[],
  requests: readonly MarkRequest[],
  traces: Traces,
): Blocks {
  const byLink = new Map<string, number[]>();
  const used = new Set<number>();
  const give = (link: string, bits: number) => {
    if (bits === 0 || used.has(bits)) return;
    used.add(bits);
    byLink.set(link, [...(byLink.get(link) ?? []), bits]);
  };
  const another = (link: string): readonly number[] => {
    const free = blocksInOrder(layout).find((bits) => !used.has(bits));
    if (free === undefined) return [];
    give(link, free);
    return [free];
  };
  for (const { link, mark } of programmed) give(link, linkBits(layout, mark));
  for (const { link, bits } of traces.links) give(link, bits);
  for (const { link } of requests) if (!byLink.has(link)) another(link);
  return { byLink, of: (link) => byLink.get(link) ?? [], another };
}

/**
 * The even ones first. Those are the marks that a layout with one bit less for blocks gives out, so that agents of either
 * kind leave each other's marks as they are, and a block's other half is the last to become somebody else's.
 */
function blocksInOrder({ links, linkShift }: MarkLayout): readonly number[] {
  const all = Array.from({ length: links }, (_, index) => index + 1);
  return [...all.filter((index) => index % 2 === 0), ...all.filter((index) => index % 2 === 1)].map(
    (index) => index * 2 ** linkShift,
  );
}

export function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

/** How an entry of the set of pods carries a mark: the extension as `ipset save` prints it. */
export function markEntry(mark: number, mask: number): string {
  return `skbmark ${hex(mark)}/${hex(mask)}`;
}

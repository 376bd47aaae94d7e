// Who else answers for egress IPs that this host has: heard on the wire, and asked. In: addresses on links. Out: rivals.
// A rival is believed in while it is heard or answers, and for an address only as long as that is here. Whoever answered before
// a hand-over has a moment to stop, and so have we: what is heard is looked at again before it is believed.

import { type Heard, type Listener, type Prober, SendError } from "../../lib/frames/index.ts";
import type { Rival } from "../model/facts.ts";
import { byCodeUnit } from "../model/names.ts";
import { onLink } from "../model/on-link.ts";
import type { WatchedAddress } from "../model/rivals.ts";

export interface Rivals {
  /** What this host answers for now, and the MACs of its links, which are no rivals. The same object: nothing is another. */
  watch(addresses: readonly WatchedAddress[], macs: ReadonlySet<string>): void;
  /** Asks those that have been heard whether they are still there; nobody heard, nothing asked. */
  askAgain(): void;
  /** Another object when something in it is another. */
  read(): readonly Rival[];
  /** `ADDRESS LINK` of what is to be announced again, since neighbours were told otherwise; each told of once. */
  takeDoubted(): ReadonlySet<string>;
  /** Claims heard by address, for as long as that is here. */
  counts(): Readonly<Record<string, number>>;
  close(): void;
}

export interface RivalParts {
  readonly listen: (on: Heard) => Listener;
  readonly prober: Prober;
  /** `read` or `takeDoubted` has something new. */
  readonly onChange: () => void;
  readonly onProbeFailed: (error: unknown) => void;
  readonly onListenerEnded: (why: string) => void;
  readonly now: () => number;
}

/** A hand-over's last answers are no rivalry: who is still there after this time, and asked then, is. */
export const GRACE_MS = 3_000;
/** A claim may mean that the address has just been given to another node, and that we have not been told yet. */
export const SUSPECT_MS = 500;
/** RFC 5227 section 2.4: no more than one defence in this time, or two hosts would go on for ever. */
export const DEFEND_INTERVAL_MS = 10_000;
/** How long an answer may take: RetransTimer of RFC 4861, PROBE_MIN of RFC 5227. */
const ANSWER_MS = 1_000;
/** More than these at one address are a storm, not hosts. */
const MOST_RIVALS = 8;

interface Entry {
  of: WatchedAddress;
  /** The grace is over. */
  settled: boolean;
  /** MAC to when it was last heard. */
  readonly rivals: Map<string, number>;
  readonly suspects: Set<string>;
  claims: number;
  defendedAt: number;
  defends: boolean;
}

export function createRivals(parts: RivalParts): Rivals {
  const { now } = parts;
  const entries = new Map<string, Entry>();
  const doubted = new Set<string>();
  const timers = new Set<NodeJS.Timeout>();
  let watched: readonly WatchedAddress[] = [];
  let macsHere: ReadonlySet<string> = new Set();
  let known: readonly Rival[] = Object.freeze([]);
  let asking: { again: boolean } | undefined;

  const later = (ms: number, act: () => void) => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      act();
    }, ms).unref();
    timers.add(timer);
  };
  const isHere = (entry: Entry) => entries.get(onLink(entry.of)) === entry;
  const entryOf = (ifindex: number, address: string) =>
    [...entries.values()].find(({ of }) => of.ifindex === ifindex && of.address === address);

  const changed = () => {
    const found = [...entries.values()].flatMap(({ of: { address, link }, rivals }) =>
      [...rivals.keys()].map((mac): Rival => Object.freeze({ address, link, mac })),
    );
    found.sort((a, b) => byCodeUnit(`${onLink(a)} ${a.mac}`, `${onLink(b)} ${b.mac}`));
    if (JSON.stringify(found) === JSON.stringify(known)) return;
    known = Object.freeze(found);
    parts.onChange();
  };

  const defend = (entry: Entry): void => {
    if (entry.defends || !isHere(entry)) return;
    const wait = entry.defendedAt + DEFEND_INTERVAL_MS - now();
    if (wait <= 0) {
      entry.defendedAt = now();
      doubted.add(onLink(entry.of));
      parts.onChange();
      return;
    }
    // Not to be left at the last word of the other one.
    entry.defends = true;
    later(wait, () => {
      entry.defends = false;
      defend(entry);
    });
  };

  const heard = (entry: Entry, mac: string): void => {
    if (entry.rivals.has(mac)) entry.rivals.set(mac, now());
    if (entry.rivals.size > 0) defend(entry);
    const { rivals, suspects } = entry;
    if (rivals.has(mac) || suspects.has(mac) || rivals.size + suspects.size >= MOST_RIVALS) return;
    suspects.add(mac);
    later(SUSPECT_MS, () => {
      suspects.delete(mac);
      rivals.set(mac, now());
      changed();
      defend(entry);
    });
  };

  const listener = parts.listen({
    claim: ({ ifindex, address, mac }) => {
      const entry = entryOf(ifindex, address);
      if (!entry?.settled || macsHere.has(mac)) return;
      entry.claims++;
      heard(entry, mac);
    },
    // What is to be done about a link is said by the link.
    failed: () => {},
    ended: parts.onListenerEnded,
  });

  /** Asks about these; the ones that could not be asked. */
  const ask = async (asked: readonly Entry[]): Promise<readonly Entry[]> => {
    const { answers, unasked } = await answersOf(parts, asked);
    for (const { ifindex, address, mac } of answers) {
      const entry = entryOf(ifindex, address);
      if (entry !== undefined && !macsHere.has(mac)) heard(entry, mac);
    }
    return asked.filter(({ of }) => unasked(of.ifindex));
  };

  const settle = (gained: readonly Entry[]): void => {
    const here = gained.filter(isHere);
    for (const entry of here) entry.settled = true;
    if (here.length > 0) void ask(here);
  };

  /** Twice, since a lost frame is no answer either. */
  const forgetSilent = async (): Promise<void> => {
    const since = now();
    const silent = ({ rivals }: Entry) => [...rivals].filter(([, last]) => last <= since);
    let left: readonly Entry[] = [...entries.values()].filter((entry) => silent(entry).length > 0);
    for (let times = 0; times < 2 && left.length > 0; times++) {
      const unasked = new Set(await ask(left));
      left = left.filter((entry) => !unasked.has(entry) && isHere(entry) && silent(entry).length > 0);
    }
    for (const entry of left) for (const [mac] of silent(entry)) entry.rivals.delete(mac);
    changed();
  };

  const askAgain = (): void => {
    // Who was just asked may have left since he answered.
    if (asking !== undefined) {
      asking.again = true;
      return;
    }
    const question = { again: false };
    asking = question;
    void forgetSilent().then(() => {
      asking = undefined;
      if (question.again) askAgain();
    });
  };

  return {
    watch: (addresses, macs) => {
      if (addresses === watched) return;
      watched = addresses;
      macsHere = macs;
      const wanted = new Set(addresses.map(onLink));
      for (const key of entries.keys()) if (!wanted.has(key)) entries.delete(key);
      const gained: Entry[] = [];
      for (const of of addresses) {
        const entry = entries.get(onLink(of));
        if (entry?.of.ifindex === of.ifindex) entry.of = of;
        else gained.push(newEntry(of));
      }
      for (const entry of gained) entries.set(onLink(entry.of), entry);
      if (gained.length > 0) later(GRACE_MS, () => settle(gained));
      listener.watch(addresses);
      changed();
    },
    askAgain,
    read: () => known,
    takeDoubted: () => {
      const taken = new Set(doubted);
      doubted.clear();
      return taken;
    },
    counts: () =>
      Object.fromEntries(
        [...entries.values()]
          .filter(({ claims }) => claims > 0)
          .map(({ of, claims }) => [of.address, claims]),
      ),
    close: () => {
      for (const timer of timers) clearTimeout(timer);
      timers.clear();
      entries.clear();
      listener.close();
    },
  };
}

function newEntry(of: WatchedAddress): Entry {
  const counted = { claims: 0, defendedAt: Number.NEGATIVE_INFINITY, defends: false };
  return { of, settled: false, rivals: new Map(), suspects: new Set(), ...counted };
}

/** Answers, as many as there are: a link that is down must not cost those of another one. */
async function answersOf(
  { prober, onProbeFailed }: Pick<RivalParts, "prober" | "onProbeFailed">,
  asked: readonly Entry[],
) {
  try {
    const answers = await prober.probe(
      asked.map(({ of }) => of),
      ANSWER_MS,
    );
    return { answers, unasked: () => false };
  } catch (error) {
    onProbeFailed(error);
    const { answers = [], failures = [] } = error instanceof SendError ? error : {};
    const down = new Set(failures.map(({ ifindex }) => ifindex));
    return { answers, unasked: (ifindex: number) => down.size === 0 || down.has(ifindex) };
  }
}

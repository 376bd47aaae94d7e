// Sends announcements as a short series, since one lost frame must not cost minutes. In: what to announce. Out: frames.

import type { Sender } from "../../lib/frames/index.ts";
import { garp, unsolicitedNa } from "../../lib/frames/pure.ts";
import type { AnnounceChange } from "./announce.ts";

export interface Announcer {
  /** Sends the first frame of each at once and the rest of the series later. A frame that could not be sent is reported. */
  start(announcements: readonly AnnounceChange[]): void;
  /** Nothing more goes out for these, from when it resolves on: the address is leaving this node. Never rejects. */
  stop(announcements: readonly Pick<AnnounceChange, "token">[]): Promise<void>;
  close(): void;
}

/** Milliseconds. Later ones outlast a switch that is still learning a port that came up. */
export const SERIES_MS: readonly number[] = [0, 100, 500, 1000, 2000, 5000];

export function frameOf({ address, mac, source }: AnnounceChange): Uint8Array {
  return address.includes(":") ? unsolicitedNa(mac, source, address) : garp(mac, address);
}

/** `isHeld` is asked before each later frame: what left this node in between must not be announced any more. */
export function createAnnouncer(
  sender: Sender,
  onFailure: (error: unknown) => void,
  isHeld: (announcement: AnnounceChange) => boolean = () => true,
): Announcer {
  const timers = new Set<NodeJS.Timeout>();
  const active = new Set<string>();
  const onTheirWay = new Set<{ readonly tokens: ReadonlySet<string>; readonly sent: Promise<void> }>();
  const send = (announcements: readonly AnnounceChange[]) => {
    const still = announcements.filter(({ token }) => active.has(token));
    if (still.length === 0) return;
    const frames = still.map((entry) => ({ ifindex: entry.ifindex, frame: frameOf(entry) }));
    const sent = sender.send(frames).catch(onFailure);
    const entry = { tokens: new Set(still.map(({ token }) => token)), sent };
    onTheirWay.add(entry);
    void sent.then(() => onTheirWay.delete(entry));
  };
  return {
    start: (announcements) => {
      if (announcements.length === 0) return;
      for (const { token } of announcements) active.add(token);
      for (const delay of SERIES_MS) {
        if (delay === 0) {
          send(announcements);
          continue;
        }
        const timer = setTimeout(() => {
          timers.delete(timer);
          send(announcements.filter(isHeld));
          if (delay === SERIES_MS.at(-1)) for (const { token } of announcements) active.delete(token);
        }, delay);
        timers.add(timer);
      }
    },
    stop: async (announcements) => {
      for (const { token } of announcements) active.delete(token);
      const late = [...onTheirWay].filter(({ tokens }) =>
        announcements.some(({ token }) => tokens.has(token)),
      );
      await Promise.all(late.map(({ sent }) => sent));
    },
    close: () => {
      for (const timer of timers) clearTimeout(timer);
      timers.clear();
    },
  };
}

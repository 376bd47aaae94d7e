// Sends announcements as a short series, since one lost frame must not cost minutes. In: what to announce. Out: frames.

import type { Sender } from "../../lib/frames/index.ts";
import { garp, unsolicitedNa } from "../../lib/frames/pure.ts";
import { type OnLink, onLink } from "../model/on-link.ts";
import type { AnnounceChange } from "./announce.ts";

export interface Announcer {
  /**
   * Sends the first frame of each at once, and resolves when these are out; the rest of the series later. A frame that could not be
   * sent is reported. Never rejects.
   */
  start(announcements: readonly AnnounceChange[]): Promise<void>;
  /**
   * Nothing more goes out for these, from when it resolves on: the address is leaving this node, or with a token it is not what that
   * says any more. Never rejects.
   */
  stop(leaving: readonly (OnLink & { readonly token?: string })[]): Promise<void>;
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
  /** Of each address on its link the series that counts: one that left and came back has a new one. */
  const current = new Map<string, { readonly series: object; readonly token: string }>();
  const onTheirWay = new Set<{ readonly keys: ReadonlySet<string>; readonly sent: Promise<void> }>();
  const send = async (announcements: readonly AnnounceChange[]) => {
    if (announcements.length === 0) return;
    const frames = announcements.map((entry) => ({ ifindex: entry.ifindex, frame: frameOf(entry) }));
    const sent = sender.send(frames).catch(onFailure);
    const entry = { keys: new Set(announcements.map(onLink)), sent };
    onTheirWay.add(entry);
    await sent;
    onTheirWay.delete(entry);
  };
  return {
    start: async (announcements) => {
      if (announcements.length === 0) return;
      const series = {};
      const still = () => announcements.filter((entry) => current.get(onLink(entry))?.series === series);
      for (const entry of announcements) current.set(onLink(entry), { series, token: entry.token });
      for (const delay of SERIES_MS) {
        if (delay === 0) continue;
        const timer = setTimeout(() => {
          timers.delete(timer);
          void send(still().filter(isHeld));
          if (delay === SERIES_MS.at(-1)) for (const entry of still()) current.delete(onLink(entry));
        }, delay);
        timers.add(timer);
      }
      await send(announcements);
    },
    stop: async (leaving) => {
      const keys = leaving.map(onLink);
      for (const [at, { token }] of leaving.entries()) {
        const key = keys[at] ?? "";
        if (token === undefined || token === current.get(key)?.token) current.delete(key);
      }
      const late = [...onTheirWay].filter((entry) => keys.some((key) => entry.keys.has(key)));
      await Promise.all(late.map(({ sent }) => sent));
    },
    close: () => {
      for (const timer of timers) clearTimeout(timer);
      timers.clear();
    },
  };
}

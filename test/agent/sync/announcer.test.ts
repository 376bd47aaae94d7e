// The series of announcements (BL-35): a frame at once, more later, none for an address that has left or after the end.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { announcedToken } from "../../../agent/model/announced.ts";
import type { AnnounceChange } from "../../../agent/sync/announce.ts";
import { createAnnouncer, frameOf, SERIES_MS } from "../../../agent/sync/announcer.ts";
import type { Sender } from "../../../lib/frames/index.ts";

const MAC = "02:42:ac:12:00:0b";
const change = (address: string, mac = MAC): AnnounceChange => ({
  op: "announce",
  token: announcedToken(address, "eth0", mac),
  address,
  link: "eth0",
  ifindex: 7,
  mac,
  source: "fe80::1",
});

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

function announcing(fails: () => boolean = () => false, isHeld: () => boolean = () => true) {
  const sent: { readonly at: number; readonly frames: readonly { ifindex: number; frame: Uint8Array }[] }[] =
    [];
  const failures: string[] = [];
  const start = Date.now();
  const sender: Sender = {
    send: async (frames) => {
      sent.push({ at: Date.now() - start, frames: [...frames] });
      if (fails()) throw new Error("network is down");
    },
  };
  const announcer = createAnnouncer(sender, (error) => failures.push(String(error)), isHeld);
  return { announcer, sent, failures, at: () => sent.map((entry) => entry.at) };
}

describe("the announcer", () => {
  it("sends at once and then at growing distances, and then no more", async () => {
    const { announcer, sent, at } = announcing();
    void announcer.start([change("172.18.0.50"), change("fd00:172:18::50")]);
    expect(at()).toEqual([0]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(at()).toEqual([0, 100, 500, 1000, 2000, 5000]);
    expect(SERIES_MS).toEqual(at());
    for (const { frames } of sent)
      expect(frames.map(({ ifindex, frame }) => [ifindex, frame.length])).toEqual([
        [7, 60],
        [7, 86],
      ]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("sends no later frame for what has left this node without anybody saying stop", async () => {
    let held = true;
    const { announcer, at } = announcing(undefined, () => held);
    void announcer.start([change("172.18.0.50")]);
    await vi.advanceTimersByTimeAsync(600);
    held = false;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(at()).toEqual([0, 100, 500]);
  });

  it("sends nothing for nothing", async () => {
    const { announcer, sent } = announcing();
    void announcer.start([]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect([sent, vi.getTimerCount()]).toEqual([[], 0]);
  });

  it("stops at once for an address that is leaving, and goes on for the others", async () => {
    const { announcer, sent } = announcing();
    void announcer.start([change("172.18.0.50"), change("172.18.0.51")]);
    await vi.advanceTimersByTimeAsync(200);
    await announcer.stop([change("172.18.0.50")]);
    const before = sent.length;
    await vi.advanceTimersByTimeAsync(60_000);
    const later = sent.slice(before).flatMap(({ frames }) => frames.map(({ frame }) => frame));
    expect(later).toHaveLength(4);
    expect(later).toEqual(later.map(() => frameOf(change("172.18.0.51"))));
  });

  it("has started when the first frames are out, also when they could not be sent", async () => {
    const out: (() => void)[] = [];
    const sender: Sender = {
      send: () => new Promise((resolve, reject) => out.push(out.length === 0 ? resolve : reject)),
    };
    const announcer = createAnnouncer(sender, () => undefined);
    for (const times of [1, 2]) {
      let started = false;
      const starting = announcer.start([change("172.18.0.50")]).then(() => {
        started = true;
      });
      await vi.advanceTimersByTimeAsync(0);
      expect([out.length, started]).toEqual([times, false]);
      out.at(-1)?.();
      await starting;
    }
    announcer.close();
  });

  it("has stopped only when frames on their way are out, and does not wait for those of others", async () => {
    const out: (() => void)[] = [];
    const sender: Sender = { send: () => new Promise((resolve) => out.push(resolve)) };
    const announcer = createAnnouncer(sender, () => undefined);
    void announcer.start([change("172.18.0.50")]);
    void announcer.start([change("172.18.0.51")]);
    let stopped = 0;
    const first = announcer.stop([change("172.18.0.50")]).then(() => stopped++);
    await vi.advanceTimersByTimeAsync(50);
    expect([out.length, stopped]).toEqual([2, 0]);
    out[0]?.();
    await first;
    expect(stopped).toBe(1);
    // Nothing of it is on its way now.
    await announcer.stop([change("172.18.0.50")]);
    announcer.close();
  });

  it("has stopped as well when a frame on its way could not be sent", async () => {
    const { announcer, failures } = announcing(() => true);
    void announcer.start([change("172.18.0.50")]);
    await announcer.stop([change("172.18.0.50")]);
    expect(failures).toEqual(["Error: network is down"]);
  });

  it("sends nothing at all once every address has left", async () => {
    const { announcer, at } = announcing();
    void announcer.start([change("172.18.0.50")]);
    await announcer.stop([change("172.18.0.50")]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(at()).toEqual([0]);
  });

  it.each([10_000, 50, 300, 4_900])(
    "announces again, the whole series and no frame more, an address that left and came back after %s ms",
    async (ms) => {
      const { announcer, sent } = announcing();
      void announcer.start([change("172.18.0.50")]);
      await announcer.stop([change("172.18.0.50")]);
      await vi.advanceTimersByTimeAsync(ms);
      void announcer.start([change("172.18.0.50")]);
      await vi.advanceTimersByTimeAsync(10_000);
      expect(sent).toHaveLength(7);
    },
  );

  it("goes on with another MAC address when it is to stop with the former, and stops whatever it is when the address leaves", async () => {
    const { announcer, sent } = announcing();
    void announcer.start([change("172.18.0.50")]);
    const now = change("172.18.0.50", "02:42:ac:12:00:0d");
    void announcer.start([now]);
    await announcer.stop([change("172.18.0.50")]);
    await vi.advanceTimersByTimeAsync(700);
    expect(sent.slice(1).flatMap(({ frames }) => frames.map(({ frame }) => frame))).toEqual(
      [0, 100, 500].map(() => frameOf(now)),
    );
    await announcer.stop([{ address: "172.18.0.50", link: "eth0" }]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(sent).toHaveLength(4);
  });

  it("begins the series anew, instead of two at a time, when it is told again", async () => {
    const { announcer, at } = announcing();
    void announcer.start([change("172.18.0.50")]);
    await vi.advanceTimersByTimeAsync(700);
    void announcer.start([change("172.18.0.50")]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(at()).toEqual([0, 100, 500, 700, 800, 1200, 1700, 2700, 5700]);
  });

  it("goes on with the series although a frame could not be sent, and reports each", async () => {
    const { announcer, failures, at } = announcing(() => true);
    void announcer.start([change("172.18.0.50")]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(at()).toHaveLength(6);
    expect(failures).toEqual(Array.from({ length: 6 }, () => "Error: network is down"));
  });

  it("sends nothing after it was closed, and keeps no timer that would hold the process", async () => {
    const { announcer, at } = announcing();
    void announcer.start([change("172.18.0.50")]);
    announcer.close();
    expect(vi.getTimerCount()).toBe(0);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(at()).toEqual([0]);
  });
});

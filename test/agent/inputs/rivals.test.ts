// When somebody who says that he has an address is believed, defended against and forgotten: on a clock that the test moves.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  createRivals,
  DEFEND_INTERVAL_MS,
  GRACE_MS,
  type RivalParts,
  SUSPECT_MS,
} from "../../../agent/inputs/rivals.ts";
import { type Answer, type Heard, type ProbeTarget, SendError } from "../../../lib/frames/index.ts";

const E = "10.10.10.50";
const F = "10.10.10.51";
const OWN = "02:00:00:00:00:04";
const OTHER = "02:00:00:00:00:99";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const on = (address: string, ifindex = 4) => ({
  address,
  link: `eth${ifindex - 3}`,
  ifindex,
  mac: OWN,
  source: "fe80::4",
});
const claim = (address: string, mac = OTHER, ifindex = 4): Answer => ({ ifindex, address, mac });

function rivalry() {
  let heard: Heard | undefined;
  let changes = 0;
  let closed = false;
  let answering: readonly Answer[] = [];
  let failing: unknown;
  const asked: string[][] = [];
  const watched: string[][] = [];
  const failures: unknown[] = [];
  const start = Date.now();
  const parts: RivalParts = {
    listen: (listening) => {
      heard = listening;
      return {
        watch: (addresses) => watched.push(addresses.map(({ address }) => address)),
        close: () => {
          closed = true;
        },
      };
    },
    prober: {
      probe: async (targets: readonly ProbeTarget[], waitMs) => {
        asked.push(targets.map(({ address }) => address));
        await new Promise((resolve) => setTimeout(resolve, waitMs));
        const failed = failing;
        if (failed !== undefined) throw failed;
        return answering.filter(({ address }) => targets.some((target) => target.address === address));
      },
    },
    onChange: () => {
      changes++;
    },
    onProbeFailed: (error) => failures.push(error),
    onListenerEnded: () => {},
    now: () => Date.now() - start,
  };
  const rivals = createRivals(parts);
  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
  const known = () => rivals.read().map(({ address, link, mac }) => `${address} ${link} ${mac}`);
  return {
    rivals,
    asked,
    watched,
    failures,
    pass,
    known,
    hear: (...claims: readonly Answer[]) => {
      for (const one of claims) heard?.claim(one);
    },
    answer: (...answers: readonly Answer[]) => {
      answering = answers;
    },
    fail: (error: unknown) => {
      failing = error;
    },
    changed: () => changes,
    closed: () => closed,
    /** Watches, and waits until the grace and its question are over. */
    settle: async (...addresses: readonly ReturnType<typeof on>[]) => {
      rivals.watch(addresses, new Set([OWN]));
      await pass(GRACE_MS + 2_000);
      asked.splice(0);
    },
    /** Asks again, and waits for both questions. */
    again: async () => {
      rivals.askAgain();
      await pass(5_000);
    },
  };
}

describe("rivals", () => {
  it("are believed in when they are heard, after a moment in which we might have had to leave", async () => {
    const { rivals, settle, hear, known, pass, changed } = rivalry();
    await settle(on(E), on(F));
    hear(claim(E));
    await pass(SUSPECT_MS - 1);
    expect([known(), changed()]).toEqual([[], 0]);
    await pass(1);
    expect(known()).toEqual([`${E} eth1 ${OTHER}`]);
    expect([...rivals.takeDoubted()]).toEqual([`${E} eth1`]);
    expect([...rivals.takeDoubted()]).toEqual([]);
    expect(rivals.counts()).toEqual({ [E]: 1 });
    const before = rivals.read();
    hear(claim(E));
    expect(rivals.read()).toBe(before);
    expect(rivals.counts()).toEqual({ [E]: 2 });
  });

  it("are not: this host's other links, those heard on another link, and what nobody watches", async () => {
    const { rivals, settle, hear, known, pass } = rivalry();
    await settle(on(E));
    hear(claim(E, OWN), claim(E, OTHER, 5), claim(F));
    await pass(SUSPECT_MS);
    expect([known(), rivals.counts()]).toEqual([[], {}]);
  });

  it("are not those that were there before us, unless they answer when the grace is over", async () => {
    const { rivals, hear, known, pass, asked, answer } = rivalry();
    rivals.watch([on(E), on(F)], new Set([OWN]));
    hear(claim(E), claim(F));
    await pass(GRACE_MS - 1);
    expect([asked, known()]).toEqual([[], []]);
    answer(claim(F));
    await pass(2_000);
    expect(asked).toEqual([[E, F]]);
    expect(known()).toEqual([`${F} eth1 ${OTHER}`]);
    // Nobody said it by himself.
    expect(rivals.counts()).toEqual({});
  });

  it("are no more when the address leaves, before or after they are believed in", async () => {
    const { rivals, settle, hear, known, pass, watched, changed } = rivalry();
    await settle(on(E), on(F));
    hear(claim(E));
    await pass(SUSPECT_MS);
    hear(claim(F));
    rivals.takeDoubted();
    const before = changed();
    rivals.watch([], new Set([OWN]));
    expect([known(), changed()]).toEqual([[], before + 1]);
    await pass(60_000);
    expect([known(), changed(), [...rivals.takeDoubted()]]).toEqual([[], before + 1, []]);
    expect(watched).toEqual([[E, F], []]);
    expect(rivals.counts()).toEqual({});
  });

  it("are asked again, and forgotten when neither of two questions is answered", async () => {
    const { settle, hear, known, pass, again, asked, answer } = rivalry();
    await settle(on(E), on(F));
    await again();
    expect(asked).toEqual([]);
    hear(claim(E), claim(F), claim(F, "02:00:00:00:00:98"));
    await pass(SUSPECT_MS);
    answer(claim(E), claim(F));
    await again();
    expect(asked).toEqual([[E, F], [F]]);
    expect(known()).toEqual([`${E} eth1 ${OTHER}`, `${F} eth1 ${OTHER}`]);
    answer();
    await again();
    expect(known()).toEqual([]);
    asked.splice(0);
    await again();
    expect(asked).toEqual([]);
  });

  it("are asked once more when that was wanted while they were asked", async () => {
    const { rivals, settle, hear, known, pass, answer, asked } = rivalry();
    await settle(on(E));
    hear(claim(E));
    await pass(SUSPECT_MS);
    answer(claim(E));
    rivals.askAgain();
    rivals.askAgain();
    rivals.askAgain();
    await pass(1_000);
    answer();
    await pass(10_000);
    expect([known(), asked.length]).toEqual([[], 3]);
  });

  it("stay while their link cannot be asked, and the failure is told", async () => {
    const { settle, hear, known, pass, again, fail, failures } = rivalry();
    await settle(on(E), on(F, 5));
    hear(claim(E), claim(F, OTHER, 5));
    await pass(SUSPECT_MS);
    const down = new SendError("down", [{ ifindex: 4, why: "Network is down" }], undefined, []);
    fail(down);
    await again();
    expect(known()).toEqual([`${E} eth1 ${OTHER}`]);
    expect(failures).toEqual([down, down]);
    fail(new Error("no perl"));
    await again();
    expect(known()).toEqual([`${E} eth1 ${OTHER}`]);
  });

  it("are defended against once in ten seconds, at last after the last word, however many claims there are", async () => {
    const { rivals, settle, hear, pass } = rivalry();
    await settle(on(E));
    const defences: number[] = [];
    const start = Date.now();
    for (let ms = 0; ms < 35_000; ms += 100) {
      if (ms < 25_000) for (let times = 0; times < 100; times++) hear(claim(E));
      await pass(100);
      if (rivals.takeDoubted().size > 0) defences.push(Date.now() - start);
    }
    expect(defences).toEqual([0, 1, 2, 3].map((times) => SUSPECT_MS + times * DEFEND_INTERVAL_MS));
    expect(rivals.counts()).toEqual({ [E]: 25_000 });
  });

  it("are eight at the most for an address, and few changes, in a storm of ten thousand", async () => {
    const { settle, hear, known, pass, changed } = rivalry();
    await settle(on(E));
    for (let at = 0; at < 10_000; at++) hear(claim(E, `02:00:00:00:${at >> 8}:${at & 255}`));
    await pass(SUSPECT_MS);
    expect(known()).toHaveLength(8);
    expect(changed()).toBeLessThanOrEqual(9);
  });

  it("are asked about by the link's new index when it was made anew, as something gained", async () => {
    const { rivals, settle, hear, known, pass } = rivalry();
    await settle(on(E));
    hear(claim(E));
    await pass(SUSPECT_MS);
    rivals.watch([{ ...on(E), ifindex: 9 }], new Set([OWN]));
    expect(known()).toEqual([]);
  });

  it("end with everything that was begun", async () => {
    const { rivals, settle, hear, closed } = rivalry();
    await settle(on(E));
    hear(claim(E));
    rivals.close();
    expect([closed(), vi.getTimerCount()]).toEqual([true, 0]);
  });
});

// What wakes the loop: nothing is lost, bursts are taken together, and what the host tells rests in proportion to its cost.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createWake, type Reason, type Wake } from "../../agent/wake.ts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const waking = () => createWake(() => Date.now());

/** Reasons of each wake so far, in order; the loop that takes them is always ready. */
function taking(wake: Wake): Reason[][] {
  const taken: Reason[][] = [];
  const again = (): Promise<void> =>
    wake.next().then((reasons) => {
      taken.push([...reasons]);
      return again();
    });
  void again();
  return taken;
}

describe("wake", () => {
  it("gives at once what came before anybody waited, all together", async () => {
    const wake = waking();
    wake.because("objects");
    wake.because("tick");
    wake.because("objects");
    expect([...(await wake.next())]).toEqual(["objects", "tick"]);
  });

  it("waits until there is a reason, and gives each one once", async () => {
    const wake = waking();
    const taken = taking(wake);
    await vi.advanceTimersByTimeAsync(1000);
    expect(taken).toEqual([]);
    wake.because("objects");
    await vi.advanceTimersByTimeAsync(0);
    wake.because("reload");
    await vi.advanceTimersByTimeAsync(1000);
    expect(taken).toEqual([["objects"], ["reload"]]);
  });

  it.each(["network", "iptables", "nft"] as const)(
    "takes the first sign of %s at once, and a burst after it as one",
    async (domain) => {
      const wake = waking();
      const taken = taking(wake);
      for (let sign = 0; sign < 50; sign++) {
        wake.because(domain);
        await vi.advanceTimersByTimeAsync(1);
      }
      expect(taken).toEqual([[domain]]);
      await vi.advanceTimersByTimeAsync(150);
      expect(taken).toEqual([[domain], [domain]]);
      await vi.advanceTimersByTimeAsync(10_000);
      expect(taken).toHaveLength(2);
    },
  );

  it("never takes a domain that does not stop changing more often than it rests, and never forgets it", async () => {
    const wake = waking();
    const taken = taking(wake);
    for (let ms = 0; ms < 2000; ms += 5) {
      wake.because("network");
      await vi.advanceTimersByTimeAsync(5);
    }
    expect(taken.length).toBeGreaterThanOrEqual(10);
    expect(taken.length).toBeLessThanOrEqual(11);
  });

  it("lets a domain rest ten times as long as it took to read", async () => {
    const wake = waking();
    const taken = taking(wake);
    wake.rest(new Set(["iptables"]), 500);
    wake.because("iptables");
    wake.because("nft");
    await vi.advanceTimersByTimeAsync(4_999);
    expect(taken).toEqual([["nft"]]);
    await vi.advanceTimersByTimeAsync(1);
    expect(taken).toEqual([["nft"], ["iptables"]]);
  });

  it("does not let a domain rest when it was just written", async () => {
    const wake = waking();
    const taken = taking(wake);
    wake.rest(new Set(["iptables"]), 500);
    wake.now("iptables");
    await vi.advanceTimersByTimeAsync(0);
    expect(taken).toEqual([["iptables"]]);
  });

  it.each(["objects", "tick", "reload", "record"] as const)("never holds %s back", async (reason) => {
    const wake = waking();
    const taken = taking(wake);
    wake.rest(new Set(["record"]), 500);
    for (let time = 0; time < 3; time++) {
      wake.because(reason);
      await vi.advanceTimersByTimeAsync(1);
    }
    expect(taken).toEqual([[reason], [reason], [reason]]);
  });
});

// The pulse: a loop that stands still is told from one that has nothing to do, and how long it took from an event to a right host.
import { describe, expect, it } from "vitest";
import { createPulse, STUCK_MS } from "../../../agent/telemetry/pulse.ts";
import { createWake } from "../../../agent/wake.ts";

function beating() {
  const clock = { now: 0 };
  const pulse = createPulse(() => clock.now);
  return { clock, pulse, wake: pulse.watch(createWake(() => clock.now)) };
}

describe("stuck", () => {
  it("is nobody who waits for something to do, however long", () => {
    const { clock, pulse, wake } = beating();
    void wake.next();
    clock.now += 100 * STUCK_MS;
    expect(pulse.stuck()).toBeUndefined();
  });

  it("is a loop in a round that does not end, until it has", async () => {
    const { clock, pulse, wake } = beating();
    wake.because("reload");
    await wake.next();
    clock.now += STUCK_MS;
    expect(pulse.stuck()).toBeUndefined();
    clock.now += 1000;
    expect(pulse.stuck()).toBe("a round has not ended for 601 s");
    void wake.next();
    expect(pulse.stuck()).toBeUndefined();
  });

  it.each(["because", "now"] as const)("is a loop that does not look when it is woken (%s)", async (by) => {
    const { clock, pulse, wake } = beating();
    wake[by]("objects");
    clock.now += STUCK_MS + 1;
    expect(pulse.stuck()).toBe("objects has been waiting for a round for 600 s");
    await wake.next();
    expect(pulse.stuck()).toBeUndefined();
  });

  it("is not one whose rounds were about something else meanwhile", async () => {
    const { clock, pulse, wake } = beating();
    wake.because("objects");
    wake.because("network");
    await wake.next();
    wake.because("tick");
    await wake.next();
    clock.now += STUCK_MS;
    expect(pulse.stuck()).toBeUndefined();
  });
});

describe("from an event to a right host", () => {
  it("counts from the first event to the round that has nothing left to read back", async () => {
    const { clock, pulse, wake } = beating();
    wake.because("objects");
    clock.now += 100;
    wake.because("objects");
    await wake.next();
    clock.now += 50;
    expect(pulse.ended(true, false)).toBeUndefined();
    wake.now("sets");
    await wake.next();
    clock.now += 25;
    expect(pulse.ended(false, true)).toEqual({ cause: "objects", seconds: 0.175 });
  });

  it("goes on over rounds that fail", async () => {
    const { clock, pulse, wake } = beating();
    wake.because("northbound");
    await wake.next();
    clock.now += 1000;
    expect(pulse.ended(true, false)).toBeUndefined();
    wake.because("reload");
    await wake.next();
    clock.now += 1000;
    expect(pulse.ended(true, true)).toEqual({ cause: "northbound", seconds: 2 });
  });

  it.each([
    ["network", "objects"],
    ["objects", "network"],
  ] as const)(
    "is from the first of %s and %s, and called after the one that is not the host's",
    async (first, second) => {
      const { clock, pulse, wake } = beating();
      wake.because(first);
      clock.now += 40;
      wake.because(second);
      await wake.next();
      clock.now += 10;
      expect(pulse.ended(true, true)).toEqual({ cause: "objects", seconds: 0.05 });
    },
  );

  it("is not counted where nothing was written, and begins anew", async () => {
    const { clock, pulse, wake } = beating();
    wake.because("objects");
    await wake.next();
    clock.now += 1000;
    expect(pulse.ended(false, true)).toBeUndefined();
    wake.because("iptables");
    await wake.next();
    clock.now += 10;
    expect(pulse.ended(true, true)).toEqual({ cause: "host", seconds: 0.01 });
  });

  it("is not counted for what a tick has found: nobody knows since when it was so", async () => {
    const { pulse, wake } = beating();
    wake.because("tick");
    await wake.next();
    expect(pulse.ended(true, true)).toBeUndefined();
  });

  it("of what rests, counts the rest", async () => {
    const { clock, pulse, wake } = beating();
    wake.rest(new Set(["network"]), 10);
    wake.because("network");
    clock.now += 30;
    wake.because("objects");
    await wake.next();
    expect(pulse.ended(true, true)).toEqual({ cause: "objects", seconds: 0 });
    clock.now += 20;
    wake.because("tick");
    await wake.next();
    expect(pulse.ended(true, true)).toEqual({ cause: "host", seconds: 0.05 });
  });
});

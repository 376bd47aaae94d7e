// Asking before an address is taken (BL-40): again until nobody answers, of those that were answered for alone, bounded; what
// cannot be asked is taken. The prober is scripted, and the clock goes by what it was told to listen.
import { describe, expect, it } from "vitest";
import { createGaining } from "../../../agent/sync/gaining.ts";
import { type Answer, type ProbeTarget, SendError } from "../../../lib/frames/index.ts";

const OTHER = "02:00:00:00:00:99";
const target = (address: string, ifindex = 4): ProbeTarget => ({
  address,
  ifindex,
  mac: "02:00:00:00:00:04",
});
const answerOf = ({ address, ifindex }: ProbeTarget): Answer => ({ address, ifindex, mac: OTHER });

/** `answering` is asked each time, with how often that was done before, whether somebody answers for a target. */
function asking(
  answering: (target: ProbeTarget, times: number) => boolean,
  error: () => Error | undefined = () => undefined,
) {
  const asked: string[][] = [];
  const answered: Answer[] = [];
  const failures: string[] = [];
  let now = 0;
  const prober = {
    probe: async (targets: readonly ProbeTarget[], waitMs: number) => {
      const times = asked.length;
      asked.push(targets.map(({ address, ifindex }) => `${address} ${ifindex}`));
      now += waitMs;
      const failure = error();
      if (failure !== undefined) throw failure;
      return targets.filter((one) => answering(one, times)).map(answerOf);
    },
  };
  const gaining = createGaining(
    prober,
    { answered: (answers) => answered.push(...answers), failed: (error) => failures.push(String(error)) },
    () => now,
  );
  return { released: gaining.released, asked, answered, failures, now: () => now };
}

describe("an address that is gained", () => {
  it("is asked for once where nobody has it, all of them in one question", async () => {
    const { released, asked, answered, now } = asking(() => false);
    await released([target("10.10.10.50"), target("fd00:10:10::50")]);
    expect(asked).toEqual([["10.10.10.50 4", "fd00:10:10::50 4"]]);
    expect(answered).toEqual([]);
    // What every gain costs at the least.
    expect(now()).toBeLessThanOrEqual(50);
  });

  it("is not asked for where there is nobody to ask", async () => {
    const { released, asked } = asking(() => true);
    await released([]);
    expect(asked).toEqual([]);
  });

  it("is asked for again while somebody answers, the others not", async () => {
    const slow = target("10.10.10.51");
    const { released, asked, answered } = asking((one, times) => one === slow && times < 3);
    await released([target("10.10.10.50"), slow]);
    expect(asked).toEqual([
      ["10.10.10.50 4", "10.10.10.51 4"],
      ...[["10.10.10.51 4"], ["10.10.10.51 4"], ["10.10.10.51 4"]],
    ]);
    expect(answered).toEqual([]);
  });

  it("is taken after a second although somebody answers, who is reported", async () => {
    const kept = target("10.10.10.51");
    const { released, asked, answered, now } = asking((one) => one === kept);
    await released([target("10.10.10.50"), kept]);
    expect(answered).toEqual([answerOf(kept)]);
    expect(asked.length).toBeGreaterThan(10);
    expect(now()).toBeGreaterThanOrEqual(1000);
    expect(now()).toBeLessThan(1100);
  });

  it("is another one on another link: an answer there says nothing of it here", async () => {
    const { released, asked } = asking((one, times) => one.ifindex === 5 && times === 0);
    await released([target("10.10.10.50", 4), target("10.10.10.50", 5)]);
    expect(asked).toEqual([["10.10.10.50 4", "10.10.10.50 5"], ["10.10.10.50 5"]]);
  });

  it("is taken where it could not be asked for, which is reported", async () => {
    const { released, asked, failures } = asking(
      () => true,
      () => new Error("no perl here"),
    );
    await released([target("10.10.10.50")]);
    expect([asked.length, failures]).toEqual([1, ["Error: no perl here"]]);
  });

  it("is asked for again although a link could not be asked, which keeps nothing on that link", async () => {
    let times = 0;
    const [down, up] = [target("10.10.20.50", 5), target("10.10.10.50")];
    const failure = () => {
      const answers = times++ < 2 ? [answerOf(up)] : [];
      return new SendError(
        "ifindex 5: Network is down",
        [{ ifindex: 5, why: "Network is down" }],
        undefined,
        answers,
      );
    };
    const { released, asked } = asking(() => false, failure);
    await released([down, up]);
    expect(asked).toEqual([["10.10.20.50 5", "10.10.10.50 4"], ["10.10.10.50 4"], ["10.10.10.50 4"]]);
  });
});

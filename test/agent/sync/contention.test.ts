// Somebody undoes our work: repaired a few times, then given way to, for longer each time, and said so (BL-33).
import { describe, expect, it } from "vitest";
import { createContention } from "../../../agent/sync/contention.ts";

function contention() {
  let now = 1_000_000;
  const of = createContention(() => now);
  return { of, pass: (ms: number) => (now += ms) };
}

const HOIST = [
  "# iptables-restore --noflush",
  "*nat",
  "-D POSTROUTING -j EGRESSIP-SNAT",
  "-I POSTROUTING 1 -j EGRESSIP-SNAT",
  "COMMIT",
];

describe("contention", () => {
  it("holds a backend back after eight equal repairs, and names the line that comes back", () => {
    const { of } = contention();
    for (let repair = 1; repair < 8; repair++) of.note("iptables", HOIST);
    expect([of.heldFor("iptables"), of.list()]).toEqual([0, []]);
    of.note("iptables", HOIST);
    expect(of.heldFor("iptables")).toBe(5_000);
    expect(of.list()).toEqual([{ backend: "iptables", line: "-D POSTROUTING -j EGRESSIP-SNAT", times: 8 }]);
    expect(of.heldFor("routing")).toBe(0);
  });

  it("lets it write again when the time is over, and holds it longer when the fight goes on", () => {
    const { of, pass } = contention();
    const holds: number[] = [];
    for (let fight = 0; fight < 6; fight++) {
      for (let repair = 0; repair < 8; repair++) of.note("iptables", HOIST);
      holds.push(of.heldFor("iptables"));
      pass(of.heldFor("iptables") - 1);
      expect(of.heldFor("iptables")).toBe(1);
      pass(1);
      expect(of.heldFor("iptables")).toBe(0);
    }
    expect(holds).toEqual([5_000, 10_000, 20_000, 40_000, 60_000, 60_000]);
  });

  it("forgets a fight that ended a minute ago, and starts mildly with the next", () => {
    const { of, pass } = contention();
    for (let repair = 0; repair < 8; repair++) of.note("iptables", HOIST);
    pass(5_000 + 60_000);
    expect(of.list()).toHaveLength(1);
    pass(1);
    expect(of.list()).toEqual([]);
    for (let repair = 0; repair < 8; repair++) of.note("iptables", HOIST);
    expect(of.heldFor("iptables")).toBe(5_000);
  });

  it("takes repairs that are far apart for no fight", () => {
    const { of, pass } = contention();
    for (let repair = 0; repair < 50; repair++) {
      of.note("iptables", HOIST);
      pass(9_000);
    }
    expect(of.list()).toEqual([]);
  });

  it("takes different repairs for no fight, though the lines around them are the same", () => {
    const { of } = contention();
    for (let n = 0; n < 50; n++)
      of.note("iptables", [
        "# iptables-restore --noflush",
        "*nat",
        `-I EGRESSIP-SNAT ${n} -j X`,
        "COMMIT",
        "*filter",
        "COMMIT",
      ]);
    expect(of.list()).toEqual([]);
  });

  it("takes a line that stands in both families' halves of one repair for one", () => {
    const { of } = contention();
    for (let repair = 0; repair < 7; repair++) of.note("iptables", [...HOIST, ...HOIST]);
    expect(of.list()).toEqual([]);
  });

  it("is not more annoyed by a repair of many lines than by one of few", () => {
    const { of } = contention();
    const rewrite = Array.from({ length: 60 }, (_, n) => `-A EGRESSIP-MARK -m mark --mark ${n} -j RETURN`);
    for (let repair = 0; repair < 8; repair++) of.note("iptables", rewrite);
    expect(of.heldFor("iptables")).toBe(5_000);
  });

  it("holds single lines of a backend that can do without them, each as long as its own fight goes on", () => {
    const { of, pass } = contention();
    for (let repair = 0; repair < 8; repair++) of.note("northbound", ["insert a"], true);
    for (let repair = 0; repair < 8; repair++) of.note("northbound", [`insert ${repair}`], true);
    expect(of.heldLines("northbound")).toEqual(new Set(["insert a"]));
    expect(of.heldFor("northbound")).toBe(5_000);
    expect(of.list()).toEqual([{ backend: "northbound", line: "insert a", times: 8 }]);
    pass(2_000);
    for (let repair = 0; repair < 8; repair++) of.note("northbound", ["insert b"], true);
    expect(of.heldLines("northbound")).toEqual(new Set(["insert a", "insert b"]));
    expect(of.heldFor("northbound")).toBe(3_000);
    pass(3_000);
    expect(of.heldLines("northbound")).toEqual(new Set(["insert b"]));
    for (let repair = 0; repair < 8; repair++) of.note("northbound", ["insert a"], true);
    pass(2_000);
    expect([of.heldLines("northbound"), of.heldFor("northbound")]).toEqual([new Set(["insert a"]), 8_000]);
  });

  it("holds all of it where the fight is over more than a few lines", () => {
    const { of, pass } = contention();
    const many = Array.from({ length: 33 }, (_, n) => `insert ${n}`);
    for (let repair = 0; repair < 8; repair++) of.note("northbound", many.slice(0, 32), true);
    expect(of.heldLines("northbound")).toEqual(new Set(many.slice(0, 32)));
    for (let repair = 0; repair < 8; repair++) of.note("northbound", many.slice(32), true);
    expect(of.heldLines("northbound")).toBe("all");
    pass(5_000);
    expect(of.heldLines("northbound")).toEqual(new Set());
    for (let repair = 0; repair < 8; repair++) of.note("iptables", many);
    expect(of.heldLines("iptables")).toBe("all");
  });

  it("keeps backends apart that write the same line", () => {
    const { of } = contention();
    for (let repair = 0; repair < 4; repair++) {
      of.note("sets", ["add egressip4 10.244.1.3"]);
      of.note("steering", ["add egressip4 10.244.1.3"]);
    }
    expect(of.list()).toEqual([]);
  });
});

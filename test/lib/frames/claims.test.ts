// Questions against vectors written out from the RFCs, filters by running them, and the reading of what perl prints.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  answersIn,
  arpProbe,
  claimFilter,
  claimIn,
  garp,
  type Instruction,
  linkLocalFromMac,
  solicitation,
  unsolicitedNa,
} from "../../../lib/frames/pure.ts";

const MAC = "02:42:ac:12:00:0b";
const E4 = "172.18.0.50";
const E6 = "fd00:172:18::50";
const KEY4 = "ac120032";
const KEY6 = "fd000172001800000000000000000050";

function bytes(text: string): Uint8Array {
  return Uint8Array.from(text.trim().split(/\s+/), (byte) => Number.parseInt(byte, 16));
}

/** An advertisement with other options: the 86 bytes of unsolicitedNa up to them, and these. */
function advertisement(...options: readonly number[]): Uint8Array {
  return Uint8Array.of(...unsolicitedNa(MAC, linkLocalFromMac(MAC), E6).subarray(0, 78), ...options);
}

function changed(frame: Uint8Array, at: number, ...to: readonly number[]): Uint8Array {
  const copy = Uint8Array.from(frame);
  copy.set(to, at);
  return copy;
}

/** Classic BPF as far as filters use it; a load behind the end rejects, as in the kernel. */
function passes(program: readonly Instruction[], frame: Uint8Array): boolean {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  let accumulator = 0;
  for (let at = 0; at < program.length; at++) {
    const [code, jt, jf, k] = program[at] ?? [0, 0, 0, 0];
    if (code === 0x06) return k > 0;
    if (code === 0x15) at += accumulator === k ? jt : jf;
    else if (code === 0x20 && k + 4 <= frame.length) accumulator = view.getUint32(k);
    else if (code === 0x30 && k < frame.length) accumulator = view.getUint8(k);
    else return false;
  }
  throw new Error("ran off the end");
}

describe("arpProbe", () => {
  it("is a broadcast request from nobody", () => {
    expect(arpProbe(MAC, E4)).toEqual(
      bytes(`
        ff ff ff ff ff ff  02 42 ac 12 00 0b  08 06
        00 01  08 00  06  04  00 01
        02 42 ac 12 00 0b  00 00 00 00
        00 00 00 00 00 00  ac 12 00 32
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00`),
    );
  });

  it.each([E6, "0.0.0.0", "172.18.0.50/32", ""])("refuses %j", (address) => {
    expect(() => arpProbe(MAC, address)).toThrow(RangeError);
  });
});

describe("solicitation", () => {
  it("of duplicate address detection comes from :: and carries no option", () => {
    // All but its checksum, which two tests further on holds.
    const frame = solicitation(MAC, undefined, E6);
    expect(changed(frame, 56, 0, 0)).toEqual(
      bytes(`
        33 33 ff 00 00 50  02 42 ac 12 00 0b  86 dd
        60 00 00 00  00 18  3a  ff
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        ff 02 00 00 00 00 00 00 00 00 00 01 ff 00 00 50
        87 00  00 00  00 00 00 00
        fd 00 01 72 00 18 00 00 00 00 00 00 00 00 00 50`),
    );
  });

  it("from a link-local address says at which MAC that is", () => {
    expect(changed(solicitation(MAC, "fe80::1", "fd00::12:3456"), 56, 0, 0)).toEqual(
      bytes(`
        33 33 ff 12 34 56  02 42 ac 12 00 0b  86 dd
        60 00 00 00  00 20  3a  ff
        fe 80 00 00 00 00 00 00 00 00 00 00 00 00 00 01
        ff 02 00 00 00 00 00 00 00 00 00 01 ff 12 34 56
        87 00  00 00  00 00 00 00
        fd 00 00 00 00 00 00 00 00 00 00 00 00 12 34 56
        01 01  02 42 ac 12 00 0b`),
    );
  });

  it.each([undefined, "fe80::42:acff:fe12:b"])("has a checksum that holds, from %s", (source) => {
    const frame = solicitation(MAC, source, E6);
    const icmp = [...frame.slice(54)];
    const summed = [...frame.slice(22, 54), 0, 0, 0, icmp.length, 0, 0, 0, 58, ...icmp];
    expect(summed.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n) % 0xffffn).toBe(0n);
    expect(frame.slice(56, 58)).not.toEqual(Uint8Array.of(0, 0));
  });

  it.each([
    [undefined, E4],
    [undefined, "ff02::1"],
    [undefined, "::"],
    ["fd00::1", E6],
    ["", E6],
  ])("refuses to ask from %j for %j", (source, address) => {
    expect(() => solicitation(MAC, source, address)).toThrow(RangeError);
  });
});

describe("a claim", () => {
  it.each([
    ["a gratuitous request", garp(MAC, E4), KEY4, MAC],
    ["a reply", changed(garp(MAC, E4), 21, 2), KEY4, MAC],
    ["a reply by somebody for another", changed(garp(MAC, E4), 6, 2, 0, 0, 0, 0, 1), KEY4, MAC],
    ["an advertisement", unsolicitedNa(MAC, "fe80::1", E6), KEY6, MAC],
    ["an advertisement without options", advertisement(), KEY6, MAC],
    [
      "a MAC behind another option",
      advertisement(14, 1, 0, 0, 0, 0, 0, 0, 2, 1, 2, 0, 0, 0, 0, 7),
      KEY6,
      "02:00:00:00:00:07",
    ],
    ["an option that is cut off", advertisement(2, 1, 2, 0), KEY6, MAC],
  ] as const)("is %s", (_, frame, key, mac) => {
    expect(claimIn(frame)).toEqual({ key, mac });
  });

  it.each([
    ["a probe", arpProbe(MAC, E4)],
    ["a solicitation", solicitation(MAC, undefined, E6)],
    ["an operation that is neither", changed(garp(MAC, E4), 21, 3)],
    ["ARP for another protocol", changed(garp(MAC, E4), 16, 0x86, 0xdd)],
    ["a group's MAC", changed(garp(MAC, E4), 22, 1)],
    ["no MAC", changed(garp(MAC, E4), 22, 0, 0, 0, 0, 0, 0)],
    ["an advertisement from behind a router", changed(unsolicitedNa(MAC, "fe80::1", E6), 21, 254)],
    ["an option without length", advertisement(9, 0, 0, 0, 0, 0, 0, 0)],
    ["nothing", new Uint8Array()],
    ["half an ARP", garp(MAC, E4).subarray(0, 41)],
  ] as const)("is not %s", (_, frame) => {
    expect(claimIn(frame)).toBeUndefined();
  });

  it("is found or not found in whatever comes, and never beyond the frame's end", () => {
    const anyFrame = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.uint8Array({ maxLength: 120 }).map((rest) => advertisement(...rest)),
      fc.uint8Array({ minLength: 46, maxLength: 46 }).map((rest) => changed(garp(MAC, E4), 14, ...rest)),
    );
    fc.assert(
      fc.property(anyFrame, (frame) => {
        const claim = claimIn(frame);
        if (claim === undefined) return;
        expect(claim.key).toMatch(/^([0-9a-f]{8}|[0-9a-f]{32})$/);
        expect(claim.mac).toMatch(/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/);
      }),
    );
  });
});

describe("the filter", () => {
  const watched4 = [E4, "10.10.10.50"];
  const watched6 = [E6, "fd00:10:10::51"];
  it.each([
    ["one of the addresses", 4, garp(MAC, "10.10.10.50"), true],
    ["another address", 4, garp(MAC, "10.10.10.51"), false],
    ["a probe for one of them", 4, arpProbe(MAC, E4), false],
    ["one of the addresses", 6, unsolicitedNa(MAC, "fe80::1", "fd00:10:10::51"), true],
    ["another address", 6, unsolicitedNa(MAC, "fe80::1", "fd00:10:10::52"), false],
    ["a solicitation for one of them", 6, solicitation(MAC, undefined, E6), false],
    ["an echo reply", 6, changed(unsolicitedNa(MAC, "fe80::1", E6), 54, 129), false],
    ["TCP", 6, changed(unsolicitedNa(MAC, "fe80::1", E6), 20, 6), false],
    ["a frame that is too short", 6, advertisement().subarray(0, 77), false],
  ] as const)("and %s, IPv%d", (_, family, frame, passed) => {
    expect(passes(claimFilter(family, family === 4 ? watched4 : watched6), frame)).toBe(passed);
  });

  it("lets every claim in, however many addresses there are, and others out while it can name them", () => {
    const count = fc.integer({ min: 1, max: 700 });
    fc.assert(
      fc.property(count, fc.nat(), fc.constantFrom<4 | 6>(4, 6), (length, chosen, family) => {
        const all = Array.from({ length }, (_, at) =>
          family === 4 ? `10.0.${at >> 8}.${at & 255}` : `fd00::${(at + 1).toString(16)}`,
        );
        const program = claimFilter(family, all);
        expect(program.length).toBeLessThan(4096);
        for (const instruction of program)
          for (const jump of instruction.slice(1, 3)) expect(jump).toBeLessThan(256);
        const claim = (address: string) =>
          family === 4 ? garp(MAC, address) : unsolicitedNa(MAC, "fe80::1", address);
        expect(passes(program, claim(all[chosen % length] ?? ""))).toBe(true);
        expect(passes(program, claim(family === 4 ? "10.9.9.9" : "fd00::9999"))).toBe(length > 500);
      }),
      { numRuns: 50 },
    );
  });
});

describe("what perl prints", () => {
  const seen = (ifindex: number, frame: Uint8Array) =>
    `seen ${ifindex} ${Buffer.from(frame).toString("hex")}`;
  const watched = [
    { ifindex: 7, address: E4 },
    { ifindex: 7, address: "FD00:172:18:0::50" },
  ];

  it("is answers for what was asked, where it was asked, each once, in the words of who asked", () => {
    const lines = [
      seen(7, garp(MAC, E4)),
      seen(7, garp(MAC, E4)),
      seen(8, garp(MAC, E4)),
      seen(7, garp(MAC, "172.18.0.51")),
      seen(7, unsolicitedNa(MAC, "fe80::1", E6)),
      "failed 8 Network is down",
      "seen 7 abc",
      "seen 7 ",
      "",
    ];
    expect(answersIn(lines, watched)).toEqual([
      { ifindex: 7, address: E4, mac: MAC },
      { ifindex: 7, address: "FD00:172:18:0::50", mac: MAC },
    ]);
  });

  it("may be anything", () => {
    const line = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.uint8Array({ maxLength: 120 }).map((frame) => seen(7, frame)),
      fc.uint8Array({ maxLength: 60 }).map((rest) => seen(7, advertisement(...rest))),
    );
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        for (const { ifindex, address } of answersIn(lines, watched))
          expect(watched).toContainEqual({ ifindex, address });
      }),
    );
  });
});

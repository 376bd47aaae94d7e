// conntrack's command lines and listings. The listings were printed by conntrack 1.4.7 in a network namespace.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ParseError,
  parseDeleted,
  parseFlows,
  printDelete,
  printTranslated,
  translatedLine,
} from "../../../lib/conntrack/pure.ts";

describe("printDelete", () => {
  it("deletes by mark", () => {
    expect(printDelete({ family: 4, mark: 0x100000, mask: 0x7ff00000 })).toBe(
      "conntrack -D -f ipv4 --zone 0 --mark 0x100000/0x7ff00000",
    );
  });

  it("deletes by source", () => {
    expect(printDelete({ family: 6, source: "fd00:10:244:1::3" })).toBe(
      "conntrack -D -f ipv6 --zone 0 --orig-src fd00:10:244:1::3",
    );
  });

  it("deletes by source and exact mark", () => {
    expect(printDelete({ family: 4, source: "10.244.1.3", mark: 0x80000000 })).toBe(
      "conntrack -D -f ipv4 --zone 0 --orig-src 10.244.1.3 --mark 0x80000000/0xffffffff",
    );
  });

  it("writes every mark under every mask as conntrack reads it", () => {
    const bits = fc.integer({ min: 1, max: 0xffffffff });
    fc.assert(
      fc.property(bits, bits, (mark, more) => {
        const mask = (mark | more) >>> 0;
        const text = printDelete({ family: 4, mark, mask }).split(" ").at(-1) ?? "";
        expect(text.split("/").map(Number)).toEqual([mark, mask]);
      }),
    );
  });

  it.each([
    ["no mask", 0x100000, 0],
    ["bits outside the mask", 0x4000, 0x7ff00000],
    ["a negative mark", -1, 0xffffffff],
    ["a mark of 33 bits", 0x100000000, 0xffffffff],
    ["half a mark", 0.5, 0xffffffff],
    ["not a number", Number.NaN, 0xffffffff],
  ])("refuses %s", (_, mark, mask) => {
    expect(() => printDelete({ family: 4, mark, mask })).toThrow(RangeError);
    expect(() => printDelete({ family: 4, source: "10.244.1.3", mark, mask })).toThrow(RangeError);
  });

  it("takes mark 0 only together with a source: alone it would be everybody's flows", () => {
    expect(() => printDelete({ family: 4, mark: 0, mask: 0x7ff00000 })).toThrow(RangeError);
    expect(printDelete({ family: 4, source: "10.244.1.3", mark: 0, mask: 0x7ff00000 })).toBe(
      "conntrack -D -f ipv4 --zone 0 --orig-src 10.244.1.3 --mark 0x0/0x7ff00000",
    );
  });

  it.each([
    [4, "10.244.0.0/16"],
    [4, "fd00::1"],
    [4, ""],
    [4, "--help"],
    [6, "10.244.1.3"],
    [6, "fd00::/64"],
    [6, ""],
  ] as const)("refuses the IPv%i source %j", (family, source) => {
    expect(() => printDelete({ family, source })).toThrow(RangeError);
  });
});

describe("flows by what they are translated to", () => {
  const mark = { mark: 0x100000, mask: 0x7ff00000 };

  it("says what one would type, and what the script reads", () => {
    const changes = [
      { family: 4, translatedTo: "10.10.10.50", ...mark },
      { family: 6, translatedTo: "fd00:10:10::50", mark: 0, mask: 0x7ff00000 },
      { family: 4, translatedTo: "10.10.10.51", ends: true },
    ] as const;
    expect(changes.map(printTranslated)).toEqual([
      "conntrack -U -f ipv4 --reply-dst 10.10.10.50 --mark 0x100000/0x7ff00000",
      "conntrack -U -f ipv6 --reply-dst fd00:10:10::50 --mark 0x0/0x7ff00000",
      "conntrack -D -f ipv4 --reply-dst 10.10.10.51 --zone 0",
    ]);
    expect(changes.map(translatedLine)).toEqual([
      "4 10.10.10.50 1048576 2146435072",
      "6 fd00:10:10::50 0 2146435072",
      "4 10.10.10.51",
    ]);
  });

  it.each([
    ["a network", { family: 4, translatedTo: "10.10.10.0/24", ends: true }],
    ["an address of the other family", { family: 6, translatedTo: "10.10.10.50", ends: true }],
    ["bits outside the mask", { family: 4, translatedTo: "10.10.10.50", mark: 0x4000, mask: 0x7ff00000 }],
    ["no mask", { family: 4, translatedTo: "10.10.10.50", mark: 0, mask: 0 }],
  ] as const)("refuses %s", (_, change) => {
    expect(() => printTranslated(change)).toThrow(RangeError);
    expect(() => translatedLine(change)).toThrow(RangeError);
  });
});

describe("parseDeleted", () => {
  it.each([
    ["conntrack v1.4.7 (conntrack-tools): 0 flow entries have been deleted.\n", 0],
    ["conntrack v1.4.7 (conntrack-tools): 12 flow entries have been deleted.\n", 12],
    ["conntrack v1.4.7 (conntrack-tools): Operation failed: sorry, you must be root\n", undefined],
    ["", undefined],
  ])("%j says %s", (stderr, count) => {
    expect(parseDeleted(stderr)).toBe(count);
  });
});

describe("parseFlows", () => {
  it("reads nothing as no flows", () => {
    expect(parseFlows("")).toEqual([]);
  });

  it("reads tcp with its state, translated ports, mark and flags", () => {
    const text =
      "ipv4     2 tcp      6 431999 ESTABLISHED src=10.244.1.3 dst=198.51.100.80 sport=60270 dport=80 " +
      "src=198.51.100.80 dst=172.18.0.50 sport=80 dport=1024 [ASSURED] mark=1048576 use=1\n";
    expect(parseFlows(text)).toEqual([
      {
        protocol: "tcp",
        orig: { src: "10.244.1.3", dst: "198.51.100.80", sport: 60270, dport: 80 },
        reply: { src: "198.51.100.80", dst: "172.18.0.50", sport: 80, dport: 1024 },
        mark: 0x100000,
        zone: 0,
        state: "ESTABLISHED",
        flags: ["ASSURED"],
      },
    ]);
  });

  it("reads an unreplied flow of IPv6 and of another zone", () => {
    const text =
      "ipv6     10 udp      17 29 src=::1 dst=::2 sport=59591 dport=7001 [UNREPLIED] " +
      "src=::2 dst=::1 sport=7001 dport=59591 mark=0 zone=5 use=1\n";
    expect(parseFlows(text)).toEqual([
      {
        protocol: "udp",
        orig: { src: "::1", dst: "::2", sport: 59591, dport: 7001 },
        reply: { src: "::2", dst: "::1", sport: 7001, dport: 59591 },
        mark: 0,
        zone: 5,
        flags: ["UNREPLIED"],
      },
    ]);
  });

  const head = "ipv4     2 ";
  const there = "src=10.0.0.1 dst=10.0.0.2";
  const back = "src=10.0.0.2 dst=10.0.0.1";
  const orig = { src: "10.0.0.1", dst: "10.0.0.2" };
  const reply = { src: "10.0.0.2", dst: "10.0.0.1" };

  it.each([
    ["icmp", `icmp     1 29 ${there} type=8 code=0 id=5 ${back} type=0 code=0 id=5 mark=0 use=1`],
    [
      "gre",
      `gre      47 29 ${there} srckey=0x0 dstkey=0x1 [UNREPLIED] ${back} srckey=0x1 dstkey=0x0 mark=0 use=1`,
    ],
    [
      "200",
      `unknown  200 599 ${there} packets=1 bytes=25 [UNREPLIED] ${back} packets=0 bytes=0 mark=0 use=1`,
    ],
    ["sctp", `sctp     132 9 COOKIE_WAIT ${there} ${back} secctx=system_u:object_r:x:s0 use=1 id=3284045692`],
    ["tcp", `tcp      6 ${there} ${back} [OFFLOAD] [HW_OFFLOAD] mark=0 zone-orig=1 delta-time=3 use=2`],
  ])("reads addresses of %s, with what we have no use for around them", (protocol, line) => {
    expect(parseFlows(`${head}${line}\n`)).toEqual([
      expect.objectContaining({ protocol, orig, reply, mark: 0 }),
    ]);
    expect(parseFlows(`${line} \n`)).toEqual([expect.objectContaining({ protocol, orig, reply, mark: 0 })]);
  });

  it.each([
    ["another sentence", "conntrack: something new"],
    ["one direction", `${head}udp      17 29 ${there} mark=0 use=1`],
    ["three directions", `${head}udp      17 29 ${there} ${back} ${back} mark=0 use=1`],
    ["no destination", `${head}udp      17 29 src=10.0.0.1 ${back} mark=0 use=1`],
    ["an unknown word", `${head}udp      17 29 ${there} ${back} surprise mark=0 use=1`],
    ["an unknown word in front", `${head}udp      17 29 surprise ${there} ${back} mark=0 use=1`],
    ["a port that is no number", `${head}udp      17 29 ${there} sport=http dport=1 ${back} mark=0 use=1`],
    ["a mark that is no number", `${head}udp      17 29 ${there} ${back} mark=0x1 use=1`],
  ])("does not guess around %s", (_, line) => {
    const good = `${head}udp      17 29 ${there} ${back} mark=0 use=1`;
    const error = thrownBy(() => parseFlows(`${good}\n${line}\n`));
    expect(error).toBeInstanceOf(ParseError);
    expect(error).toHaveProperty("line", line);
  });
});

function thrownBy(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  return undefined;
}

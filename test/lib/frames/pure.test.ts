// Frames against vectors written out from the RFCs by hand, and the properties every frame has.
import fc from "fast-check";
import { Address6 } from "ip-address";
import { describe, expect, it } from "vitest";
import { garp, linkLocalFromMac, unsolicitedNa } from "../../../lib/frames/pure.ts";

const MAC = "02:42:ac:12:00:0b";
const LINK_LOCAL = "fe80::42:acff:fe12:b";

const anyMac = fc
  .uint8Array({ minLength: 6, maxLength: 6 })
  .map((bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":"));

/** As 62 hex digits would be read aloud: spaces between bytes, line breaks where a header ends. */
function bytes(text: string): Uint8Array {
  return Uint8Array.from(text.trim().split(/\s+/), (byte) => Number.parseInt(byte, 16));
}

/** A one's complement sum is 0 exactly if the big-endian number is a multiple of 0xffff. */
function remainder(message: readonly number[]): bigint {
  return message.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n) % 0xffffn;
}

describe("garp", () => {
  it("is a broadcast request from and for the address", () => {
    expect(garp(MAC, "172.18.0.50")).toEqual(
      bytes(`
        ff ff ff ff ff ff  02 42 ac 12 00 0b  08 06
        00 01  08 00  06  04  00 01
        02 42 ac 12 00 0b  ac 12 00 32
        00 00 00 00 00 00  ac 12 00 32
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00`),
    );
  });

  it("carries any address as sender and target, in 60 bytes", () => {
    const announceable = fc.ipV4().filter((address) => address !== "0.0.0.0");
    fc.assert(
      fc.property(anyMac, announceable, (mac, address) => {
        const frame = garp(mac, address);
        expect(frame.length).toBe(60);
        expect(frame.slice(28, 32).join(".")).toBe(address);
        expect(frame.slice(38, 42).join(".")).toBe(address);
        expect(frame.slice(22, 28)).toEqual(frame.slice(6, 12));
      }),
    );
  });

  it.each([
    "0.0.0.0",
    "::ffff:172.18.0.50",
    "fd00::1",
    "172.18.0.50/32",
    "172.18.0",
    "172.18.0.256",
    "172.18.0.050",
    "172.18.0.0x32",
    " 172.18.0.50",
    "1.2.3.4.5",
    "",
  ])("refuses %j", (address) => {
    expect(() => garp(MAC, address)).toThrow(RangeError);
  });

  it.each([
    "",
    "02:42:ac:12:00",
    "02:42:ac:12:00:0b:00",
    "02:42:ac:12:00:b",
    "02-42-ac-12-00-0b",
    "0g:42:ac:12:00:0b",
  ])("refuses the MAC %j", (mac) => {
    expect(() => garp(mac, "172.18.0.50")).toThrow("not a MAC address");
  });
});

describe("unsolicitedNa", () => {
  it("is an advertisement to all nodes with only Override set", () => {
    // Checksum: fe80+42+acff+fe12+b + ff02+1 + 20 + 3a + 8800+2000 + fd00+172+18+50 + 201+242+ac12+b = 60075,
    // folded 7b, complement ff84.
    expect(unsolicitedNa(MAC, LINK_LOCAL, "fd00:172:18::50")).toEqual(
      bytes(`
        33 33 00 00 00 01  02 42 ac 12 00 0b  86 dd
        60 00 00 00  00 20  3a  ff
        fe 80 00 00 00 00 00 00 00 42 ac ff fe 12 00 0b
        ff 02 00 00 00 00 00 00 00 00 00 00 00 00 00 01
        88 00  ff 84  20 00 00 00
        fd 00 01 72 00 18 00 00 00 00 00 00 00 00 00 50
        02 01  02 42 ac 12 00 0b`),
    );
  });

  it("carries any target, with a checksum that holds", () => {
    const announceable = fc
      .ipV6()
      .filter((text) => !/^ff/i.test(new Address6(text).correctForm()) && !new Address6(text).is4())
      .filter((text) => !isUnspecifiedOrMapped(text));
    fc.assert(
      fc.property(anyMac, announceable, (mac, address) => {
        const frame = unsolicitedNa(mac, linkLocalFromMac(mac), address);
        expect(frame.length).toBe(86);
        expect([...frame.slice(62, 78)]).toEqual(sixteen(address));
        const icmp = [...frame.slice(54)];
        const pseudoHeader = [...frame.slice(22, 54), 0, 0, 0, icmp.length, 0, 0, 0, 58];
        expect(remainder([...pseudoHeader, ...icmp])).toBe(0n);
      }),
    );
  });

  it("reads an address with dotted digits at its end", () => {
    expect([...unsolicitedNa(MAC, LINK_LOCAL, "64:ff9b::198.51.100.80").slice(62, 78)]).toEqual([
      0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 198, 51, 100, 80,
    ]);
  });

  it.each([
    "::",
    "ff02::1",
    "::ffff:172.18.0.50",
    "::ffff:ac12:32",
    "172.18.0.50",
    "fd00:172:18::50/128",
    "fe80::1%eth0",
    "fd00::1::2",
    "fd00:::1",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4::5:6:7:8",
    ":1:2:3:4:5:6:7",
    "fd00::12345",
    "fd00::1.2.3",
    "fd00::1.2.3.256",
    "",
  ])("refuses the target %j", (address) => {
    expect(() => unsolicitedNa(MAC, LINK_LOCAL, address)).toThrow(RangeError);
  });

  it.each(["fd00::1", "::", "fec0::1", "172.18.0.11"])("refuses the source %j", (source) => {
    expect(() => unsolicitedNa(MAC, source, "fd00:172:18::50")).toThrow(RangeError);
  });
});

describe("linkLocalFromMac", () => {
  // The first is RFC 4291 appendix A's example with its letters filled in; the others are about writing zeros.
  it.each([
    ["34:56:78:9a:bc:de", "fe80::3656:78ff:fe9a:bcde"],
    [MAC, LINK_LOCAL],
    ["02:00:00:00:00:00", "fe80::ff:fe00:0"],
    ["00:00:00:00:00:00", "fe80::200:ff:fe00:0"],
    ["FF:FF:FF:FF:FF:FF", "fe80::fdff:ffff:feff:ffff"],
  ])("%s is %s", (mac, address) => {
    expect(linkLocalFromMac(mac)).toBe(address);
  });

  it("writes every address in the canonical form", () => {
    fc.assert(
      fc.property(anyMac, (mac) => {
        const address = linkLocalFromMac(mac);
        expect(address).toBe(new Address6(address).correctForm());
      }),
    );
  });
});

function sixteen(address: string): number[] {
  const digits = new Address6(address).bigInt().toString(16).padStart(32, "0");
  return (digits.match(/../g) ?? []).map((byte) => Number.parseInt(byte, 16));
}

function isUnspecifiedOrMapped(address: string): boolean {
  const high = new Address6(address).bigInt() >> 32n;
  return high === 0xffffn || new Address6(address).bigInt() === 0n;
}

// Addresses against two oracles: the ip-address package for values, and inet_pton (node:net) for what is an
// address at all.
import { isIP } from "node:net";
import fc from "fast-check";
import { Address4, Address6 } from "ip-address";
import { describe, expect, it } from "vitest";
import {
  compareAddresses,
  contains,
  familyOf,
  formatCidr,
  isLinkLocal,
  isLoopback,
  isMulticast,
  isUnspecified,
  longestPrefix,
  networkOf,
  parseAddress,
  parseCidr,
  sortedAddresses,
  toBytes,
} from "../../../agent/model/ip.ts";

const mapped = /^::ffff:[0-9a-f]+:[0-9a-f]+$/;

/** Text that is nearly an address: pieces of addresses in any order. */
const almost = fc
  .array(
    fc.constantFrom(
      "0",
      "1",
      "01",
      "00",
      "10",
      "255",
      "256",
      "ffff",
      "FFFF",
      "fffff",
      "g",
      ".",
      ":",
      "::",
      "%",
      "/",
      " ",
      "-",
      "+1",
      "1.2.3.4",
    ),
    { maxLength: 16 },
  )
  .map((pieces) => pieces.join(""));

const groups = fc.array(fc.oneof(fc.constant(0), fc.constant(0xffff), fc.nat(0xffff)), {
  minLength: 8,
  maxLength: 8,
});
const quads = fc.array(fc.nat(255), { minLength: 4, maxLength: 4 }).map((octets) => octets.join("."));
/** IPv6 as people write it: leading zeros, capitals, and not compressed. */
const longIPv6 = groups.map((group) =>
  group
    .map((value, at) =>
      value
        .toString(16)
        .padStart((at % 4) + 1, "0")
        [at % 2 ? "toUpperCase" : "toLowerCase"](),
    )
    .join(":"),
);
const anyText = fc.oneof(
  quads,
  fc.ipV4(),
  fc.ipV6(),
  longIPv6,
  almost,
  fc.string(),
  fc.string({ unit: "binary" }),
);

function canonical(address: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return address.map((text) => parseAddress(text)).filter((text) => text !== undefined);
}
const addresses = canonical(fc.oneof(quads, longIPv6, fc.ipV6()));

describe("parseAddress", () => {
  it.each([
    ["0.0.0.0", "0.0.0.0"],
    ["255.255.255.255", "255.255.255.255"],
    ["::", "::"],
    ["::1", "::1"],
    ["FD00:0010:0244:0001:0000:0000:0000:0005", "fd00:10:244:1::5"],
    ["fd00::0", "fd00::"],
    ["2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"],
    ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
    ["2001:0:0:1:0:0:0:1", "2001:0:0:1::1"],
    ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"],
    ["64:ff9b::192.0.2.33", "64:ff9b::c000:221"],
    ["::1.2.3.4", "::102:304"],
    ["::fffe:1.2.3.4", "::fffe:102:304"],
  ])("reads %s as %s", (text, expected) => {
    expect(parseAddress(text)).toBe(expected);
  });

  it.each([
    "",
    " ",
    "1",
    "10.1",
    "1.2.3",
    "1.2.3.4.5",
    "1.2.3.",
    ".1.2.3",
    "1..2.3",
    "01.2.3.4",
    "1.2.3.00",
    "1.2.3.256",
    "1.2.3.1000",
    "1.2.3.-4",
    "1.2.3.4 ",
    " 1.2.3.4",
    "1.2.3.4\n",
    "1.2.3.4/32",
    "0x1.2.3.4",
    "١.2.3.4",
    "1.2.3.4:80",
    ":",
    ":::",
    "1:",
    ":1",
    "1::2::3",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1::2:3:4:5:6:7:8",
    "::1:2:3:4:5:6:7:8",
    "1:2:3:4:5:6:7:8::",
    "12345::",
    "g::",
    "fe80::1%eth0",
    "[::1]",
    "::1/128",
    "::1 ",
    "::1.2.3",
    "::01.2.3.4",
    "1.2.3.4::",
    "1:2:3:4:5:6:7:1.2.3.4",
    "::1.2.3.4:5",
    "::ffff:1.2.3.4",
    "::ffff:102:304",
    "0:0:0:0:0:FFFF:0:0",
    `${"0".repeat(60)}::`,
  ])("refuses %j", (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });

  it("takes exactly what inet_pton takes, but zones and IPv4-mapped addresses", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const address = parseAddress(text);
        const valid =
          isIP(text) !== 0 &&
          !text.includes("%") &&
          !mapped.test(new URL(`http://${isIP(text) === 6 ? `[${text}]` : "1.1.1.1"}`).hostname.slice(1, -1));
        expect(address !== undefined, text).toBe(valid);
      }),
      { numRuns: 3_000 },
    );
  });

  it("writes what ip-address calls the correct form, and reads it back as the same", () => {
    fc.assert(
      fc.property(fc.oneof(longIPv6, fc.ipV6(), quads), (text) => {
        const address = parseAddress(text);
        fc.pre(address !== undefined);
        const oracle = text.includes(":")
          ? new Address6(text).correctForm()
          : new Address4(text).correctForm();
        expect(address).toBe(oracle);
        expect(parseAddress(address)).toBe(address);
        expect(familyOf(address)).toBe(isIP(address));
      }),
      { numRuns: 2_000 },
    );
  });

  it("gives the bytes that ip-address gives", () => {
    fc.assert(
      fc.property(addresses, (address) => {
        const oracle = familyOf(address) === 6 ? new Address6(address) : new Address4(address);
        const unsigned = oracle.bigInt();
        const bytes = toBytes(address);
        expect(bytes).toHaveLength(familyOf(address) === 6 ? 16 : 4);
        expect(bytes.every((byte) => Number.isInteger(byte) && byte >= 0 && byte <= 255)).toBe(true);
        expect(bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n)).toBe(unsigned);
      }),
    );
  });
});

describe("parseCidr", () => {
  it.each([
    ["172.18.0.3/16", { family: 4, address: "172.18.0.3", network: "172.18.0.0", length: 16 }],
    ["1.2.3.4/0", { family: 4, address: "1.2.3.4", network: "0.0.0.0", length: 0 }],
    ["255.255.255.255/32", { family: 4, address: "255.255.255.255", network: "255.255.255.255", length: 32 }],
    ["255.255.255.255/1", { family: 4, address: "255.255.255.255", network: "128.0.0.0", length: 1 }],
    [
      "FD00:10:244:1::5/64",
      { family: 6, address: "fd00:10:244:1::5", network: "fd00:10:244:1::", length: 64 },
    ],
    ["ffff::1/7", { family: 6, address: "ffff::1", network: "fe00::", length: 7 }],
    ["::1/128", { family: 6, address: "::1", network: "::1", length: 128 }],
    ["::1/0", { family: 6, address: "::1", network: "::", length: 0 }],
  ])("reads %s", (text, expected) => {
    expect(parseCidr(text)).toEqual(expected);
  });

  it.each([
    "1.2.3.4",
    "1.2.3.4/",
    "/24",
    "1.2.3.4/33",
    "::/129",
    "1.2.3.4/01",
    "1.2.3.4/+1",
    "1.2.3.4/-1",
    "1.2.3.4/1.0",
    "1.2.3.4/24/8",
    "1.2.3.4/24\n",
    "1.2.3.4/ 24",
    "1.2.3.4/255.255.255.0",
    "1.2.3/24",
    "::ffff:1.2.3.4/120",
    "1.2.3.4/1e1",
  ])("refuses %j", (text) => {
    expect(parseCidr(text)).toBeUndefined();
  });

  it("has the network and holds the addresses that ip-address says", () => {
    fc.assert(
      fc.property(addresses, addresses, fc.nat(128), fc.nat(128), (address, other, bits, shared) => {
        const length = familyOf(address) === 4 ? bits % 33 : bits;
        const cidr = parseCidr(`${address}/${length}`);
        expect(cidr).toBeDefined();
        if (cidr === undefined) return;
        const Oracle = cidr.family === 4 ? Address4 : Address6;
        const oracle = new Oracle(`${address}/${length}`);
        expect(cidr.network).toBe(oracle.startAddress().correctForm());
        expect(formatCidr(cidr)).toBe(`${address}/${length}`);
        expect(contains(cidr, address)).toBe(true);
        expect(contains(cidr, cidr.network)).toBe(true);
        expect(contains(cidr, other)).toBe(
          familyOf(other) === cidr.family && new Oracle(other).isInSubnet(oracle),
        );
        // Neighbours, where a random other address would nearly never be.
        const near = networkOf(address, Math.min(shared, cidr.family === 4 ? 32 : 128));
        if (parseAddress(near) === near)
          expect(contains(cidr, near)).toBe(new Oracle(near).isInSubnet(oracle));
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("longestPrefix", () => {
  const cidrs = (texts: readonly string[]) =>
    texts.map((text, at) => ({ at, cidr: parseCidr(text) ?? fail(text) }));
  const find = (texts: readonly string[], address: string) =>
    longestPrefix(cidrs(texts), (item) => item.cidr, address)?.at;

  it.each([
    [["0.0.0.0/0", "10.0.0.0/8", "10.10.0.0/16"], "10.10.10.1", 2],
    [["10.10.0.0/16", "10.0.0.0/8", "0.0.0.0/0"], "10.10.10.1", 0],
    [["10.10.0.0/16", "10.0.0.0/8"], "10.11.0.1", 1],
    [["10.10.0.1/16", "10.10.0.2/16"], "10.10.10.1", 0],
    [["0.0.0.0/0"], "fd00::1", undefined],
    [["::/0"], "10.0.0.1", undefined],
    [["::/0", "fd00::/8", "fd00:10::/32"], "fd00:10::1", 2],
    [[], "10.0.0.1", undefined],
    [["0.0.0.0/0"], "10.0.0.1", 0],
  ])("of %j for %s", (texts, address, expected) => {
    expect(find(texts, address)).toBe(expected);
  });
});

describe("order", () => {
  it("puts IPv4 first and then counts", () => {
    const inOrder = [
      "0.0.0.0",
      "9.0.0.0",
      "10.0.0.0",
      "127.255.255.255",
      "128.0.0.0",
      "255.255.255.255",
      "::",
      "::1",
      "::9",
      "::10",
      "9::",
      "10::",
      "8000::",
    ];
    expect(sortedAddresses([...inOrder].reverse())).toEqual(inOrder);
  });

  it("is the order of the numbers", () => {
    fc.assert(
      fc.property(addresses, addresses, (a, b) => {
        const number = (text: string) =>
          (familyOf(text) === 6 ? new Address6(text) : new Address4(text)).bigInt();
        const expected =
          familyOf(a) - familyOf(b) || Number(number(a) > number(b)) - Number(number(a) < number(b));
        expect(Math.sign(compareAddresses(a, b))).toBe(Math.sign(expected));
        expect(Math.sign(compareAddresses(b, a))).toBe(0 - Math.sign(expected));
      }),
    );
  });
});

describe("kinds of addresses", () => {
  it.each([
    ["169.254.0.0", "link-local"],
    ["169.254.255.255", "link-local"],
    ["169.253.255.255", ""],
    ["fe80::", "link-local"],
    ["febf:ffff::1", "link-local"],
    ["fec0::", ""],
    ["224.0.0.0", "multicast"],
    ["239.255.255.255", "multicast"],
    ["223.255.255.255", ""],
    ["240.0.0.0", ""],
    ["ff00::", "multicast"],
    ["ff02::1", "multicast"],
    ["feff::", ""],
    ["127.0.0.1", "loopback"],
    ["127.255.255.255", "loopback"],
    ["128.0.0.1", ""],
    ["::1", "loopback"],
    ["::2", ""],
    ["0.0.0.0", "unspecified"],
    ["0.0.0.1", ""],
    ["::", "unspecified"],
    ["172.18.0.50", ""],
    ["fd00:172:18::50", ""],
  ])("%s is %j", (address, expected) => {
    const answers = {
      "link-local": isLinkLocal(address),
      multicast: isMulticast(address),
      loopback: isLoopback(address),
      unspecified: isUnspecified(address),
    };
    expect(Object.entries(answers).flatMap(([name, holds]) => (holds ? [name] : []))).toEqual(
      expected ? [expected] : [],
    );
  });
});

describe("networkOf and mistakes", () => {
  it("refuses a length that the family does not have, and text that is not an address", () => {
    expect(() => networkOf("1.2.3.4", 33)).toThrow(RangeError);
    expect(() => networkOf("1.2.3.4", -1)).toThrow(RangeError);
    expect(() => networkOf("::1", 1.5)).toThrow(RangeError);
    expect(() => toBytes("ten")).toThrow(/not an IPv4 address: "ten"/);
    expect(() => toBytes("a:b")).toThrow(/not an IPv6 address: "a:b"/);
  });
});

function fail(text: string): never {
  throw new Error(`not a prefix: ${text}`);
}

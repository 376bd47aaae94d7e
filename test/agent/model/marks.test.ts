// Marks: how a mask is cut, who keeps which mark, and that no two egress IPs ever share one.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  allocateMarks,
  hex,
  layoutOf,
  type MarkLayout,
  type MarkRequest,
  type ProgrammedMark,
} from "../../../agent/model/marks.ts";
import { programmedMarks } from "../../../agent/model/marks-found.ts";
import { onLink } from "../../../agent/model/on-link.ts";
import { parseSave } from "../../../lib/node-iptables/pure.ts";

function layout(mask: number): MarkLayout {
  const cut = layoutOf(mask);
  if (cut === undefined) throw new Error(`cannot be cut: ${hex(mask)}`);
  return cut;
}

describe("layoutOf", () => {
  it.each([
    [0x7ff00000, 0x78000000, 27, 20, 15, 128],
    [0xfff00000, 0xf0000000, 28, 20, 15, 256],
    [0x3f000000, 0x3c000000, 26, 24, 15, 4],
    [0xffffffff, 0xf0000000, 28, 0, 15, 2 ** 28],
    // Five bits are too few for four of blocks.
    [0x1f000000, 0x1c000000, 26, 24, 7, 4],
    [0xf8000000, 0xe0000000, 29, 27, 7, 4],
    [0x0000001f, 0x0000001c, 2, 0, 7, 4],
  ])("cuts %i into blocks and the rest", (mask, linkMask, linkShift, addressShift, links, addresses) => {
    expect(layoutOf(mask)).toEqual({ mask, linkMask, linkShift, addressShift, links, addresses });
  });

  it.each([
    ["nothing", 0],
    ["four bits", 0xf0000000],
    ["one bit", 0x4000],
    ["a hole", 0x7f700000],
    ["two ends", 0x80000001],
    ["33 bits", 0x1ffffffff],
    ["a negative number", -1],
    ["a fraction", 31.5],
    ["not a number", Number.NaN],
    ["endless", Number.POSITIVE_INFINITY],
  ])("does not cut %s", (_, mask) => {
    expect(layoutOf(mask)).toBeUndefined();
  });

  it("cuts every contiguous mask of five bits or more into disjoint parts that make it up", () => {
    for (let low = 0; low < 32; low++) {
      for (let bits = 5; low + bits <= 32; bits++) {
        const mask = (2 ** bits - 1) * 2 ** low;
        const { linkMask, addresses, addressShift } = layout(mask);
        expect(linkMask + (addresses - 1) * 2 ** addressShift).toBe(mask);
      }
    }
  });
});

const usual = layout(0x7ff00000);
const request = (address: string, link = "eth0"): MarkRequest => ({
  family: address.includes(":") ? 6 : 4,
  link,
  address,
});
const programmed = (address: string, mark: number, link = "eth0", mask = usual.mask): ProgrammedMark => ({
  ...request(address, link),
  mark,
  mask,
});
const given = (have: readonly ProgrammedMark[], wanted: readonly MarkRequest[], of = usual) =>
  Object.fromEntries([...allocateMarks(of, have, wanted).byAddress].map(([key, mark]) => [key, hex(mark)]));

describe("allocateMarks", () => {
  it("gives a fresh host the lowest marks, by link and in the order asked", () => {
    expect(
      given(
        [],
        [request("172.18.0.50"), request("172.18.0.51"), request("10.10.10.50", "eth1"), request("fd00::50")],
      ),
    ).toEqual({
      "172.18.0.50 eth0": "0x10000000",
      "172.18.0.51 eth0": "0x10100000",
      "10.10.10.50 eth1": "0x20000000",
      "fd00::50 eth0": "0x10000000",
    });
  });

  it("keeps what is programmed, and gives others the lowest that is free", () => {
    const have = [programmed("172.18.0.51", 0x10000000), programmed("172.18.0.53", 0x10200000)];
    expect(
      given(have, [
        request("172.18.0.50"),
        request("172.18.0.51"),
        request("172.18.0.53"),
        request("172.18.0.54"),
      ]),
    ).toEqual({
      "172.18.0.50 eth0": "0x10100000",
      "172.18.0.51 eth0": "0x10000000",
      "172.18.0.53 eth0": "0x10200000",
      "172.18.0.54 eth0": "0x10300000",
    });
  });

  it("does not give a mark again while a rule still carries it: its flows are not gone yet", () => {
    expect(given([programmed("172.18.0.50", 0x10000000)], [request("172.18.0.51")])).toEqual({
      "172.18.0.51 eth0": "0x10100000",
    });
    expect(given([], [request("172.18.0.51")])).toEqual({ "172.18.0.51 eth0": "0x10000000" });
  });

  it("does not give a link's bits to another link while a rule still carries them", () => {
    expect(given([programmed("172.18.0.50", 0x10000000, "eth0")], [request("10.10.10.50", "eth1")])).toEqual({
      "10.10.10.50 eth1": "0x20000000",
    });
  });

  it("gives an address that moves to another link another mark", () => {
    const have = [programmed("172.18.0.50", 0x10000000, "eth0")];
    expect(given(have, [request("172.18.0.50", "eth1")])).toEqual({ "172.18.0.50 eth1": "0x20000000" });
  });

  it("gives everything a mark of the mask that holds now, whatever was programmed under another", () => {
    const have = [
      programmed("172.18.0.50", 0x10000000, "eth0", 0x3ff00000),
      programmed("172.18.0.51", 0x200000, "eth0", 0xff00000),
    ];
    expect(given(have, [request("172.18.0.50"), request("172.18.0.51")])).toEqual({
      "172.18.0.50 eth0": "0x10000000",
      "172.18.0.51 eth0": "0x10100000",
    });
  });

  it.each<[string, readonly ProgrammedMark[]]>([
    [
      "two rules with one mark",
      [programmed("172.18.0.50", 0x10000000), programmed("172.18.0.51", 0x10000000)],
    ],
    [
      "a mark with bits outside the mask",
      [programmed("172.18.0.50", 0x10000001), programmed("172.18.0.51", 0x10000000)],
    ],
    ["a mark without a link", [programmed("172.18.0.50", 0x00100000)]],
    [
      "two links with one link's bits",
      [programmed("172.18.0.50", 0x10000000), programmed("172.18.0.51", 0x10100000, "eth1")],
    ],
    [
      "one address with two marks",
      [programmed("172.18.0.50", 0x10000000), programmed("172.18.0.50", 0x10200000)],
    ],
  ])("makes sense of %s that somebody left", (_, have) => {
    const wanted = [request("172.18.0.50"), request("172.18.0.51"), request("172.18.0.51", "eth1")];
    const { byAddress } = allocateMarks(usual, have, wanted);
    expect(new Set(byAddress.values()).size).toBe(3);
    for (const mark of byAddress.values()) expect((mark & ~usual.mask) >>> 0).toBe(0);
  });

  it("leaves without a mark what there is no room for, and keeps giving the others theirs", () => {
    const small = layout(0x1f000000);
    const many = Array.from({ length: 30 }, (_, n) => request(`172.18.0.${50 + n}`));
    expect(Object.keys(given([], many, small))).toEqual(many.slice(0, 28).map(onLink));
    const links = Array.from({ length: 9 }, (_, n) => request(`10.0.${n}.50`, `eth${n}`));
    expect(Object.keys(given([], links, small))).toEqual(links.slice(0, 7).map(onLink));
  });

  it("has room by default for ten links with fifty egress IPs each, and for fifteen with 128", () => {
    const every = (links: number, addresses: number) =>
      Array.from({ length: links * addresses }, (_, n) =>
        request(`10.0.${n % links}.${Math.floor(n / links)}`, `eth${n % links}`),
      );
    for (const [links, addresses] of [
      [10, 50],
      [15, 128],
    ] as const) {
      const { byAddress, byLink } = allocateMarks(usual, [], every(links, addresses));
      expect(byAddress.size).toBe(links * addresses);
      for (const blocks of byLink.values()) expect(blocks).toHaveLength(1);
    }
  });

  it("gives a link whose block is full the next one, and lets each keep what it has", () => {
    const many = Array.from({ length: 130 }, (_, n) => request(`10.0.0.${n}`, "eth1"));
    const other = request("172.18.0.50");
    const first = allocateMarks(usual, [], [...many, other]);
    expect(first.byLink.get("eth1")).toEqual([0x10000000, 0x30000000]);
    expect(first.byLink.get("eth0")).toEqual([0x20000000]);
    expect(hex(first.byAddress.get(onLink(many[129] as MarkRequest)) ?? 0)).toBe("0x30100000");
    const rules = [...many, other].map((entry) => ({
      ...entry,
      mark: first.byAddress.get(onLink(entry)) ?? 0,
      mask: usual.mask,
    }));
    expect(allocateMarks(usual, rules, [...many, other]).byAddress).toEqual(first.byAddress);
    // With the first 128 gone, what is left stays in the second block.
    const kept = many.slice(128);
    expect(Object.values(given(rules.slice(128), kept))).toEqual(["0x30000000", "0x30100000"]);
  });

  it("leaves everybody the marks that were given when blocks had one bit less", () => {
    const many = Array.from({ length: 200 }, (_, n) => request(`10.0.0.${n}`, "eth1"));
    const others = [request("172.18.0.50"), request("172.18.1.50", "eth2")];
    const marks = [...many.map((_, n) => 0x10000000 + n * 0x100000), 0x20000000, 0x30000000];
    const rules = [...many, ...others].map((entry, at) => ({
      ...entry,
      mark: marks[at] ?? 0,
      mask: usual.mask,
    }));
    const { byAddress, byLink } = allocateMarks(usual, rules, [...many, ...others]);
    expect([...byAddress.values()]).toEqual(marks);
    expect(byLink.get("eth1")).toEqual([0x10000000, 0x18000000]);
  });

  describe("when somebody took the SNAT rules away", () => {
    const web = { ...request("172.18.0.50"), of: "web" };
    const db = { ...request("172.18.0.51"), of: "db" };
    const marksAfter = (
      carried: Readonly<Record<string, readonly string[]>>,
      wanted: readonly MarkRequest[] = [web, db],
    ) => {
      const entries = new Map(
        Object.entries(carried).map(([mark, names]) => [`4 ${Number(mark)}`, new Set(names)]),
      );
      const { byAddress } = allocateMarks(usual, [], wanted, {
        links: [{ link: "eth0", bits: 0x30000000 }],
        entries,
      });
      return wanted.map((entry) => hex(byAddress.get(onLink(entry)) ?? 0));
    };

    it.each<[string, Readonly<Record<string, readonly string[]>>, readonly string[]]>([
      ["links keep their bits", {}, ["0x30000000", "0x30100000"]],
      [
        "each keeps what its own pods carry",
        { "0x30000000": ["db"], "0x30100000": ["web"] },
        ["0x30100000", "0x30000000"],
      ],
      ["nobody gets what another's pods carry", { "0x30000000": ["db"] }, ["0x30100000", "0x30000000"]],
      ["nobody gets what pods of two carry", { "0x30000000": ["db", "web"] }, ["0x30100000", "0x30200000"]],
      [
        "nobody gets what pods carry that none selects",
        { "0x30000000": [""], "0x30100000": ["gone"] },
        ["0x30200000", "0x30300000"],
      ],
      [
        "what is carried on another link's bits is not kept",
        { "0x10000000": ["web"] },
        ["0x30000000", "0x30100000"],
      ],
    ])("%s", (_, carried, expected) => {
      expect(marksAfter(carried)).toEqual(expected);
    });

    it("one that has two addresses gives what its pods carry to the first", () => {
      expect(marksAfter({ "0x30500000": ["web"] }, [web, { ...db, of: "web" }])).toEqual([
        "0x30500000",
        "0x30000000",
      ]);
    });
  });

  const links = ["eth0", "eth1", "br-ex", "bond0"];
  const anyRequest = fc
    .tuple(fc.nat({ max: 20 }), fc.constantFrom(...links), fc.boolean())
    .map(([n, link, six]) => request(six ? `fd00::${n}` : `10.0.0.${n}`, link));
  const requests = fc.uniqueArray(anyRequest, { selector: onLink, maxLength: 20 });
  const anyMask = fc.constantFrom(0x7ff00000, 0xfff00000, 0x1ff00000, 0xf8000000);
  const anyProgrammed = fc
    .tuple(anyRequest, fc.nat({ max: 0xffffffff }), anyMask, fc.boolean())
    .map(([of, bits, mask, whole]) => ({ ...of, mark: whole ? bits : (bits & mask) >>> 0, mask }));

  it("never gives two of one family one mark, nor one outside the mask or of another link", () => {
    fc.assert(
      fc.property(anyMask, fc.array(anyProgrammed, { maxLength: 20 }), requests, (mask, have, wanted) => {
        const of = layout(mask);
        const { byAddress, byLink } = allocateMarks(of, have, wanted);
        const seen = new Set<string>();
        for (const entry of wanted) {
          const mark = byAddress.get(onLink(entry));
          if (mark === undefined) continue;
          expect((mark & ~mask) >>> 0).toBe(0);
          expect(byLink.get(entry.link)).toContain((mark & of.linkMask) >>> 0);
          expect(mark & of.linkMask).not.toBe(0);
          seen.add(`${entry.family} ${mark}`);
        }
        expect(seen.size).toBe(byAddress.size);
        const blocks = [...byLink.values()].flat();
        expect(new Set(blocks).size).toBe(blocks.length);
      }),
    );
  });

  it("comes to rest: what it gave and is programmed, it gives again, in whatever order it is asked", () => {
    fc.assert(
      fc.property(
        anyMask,
        fc.array(anyProgrammed, { maxLength: 10 }),
        requests,
        fc.nat(),
        (mask, have, wanted, turn) => {
          const of = layout(mask);
          const first = allocateMarks(of, have, wanted).byAddress;
          const rules = wanted.flatMap((entry) => {
            const mark = first.get(onLink(entry));
            return mark === undefined ? [] : [{ ...entry, mark, mask }];
          });
          const at = wanted.length === 0 ? 0 : turn % wanted.length;
          const turned = [...wanted.slice(at), ...wanted.slice(0, at)].filter((entry) =>
            first.has(onLink(entry)),
          );
          const second = allocateMarks(of, rules, turned).byAddress;
          expect(second).toEqual(first);
        },
      ),
    );
  });
});

describe("programmedMarks", () => {
  const saved = (...rules: readonly string[]) =>
    parseSave(
      ["*nat", ":EGRESSIP-SNAT - [0:0]", ...rules.map((rule) => `-A EGRESSIP-SNAT ${rule}`), "COMMIT"].join(
        "\n",
      ),
    );

  it("reads our SNAT rules of both families, whatever their mask and options", () => {
    const iptables = {
      4: saved(
        "-m mark --mark 0x4000/0x4000 -j RETURN",
        "-o eth0 -m mark --mark 0x10000000/0x7ff00000 -j SNAT --to-source 172.18.0.50",
        "-o br-ex.100 -m mark --mark 0x80000000/0xfff00000 -j SNAT --to-source 10.10.10.50 --random-fully",
      ),
      6: saved("-o eth0 -m mark --mark 0x10000000/0x7ff00000 -j SNAT --to-source fd00::50"),
    };
    expect(programmedMarks(iptables)).toEqual([
      { family: 4, link: "eth0", mark: 0x10000000, mask: 0x7ff00000, address: "172.18.0.50" },
      { family: 4, link: "br-ex.100", mark: 0x80000000, mask: 0xfff00000, address: "10.10.10.50" },
      { family: 6, link: "eth0", mark: 0x10000000, mask: 0x7ff00000, address: "fd00::50" },
    ]);
  });

  it.each([
    "-o eth0 -j SNAT --to-source 172.18.0.50",
    "-o eth0 -m mark --mark 0x10000000/0x7ff00000 -j MASQUERADE",
    "-m mark --mark 0x10000000/0x7ff00000 -j SNAT --to-source 172.18.0.50",
    "# nft rule 6",
  ])("passes over what is not one of them: %s", (rule) => {
    expect(programmedMarks({ 4: saved(rule), 6: new Map() })).toEqual([]);
  });

  it("reads nothing of a host without our chain", () => {
    expect(programmedMarks({ 4: new Map(), 6: new Map() })).toEqual([]);
  });
});

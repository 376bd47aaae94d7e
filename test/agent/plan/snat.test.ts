// The chains of SNAT rules: what a packet of each mark passes before its own rule, however many there are, and that growing
// and shrinking over the limit of one chain never gives anybody another address.
import { describe, expect, it } from "vitest";
import { layoutOf, type MarkLayout } from "../../../agent/model/marks.ts";
import { programmedMarks } from "../../../agent/model/marks-found.ts";
import { isOurChain } from "../../../agent/model/owner.ts";
import type { Held } from "../../../agent/model/snapshot.ts";
import { snatRules } from "../../../agent/plan/parts/snat.ts";
import { bitsOf, hasBits } from "../../../agent/trace-rule.ts";
import { applyToRuleset, diffRuleset, printRestore, type Ruleset } from "../../../lib/node-iptables/pure.ts";
import { egressIP, settings } from "../make.ts";

const usual = layoutOf(settings.markMask) as MarkLayout;
const none: Ruleset = new Map([["nat", new Map([["POSTROUTING", { policy: "ACCEPT", rules: [] }]])]]);

/** The first marks of each link's block, as they are given out; more than fit into a block go on in another one. */
function held(links: number, each: number, layout = usual): readonly Held[] {
  const block = (at: number) => (at + 1) * 2 ** layout.linkShift;
  return Array.from({ length: links * each }, (_, n) => {
    const [link, at] = [n % links, Math.floor(n / links)];
    const [more, index] = [Math.floor(at / layout.addresses), at % layout.addresses];
    return {
      egressIP: egressIP(`e${n}`),
      address: `10.${link}.${at >> 8}.${at & 255}`,
      family: 4,
      primary: false,
      link: `eth${link}`,
      table: String(1000 + link),
      mark: block(link + more * links) + index * 2 ** layout.addressShift,
      linkUp: true,
    };
  });
}

function wanted(all: readonly Held[], layout = usual) {
  const { below = [], chain, jump } = snatRules(settings, layout, all, 4);
  return { chains: [...below, chain], jumps: [jump] };
}

/** The way of a connection's first packet: rules that were asked, and the address it was given. */
function walk(rules: Ruleset, { mark, link }: Pick<Held, "mark" | "link">) {
  let asked = 0;
  const through = (name: string): string | undefined => {
    for (const rule of rules.get("nat")?.get(name)?.rules ?? []) {
      asked++;
      const out = /^-o (\S+)/.exec(rule)?.[1];
      const bits = /-m mark --mark (\S+)/.exec(rule)?.[1];
      if ((out !== undefined && out !== link) || (bits !== undefined && !hasBits(mark, bits))) continue;
      const [, target = "", to] = / ?-j (\S+)(?: --to-source (\S+))?/.exec(rule) ?? [];
      const found = to ?? through(target);
      if (found !== undefined) return found;
    }
    return undefined;
  };
  return { address: through("POSTROUTING"), asked };
}

function established(all: readonly Held[], layout = usual): Ruleset {
  return applyToRuleset(none, diffRuleset(none, wanted(all, layout), isOurChain).establish);
}

describe("SNAT rules", () => {
  it.each([
    ["one", 1, 1, 3],
    ["few on every link there can be", 15, 2, 32],
    ["one more on each", 15, 3, 20],
    ["as many as one chain holds", 1, 8, 11],
    ["one more", 1, 9, 12],
    ["a block's worth on one link", 1, 128, 27],
    ["more than a block's worth", 1, 200, 27],
    ["ten links with fifty each", 10, 50, 26],
    ["all that there is room for", 15, 128, 41],
  ])("give every mark its own address, and nothing to others: %s", (_, links, each, most) => {
    const all = held(links, each);
    const rules = established(all);
    const ways = all.map((entry) => walk(rules, entry));
    expect(ways.map(({ address }) => address)).toEqual(all.map(({ address }) => address));
    expect(Math.max(...ways.map(({ asked }) => asked))).toBe(most);
    for (const mark of [0, 0x4000, 0x7ff00000, 0x00100000])
      if (!all.some((entry) => entry.mark === mark))
        for (const { link } of all.slice(0, links))
          expect(walk(rules, { mark, link }).address).toBeUndefined();
    // By another link its packets get nothing: the guard has dropped them before.
    expect(walk(rules, { mark: all[0]?.mark ?? 0, link: "other" }).address).toBeUndefined();
  });

  it("are written for a link alone when it comes or goes, however many each has", () => {
    for (const each of [1, 2, 3, 8, 9, 50]) {
      const all = held(10, each);
      const left = all.filter(({ link }) => link !== "eth3");
      const gone = all.filter(({ link }) => link === "eth3");
      const bits = ((gone[0]?.mark ?? 0) & usual.linkMask) >>> 0;
      const [with_, without] = [established(all), established(left)];
      const changes = [
        diffRuleset(with_, wanted(left), isOurChain).retire,
        diffRuleset(without, wanted(all), isOurChain).establish,
      ];
      for (const change of changes.flat()) {
        const text = JSON.stringify(change);
        for (const [mark] of text.matchAll(/0x[0-9a-f]+(?=\/)/g))
          expect((Number(mark) & usual.linkMask) >>> 0).toBe(bits);
        expect(text).toMatch(/eth3|EGRESSIP-SNAT-/);
      }
      expect(diffRuleset(with_, wanted(left), isOurChain).establish).toEqual([]);
      expect(diffRuleset(without, wanted(all), isOurChain).retire).toEqual([]);
    }
  });

  it.each([0x1f000000, 0x3f000000, 0x0000ffff, 0xffffffff, 0xfff00000])(
    "are cut up rightly under mask %i",
    (mask) => {
      const layout = layoutOf(mask) as MarkLayout;
      const all = held(layout.links, Math.min(layout.addresses, 40), layout);
      const rules = established(all, layout);
      for (const entry of all) expect(walk(rules, entry).address).toBe(entry.address);
    },
  );

  it("are found again as the marks that are programmed, whichever chain they are in", () => {
    const all = held(10, 50);
    const found = programmedMarks({ 4: established(all), 6: new Map() });
    expect(new Map(found.map(({ address, mark }) => [address, mark]))).toEqual(
      new Map(all.map(({ address, mark }) => [address, mark])),
    );
  });

  it("jump only to chains that stand before them, with a name iptables takes", () => {
    const { chains } = wanted(held(15, 128));
    const seen = new Set<string>();
    for (const { chain, rules } of chains) {
      for (const rule of rules) {
        const target = /-j (EGRESSIP\S*)/.exec(rule)?.[1];
        if (target !== undefined) expect(seen).toContain(target);
      }
      seen.add(chain);
      expect(chain.length).toBeLessThan(29);
      expect(isOurChain("nat", chain)).toBe(true);
    }
    expect(seen.size).toBe(chains.length);
  });

  it("have the parent's marks among their own, and no others", () => {
    const jumps = wanted(held(10, 50)).chains.flatMap(({ chain, rules }) =>
      rules.flatMap((rule) => {
        const [, bits, name] = /^-m mark --mark (\S+) -j (EGRESSIP\S*)/.exec(rule) ?? [];
        return bits === undefined || name === undefined ? [] : [{ chain, name, ...bitsOf(bits) }];
      }),
    );
    for (const { name, bits, mask } of jumps)
      for (const below of jumps.filter(({ chain }) => chain === name))
        expect((below.bits & mask) >>> 0).toBe(bits);
  });

  it.each([
    [2, 2, 3],
    [2, 3, 2],
    [1, 8, 9],
    [1, 9, 8],
    [10, 1, 50],
    [10, 50, 1],
    [2, 4, 128],
    [1, 200, 3],
  ])("of %i links change from %i to %i each without another address at any step", (links, before, after) => {
    const [old, next] = [held(links, before), held(links, after)];
    const both = before < after ? old : next;
    const start = established(old);
    const { establish, retire } = diffRuleset(start, wanted(next), isOurChain);
    const made = applyToRuleset(start, establish);
    for (const entry of [...old, ...next]) expect(walk(made, entry).address).toBe(entry.address);
    const done = applyToRuleset(made, retire);
    for (const entry of both) expect(walk(done, entry).address).toBe(entry.address);
    expect(diffRuleset(done, wanted(next), isOurChain)).toEqual({ establish: [], retire: [] });
    const gone = diffRuleset(done, { chains: [], jumps: [] }, isOurChain).retire;
    expect(applyToRuleset(done, gone)).toEqual(none);
    // A chain may only go when nothing jumps to it any more: all are emptied first.
    const lines = printRestore(gone).split("\n");
    expect(lines.findLastIndex((line) => line.startsWith("-F "))).toBeLessThan(
      lines.findIndex((line) => line.startsWith("-X ")),
    );
  });
});

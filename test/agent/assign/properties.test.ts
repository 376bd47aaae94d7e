// What holds for any nodes and any EgressIPs: nothing twice, even shares, few moves, and no order of its own.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Assignments, assign } from "../../../agent/assign/assign.ts";
import type { Demand } from "../../../agent/assign/objects.ts";
import { demand, member } from "./make.ts";

const worlds = fc.record({
  nodes: fc.integer({ min: 1, max: 9 }),
  demands: fc.array(fc.uniqueArray(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 4 }), {
    maxLength: 25,
  }),
  seed: fc.integer(),
});

const addressOf = (place: number) => `172.18.9.${place}`;
const membersOf = (count: number) => Array.from({ length: count }, (_, at) => member(`n${at}`));
const demandsOf = (wanted: readonly (readonly number[])[]) =>
  wanted.map((places, at) => demand(`e${at}`, places.map(addressOf)));
const pairsOf = ({ items }: Assignments) =>
  [...items].flatMap(([name, own]) => own.map(({ egressIP, node }) => ({ name, egressIP, node })));

function loadsOf(result: Assignments, nodes: number): readonly number[] {
  const pairs = pairsOf(result);
  return Array.from({ length: nodes }, (_, at) => pairs.filter(({ node }) => node === `n${at}`).length);
}

/** The objects as they are when all of it was written. */
function written(demands: readonly Demand[], { items }: Assignments): readonly Demand[] {
  return demands.map((one) => ({ ...one, items: items.get(one.name) ?? one.items }));
}

function shuffled<T>(list: readonly T[], seed: number): readonly T[] {
  return list
    .map((item, at) => [Math.imul(at + 1, seed | 1) >>> 0, item] as const)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item);
}

describe("assign", () => {
  it("has no address on two nodes or for two objects, and no two of an object on one node", () => {
    fc.assert(
      fc.property(worlds, ({ nodes, demands }) => {
        const pairs = pairsOf(assign({ nodes: membersOf(nodes), egressIPs: demandsOf(demands) }));
        expect(new Set(pairs.map(({ egressIP }) => egressIP)).size).toBe(pairs.length);
        expect(new Set(pairs.map(({ name, node }) => `${name} ${node}`)).size).toBe(pairs.length);
      }),
    );
  });

  it("leaves out no address that a node could have", () => {
    fc.assert(
      fc.property(worlds, ({ nodes, demands }) => {
        const egressIPs = demandsOf(demands);
        const { items } = assign({ nodes: membersOf(nodes), egressIPs });
        const given = new Set([...items.values()].flat().map(({ egressIP }) => egressIP));
        for (const { name, requested } of egressIPs)
          if ((items.get(name)?.length ?? 0) < nodes)
            expect(requested.filter((address) => !given.has(address))).toEqual([]);
      }),
    );
  });

  it("spreads within one", () => {
    fc.assert(
      fc.property(worlds, ({ nodes, demands }) => {
        const loads = loadsOf(assign({ nodes: membersOf(nodes), egressIPs: demandsOf(demands) }), nodes);
        expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(1);
      }),
    );
  });

  it("gives the same whatever the order of its inputs", () => {
    fc.assert(
      fc.property(worlds, ({ nodes, demands, seed }) => {
        const [all, egressIPs] = [membersOf(nodes), demandsOf(demands)];
        const first = assign({ nodes: all, egressIPs });
        const other = assign({ nodes: shuffled(all, seed), egressIPs: shuffled(egressIPs, seed) });
        expect(Object.fromEntries(other.items)).toEqual(Object.fromEntries(first.items));
        expect(other.findings).toEqual(first.findings);
      }),
    );
  });

  it("moves only what was on a lost node, and nothing when that returns", () => {
    fc.assert(
      fc.property(worlds, fc.nat(), ({ nodes, demands }, which) => {
        const all = membersOf(nodes);
        const lost = `n${which % nodes}`;
        const before = assign({ nodes: all, egressIPs: demandsOf(demands) });
        const egressIPs = written(demandsOf(demands), before);
        const after = assign({ nodes: all, egressIPs, unreachable: new Set([lost]) });
        const now = new Set(pairsOf(after).map((pair) => JSON.stringify(pair)));
        for (const pair of pairsOf(before).filter(({ node }) => node !== lost))
          expect(now).toContain(JSON.stringify(pair));
        expect(pairsOf(after).filter(({ node }) => node === lost)).toEqual([]);
        const back = assign({ nodes: all, egressIPs: written(egressIPs, after) });
        const backPairs = new Set(pairsOf(back).map((pair) => JSON.stringify(pair)));
        for (const pair of now) expect(backPairs).toContain(pair);
      }),
    );
  });

  it("has nothing to change when it is asked again", () => {
    fc.assert(
      fc.property(worlds, ({ nodes, demands }) => {
        const first = assign({ nodes: membersOf(nodes), egressIPs: demandsOf(demands) });
        const again = assign({ nodes: membersOf(nodes), egressIPs: written(demandsOf(demands), first) });
        expect(again.items).toEqual(first.items);
      }),
    );
  });

  it("looks at each of 500 nodes once for each of 10,000 addresses, and after a loss only for the lost ones", () => {
    const all = Array.from({ length: 500 }, (_, at) => member(`n${at}`));
    const demands = Array.from({ length: 10_000 }, (_, at) =>
      demand(`e${at}`, [`172.18.${100 + Math.floor(at / 250)}.${at % 250}`]),
    );
    const first = assign({ nodes: all, egressIPs: demands });
    expect(pairsOf(first)).toHaveLength(10_000);
    expect(new Set(loadsOf(first, 500))).toEqual(new Set([20]));
    expect(first.compared).toBe(10_000 * 500);
    const after = assign({ nodes: all, egressIPs: written(demands, first), unreachable: new Set(["n7"]) });
    expect(after.compared).toBe(20 * 499);
  });
});

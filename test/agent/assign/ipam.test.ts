// What holds for any pool and any namespaces: nothing given twice, nothing that is excluded, nothing left while somebody waits.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ipam } from "../../../agent/assign/ipam.ts";
import { addressAt, contains } from "../../../agent/model/ip.ts";
import { cidr } from "../make.ts";
import { demand, member } from "./make.ts";
import { annotations, later, pool, pools, said, space, world } from "./make-ipam.ts";

const scenes = fc
  .record({ length: fc.integer({ min: 26, max: 32 }), host: fc.nat(63), count: fc.nat(70) })
  .chain(({ length, host, count }) => {
    const written = `10.0.0.${host}/${length}`;
    const size = 2 ** (32 - length);
    // Often none, or nothing would be left of small pools.
    const places = fc.oneof(fc.constant<number[]>([]), fc.uniqueArray(fc.nat(size - 1), { maxLength: 6 }));
    return fc.record({
      written: fc.constant(written),
      count: fc.constant(count),
      size: fc.constant(size),
      reserved: places,
      nodes: places,
      gateways: places,
      others: places,
      reversed: fc.boolean(),
    });
  });

describe("ipam", () => {
  it("gives each free address once, no excluded one, and says who has none", () => {
    fc.assert(
      fc.property(scenes, ({ written, count, size, reserved, nodes, gateways, others, reversed }) => {
        const network = cidr(written);
        const at = (place: number) => addressAt(network, place);
        const spaces = Array.from({ length: count }, (_, number) => space(`s${number}`));
        const of = world({
          ipams: [pools("p", pool(written, { reserved: reserved.map(at) }))],
          namespaces: reversed ? spaces.toReversed() : spaces,
          nodes: [
            ...nodes.map((place, number) => member(`n${number}`, { of: { internalAddresses: [at(place)] } })),
            member("g", { gateways: gateways.map(at) }),
          ],
          egressIPs: others.map((place) => demand(`e${place}`, [at(place)])),
        });
        const given = Object.values(annotations(of)).filter((text) => text !== undefined);
        const excluded = new Set([...reserved, ...nodes, ...gateways, ...others].map(at));
        if (network.length <= 30) for (const place of [0, size - 1]) excluded.add(at(place));
        expect(new Set(given).size).toBe(given.length);
        for (const address of given) {
          expect(contains(network, address)).toBe(true);
          expect(excluded.has(address)).toBe(false);
        }
        expect(given).toHaveLength(Math.min(count, size - excluded.size));
        expect(said(of)).toHaveLength(count - given.length);
      }),
    );
  });

  it.each([
    ["10.0.0.4/30", ["10.0.0.5", "10.0.0.6"]],
    ["10.0.0.4/31", ["10.0.0.4", "10.0.0.5"]],
    ["10.0.0.4/32", ["10.0.0.4"]],
  ])("gives of %s %j", (written, expected) => {
    const spaces = Array.from({ length: 4 }, (_, number) => space(`s${number}`));
    const of = annotations(world({ ipams: [pools("p", pool(written))], namespaces: spaces }));
    expect(Object.values(of).filter((text) => text !== undefined)).toEqual(expected);
  });

  it("gives the same whatever the order of its inputs, and nothing new when it is asked again", () => {
    fc.assert(
      fc.property(scenes, ({ written, count, others }) => {
        const spaces = Array.from({ length: count }, (_, number) => space(`s${number}`));
        const of = world({
          ipams: [pools("p", pool(written))],
          namespaces: spaces,
          egressIPs: others.map((place) => demand(`e${place}`, [addressAt(cidr(written), place)])),
        });
        const turned = { ...of, namespaces: spaces.toReversed(), egressIPs: of.egressIPs.toReversed() };
        expect(annotations(turned)).toEqual(annotations(of));
        const again = ipam(later(of));
        expect([again.annotations.size, again.unwanted]).toEqual([0, []]);
      }),
    );
  });
});

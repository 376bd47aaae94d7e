// The acceptance cases of cases.txt, one line each: what each says, held against the pure parts. In: cases.txt. Out: a test for each.
// Long, because it is a table.
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { assign } from "../../../agent/assign/assign.ts";
import { decodeForAssign } from "../../../agent/assign/decode.ts";
import { hostsOf } from "../../../agent/assign/hosting.ts";
import { ipam } from "../../../agent/assign/ipam.ts";
import type { Ipam } from "../../../agent/assign/kinds/egressipam.ts";
import { allocateMarks } from "../../../agent/assign/marks.ts";
import type { Demand, Member } from "../../../agent/assign/objects.ts";
import { release } from "../../../agent/assign/release.ts";
import { nextItems, patchOf } from "../../../agent/assign/status.ts";
import { cidr } from "../make.ts";
import { assigned, demand, findings, type MadeMember, member } from "./make.ts";
import { annotations, later, pool, pools, said, space, type World, world } from "./make-ipam.ts";

const P = pools("p", pool("10.0.0.0/28"));
const TWO = pools("p", pool("10.0.0.0/28", { value: "a" }), pool("10.0.1.0/28", { value: "b" }));
const spaces = (count: number) =>
  Array.from({ length: count }, (_, at) => space(`s${String(at).padStart(2, "0")}`));

function decoded(spec: unknown): Ipam {
  const { object } = decodeForAssign(
    { apiVersion: "redhatcop.redhat.io/v1alpha1", kind: "EgressIPAM", metadata: { name: "p" }, spec },
    "test",
  );
  if (object?.kind !== "EgressIPAM") throw new Error("not an EgressIPAM");
  return object;
}

const refused = (pool0: object, more: object = { topologyLabel: "zone" }, ...others: object[]) =>
  decoded({ ...more, cidrAssignments: [{ labelValue: "", CIDR: "10.0.0.0/28", ...pool0 }, ...others] })
    .faults;

/** Nodes of zone ""; in TWO a1 and a2, b1 and b2 of zones a and b. */
const inZone = (name: string, zone = "", of: MadeMember = {}): Member =>
  member(name, {
    labels: { zone },
    of: { primary: [cidr(`10.0.${zone === "b" ? 1 : 0}.14/24`)], ...of.of },
    ...without(of),
  });
const without = ({ of: _, ...rest }: MadeMember): MadeMember => rest;

/** Where the addresses of an IPAM's namespaces are: `ADDRESS NODE`, sorted. */
function placed(of: World, unreachable: readonly string[] = []): readonly string[] {
  return [...assignIn(of, unreachable).values()]
    .flat()
    .map(({ egressIP, node }) => `${egressIP} ${node}`)
    .sort((a, b) => (a < b ? -1 : 1));
}

function assignIn(of: World, unreachable: readonly string[] = []) {
  const now = later(of);
  return assign({
    nodes: now.nodes,
    egressIPs: now.egressIPs,
    pins: ipam(now).pins,
    unreachable: new Set(unreachable),
  }).items;
}

/** The world with the placement of its addresses written too. */
function settled(of: World): World {
  const items = assignIn(of);
  const now = later(of);
  return { ...now, egressIPs: now.egressIPs.map((one) => ({ ...one, items: items.get(one.name) ?? [] })) };
}

const one = (of: Partial<World> = {}) => world({ ipams: [P], namespaces: [space("shop")], ...of });
const shopOf = (of: World) => annotations(of)["shop"];
const zones3 = [inZone("z1"), inZone("z2"), inZone("z3")];
const sixSpaces = () => settled(world({ ipams: [P], namespaces: spaces(6), nodes: zones3 }));
const loads = (lines: readonly string[], names: readonly string[]) =>
  names.map((name) => lines.filter((line) => line.endsWith(` ${name}`)).length);
const n = (count: number) => Array.from({ length: count }, (_, at) => member(`n${at + 1}`));
const E = (last: number) => `172.18.9.${last}`;
const patched = (object: Demand, to: readonly { node: string; egressIP: string }[], mark?: number) =>
  patchOf(object, to, mark);

const cases: Readonly<Record<string, () => void>> = {
  1: () => expect(refused({}, {})).toEqual([expect.stringContaining("topologyLabel")]),
  2: () =>
    expect(refused({}, { topologyLabel: "zone" }, { labelValue: "b", CIDR: "10.0.0.0/28" })).toHaveLength(1),
  3: () => {
    for (const CIDR of ["10.0.0.0/33", "010.0.0.0/8", "fd00::/64"])
      expect(refused({ CIDR }).join()).toContain("CIDR must be");
  },
  4: () => {
    expect(refused({ labelValue: undefined }).join()).toContain("labelValue");
    expect(refused({ labelValue: "" })).toEqual([]);
  },
  5: () => expect(refused({ reservedIPs: ["10.0.0.3", "10.0.0.3"] }).join()).toContain("already"),
  6: () => {
    const bad = decoded({
      topologyLabel: "zone",
      cidrAssignments: [{ labelValue: "", CIDR: "10.0.0.0/28", reservedIPs: ["10.0.1.1"] }],
    });
    expect(bad.faults.join()).toContain("10.0.1.1 is not in 10.0.0.0/28");
    expect(annotations(one({ ipams: [bad] }))).toEqual({ shop: undefined });
  },
  7: () => expect(refused({ reservedIPs: ["abc"] }).join()).toContain('must be an IP address, not "abc"'),
  11: () => expect(shopOf(one())).toBe("10.0.0.1"),
  12: () =>
    expect(
      shopOf(one({ nodes: [member("x", { of: { internalAddresses: ["10.0.0.1"], assignable: false } })] })),
    ).toBe("10.0.0.2"),
  13: () =>
    expect(
      shopOf(one({ ipams: [pools("p", pool("10.0.0.0/28", { reserved: ["10.0.0.1", "10.0.0.2"] }))] })),
    ).toBe("10.0.0.3"),
  14: () => {
    const three = later(world({ ipams: [P], namespaces: spaces(3) }));
    const left = three.namespaces.filter(({ name }) => name !== "s01");
    expect(annotations({ ...three, namespaces: [...left, space("t")] })["t"]).toBe("10.0.0.2");
  },
  15: () =>
    expect(annotations(world({ ipams: [P], namespaces: spaces(3) }))).toEqual({
      s00: "10.0.0.1",
      s01: "10.0.0.2",
      s02: "10.0.0.3",
    }),
  16: () => expect(shopOf(one({ ipams: [TWO] }))).toBe("10.0.0.1,10.0.1.1"),
  17: () => {
    const six = annotations(world({ ipams: [pools("p", pool("10.0.0.5/28"))], namespaces: spaces(14) }));
    expect(Object.values(six)).not.toContain("10.0.0.0");
    expect(Object.values(six)).toContain("10.0.0.5");
  },
  18: () => {
    for (const provider of ["aws", "azure"])
      expect(shopOf(one({ nodes: [member("x", { provider })] }))).toBe("10.0.0.4");
  },
  19: () => {
    const seven = world({ ipams: [pools("p", pool("10.0.0.0/29"))], namespaces: spaces(7) });
    expect(Object.values(annotations(seven)).filter((text) => text !== undefined)).toHaveLength(6);
    expect(said(seven)).toEqual(["Namespace/s06"]);
  },
  20: () => {
    const full = settled(
      world({ ipams: [pools("p", pool("10.0.0.0/30"))], namespaces: spaces(3), nodes: zones3 }),
    );
    expect(annotations(full)).toEqual({ s00: "10.0.0.1", s01: "10.0.0.2", s02: undefined });
    expect(loads(placed(full, ["z1"]), ["z1", "z2", "z3"])).toEqual([0, 1, 1]);
  },
  21: () =>
    expect(
      shopOf(
        one({ ipams: [pools("p", pool("10.0.0.0/28"), pool("10.0.1.0/32", { reserved: ["10.0.1.0"] }))] }),
      ),
    ).toBeUndefined(),
  22: () => {
    const full = later(world({ ipams: [pools("p", pool("10.0.0.0/30"))], namespaces: spaces(3) }));
    expect(annotations({ ...full, namespaces: full.namespaces.slice(1) })["s02"]).toBe("10.0.0.1");
  },
  23: () => expect(ipam(later(world({ ipams: [TWO], namespaces: spaces(5) }))).annotations.size).toBe(0),
  24: () => {
    const first = later(one());
    const other = pools("q", pool("10.0.0.0/29"));
    expect(
      annotations({ ...first, ipams: [P, other], namespaces: [...first.namespaces, space("bank", "q")] })[
        "bank"
      ],
    ).toBe("10.0.0.2");
    expect(shopOf(one({ egressIPs: [demand("web", ["10.0.0.1"])] }))).toBe("10.0.0.2");
  },
  25: () => {
    const before = world({ ipams: [P], namespaces: [{ ...space("shop"), optIn: undefined }] });
    expect(shopOf(before)).toBeUndefined();
    expect(shopOf({ ...before, namespaces: [space("shop")] })).toBe("10.0.0.1");
  },
  26: () => {
    const early = later(one({ ipams: [] }));
    expect(shopOf(early)).toBeUndefined();
    expect(shopOf({ ...early, ipams: [P] })).toBe("10.0.0.1");
  },
  27: () => {
    const now = later(one());
    const left = { ...now, namespaces: now.namespaces.map((at) => ({ ...at, optIn: undefined })) };
    expect(shopOf(left)).toBeUndefined();
    expect(ipam(left).unwanted).toEqual(["egressipam-shop"]);
  },
  28: () =>
    expect(ipam({ ...later(one()), namespaces: [{ ...space("shop"), optIn: undefined }] }).unwanted).toEqual([
      "egressipam-shop",
    ]),
  29: () => {
    const again = later({ ...later(one()), namespaces: [space("shop")] });
    expect(shopOf(again)).toBe("10.0.0.1");
    expect(again.egressIPs.map(({ requested }) => requested)).toEqual([["10.0.0.1"]]);
  },
  30: () => {
    const now = later(one());
    const other = pools("q", pool("10.9.0.0/28"));
    const moved = later({
      ...now,
      ipams: [P, other],
      namespaces: now.namespaces.map((at) => ({ ...at, optIn: "q" })),
    });
    expect(moved.egressIPs.map(({ requested, madeFor }) => [requested, madeFor?.ipam])).toEqual([
      [["10.9.0.1"], "q"],
    ]);
    expect(shopOf(moved)).toBe("10.9.0.1");
  },
  31: () => {
    const gone = { ...later(one()), namespaces: [space("bank")] };
    expect(ipam(gone).unwanted).toEqual(["egressipam-shop"]);
    expect(annotations(gone)).toEqual({ bank: "10.0.0.1" });
  },
  32: () => {
    const fixed = one({ namespaces: [space("shop", "p", "10.0.0.9")], nodes: zones3 });
    expect(shopOf(fixed)).toBe("10.0.0.9");
    expect(placed(fixed)).toEqual(["10.0.0.9 z1"]);
  },
  33: () => rejects("10.0.0.1"),
  34: () => rejects("10.0.0.1,10.0.1.1,10.0.0.2"),
  35: () => rejects("10.0.0.1,11.0.0.1"),
  36: () => rejects("10.0.1.1,10.0.0.1"),
  37: () => {
    const now = later(one());
    const both = { ...now, namespaces: [...now.namespaces, space("bank", "p", "10.0.0.1")] };
    expect(said(both)).toEqual(["Namespace/bank"]);
    expect([...ipam(both).wanted.keys()]).toEqual(["egressipam-shop"]);
  },
  38: () => {
    const ipams = [pools("p", pool("10.0.0.0/28", { reserved: ["10.0.0.7"] }))];
    const nodes = [member("x", { of: { internalAddresses: ["10.0.0.4"] }, gateways: ["10.0.0.6"] })];
    for (const last of [0, 15, 7, 4, 6])
      expect(said(one({ ipams, nodes, namespaces: [space("shop", "p", `10.0.0.${last}`)] }))).toEqual([
        "Namespace/shop",
      ]);
  },
  39: () => {
    rejects("10.0.0.1, 10.0.1.1");
    rejects("");
  },
  45: () => expect(loads(placed(sixSpaces()), ["z1", "z2", "z3"])).toEqual([2, 2, 2]),
  46: () => {
    const off = { ...sixSpaces(), nodes: [inZone("z1", "", { ready: false }), ...zones3.slice(1)] };
    expect(loads(placed(off), ["z1", "z2", "z3"])).toEqual([0, 3, 3]);
  },
  48: () => {
    const off = settled({ ...sixSpaces(), nodes: [inZone("z1", "", { ready: false }), ...zones3.slice(1)] });
    const back = { ...off, nodes: zones3 };
    expect(placed(back)).toEqual(placed(off));
    expect(loads(placed({ ...back, namespaces: [...back.namespaces, space("t")] }), ["z1"])).toEqual([1]);
  },
  49: () =>
    expect(loads(placed({ ...sixSpaces(), nodes: zones3.slice(1) }), ["z1", "z2", "z3"])).toEqual([0, 3, 3]),
  50: () => {
    const now = sixSpaces();
    expect(placed({ ...now, nodes: [...zones3, inZone("z4")] })).toEqual(placed(now));
    expect(placed({ ...now, nodes: [...zones3, inZone("z4", "", { of: { primary: [] } })] })).toEqual(
      placed(now),
    );
  },
  51: () =>
    expect(
      loads(placed({ ...sixSpaces(), nodes: [inZone("z1", "other"), ...zones3.slice(1)] }), [
        "z1",
        "z2",
        "z3",
      ]),
    ).toEqual([0, 3, 3]),
  52: () => {
    const ipams = [{ ...P, nodeSelector: [{ key: "worker", operator: "Exists" as const }] }];
    const workers = zones3.map((at) => ({ ...at, labels: { ...at.labels, worker: "" } }));
    const now = settled(world({ ipams, namespaces: spaces(6), nodes: workers }));
    const left = placed({ ...now, nodes: [zones3[0] as Member, ...workers.slice(1)] });
    expect(loads(left, ["z1", "z2", "z3"])).toEqual([0, 3, 3]);
  },
  53: () => {
    const shared = pools("p", pool("10.0.0.0/28"), pool("10.0.1.0/28"));
    const nodes = ["z1", "z2"].map((name) => inZone(name, "", { of: { primary: [cidr("10.0.0.14/23")] } }));
    expect(placed(one({ ipams: [shared], nodes }))).toEqual(["10.0.0.1 z1", "10.0.1.1 z2"]);
  },
  54: () => expect(placed(one({ nodes: [inZone("a0", "unknown"), inZone("z1")] }))).toEqual(["10.0.0.1 z1"]),
  55: () => {
    const now = later(world({ ipams: [P], namespaces: spaces(14) }));
    const wide = { ...now, ipams: [pools("p", pool("10.0.0.0/27"))] };
    expect(ipam(wide).annotations).toEqual(new Map());
    expect(annotations({ ...wide, namespaces: [...wide.namespaces, space("t")] })["t"]).toBe("10.0.0.15");
  },
  56: () => expect(shopOf({ ...later(one()), ipams: [TWO] })).toBe("10.0.0.1,10.0.1.1"),
  57: () => {
    const now = later({
      ...later(one({ ipams: [TWO] })),
      ipams: [pools("p", pool("10.0.1.0/28", { value: "b" }))],
    });
    expect(shopOf(now)).toBe("10.0.1.1");
    expect(now.egressIPs.map(({ requested }) => requested)).toEqual([["10.0.1.1"]]);
  },
  58: () => {
    const now = later(one());
    const moved = {
      ...now,
      ipams: [pools("p", pool("10.7.0.0/28"))],
      namespaces: [...now.namespaces, space("bank")],
    };
    expect(said(moved)).toEqual(["Namespace/shop"]);
    expect(ipam(moved).wanted.get("egressipam-shop")?.addresses).toEqual(["10.0.0.1"]);
    expect(annotations(moved)["bank"]).toBe("10.7.0.1");
  },
  59: () => {
    const ipams = [pools("p", pool("10.0.0.0/28", { reserved: ["10.0.0.1"] }))];
    const now = { ...later(one()), ipams };
    expect(shopOf(now)).toBe("10.0.0.1");
    expect(said(now)).toEqual([]);
    expect(annotations({ ...now, namespaces: [space("bank")] })).toEqual({ bank: "10.0.0.2" });
  },
  60: () => deletes({}),
  61: () => deletes({ faults: ["spec is wrong"] }),
  62: () => {
    const gone = later({ ...later(one()), ipams: [{ ...P, deleting: true }] });
    expect(shopOf({ ...gone, ipams: [] })).toBeUndefined();
    expect(shopOf({ ...gone, ipams: [P] })).toBe("10.0.0.1");
  },
  64: () => {
    const both = settled(
      world({
        ipams: [P, pools("q", pool("10.0.0.0/28"))],
        namespaces: [space("a", "p"), space("b", "q")],
        nodes: zones3,
      }),
    );
    expect(annotations(both)).toEqual({ a: "10.0.0.1", b: "10.0.0.2" });
    expect(placed(settled(both))).toEqual(placed(both));
  },
  84: () => {
    const egressIPs = [
      demand("a", [E(1), E(2)], { [E(1)]: "n1", [E(2)]: "n2" }),
      demand("b", [E(3)], { [E(3)]: "n1" }),
      demand("c", [E(4)]),
    ];
    expect(assigned({ nodes: n(2), egressIPs })["c"]).toEqual([`${E(4)} n2`]);
  },
  85: () => {
    const egressIPs = [demand("a", [E(1), E(2)])];
    expect(assigned({ nodes: n(1), egressIPs })["a"]).toEqual([`${E(1)} n1`]);
    expect(findings({ nodes: n(1), egressIPs })).toEqual(["EgressIP/a UnassignedRequest"]);
    expect(assigned({ nodes: n(2), egressIPs })["a"]).toHaveLength(2);
  },
  86: () => {
    const nodes = [member("n1", { of: { assignable: false } })];
    expect(assigned({ nodes, egressIPs: [demand("a", [E(1)])] })["a"]).toEqual([]);
    expect(findings({ nodes, egressIPs: [demand("a", [E(1)])] })).toEqual(["EgressIP/a NoMatchingNodeFound"]);
  },
  87: () => {
    const nodes = [...n(2), member("x", { of: { assignable: false, hostCidrs: [cidr(`${E(1)}/16`)] } })];
    expect(assigned({ nodes, egressIPs: [demand("a", [E(1), E(2)])] })["a"]).toEqual([`${E(2)} n1`]);
    expect(findings({ nodes, egressIPs: [demand("a", [E(1), E(2)])] })).toContain(
      "EgressIP/a EgressIPConflict",
    );
  },
  88: firstKeeps,
  89: () => {
    const { object } = decodeForAssign(
      {
        apiVersion: "k8s.ovn.org/v1",
        kind: "EgressIP",
        metadata: { name: "a" },
        spec: { egressIPs: ["1.2.3.4/32", E(1)] },
      },
      "test",
    );
    expect(assign({ nodes: n(1), egressIPs: [object as Demand] }).items.has("a")).toBe(false);
    expect(findings({ nodes: n(1), egressIPs: [object as Demand] })).toEqual(["EgressIP/a InvalidEgressIP"]);
  },
  90: () => {
    const nodes = [member("n1", { of: { primary: [cidr("fd00::11/64")] } })];
    const { items } = assign({ nodes, egressIPs: [demand("a", ["fd00::50"], { "FD00:0::50": "n1" })] });
    expect(items.get("a")).toEqual([{ node: "n1", egressIP: "fd00::50" }]);
    expect(patched(demand("a", ["fd00::50"], { "FD00:0::50": "n1" }), items.get("a") ?? [])).toHaveLength(2);
    expect(patched(demand("a", ["fd00::50"], { "fd00::50": "n1" }), items.get("a") ?? [])).toEqual([]);
  },
  91: () => {
    const egressIPs = [demand("a", [E(1)], { [E(1)]: "n1" })];
    const off = member("n1", { of: { assignable: false } });
    expect(assigned({ nodes: [off, member("n2")], egressIPs })["a"]).toEqual([`${E(1)} n2`]);
    expect(assigned({ nodes: [off], egressIPs })["a"]).toEqual([]);
  },
  92: () => {
    const off = [member("n1", { ready: false }), member("n2")];
    expect(assigned({ nodes: off, egressIPs: [demand("a", [E(1)], { [E(1)]: "n1" })] })["a"]).toEqual([
      `${E(1)} n2`,
    ]);
    expect(assigned({ nodes: n(2), egressIPs: [demand("a", [E(1)], { [E(1)]: "n2" })] })["a"]).toEqual([
      `${E(1)} n2`,
    ]);
  },
  93: () => {
    const had = demand("a", [E(2)], { [E(1)]: "n1" });
    const wanted = [{ node: "n1", egressIP: E(2) }];
    expect(nextItems(had, wanted)).toEqual([]);
    expect(nextItems({ ...had, items: [] }, wanted)).toEqual(wanted);
  },
  94: () => {
    const item = { node: "n1", egressIP: E(1) };
    expect(patched(demand("a", [E(1)]), [item], 50_000)).toEqual([
      { op: "test", path: "/metadata/resourceVersion", value: "7" },
      { op: "add", path: "/metadata/annotations/k8s.ovn.org~1egressip-mark", value: "50000" },
      { op: "add", path: "/status", value: { items: [item] } },
    ]);
  },
  95: () => {
    const two = allocateMarks([demand("a", []), demand("b", [])]);
    expect([...two.marks]).toEqual([
      ["a", 50_000],
      ["b", 50_001],
    ]);
    expect(allocateMarks([demand("b", []), demand("c", [])], two).marks.get("c")).toBe(50_002);
  },
  96: () => {
    const { marks } = allocateMarks([
      demand("a", []),
      demand("b", [], {}, { mark: "50000" }),
      demand("c", [], {}, { mark: "55000" }),
    ]);
    expect([marks.get("b"), marks.get("c"), marks.get("a")]).toEqual([50_000, 55_000, 50_001]);
  },
  97: () => {
    const all = Array.from({ length: 5002 }, (_, at) => demand(`e${at}`, []));
    const { marks, findings: found } = allocateMarks(all);
    expect(new Set(marks.values()).size).toBe(5001);
    expect(found).toHaveLength(1);
  },
  98: () => {
    firstKeeps();
    // Also while its node is lost, and though the other one is older.
    const holder = demand("a", [E(1)], { [E(1)]: "n1" });
    const older = demand("b", [E(1)], {}, { created: "2025-01-01T00:00:00Z" });
    const input = { nodes: n(2), egressIPs: [older, holder], unreachable: new Set(["n1"]) };
    expect(assigned(input)).toEqual({ a: [`${E(1)} n2`], b: [] });
  },
  104: () => {
    const nodes = [member("n1"), member("n2", { of: { primary: [cidr("fd00::12/64")] } })];
    expect(assigned({ nodes, egressIPs: [demand("a", [E(1), "fd00::50"])] })["a"]).toEqual([
      `${E(1)} n1`,
      "fd00::50 n2",
    ]);
  },
  105: () => {
    const egressIPs = [demand("a", ["10.10.10.100"])];
    const nodes = [member("n1"), member("n2", { of: { hostCidrs: [cidr("10.10.10.12/24")] } })];
    expect(assigned({ nodes, egressIPs })["a"]).toEqual(["10.10.10.100 n2"]);
    const held = [demand("a", ["10.10.10.100"], { "10.10.10.100": "n2" })];
    expect(assigned({ nodes, egressIPs: held })["a"]).toEqual(["10.10.10.100 n2"]);
    expect(assigned({ nodes: n(2), egressIPs: held })["a"]).toEqual([]);
  },
  110: () => {
    const egressIPs = [demand("a", [E(1)], { [E(1)]: "n1" }), demand("b", [E(2)])];
    const two = (capacity: Member["capacity"]) => [
      member("n1", { capacity }),
      member("n2", { capacity: { ip: 0 } }),
    ];
    const third = member("n3", { capacity: {} });
    expect(assigned({ nodes: [...two({ ip: 1 }), third], egressIPs })).toEqual({
      a: [`${E(1)} n1`],
      b: [`${E(2)} n3`],
    });
    expect(assigned({ nodes: two({ ipv4: 1 }), egressIPs })["b"]).toEqual([]);
    expect(assigned({ nodes: two({}), egressIPs })["b"]).toEqual([`${E(2)} n1`]);
  },
  114: () => {
    const input = {
      wanted: new Map([[E(1), "n2"]]),
      alive: new Set(["n1", "n2"]),
      now: 0,
      atMostMs: 1000,
      waits: new Map(),
    };
    const answers = new Map([["n1", new Set([E(1)])]]);
    const first = release({ ...input, held: new Map([[E(1), ["n1"]]]), answers });
    expect(first.now.size).toBe(0);
    // Another leader, which knows of no wait, sees who still answers.
    const other = release({ ...input, held: new Map(), answers });
    expect(other.now.size).toBe(0);
    const gone = new Map([["n1", new Set<string>()]]);
    expect(release({ ...input, held: new Map(), answers: gone, waits: other.waits }).now.get(E(1))).toBe(
      "n2",
    );
    expect(release({ ...input, held: new Map(), answers: new Map(), waits: first.waits }).now.size).toBe(0);
    const late = release({ ...input, held: new Map(), answers: new Map(), waits: first.waits, now: 1000 });
    expect([late.now.get(E(1)), late.overdue.length]).toEqual(["n2", 1]);
    const dead = release({ ...input, held: new Map([[E(1), ["n1"]]]), answers, alive: new Set(["n2"]) });
    expect(dead.now.get(E(1))).toBe("n2");
  },
  G64: () => {
    const egressIPs = [demand("a", [E(1), E(2), E(3)])];
    expect(assigned({ nodes: n(2), egressIPs })["a"]).toHaveLength(2);
    expect(findings({ nodes: n(2), egressIPs })).toEqual(["EgressIP/a UnassignedRequest"]);
  },
  G65: () => {
    const hosts = hostsOf([
      member("n1", { of: { hostCidrs: [cidr("7.7.0.1/16")] } }),
      member("n2", { of: { hostCidrs: [cidr("7.7.7.1/24")] } }),
    ]);
    expect([...hosts("7.7.7.9").secondary].toSorted()).toEqual(["n1", "n2"]);
    expect([...hosts("7.7.8.9").secondary]).toEqual(["n1"]);
  },
  G66: () =>
    expect(
      assigned({
        nodes: [member("n1", { labels: { "kubernetes.io/os": "windows" } })],
        egressIPs: [demand("a", [E(1)])],
      })["a"],
    ).toEqual([]),
  G67: () =>
    expect(
      assigned({ nodes: n(2), egressIPs: [demand("a", [E(1), E(2)], { [E(1)]: "n1", [E(2)]: "n1" })] })["a"],
    ).toEqual([`${E(1)} n1`, `${E(2)} n2`]),
  G68: () => {
    const known = { marks: new Map([["a", 50_000]]), last: 55_000 };
    const found = allocateMarks([demand("a", [], {}, { mark: "50009" }), demand("b", [])], known);
    expect([...found.marks]).toEqual([
      ["a", 50_000],
      ["b", 50_001],
    ]);
  },
};

function firstKeeps(): void {
  const [a, b] = [
    demand("a", [E(1)], { [E(1)]: "n1" }),
    demand("b", [E(1)], {}, { created: "2025-01-01T00:00:00Z" }),
  ];
  expect(assigned({ nodes: n(2), egressIPs: [a, b] })).toEqual({ a: [`${E(1)} n1`], b: [] });
  expect(findings({ nodes: n(2), egressIPs: [a, b] })).toContain("EgressIP/b UnsupportedRequest");
  expect(assigned({ nodes: n(2), egressIPs: [b] })["b"]).toEqual([`${E(1)} n1`]);
}

/** Refused for that namespace alone. */
function rejects(text: string): void {
  const bad = world({ ipams: [TWO], namespaces: [space("bad", "p", text), space("good")] });
  expect(said(bad)).toEqual(["Namespace/bad"]);
  expect(annotations(bad)).toEqual({ bad: text, good: "10.0.0.1,10.0.1.1" });
  expect([...ipam(bad).wanted.keys()]).toEqual(["egressipam-good"]);
}

function deletes(of: Partial<Ipam>): void {
  const gone = { ...later(one()), ipams: [{ ...P, deleting: true, ...of }] };
  expect(shopOf(gone)).toBeUndefined();
  expect(later(gone).namespaces[0]?.optIn).toBe("p");
  expect(ipam(gone).unwanted).toEqual(["egressipam-shop"]);
}

const table = readFileSync(path.join(import.meta.dirname, "cases.txt"), "utf8")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"))
  .map((line) => /^(\S+) +(here|cluster|open) +(.*)$/.exec(line)?.slice(1) as [string, string, string]);
const where = (wanted: string) => table.filter(([, place]) => place === wanted);

describe("acceptance cases", () => {
  it("are 114 of IPAM and 7 of the cluster manager, and each of here is shown", () => {
    expect(table).toHaveLength(121);
    expect(
      where("here")
        .map(([id]) => id)
        .toSorted(),
    ).toEqual(Object.keys(cases).toSorted());
  });

  it.each(where("here"))("%s %s: %s", (id) => {
    expect.hasAssertions();
    cases[id]?.();
  });
});

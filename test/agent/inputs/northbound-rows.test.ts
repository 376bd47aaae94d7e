// Rows kept by pod address: whatever comes in whatever order, the facts are those of who sees the end of it at once.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type FollowedRows, followRows } from "../../../agent/inputs/northbound/pod-rows.ts";
import { createMembers, sharedRows, touchesShared } from "../../../agent/inputs/northbound/shared.ts";
import { whose } from "../../../agent/inputs/northbound/whose.ts";
import { byCodeUnit } from "../../../agent/model/names.ts";
import type { FoundRow } from "../../../agent/model/northbound.ts";
import {
  addressSet,
  NAME_KEY,
  NODE_IPS,
  NODE_KEY,
  OWNER_KEY,
  OWNER_TYPE,
  REFERENCE_OWNER,
  TYPE_KEY,
} from "../../../agent/model/northbound-ids.ts";
import { emptyShards, entriesOf, type Shards } from "../../../agent/model/shards.ts";
import type { Changes, Replica, RowChange } from "../../../lib/ovsdb-client/pure.ts";

const of = whose({ node: "node1", northboundOwner: "egressip-agent", adopt: false });
const nowhere = () => undefined;
const uuid = (at: number) => `00000000-0000-4000-8000-${String(at).padStart(12, "0")}`;

type Made = Readonly<Record<string, unknown>> & { readonly _uuid: string };

const ids = (owner: string, node = "node1") => ({
  [TYPE_KEY]: OWNER_TYPE,
  [OWNER_KEY]: owner,
  [NODE_KEY]: node,
});

function policy(at: number, address: string, priority = 100, owner = "egressip-agent", node = "node1"): Made {
  return {
    _uuid: uuid(at),
    priority,
    match: `ip4.src == ${address}`,
    action: "reroute",
    nexthops: [],
    options: {},
    external_ids: ids(owner, node),
  };
}

function nat(
  at: number,
  address: string,
  owner: string | undefined = "egressip-agent",
  node = "node1",
): Made {
  return {
    _uuid: uuid(at),
    type: "snat",
    external_ip: owner === undefined ? "172.18.0.11" : "172.18.0.50",
    logical_ip: address,
    logical_port: owner === undefined ? undefined : `k8s-${node}`,
    options: {},
    match: "",
    external_ids: owner === undefined ? {} : ids(owner, node),
  };
}

const change = (before: Made | undefined, after: Made | undefined) =>
  ({ uuid: (after ?? before)?._uuid, before, after }) as unknown as RowChange;

/** All that can be asked of it, in one value. */
function factsOf(rows: FollowedRows, before: Shards<readonly FoundRow[]> = emptyShards()) {
  rows.touchNodeSnats();
  const pods = rows.pods(before, nowhere);
  const snats = rows.nodeSnats(emptyShards(), new Set(["172.18.0.11"]));
  return {
    pods: Object.fromEntries([...entriesOf(pods)].sort(([a], [b]) => (a < b ? -1 : 1))),
    snats: Object.fromEntries(entriesOf(snats)),
    writers: Object.fromEntries([...rows.writers()].sort(([a], [b]) => byCodeUnit(a, b))),
    foreign: Object.fromEntries([...rows.foreign()].sort(([a], [b]) => byCodeUnit(a, b))),
    shared: [...rows.shared()].map(({ _uuid }) => _uuid as string).sort(byCodeUnit),
    places: [...rows.places()].map((place) => place.join()).sort(byCodeUnit),
  };
}

const addresses = ["10.244.1.3", "10.244.1.4", "10.244.2.5"];
const made = fc
  .record({
    at: fc.nat({ max: 11 }),
    address: fc.constantFrom(...addresses),
    owner: fc.constantFrom("egressip-agent", REFERENCE_OWNER, "somebody"),
    node: fc.constantFrom("node1", "node2"),
    priority: fc.constantFrom(100, 102),
    plain: fc.boolean(),
  })
  .map(({ at, address, owner, node, priority, plain }) =>
    at % 2 === 0
      ? policy(at, address, priority, owner, node)
      : nat(at, address, plain ? undefined : owner, node),
  );

describe("rows by pod address", () => {
  it("are the same after any history as after its end alone", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(made, fc.boolean()), { maxLength: 40 }), (history) => {
        const rows = followRows(of, true);
        const end = new Map<string, Made>();
        let pods = emptyShards<readonly FoundRow[]>();
        for (const [row, isGone] of history) {
          const before = end.get(row._uuid);
          const after = isGone ? undefined : row;
          if (before === undefined && after === undefined) continue;
          rows.take(tableOf(row), [change(before, after)]);
          if (after === undefined) end.delete(row._uuid);
          else end.set(row._uuid, after);
          pods = rows.pods(pods, nowhere);
        }
        const anew = followRows(of, true);
        for (const row of [...end.values()].reverse()) anew.take(tableOf(row), [change(undefined, row)]);
        expect(factsOf(rows, pods)).toEqual(factsOf(anew));
      }),
    );
  });

  it("keep the lists of addresses that nothing happened to", () => {
    const rows = followRows(of, false);
    rows.take("Logical_Router_Policy", [
      change(undefined, policy(0, "10.244.1.3")),
      change(undefined, policy(2, "10.244.1.4")),
    ]);
    const before = rows.pods(emptyShards(), nowhere);
    rows.take("NAT", [change(undefined, nat(1, "10.244.1.4"))]);
    const after = rows.pods(before, nowhere);
    expect(rows.pods(after, nowhere)).toBe(after);
    const [first, second] = [new Map(entriesOf(before)), new Map(entriesOf(after))];
    expect(second.get("10.244.1.3")).toBe(first.get("10.244.1.3"));
    expect(second.get("10.244.1.4")?.map(({ table }) => table)).toEqual(["Logical_Router_Policy", "NAT"]);
  });

  it("stand where they were seen, and else where they belong", () => {
    const rows = followRows(of, false);
    rows.take("NAT", [change(undefined, nat(1, "10.244.1.4", "egressip-agent", "node2"))]);
    const on = (pods: Shards<readonly FoundRow[]>) => [...entriesOf(pods)].map(([, [row]]) => row?.on);
    const before = rows.pods(emptyShards(), nowhere);
    expect(on(before)).toEqual([["GR_node2"]]);
    expect(rows.touch(uuid(1))).toBe(false);
    expect(on(rows.pods(before, () => ["GR_node3"]))).toEqual([["GR_node3"]]);
  });
});

describe("whose", () => {
  const told = { [TYPE_KEY]: OWNER_TYPE, network: "default" };
  const reference = { ...told, [OWNER_KEY]: REFERENCE_OWNER };

  it.each([
    ["ours", { ...told, [OWNER_KEY]: "egressip-agent" }, [true, true], [undefined, undefined]],
    ["the reference's", reference, [false, true], [REFERENCE_OWNER, undefined]],
    [
      "the reference's nodes",
      { ...reference, [NAME_KEY]: NODE_IPS },
      [false, false],
      [REFERENCE_OWNER, undefined],
    ],
    ["somebody's", { ...told, [OWNER_KEY]: "somebody" }, [false, false], ["somebody", "somebody"]],
    ["nobody's", told, [false, false], ["", ""]],
    ["of another network", { ...reference, network: "red" }, [false, false], [undefined, undefined]],
    [
      "for something else",
      { ...reference, [TYPE_KEY]: "EgressService" },
      [false, false],
      [undefined, undefined],
    ],
  ] as const)("tells a row that is %s, without and with adopting", (_, row, concern, foreign) => {
    const both = [false, true].map((adopt) =>
      whose({ node: "node1", northboundOwner: "egressip-agent", adopt }),
    );
    expect(both.map(({ concerns }) => concerns(row))).toEqual(concern);
    expect(both.map(({ foreignOwner }) => foreignOwner(row))).toEqual(foreign);
  });

  it("tells rows of other networks from ours also where the owner is the reference's", () => {
    const same = whose({ node: "node1", northboundOwner: REFERENCE_OWNER, adopt: false });
    expect([same.concerns(reference), same.concerns({ ...reference, network: "red" })]).toEqual([
      true,
      false,
    ]);
    expect(same.concerns({ ...reference, [NAME_KEY]: NODE_IPS })).toBe(true);
  });
});

describe("rows by which pods leave as their node", () => {
  const snats = (...rows: readonly Made[]) => {
    const all = followRows(of, true);
    all.take(
      "NAT",
      rows.map((row) => change(undefined, row)),
    );
    const found = all.nodeSnats(emptyShards(), new Set(["172.18.0.11"]));
    return Object.fromEntries(entriesOf(found));
  };
  const plain = { ...nat(1, "10.244.1.3"), external_ip: "172.18.0.11", external_ids: {} };

  it("are plain ones with an address of the node; another's for the same address is known to be there", () => {
    expect(snats(plain)).toEqual({ "10.244.1.3": [uuid(1)] });
    expect(snats(plain, nat(3, "10.244.1.3", "somebody"))).toEqual({ "10.244.1.3": [uuid(1)] });
    expect(snats(nat(3, "10.244.1.3", "somebody"))).toEqual({ "10.244.1.3": [] });
    expect(snats({ ...plain, external_ip: "172.18.0.99" })).toEqual({ "10.244.1.3": [] });
  });

  it("are not what is ours, of another network, or of many addresses", () => {
    expect(snats(nat(3, "10.244.1.3"))).toEqual({});
    expect(snats({ ...plain, external_ids: { network: "red" } })).toEqual({});
    expect(snats({ ...plain, logical_ip: "10.244.0.0/16" })).toEqual({});
  });
});

const tableOf = (row: Made) => ("priority" in row ? "Logical_Router_Policy" : "NAT");

/** A replica that holds these sets of addresses, and no other rows. */
function replicaOf(
  sets: () => readonly { readonly name: string; readonly addresses: readonly string[] }[],
): Replica {
  const rows = {
    values: () => sets().map((set, at) => ({ _uuid: uuid(at), external_ids: ids("egressip-agent"), ...set })),
  };
  return {
    table: ({ name }: { readonly name: string }) => (name === "Address_Set" ? { rows } : { rows: new Map() }),
  } as never;
}

describe("members of the sets of served pods", () => {
  const settings = { node: "node1", northboundOwner: "egressip-agent", adopt: true };
  const [four, six, adopted] = [
    addressSet("egressip-agent", "egressip-served-pods", 4).name,
    addressSet("egressip-agent", "egressip-served-pods", 6).name,
    addressSet(REFERENCE_OWNER, "egressip-served-pods", 4).name,
  ];

  const none = { 4: emptyShards<true>(), 6: emptyShards<true>() };
  const listed = (served: typeof none) =>
    ([4, 6] as const).map((family) =>
      [...entriesOf(served[family])].map(([address]) => address).sort(byCodeUnit),
    );

  it("are those of both families after any history", () => {
    const members = fc
      .uniqueArray(fc.nat({ max: 30 }))
      .map((list) => list.map((at) => `10.244.1.${at}`).sort(byCodeUnit));
    fc.assert(
      fc.property(fc.array(members, { minLength: 1 }), (history) => {
        let now: readonly string[] = [];
        const sets = () => [
          { name: four, addresses: now },
          { name: six, addresses: ["fd00::1"] },
        ];
        const read = createMembers(replicaOf(sets), settings, "egressip-served-pods");
        let served = none;
        for (now of history) served = read(served);
        expect(listed(served)).toEqual([now, ["fd00::1"]]);
        expect(read(served)).toBe(served);
      }),
    );
  });

  it("are in the set that they are in, whatever their family", () => {
    const sets = [
      { name: four, addresses: ["10.244.1.3"] },
      { name: six, addresses: ["10.244.1.3", "192.0.2.9"] },
    ];
    const read = createMembers(
      replicaOf(() => sets),
      settings,
      "egressip-served-pods",
    );
    expect(listed(read(none))).toEqual([["10.244.1.3"], ["10.244.1.3", "192.0.2.9"]]);
  });

  it("are the reference's until there is a set of our own", () => {
    const sets = [{ name: adopted, addresses: ["10.244.1.9"] }];
    const read = createMembers(
      replicaOf(() => sets),
      settings,
      "egressip-served-pods",
    );
    const before = read(none);
    expect(listed(before)).toEqual([["10.244.1.9"], []]);
    sets.push({ name: four, addresses: ["10.244.1.3"] });
    expect(listed(read(before))).toEqual([["10.244.1.3"], []]);
  });
});

describe("rows that all share", () => {
  const changes = (table: string, before: Made | undefined, after: Made | undefined): Changes =>
    ({ tables: new Map([[table, [change(before, after)]]]), of: () => [] }) as never;
  const set = (name: string, addresses: readonly string[], external_ids: object): Made => ({
    _uuid: uuid(1),
    name,
    addresses,
    external_ids,
  });
  const served = { "k8s.ovn.org/name": "egressip-served-pods" };
  const nodes = { "k8s.ovn.org/name": "node-ips" };

  it("are not touched by members that come and go", () => {
    expect(
      touchesShared(changes("Address_Set", set("a1", [], served), set("a1", ["10.244.1.3"], served))),
    ).toBe(false);
    expect(
      touchesShared(changes("Address_Set", set("a1", [], nodes), set("a1", ["172.18.0.11"], nodes))),
    ).toBe(true);
    expect(touchesShared(changes("Address_Set", undefined, set("a1", [], served)))).toBe(true);
    expect(touchesShared(changes("Address_Set", set("a1", [], served), set("a2", [], served)))).toBe(true);
    expect(touchesShared(changes("QoS", undefined, policy(0, "")))).toBe(true);
    expect(touchesShared(changes("NAT", undefined, nat(1, "10.244.1.3")))).toBe(false);
  });

  it("come in the same order whatever order they came in", () => {
    const rows = [policy(4, "10.244.1.3", 102), policy(0, "10.244.1.3", 102)] as never[];
    const both = [rows, rows.toReversed()].map((some) =>
      sharedRows(
        replicaOf(() => []),
        of,
        some,
        nowhere,
      ),
    );
    expect(both[0]).toHaveLength(2);
    expect(both[0]).toEqual(both[1]);
  });
});

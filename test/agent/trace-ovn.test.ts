// What a pod's packet meets in OVN, by the rows that are there: policies by priority, the gateway router, and where the kernel takes over.
import { describe, expect, it } from "vitest";
import type { FoundRow, NorthboundFacts, OthersRows, Row } from "../../agent/model/northbound.ts";
import { egressServiceSet } from "../../agent/model/northbound-ids.ts";
import { shardsFrom } from "../../agent/model/shards.ts";
import { sharedRows } from "../../agent/plan/parts/northbound/shared-rows.ts";
import { traceOvn } from "../../agent/trace-ovn.ts";
import type { OvnPacket } from "../../agent/trace-ovn-rows.ts";
import type { Step } from "../../agent/trace-step.ts";
import { factsOf, hostOf, type Layout, labNodes } from "../support/northbound-scene.ts";
import { settings } from "./make.ts";

const address = "10.244.1.3";
const outside = "198.51.100.80";
const shared = { ...settings, gatewayMode: "shared" } as const;

const nobodyElse: OthersRows = { policies: [], nats: [], sets: new Map() };
/** As OVN-Kubernetes has them: pods to their own node, and everything with the node's address. */
const reference: OthersRows = {
  policies: [
    {
      on: ["ovn_cluster_router"],
      columns: {
        priority: 1004,
        match: 'inport == "rtos-node1" && ip4.dst == 172.18.0.11 /* node1 */',
        action: "reroute",
        nexthops: ["10.244.1.2"],
        options: {},
      },
    },
  ],
  nats: [
    {
      on: ["GR_node1"],
      columns: { type: "snat", logical_ip: "10.244.0.0/16", external_ip: "172.18.0.11" },
    },
  ],
  sets: new Map(),
};

function policy(action: string, ...nexthops: readonly string[]): FoundRow {
  const columns = { priority: 100, match: `ip4.src == ${address}`, action, nexthops, options: {} };
  return { table: "Logical_Router_Policy", uuid: "p", on: ["ovn_cluster_router"], columns, ids: {} };
}

const led: FoundRow = {
  ...policy("reroute", "10.244.1.2"),
  columns: { ...policy("reroute", "10.244.1.2").columns, options: { pkt_mark: "1009" } },
};

const nat: FoundRow = {
  table: "NAT",
  uuid: "n",
  on: ["GR_node1"],
  columns: { type: "snat", logical_ip: address, external_ip: "172.18.0.50" },
  ids: {},
};

interface Of {
  readonly layout?: Layout;
  readonly packet?: Partial<OvnPacket>;
  readonly others?: OthersRows | undefined;
  readonly mode?: "local" | "shared";
  readonly served?: readonly string[];
  readonly arriving?: readonly string[];
  readonly facts?: Partial<NorthboundFacts>;
}

/** With the rows that the agent of node1 writes for all pods, and these of one pod. */
function way(rows: readonly FoundRow[], of: Of = {}) {
  const { layout = "zones", packet = {}, mode = "shared", served = [], arriving = [] } = of;
  const own = { ...shared, gatewayMode: mode };
  const nodes = new Map(
    labNodes(layout === "zones" ? {} : { zone: "global" }).map((node) => [node.name, node]),
  );
  const { northbound } = factsOf("node1", layout);
  const ours = sharedRows(own, nodes, northbound.topology).map((row: Row, at) => ({
    ...row,
    uuid: String(at),
  }));
  const members = (of: readonly string[]) => ({
    4: shardsFrom(of.map((one) => [one, true as const])),
    6: shardsFrom<true>([]),
  });
  return traceOvn(
    {
      settings: own,
      nodes,
      others: "others" in of ? of.others : reference,
      own: new Set(hostOf("node1").network.addresses.map((entry) => entry.address)),
      northbound: {
        ...northbound,
        pods: shardsFrom([[packet.source ?? address, rows]]),
        shared: ours,
        served: members(served),
        arriving: members(arriving),
        ...of.facts,
      },
    },
    { source: address, destination: outside, protocol: "tcp", port: 80, node: "node1", ...packet },
  );
}

const shown = (steps: readonly Step[]) =>
  steps.map(({ step, object, found, verdict }) => `${step}: ${object}: ${found} -> ${verdict}`);

describe("the way through OVN", () => {
  it("ends at the own gateway router, with the egress IP", () => {
    const { steps, end, unjudged } = way([policy("reroute", "100.64.0.2"), nat]);
    expect(end).toEqual({ kind: "leaves", router: "GR_node1", source: "172.18.0.50" });
    expect(unjudged).toBe(0);
    expect(shown(steps)).toEqual([
      "ovn-policy: ovn_cluster_router: policy 100 ip4.src == 10.244.1.3 reroute 100.64.0.2 -> rerouted to GR_node1",
      "ovn-nat: GR_node1: snat 10.244.1.3 to 172.18.0.50 -> source 172.18.0.50",
    ]);
  });

  it("without its NAT row it leaves as the node, where nothing holds it back", () => {
    const { end } = way([policy("reroute", "100.64.0.2")]);
    expect(end).toEqual({ kind: "leaves", router: "GR_node1", source: "172.18.0.11" });
    expect(way([policy("reroute", "100.64.0.2")], { others: nobodyElse }).end).toMatchObject({
      source: address,
    });
  });

  it("goes on in this host's kernel by the management port, with OVN's mark", () => {
    const { steps, end } = way([led]);
    expect(end).toEqual({ kind: "kernel", mark: 1009 });
    expect(shown(steps)).toEqual([
      "ovn-policy: ovn_cluster_router: policy 100 ip4.src == 10.244.1.3 reroute 10.244.1.2 -> rerouted to this host by ovn-k8s-mp0 with mark 1009",
    ]);
  });

  it.each(["100.88.0.3", "10.244.2.2"])("goes to another node, by its name: %s", (hop) => {
    expect(way([policy("reroute", hop)]).end).toEqual({ kind: "node", nodes: ["node2"] });
  });

  it("is one of several", () => {
    const { end, steps } = way([policy("reroute", "100.64.0.2", "100.88.0.3"), nat]);
    expect(end).toEqual({ kind: "node", nodes: ["node1", "node2"] });
    expect(steps.at(-1)?.verdict).toBe("each connection goes to one of node1, node2");
  });

  it("ends in a drop while no node has an address for it", () => {
    expect(way([policy("drop")]).end).toEqual({
      kind: "dropped",
      at: "ovn-policy",
      why: "dropped by policy 100 ip4.src == 10.244.1.3 drop",
    });
  });

  it("is as without the agent where no row is", () => {
    expect(way([]).end).toEqual({ kind: "leaves", router: "GR_node1", source: "172.18.0.11" });
    expect(way([], { mode: "local" }).end).toEqual({ kind: "kernel", mark: 0 });
    expect(way([], { facts: { state: "off" } })).toEqual({
      steps: [],
      unjudged: 0,
      end: { kind: "kernel", mark: 0 },
    });
  });
});

describe("what is not rerouted", () => {
  const rows = [policy("reroute", "100.64.0.2"), nat];

  it("to pods", () => {
    const { end, steps } = way(rows, { packet: { destination: "10.244.2.9" } });
    expect(end).toMatchObject({ kind: "stays" });
    expect(shown(steps)).toEqual([
      "ovn-policy: ovn_cluster_router: policy 102 ip4.src == 10.244.0.0/16 && ip4.dst == 10.244.0.0/16 allow -> is not rerouted",
    ]);
  });

  it("to another node: by the own gateway router, with the own node's address", () => {
    const of = { packet: { destination: "172.18.0.12" }, served: [address] };
    const { end, steps } = way(rows, of);
    expect(end).toEqual({ kind: "leaves", router: "GR_node1", source: "172.18.0.11" });
    expect(steps.map(({ step }) => step)).toEqual(["ovn-policy", "ovn-nat", "ovn"]);
    expect(steps[0]?.verdict).toBe("is not rerouted, mark 1008");
  });

  it("to the own node: by the management port, by a policy of somebody else, or what that is known to do", () => {
    const of = { packet: { destination: "172.18.0.11" }, served: [address] };
    expect(way(rows, of).end).toEqual({ kind: "kernel", mark: 0 });
    const unread = way(rows, { ...of, others: undefined });
    expect(unread.end).toMatchObject({ kind: "kernel" });
    expect(unread.steps[0]?.found).toBe("rows of others could not be read");
  });

  it("but a pod that is not served is, since that is not for it", () => {
    const of = {
      packet: { destination: "172.18.0.12" },
      others: { ...reference, sets: new Map([[egressServiceSet(4).name, []]]) },
    };
    expect(way(rows, of).end).toMatchObject({ source: "172.18.0.50" });
  });

  it("to a service nobody here knows", () => {
    expect(way(rows, { packet: { destination: "10.96.0.10" } }).end).toMatchObject({ kind: "unknown" });
  });
});

describe("rows of somebody else", () => {
  const at = (priority: number, match: string, action: string): OthersRows => ({
    ...reference,
    policies: [
      { on: ["ovn_cluster_router"], columns: { priority, match, action, nexthops: [], options: {} } },
    ],
  });
  const rows = [policy("reroute", "100.64.0.2"), nat];

  it("count by their priority", () => {
    const dropped = {
      kind: "dropped",
      at: "ovn-policy",
      why: "dropped by policy 200 ip4.dst == 198.51.100.0/24 drop",
    };
    expect(way(rows, { others: at(200, "ip4.dst == 198.51.100.0/24", "drop") }).end).toEqual(dropped);
    expect(way(rows, { others: at(50, "ip4.dst == 198.51.100.0/24", "drop") }).end).toMatchObject({
      kind: "leaves",
    });
  });

  it("are passed over where they ask for what is not known here, and counted", () => {
    const { unjudged, steps, end } = way(rows, { others: at(200, "eth.src == 0a:58:0a:f4:01:03", "drop") });
    expect([unjudged, steps[0]?.step]).toEqual([1, "unjudged"]);
    expect(end).toMatchObject({ kind: "leaves" });
  });

  it("of NAT, the narrowest counts", () => {
    const others = {
      ...reference,
      nats: [
        ...reference.nats,
        { on: ["GR_node1"], columns: { type: "snat", logical_ip: address, external_ip: "172.18.0.77" } },
      ],
    };
    expect(way([policy("reroute", "100.64.0.2")], { others }).end).toMatchObject({ source: "172.18.0.77" });
  });
});

describe("another node's pod", () => {
  const remote = { source: "10.244.2.3", node: "node2" };

  it("arrives from another zone: dropped unless somebody here gives it an egress IP", () => {
    const dropped = way([], { packet: remote });
    expect(dropped.end).toMatchObject({ kind: "dropped", at: "ovn-policy" });
    expect(dropped.steps.at(-1)?.found).toBe(
      'policy 98 inport == "rtots-node1" && ip4.src == 10.244.0.0/16 drop',
    );
    const row = { ...nat, columns: { ...nat.columns, logical_ip: remote.source } };
    expect(way([row], { packet: remote, arriving: [remote.source] }).end).toEqual({
      kind: "leaves",
      router: "GR_node1",
      source: "172.18.0.50",
    });
  });

  it("in one database for all: led to this gateway router, it is marked and translated, or dropped", () => {
    const own = {
      ...policy("reroute", "100.64.0.2"),
      columns: { ...policy("reroute", "100.64.0.2").columns, match: `ip4.src == ${remote.source}` },
    };
    const row = { ...nat, columns: { ...nat.columns, logical_ip: remote.source } };
    const of = { layout: "central", packet: remote } as const;
    expect(way([own, row], { ...of, arriving: [remote.source] }).end).toMatchObject({
      source: "172.18.0.50",
    });
    expect(way([own], of).end).toMatchObject({ kind: "dropped", at: "ovn-policy" });
    const last = way([own], { ...of, arriving: [remote.source] });
    expect(last.end).toMatchObject({ kind: "dropped", at: "ovn-acl" });
    expect(last.steps.at(-1)?.object).toBe("ext_node1");
    expect(way([], of).end).toEqual({ kind: "node", nodes: ["node2"] });
  });
});

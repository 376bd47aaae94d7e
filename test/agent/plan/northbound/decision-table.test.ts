// Which rows a pod address gets, cell by cell of the reference's decision tables (B.4.3 for egress IPs of the primary network,
// B.4.4 for others), in both families, with a database for each node and with one for all; and the same in local gateway mode.
import { describe, expect, it } from "vitest";
import type { Family } from "../../../../agent/model/ip.ts";
import type { Node } from "../../../../agent/model/objects.ts";
import type { Settings } from "../../../../agent/model/settings.ts";
import { factsOf, type Layout, labNodes, planOf, withNats } from "../../../support/northbound-scene.ts";
import { egressIP, namespace, pod } from "../../make.ts";

const egressIPs = {
  primary: { 4: "172.18.0.50", 6: "fd00:172:18::50" },
  secondary: { 4: "10.10.10.50", 6: "fd00:10:10::50" },
} as const;
const pods = {
  node1: { 4: "10.244.1.3", 6: "fd00:10:244:1::3" },
  node2: { 4: "10.244.2.3", 6: "fd00:10:244:2::3" },
} as const;
const join1 = { 4: "100.64.0.2", 6: "fd98::2" } as const;
const join2 = { 4: "100.64.0.3", 6: "fd98::3" } as const;
const transit2 = { 4: "100.88.0.3", 6: "fd97::3" } as const;
const mp1 = { 4: "10.244.1.2", 6: "fd00:10:244:1::2" } as const;
const mp2 = { 4: "10.244.2.2", 6: "fd00:10:244:2::2" } as const;
type Addresses = Readonly<Record<Family, string>>;

type Kind = keyof typeof egressIPs;
/** Where the policy leads and with which mark, and whether this node's gateway router gives the egress IP. */
type Cell = { readonly to?: Addresses; readonly mark?: "1009"; readonly nat?: true };
/** To this node's kernel, which is told so (I.1). A tunnel carries no mark: to another node's there is none. */
const led: Cell = { to: mp1, mark: "1009" };
/** What node1 writes. Columns: pod and egress IP here; pod here; egress IP here; neither. */
type Cells = readonly [both: Cell, pod: Cell, egress: Cell, neither: Cell];

const shared: Readonly<Record<Layout, Readonly<Record<Kind, Cells>>>> = {
  zones: {
    primary: [{ to: join1, nat: true }, { to: transit2 }, { nat: true }, {}],
    secondary: [led, { to: transit2 }, led, {}],
  },
  // One database: the agent of the pod's node writes the policy, that of the egress node the NAT row.
  central: {
    primary: [{ to: join1, nat: true }, { to: join2 }, { nat: true }, {}],
    secondary: [led, { to: mp2 }, {}, {}],
  },
};
/** Everything leaves through a kernel: as with egress IPs of other networks. */
const local: typeof shared = {
  zones: { primary: shared.zones.secondary, secondary: shared.zones.secondary },
  central: { primary: shared.central.secondary, secondary: shared.central.secondary },
};

const places = [
  ["node1", "node1"],
  ["node1", "node2"],
  ["node2", "node1"],
  ["node2", "node2"],
] as const;
const cells = (["shared", "local"] as const).flatMap((gatewayMode) =>
  (["zones", "central"] as const).flatMap((layout) =>
    (["primary", "secondary"] as const).flatMap((kind) =>
      places.flatMap(([podNode, egressNode], at) =>
        ([4, 6] as const).map((family) => {
          const cell = (gatewayMode === "shared" ? shared : local)[layout][kind][at] as Cell;
          return { gatewayMode, layout, kind, podNode, egressNode, family, cell };
        }),
      ),
    ),
  ),
);

describe("each cell", () => {
  it.each(cells)(
    "$gatewayMode gateway, $layout, $kind egress IP on $egressNode, pod on $podNode, IPv$family",
    ({ gatewayMode, layout, kind, podNode, egressNode, family, cell }) => {
      const own = pods[podNode][family];
      const address = egressIPs[kind][family];
      const { text } = planOf(
        [
          ...labNodes(layout === "central" ? { zone: "global" } : {}),
          namespace("shop"),
          egressIP("prod", { at: { [address]: egressNode } }),
          pod("shop/web", [pods[podNode][4], pods[podNode][6]], { node: podNode }),
        ],
        withNats(factsOf("node1", layout), [own]),
        { gatewayMode },
      );
      const expected = [
        ...(cell.nat ? [`nat GR_node1 ${own} ${address}`] : []),
        ...(cell.to === undefined
          ? []
          : [`policy ${own} ${cell.to[family]}${cell.mark === undefined ? "" : ` pkt_mark=${cell.mark}`}`]),
        // Both families of the pod, and only where it runs here.
        ...(podNode === "node1" ? [`served ${pods.node1[4]} ${pods.node1[6]}`] : []),
      ];
      expect(text).toBe(expected.join("\n"));
    },
  );
});

/** A pod with both families here, a pod elsewhere, and these assignments. */
function rows(at: Readonly<Record<string, string>>, layout: Layout = "zones") {
  return planOf(
    [
      ...labNodes(layout === "central" ? { zone: "global" } : {}),
      namespace("shop"),
      egressIP("prod", { at }),
      pod("shop/here", ["10.244.1.3", "fd00:10:244:1::3"]),
      pod("shop/there", ["10.244.2.3", "fd00:10:244:2::3"], { node: "node2" }),
    ],
    withNats(factsOf("node1", layout), ["10.244.1.3", "fd00:10:244:1::3"]),
  ).text.split("\n");
}

describe("several addresses", () => {
  it("of both families are independent of each other", () => {
    expect(rows({ "172.18.0.50": "node1", "fd00:172:18::50": "node2" })).toEqual([
      "nat GR_node1 10.244.1.3 172.18.0.50",
      "nat GR_node1 10.244.2.3 172.18.0.50",
      "policy 10.244.1.3 100.64.0.2",
      "policy fd00:10:244:1::3 fd97::3",
      "served 10.244.1.3 fd00:10:244:1::3",
    ]);
  });

  it("of one family on three nodes share the packets (O-38)", () => {
    const three = { "172.18.0.50": "node1", "172.18.0.51": "node2", "172.18.0.52": "node3" };
    expect(rows(three)).toContain("policy 10.244.1.3 100.64.0.2,100.88.0.3,100.88.0.4");
    expect(rows(three, "central")).toContain("policy 10.244.1.3 100.64.0.2,100.64.0.3,100.64.0.4");
    const { "172.18.0.52": _, ...two } = three;
    expect(rows(two)).toContain("policy 10.244.1.3 100.64.0.2,100.88.0.3");
  });

  it("on primary and other networks lead to gateway router, kernel and other zone at once (O-8)", () => {
    expect(rows({ "10.10.10.50": "node1", "172.18.0.51": "node2" })).toEqual([
      // An option is the whole row's, and a tunnel is no place for a mark: only where all of it comes to this kernel.
      "policy 10.244.1.3 10.244.1.2,100.88.0.3",
      "policy 10.244.2.3 10.244.1.2 pkt_mark=1009",
      "served 10.244.1.3 fd00:10:244:1::3",
    ]);
  });

  it("here and on a node of the same database lead to either's kernel, unmarked", () => {
    expect(rows({ "10.10.10.50": "node1", "10.10.10.51": "node2" }, "central")).toEqual([
      "policy 10.244.1.3 10.244.1.2,10.244.2.2",
      "served 10.244.1.3 fd00:10:244:1::3",
    ]);
    expect(rows({ "10.10.10.50": "node1", "10.10.10.51": "node1" }, "central")).toContain(
      "policy 10.244.1.3 10.244.1.2 pkt_mark=1009",
    );
  });
});

describe("a node that gives nothing (BL-38, BL-40)", () => {
  /** The same with these Node objects' signs, in what node1 writes. */
  const told = (
    at: Readonly<Record<string, string>>,
    signs: Readonly<Record<string, Partial<Node>>>,
    { layout = "zones", ...of }: Partial<Settings> & { readonly layout?: Layout } = {},
  ) =>
    planOf(
      [
        ...labNodes(layout === "central" ? { zone: "global" } : {}).map((node) => ({
          ...node,
          ...signs[node.name],
        })),
        namespace("shop"),
        egressIP("prod", { at }),
        pod("shop/here", ["10.244.1.3"]),
        pod("shop/there", ["10.244.2.3"], { node: "node2" }),
      ],
      withNats(factsOf("node1", layout), ["10.244.1.3"]),
      of,
    ).text.split("\n");
  const leaving = { leaving: "taint t" };
  const labels = { node2: { assignable: true }, node3: { assignable: true } };
  const served = "served 10.244.1.3";
  const two = { "172.18.0.50": "node1", "172.18.0.51": "node2" };

  it.each<[string, Parameters<typeof told>]>([
    ["leaving", [{ "172.18.0.50": "node1" }, { node1: leaving }]],
    ["leaving, an egress IP of another network", [{ "10.10.10.50": "node1" }, { node1: leaving }]],
    ["without the label that others have", [{ "172.18.0.50": "node1" }, labels]],
    ["drained", [{ "172.18.0.50": "node1" }, {}, { draining: true }]],
    [
      "leaving, local gateway mode",
      [{ "172.18.0.50": "node1" }, { node1: leaving }, { gatewayMode: "local" }],
    ],
  ])("this one, %s: no NAT row, its pods and those that are sent here are held back", (_, of) => {
    expect(told(...of)).toEqual(["policy 10.244.1.3 drop", "policy 10.244.2.3 drop", served]);
  });

  it("this one, where pods without a ready egress IP leave with their node's address: they do", () => {
    expect(told({ "172.18.0.50": "node1" }, { node1: leaving }, { whenUnready: "node-ip" })).toEqual([
      served,
    ]);
  });

  it("this one, and another has an address too: pods here are led on to that, what is sent here is held back", () => {
    for (const sign of [{ node1: leaving }, labels] as const)
      expect(told(two, sign)).toEqual(["policy 10.244.1.3 100.88.0.3", "policy 10.244.2.3 drop", served]);
  });

  it("another one: pods here go by what is left, or are held back", () => {
    for (const layout of ["zones", "central"] as const) {
      expect(told(two, { node2: leaving }, { layout })).toContain("policy 10.244.1.3 100.64.0.2");
      expect(told({ "172.18.0.51": "node2" }, { node2: leaving }, { layout })).toEqual([
        "policy 10.244.1.3 drop",
        served,
      ]);
      const unlabelled = { node1: { assignable: true } };
      expect(told({ "172.18.0.51": "node2" }, unlabelled, { layout })).toContain("policy 10.244.1.3 drop");
    }
  });
});

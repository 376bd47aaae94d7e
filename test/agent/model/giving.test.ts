// Signs that a node gives nothing (BL-38, BL-40): of its own object, of the others' labels, of a drain; and what is held and problem then.
import { describe, expect, it } from "vitest";
import { createBuild } from "../../../agent/model/build.ts";
import { decode } from "../../../agent/model/decode.ts";
import { givingNothing } from "../../../agent/model/giving.ts";
import type { Node } from "../../../agent/model/objects.ts";
import { bareHost, egressIP, namespace, node1, node2, objects, settings } from "../make.ts";

const reasons = (nodes: readonly Node[], draining = false) =>
  Object.fromEntries(
    givingNothing({ node: "node1", draining }, new Map(nodes.map((one) => [one.name, one]))),
  );
const labelled = (node: Node): Node => ({ ...node, assignable: true });
const node3: Node = { ...node2, name: "node3" };
const unlabelled = "node node1 has no label k8s.ovn.org/egress-assignable, which node2";

describe("nodes that give nothing", () => {
  it.each<[string, readonly Node[], Record<string, string>]>([
    ["nobody has the label: it is not in use here", [node1, node2], {}],
    ["all have it", [node1, node2].map(labelled), {}],
    [
      "only this one has it",
      [labelled(node1), node2],
      { node2: `${unlabelled.replace("node1", "node2").replace(/which .*/, "which node1")} has` },
    ],
    ["another one has it and this one has not", [node1, labelled(node2)], { node1: `${unlabelled} has` }],
    [
      "two others have it",
      [node1, labelled(node3), labelled(node2)],
      { node1: `${unlabelled} and 1 more have` },
    ],
    ["there is this one alone", [node1], {}],
    ["nobody knows this one: unknown is no sign", [labelled(node2)], {}],
    [
      "one is leaving",
      [node1, { ...node2, leaving: "label x" }],
      { node2: "node node2 is leaving (label x)" },
    ],
    [
      "it is leaving and has no label: the more certain sign",
      [{ ...node1, leaving: "taint y" }, labelled(node2)],
      { node1: "node node1 is leaving (taint y)" },
    ],
    [
      "the one that has the label is leaving: it is in use all the same",
      [node1, { ...labelled(node2), leaving: "label x" }],
      { node1: `${unlabelled} has`, node2: "node node2 is leaving (label x)" },
    ],
  ])("%s", (_, nodes, expected) => {
    expect(reasons(nodes)).toEqual(expected);
    expect(reasons(nodes.toReversed())).toEqual(expected);
  });

  it("a drain is this node's, whatever is known of it", () => {
    const drained = { node1: "node node1 is leaving (egressip-agent drain)" };
    expect(reasons([node1, node2], true)).toEqual(drained);
    expect(reasons([], true)).toEqual(drained);
    expect(reasons([{ ...node1, leaving: "taint y" }], true)).toEqual(drained);
  });
});

describe("the signs of a Node object", () => {
  const raw = (metadata: object, spec?: object) => {
    const { object, problems } = decode({
      apiVersion: "v1",
      kind: "Node",
      metadata: {
        name: "node1",
        annotations: { "k8s.ovn.org/node-primary-ifaddr": '{"ipv4":"172.18.0.11/24"}' },
        ...metadata,
      },
      ...(spec === undefined ? {} : { spec }),
    });
    if (object?.kind !== "Node") throw new Error("no node");
    const told = problems.map(({ path, text }) => `${path} ${text}`);
    return { leaving: object.leaving, assignable: object.assignable, told };
  };
  const taints = (...keys: readonly unknown[]) => ({
    taints: keys.map((key) => ({ key, effect: "NoExecute" })),
  });
  const nothing = { leaving: "", assignable: false, told: [] };

  it.each<[string, Parameters<typeof raw>, Partial<ReturnType<typeof raw>>]>([
    ["none", [{}], {}],
    [
      "the label, without a value",
      [{ labels: { "egressip-agent.io/leaving": "" } }],
      { leaving: "label egressip-agent.io/leaving" },
    ],
    [
      "the label, whatever its value",
      [{ labels: { "egressip-agent.io/leaving": "false" } }],
      { leaving: "label egressip-agent.io/leaving" },
    ],
    [
      "the label as YAML without a value has it",
      [{ labels: { "egressip-agent.io/leaving": null } }],
      { leaving: "label egressip-agent.io/leaving" },
    ],
    ["being deleted", [{ deletionTimestamp: "2026-11-01T10:00:00Z" }], { leaving: "it is being deleted" }],
    ["not being deleted", [{ deletionTimestamp: null }], {}],
    [
      "out of service",
      [{}, taints("node.kubernetes.io/out-of-service")],
      { leaving: "taint node.kubernetes.io/out-of-service" },
    ],
    [
      "shut down, as the cloud says",
      [{}, taints("node.cloudprovider.kubernetes.io/shutdown")],
      { leaving: "taint node.cloudprovider.kubernetes.io/shutdown" },
    ],
    [
      "to be deleted by the autoscaler, among others",
      [{}, taints("dedicated", "ToBeDeletedByClusterAutoscaler")],
      { leaving: "taint ToBeDeletedByClusterAutoscaler" },
    ],
    ["cordoned", [{}, { unschedulable: true, ...taints("node.kubernetes.io/unschedulable") }], {}],
    [
      "not ready, not reachable",
      [{}, taints("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")],
      {},
    ],
    [
      "what may be taken back",
      [{}, taints("karpenter.sh/disrupted", "DeletionCandidateOfClusterAutoscaler")],
      {},
    ],
    [
      "assignable, whatever the value",
      [{ labels: { "k8s.ovn.org/egress-assignable": "false" } }],
      { assignable: true },
    ],
    ["no taints", [{}, { taints: null }], {}],
    ["taints that are none", [{}, { taints: "x" }], { told: ['spec.taints must be a list, not "x"'] }],
    [
      "one taint that is none, and one that is",
      [{}, { taints: [7, { key: 7 }, { key: "node.kubernetes.io/out-of-service" }] }],
      {
        leaving: "taint node.kubernetes.io/out-of-service",
        told: [
          "spec.taints[0] must be an object, not the number 7",
          "spec.taints[0].key must be text, not missing",
          "spec.taints[1].key must be text, not the number 7",
        ],
      },
    ],
    ["labels that are none", [{ labels: [] }], { told: ["metadata.labels must be an object, not a list"] }],
  ])("%s", (_, of, expected) => {
    expect(raw(...of)).toEqual({ ...nothing, ...expected });
  });
});

describe("a snapshot of a node that gives nothing", () => {
  const of = (nodes: readonly Node[], draining = false) => {
    const web = egressIP("web", {
      at: { "10.10.10.50": "node1", "172.18.0.50": "node1", "10.10.10.51": "node2" },
    });
    const all = objects(web, namespace("shop"), ...nodes);
    const { held, unready, notHeld, problems } = createBuild()({ ...settings, draining }, all, bareHost);
    return {
      held: held.map(({ address }) => address),
      unready: unready.map(({ address, reason }) => `${address}: ${reason}`),
      notHeld: [...notHeld].sort(),
      problems: problems.map(({ object, path, text }) => `${object} ${path}: ${text}`),
    };
  };
  const refused = (why: string) => ({
    held: [],
    unready: [`10.10.10.50: ${why}`, `172.18.0.50: ${why}`],
    notHeld: ["10.10.10.50", "10.10.10.51", "172.18.0.50"],
  });
  const items = (why: string) =>
    ["10.10.10.50", "172.18.0.50"].map((address) => `EgressIP/web status.items: ${address}: ${why}`);

  it("holds nothing of what is assigned to it, and says why of each and of itself", () => {
    expect(of([node1, node2]).held).toEqual(["10.10.10.50", "172.18.0.50"]);
    const why = "node node1 is leaving (taint t), so nothing is given here";
    expect(of([{ ...node1, leaving: "taint t" }, node2])).toEqual({
      ...refused(why),
      problems: [
        "Node/node1 : is leaving (taint t): no egress IP is given here until that is taken back",
        ...items(why),
      ],
    });
  });

  it("says of a drain what ends it", () => {
    const why = "node node1 is leaving (egressip-agent drain), so nothing is given here";
    expect(of([node1, node2], true)).toEqual({
      ...refused(why),
      problems: [
        "Node/node1 : is leaving (egressip-agent drain): no egress IP is given here until the agent is started again",
        ...items(why),
      ],
    });
  });

  it("without the label that others have: a problem only of what is assigned to it all the same", () => {
    const why = `${unlabelled} has, so nothing is given here`;
    expect(of([node1, labelled(node2)])).toEqual({ ...refused(why), problems: items(why) });
    const elsewhere = objects(egressIP("web", { at: { "10.10.10.50": "node2" } }), node1, labelled(node2));
    expect(createBuild()(settings, elsewhere, bareHost).problems).toEqual([]);
  });
});

// When a change has to be followed by OVN's flows before the kernel's part is taken down: when pods were led here and are no more.
import { describe, expect, it } from "vitest";
import type { FoundRow, Row } from "../../../../agent/model/northbound.ts";
import type { RowChange } from "../../../../agent/sync/northbound/changes.ts";
import { leadsToOthers, leavesHere, turnsHere } from "../../../../agent/sync/northbound/flows.ts";

const kernel = { 4: "10.244.1.2", 6: "fd00:10:244:1::2" };
const router = { 4: "100.64.0.2", 6: "fd98::2" };
const policy = (...nexthops: readonly string[]): Row => ({
  table: "Logical_Router_Policy",
  on: ["ovn_cluster_router"],
  columns: { priority: 100, nexthops },
  ids: {},
});
const found = (row: Row): FoundRow => ({ ...row, uuid: "p" });
const update = (from: Row, to: Row): RowChange => ({ op: "update", row: to, found: found(from) });
const gone = (row: Row): RowChange => ({ op: "delete", found: found(row), why: "unwanted" });

describe("a change leaves this host's kernel or gateway router", () => {
  it.each<[string, RowChange, boolean]>([
    ["a policy that led here goes", gone(policy(kernel[4])), true],
    ["of IPv6", gone(policy(kernel[6])), true],
    ["it leads elsewhere from now on", update(policy(kernel[4]), policy("100.88.0.3")), true],
    ["it led here among others", update(policy(kernel[4], "100.88.0.3"), policy("100.88.0.3")), true],
    [
      "it leads here as before, and elsewhere too",
      update(policy(kernel[4]), policy(kernel[4], "100.88.0.3")),
      false,
    ],
    ["to the own gateway router instead", update(policy(kernel[4]), policy(router[4])), true],
    ["from there", update(policy(router[6]), policy(kernel[6])), true],
    ["what it carries is marked from now on", update(policy(kernel[4]), policy(kernel[4])), false],
    ["it led elsewhere", gone(policy("100.88.0.3")), false],
    ["it begins to lead here", { op: "insert", row: policy(kernel[4]) }, false],
    ["it held back", gone(policy()), false],
  ])("%s", (_, change, leaves) => {
    expect(leavesHere([change], [kernel, router])).toBe(leaves);
    expect(leavesHere([{ op: "insert", row: policy() }, change], [kernel, router])).toBe(leaves);
  });
});

describe("a change leads to another node's gateway router", () => {
  const gateways = new Map([
    ["node1", router],
    ["node2", { 4: "100.64.0.3", 6: "fd98::3" }],
  ]);
  it.each<[string, RowChange, boolean]>([
    ["a policy that is new", { op: "insert", row: policy("100.64.0.3") }, true],
    ["of IPv6, beside the own one", { op: "insert", row: policy(router[6], "fd98::3") }, true],
    ["one that led elsewhere", update(policy(router[4]), policy("100.64.0.3")), true],
    ["one that did before", update(policy("100.64.0.3"), policy("100.64.0.3", router[4])), false],
    ["to the own one", { op: "insert", row: policy(router[4]) }, false],
    ["to the kernel", { op: "insert", row: policy(kernel[4]) }, false],
    ["one that goes", gone(policy("100.64.0.3")), false],
  ])("%s", (_, change, leads) => {
    expect(leadsToOthers([change], gateways, "node1")).toBe(leads);
  });
});

describe("pods turn between the two", () => {
  const reroute = (to: string): Row => ({
    ...policy(to),
    columns: { priority: 100, match: "ip4.src == 10.244.2.3", nexthops: [to] },
  });
  const members = (add: readonly string[], remove: readonly string[]): RowChange => ({
    op: "members",
    of: "egressip-arriving-pods",
    set: "a1",
    uuid: "s",
    family: 4,
    add,
    remove,
  });
  it.each<[string, readonly RowChange[], boolean]>([
    ["from the gateway router to the kernel", [update(policy(router[4]), policy(kernel[4]))], true],
    ["from the kernel to the gateway router", [update(policy(kernel[6]), policy(router[6]))], true],
    ["to another node", [update(policy(router[4]), policy("100.88.0.3"))], false],
    ["to both", [update(policy(router[4]), policy(router[4], "100.88.0.3"))], false],
    [
      "what arrived for the gateway router is led to the kernel",
      [{ op: "insert", row: reroute(kernel[4]) }, members([], ["10.244.2.3"])],
      true,
    ],
    [
      "another pod of another zone is led there",
      [{ op: "insert", row: reroute(kernel[4]) }, members([], ["10.244.2.4"])],
      false,
    ],
    ["one arrives no more", [members([], ["10.244.2.3"])], false],
    ["a pod is new", [{ op: "insert", row: reroute(kernel[4]) }, members(["10.244.2.3"], [])], false],
    ["a pod goes", [gone(policy(kernel[4]))], false],
  ])("%s", (_, changes, turns) => {
    expect(turnsHere(changes, [kernel, router])).toBe(turns);
  });
});

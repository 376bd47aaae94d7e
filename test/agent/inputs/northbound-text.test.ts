// The northbound facts as text: what was read back is what was printed, and plans the same.
import { describe, expect, it } from "vitest";
import { parseNorthbound, printNorthbound } from "../../../agent/inputs/northbound-text.ts";
import type { FoundRow, NorthboundFacts } from "../../../agent/model/northbound.ts";
import { shardsFrom } from "../../../agent/model/shards.ts";
import { factsOf, labNodes, planOf } from "../../support/northbound-scene.ts";
import { egressIP, namespace, pod } from "../make.ts";

const row: FoundRow = {
  table: "NAT",
  uuid: "5f6c1f0e-0000-4000-9000-000000000001",
  on: ["GR_node1"],
  columns: { logical_ip: "10.244.1.3", options: { stateless: "false" } },
  ids: { "egressip-agent/node": "node1" },
};
const base = factsOf("node1", "zones", { sourceRoutes: new Map([["10.244.0.0/16", "100.64.0.2"]]) });
const facts: NorthboundFacts = {
  ...base.northbound,
  pods: shardsFrom([["10.244.1.3", [row]]]),
  shared: [{ ...row, table: "QoS", on: ["node1"] }],
  served: {
    4: shardsFrom([["10.244.1.3", true]]),
    6: shardsFrom([
      ["fd00::3", true],
      ["10.244.1.9", true],
    ]),
  },
  writers: new Map([["node1", 1]]),
  foreign: new Map([["somebody", 2]]),
  theirNodeIps: [6],
  nodeSnats: shardsFrom([["10.244.1.4", ["5f6c1f0e-0000-4000-9000-000000000002"]]]),
};

describe("printNorthbound", () => {
  it("gives plain JSON that is parsed to the same facts", () => {
    const text = JSON.stringify(printNorthbound(facts));
    expect(parseNorthbound(JSON.parse(text))).toEqual(facts);
    expect(JSON.stringify(printNorthbound(parseNorthbound(JSON.parse(text))))).toBe(text);
  });

  it("says everything that a plan is made from", () => {
    const all = [
      ...labNodes(),
      namespace("shop"),
      egressIP("prod", { at: { "172.18.0.50": "node1" } }),
      pod("shop/web", ["10.244.1.3"]),
    ];
    const again = parseNorthbound(JSON.parse(JSON.stringify(printNorthbound(facts))));
    const plan = planOf(all, { ...base, northbound: again });
    expect(plan).toEqual(planOf(all, { ...base, northbound: facts }));
    expect(plan.text).not.toBe("");
  });

  it("does not depend on the order in which rows came", () => {
    const addresses = Array.from({ length: 20 }, (_, at) => `10.244.1.${at}`);
    const printed = (order: readonly string[]) =>
      JSON.stringify(
        printNorthbound({
          ...facts,
          pods: shardsFrom(order.map((address) => [address, [row]])),
          served: { ...facts.served, 4: shardsFrom(order.map((address) => [address, true])) },
        }),
      );
    expect(printed([...addresses].reverse())).toBe(printed(addresses));
  });
});

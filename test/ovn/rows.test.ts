// The agent's rows in a real northbound database: what a first start writes, and that a second one writes nothing.
import { expect, test } from "vitest";
import { egressIP, namespace, node1, node2, objects, pod } from "../agent/make.ts";
import { openNorthboundAgent } from "../support/northbound-agent.ts";
import { NorthboundServer } from "../support/northbound-server.ts";

test("first start", async () => {
  await using server = await NorthboundServer.open();
  await using agent = openNorthboundAgent(server.endpoint);
  const all = objects(
    { ...node1, zone: "node1" },
    { ...node2, zone: "node2", transit: [] },
    namespace("shop", { team: "a" }),
    pod("shop/web", ["10.244.1.3", "fd00:10:244:1::3"]),
    egressIP("prod", { at: { "172.18.0.50": "node1" } }),
  );
  console.log(await agent.round(all));
  console.log(agent.last?.snapshot.problems);
  console.log(await agent.round());
  console.log(await server.nbctl("lr-policy-list", "ovn_cluster_router"));
  console.log(await server.nbctl("lr-nat-list", "GR_node1"));
  expect(agent.transactions).toBe(1);
});

// Both nodes of the lab on the second network, and the egress IP that either may have: for tests of who answers for it.
import { run } from "../../lib/exec/index.ts";
import type { Lab } from "../lab/lab.ts";
import type { NodeName } from "../lab/topology.ts";
import { egressIP, type Manifests } from "./agent-manifests.ts";

/** Of the EgressIP `prod`. */
export const egress = { 4: "10.10.10.50", 6: "fd00:10:10::50" } as const;

/** A node's link into that network. */
export async function secondLink(
  lab: Lab,
  node: NodeName,
): Promise<{ readonly mac: string; readonly ifindex: number }> {
  const { stdout } = await run("ip", ["-n", lab.namespace(node), "-json", "link", "show", "eth1"]);
  const [{ address, ifindex }] = JSON.parse(stdout) as [{ address: string; ifindex: number }];
  return { mac: address, ifindex };
}

/** Every agent that reads the folder is told; undefined: a node that nobody knows has it. */
export function assignProd(manifests: Manifests, node: NodeName | undefined): Promise<unknown> {
  const options = { addresses: [egress[4], egress[6]], app: "web", node: node ?? "node3" };
  return manifests.write("egressips.yaml", [egressIP("prod", options)]);
}

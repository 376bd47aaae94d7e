// Which node a pod's own connections leave through: an `ip rule` in the fabric, OVN's reroute policy elsewhere.
import { run } from "../../lib/exec/index.ts";
import { steerRule } from "./fabric.ts";
import { type Family, type NodeName, nodeNames, type PodName } from "./topology.ts";

async function rule(
  fabric: string,
  verb: "add" | "del",
  pod: PodName,
  node: NodeName,
  family: Family,
): Promise<void> {
  const args = ["-n", fabric, `-${family}`, "rule", verb, ...steerRule(pod, node, family).split(" ")];
  // 2: it is there already, or is not there.
  await run("ip", args, { okExitCodes: [0, 2] });
}

/** The new rule is added before the others go, so that no packet takes the pod's own node in between. */
export async function steer(
  fabric: string,
  pod: PodName,
  node: NodeName,
  only: readonly Family[],
): Promise<void> {
  for (const family of only) {
    await rule(fabric, "add", pod, node, family);
    for (const other of nodeNames) if (other !== node) await rule(fabric, "del", pod, other, family);
  }
}

export async function unsteer(fabric: string, pod: PodName, only: readonly Family[]): Promise<void> {
  for (const family of only) for (const node of nodeNames) await rule(fabric, "del", pod, node, family);
}

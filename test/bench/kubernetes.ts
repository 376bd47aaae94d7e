// An agent over a real API server with many pods, against what reads and parses the same lines. In: sizes. Out: figures.
import { inNode } from "./in-node.ts";
import type { KubernetesCost } from "./kubernetes-inside.ts";
import { openWorld, settingsFor } from "./world.ts";

export interface KubernetesSize {
  readonly pods: number;
  readonly egressIPs: number;
  readonly events: number;
  readonly turns: number;
}

export async function measureKubernetes({
  pods,
  egressIPs,
  events,
  turns,
}: KubernetesSize): Promise<KubernetesCost> {
  const world = await openWorld();
  try {
    const { EGRESSIP_MANIFESTS: _, ...settings } = settingsFor(world, { pods: 0, egressIPs, dual: false });
    const sizes = [pods, egressIPs, events, turns].map(String);
    return await inNode<KubernetesCost>(world, "kubernetes-inside.ts", settings, ...sizes);
  } finally {
    await world.close();
  }
}

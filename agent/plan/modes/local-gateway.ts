// Local gateway mode: every egress IP leaves through this host's kernel. Pure.
import type { Mode } from "../mode.ts";
import { createHostPath } from "../parts/host-path.ts";
import { createNorthbound } from "../parts/northbound.ts";

export function createLocalGateway(): Mode {
  const hostPath = createHostPath(() => true);
  const northbound = createNorthbound();
  return { name: "local", plan: (snapshot) => ({ ...hostPath(snapshot), northbound: northbound(snapshot) }) };
}

// Local gateway mode: every egress IP leaves through this host's kernel. Pure.
import type { Mode } from "../mode.ts";
import { createHostPath } from "../parts/host-path.ts";

export function createLocalGateway(): Mode {
  const hostPath = createHostPath(() => true);
  return { name: "local", plan: hostPath };
}

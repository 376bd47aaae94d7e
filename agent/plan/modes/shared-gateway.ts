// Shared gateway mode: egress IPs of the primary network are OVN's work; the others leave through the host path. Pure.
import type { Mode } from "../mode.ts";
import { createHostPath } from "../parts/host-path.ts";
import { createNorthbound } from "../parts/northbound.ts";

export function createSharedGateway(): Mode {
  const hostPath = createHostPath((held) => !held.primary);
  const northbound = createNorthbound();
  return {
    name: "shared",
    plan: (snapshot) => ({ ...hostPath(snapshot), northbound: northbound(snapshot) }),
  };
}

// What an operator decides, after flags, environment and configuration file were joined. Pure types.
import type { Cidr } from "./ip.ts";

export type GatewayMode = "local" | "shared";

export interface Settings {
  readonly node: string;
  readonly gatewayMode: GatewayMode;
  /** Interface over which pods reach the kernel. */
  readonly managementPort: string;
  readonly clusterNetworks: readonly Cidr[];
  readonly serviceNetworks: readonly Cidr[];
  /** Join, transit and masquerade networks, and whatever else keeps the pod's source. */
  readonly exemptNetworks: readonly Cidr[];
  /** Contiguous bits of the packet mark that are ours. */
  readonly markMask: number;
  readonly whenUnready: "drop" | "node-ip";
  readonly existingConnections: "keep" | "cut";
  readonly randomFully: boolean;
  /** Turn forwarding on where a link that hosts an egress IP has it off, and off again when it hosts none. */
  readonly manageForwarding: boolean;
}

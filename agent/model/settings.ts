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
  /** external_ids value by which our northbound rows are told from everybody else's. */
  readonly northboundOwner: string;
  /** Take over what OVN-Kubernetes has for egress IPs: its rows, and what it programmed in the kernel. */
  readonly adopt: boolean;
  /** The cluster gives each pod an SNAT row of its own on its gateway router (`--disable-snat-multiple-gws`). */
  readonly snatPerPod: boolean;
  /** `egressip-agent drain` was asked of this process: it gives nothing until it ends. Never in flags or a file. */
  readonly draining: boolean;
}

// The Kubernetes objects as the agent knows them: decoded, canonical, frozen. Pure.
// What each field means is in the reference: A.1 (EgressIP), A.3 (node annotations), A.4 (pods).
import type { Address, Cidr, Family } from "./ip.ts";
import type { Selector } from "./select.ts";

/** Something left out, and why: the object, the field in it, and what a person can do. */
export interface Problem {
  /** `Kind/name` or `Kind/namespace/name`; `host` and `file:NAME` for what is not an object. */
  readonly object: string;
  /** Path of the field, `spec.egressIPs[1]`; empty when it is about the whole object. */
  readonly path: string;
  readonly text: string;
}

/** One entry of `status.items`: this address is to be given by this node. */
export interface Assignment {
  readonly node: string;
  readonly address: Address;
  readonly family: Family;
}

export interface EgressIP {
  readonly kind: "EgressIP";
  readonly name: string;
  readonly uid: string;
  /** RFC 3339 as the API server writes it; empty when unknown. Sorts as text. */
  readonly created: string;
  readonly requested: readonly Address[];
  readonly assignments: readonly Assignment[];
  readonly namespaceSelector: Selector;
  readonly podSelector: Selector;
}

/** The zone of nodes that share one central database. */
export const GLOBAL_ZONE = "global";

export interface Node {
  readonly kind: "Node";
  readonly name: string;
  readonly uid: string;
  /** InternalIP entries of status.addresses. */
  readonly internalAddresses: readonly Address[];
  /** `k8s.ovn.org/host-cidrs`: each address of the node with its prefix length, `secondaryEgressIPs` left out. */
  readonly hostCidrs: readonly Cidr[];
  /** `k8s.ovn.org/secondary-host-egress-ips`: egress IPs on its links, which somebody may take for its addresses. */
  readonly secondaryEgressIPs: readonly Address[];
  /** The same as it is written there; undefined where it is not. */
  readonly secondaryEgressIPsText?: string | undefined;
  /** `k8s.ovn.org/node-primary-ifaddr`, or the cloud's `egress-ipconfig[0]`; at most one per family. */
  readonly primary: readonly Cidr[];
  /** `k8s.ovn.org/zone-name`: nodes of one zone share a northbound database; `global` where nothing is said. */
  readonly zone: string;
  /** `k8s.ovn.org/node-transit-switch-port-ifaddr`: where other zones reach it; at most one per family. */
  readonly transit: readonly Cidr[];
  /** `k8s.ovn.org/node-subnets`, entry `default`: its pods' networks. */
  readonly podSubnets: readonly Cidr[];
  /** True when `primary` came from the cloud annotation: then nothing else can host (reference A.5 step 3). */
  readonly cloud: boolean;
  /** Label `k8s.ovn.org/egress-assignable`, whatever its value: who assigns egress IPs by it chooses among the nodes that have it. */
  readonly assignable: boolean;
  /** By which sign of its object the node is being taken out, in words; empty where none says so. */
  readonly leaving: string;
}

export interface Namespace {
  readonly kind: "Namespace";
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
}

export interface Pod {
  readonly kind: "Pod";
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  /** spec.nodeName; empty while not scheduled. */
  readonly node: string;
  readonly hostNetwork: boolean;
  /** Succeeded or Failed: has no address any more, whatever its status still says. */
  readonly finished: boolean;
  /** Phase Running: has an address, also while its status does not say which. */
  readonly running: boolean;
  /** status.podIPs, else the annotation's `default` entry, else status.podIP; canonical, at most one per family. */
  readonly addresses: readonly Address[];
}

export type KubernetesObject = EgressIP | Node | Namespace | Pod;

/**
 * Why some of the objects may not be so any more: nobody has answered since an agent started from its last good state, or for
 * long, or what he answered is hard to believe. What is there stays, and nothing is taken up that others would see.
 */
export interface Unconfirmed {
  /** ISO 8601. */
  readonly since: string;
  readonly why: string;
  /** Whether who has which egress IP is confirmed all the same: EgressIP and Node objects are. */
  readonly assignments: boolean;
}

/** `Kind/name` or `Kind/namespace/name`, the key by which an object is the same object. */
export function keyOf(object: KubernetesObject): string {
  return object.kind === "Pod" ? `Pod/${object.namespace}/${object.name}` : `${object.kind}/${object.name}`;
}

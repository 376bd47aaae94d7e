// What the one agent that assigns looks at: the same objects as every agent, cut to other fields. Pure.
// Kept apart from model/objects.ts, since a node that is Ready again must not make every agent's rounds anew.
import type { Address, Family } from "../model/ip.ts";
import type { Node } from "../model/objects.ts";
import type { Labels } from "../model/select.ts";

/** How many egress IPs a cloud lets a node have; what is not there is not limited, and 0 is none. */
export interface Capacity {
  readonly ip?: number;
  readonly ipv4?: number;
  readonly ipv6?: number;
}

/** A node as somebody who may get egress IPs. */
export interface Member {
  readonly kind: "Node";
  readonly name: string;
  readonly node: Node;
  readonly labels: Labels;
  /** Condition Ready is True; False and Unknown are not. */
  readonly ready: boolean;
  readonly capacity: Capacity;
  /** Next hops of its default route, where the node publishes them (`k8s.ovn.org/l3-gateway-config`). */
  readonly gateways: readonly Address[];
  /** `aws`, `azure`, `gce`… of spec.providerID; empty where there is none. */
  readonly provider: string;
}

/** One entry of status.items, as it stands there. */
export interface Item {
  readonly node: string;
  readonly egressIP: string;
}

/** An EgressIP as a demand: addresses that want a node each. */
export interface Demand {
  readonly kind: "EgressIP";
  readonly name: string;
  readonly uid: string;
  readonly version: string;
  /** RFC 3339; empty when unknown. */
  readonly created: string;
  readonly requested: readonly Address[];
  /** Entries of spec.egressIPs that are no addresses: with any of them the object is void, and keeps what it has. */
  readonly unreadable: readonly string[];
  readonly items: readonly Item[];
  readonly hasAnnotations: boolean;
  /** Annotation `k8s.ovn.org/egressip-mark`, as it stands there. */
  readonly mark: string | undefined;
  /** For which namespace by which EgressIPAM it was made; undefined where a person wrote it. */
  readonly madeFor: { readonly ipam: string; readonly namespace: string } | undefined;
}

export interface Space {
  readonly kind: "Namespace";
  readonly name: string;
  readonly created: string;
  /** The EgressIPAM that it opts in to. */
  readonly optIn: string | undefined;
  /** Annotation with its addresses, as it stands there. */
  readonly egressIPs: string | undefined;
}

/** Why something is not as asked; `reason` is that of the event, where OVN-Kubernetes has one. */
export interface Finding {
  readonly object: string;
  readonly reason: string;
  readonly text: string;
}

export const familyCapacity = (family: Family) => (family === 4 ? "ipv4" : "ipv6");

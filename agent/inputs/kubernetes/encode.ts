// A decoded object as the shortest manifest that decodes to it again. In: an object of the model. Out: what `--manifests` reads.
// What was wrong with an object is not in it any more, so neither is that here. Pure.
import { type Cidr, formatCidr } from "../../model/ip.ts";
import {
  ASSIGNABLE_KEY,
  CLOUD_KEY,
  HOST_CIDRS_KEY,
  PRIMARY_KEY,
  SECONDARY_KEY,
  SUBNETS_KEY,
  TRANSIT_KEY,
  ZONE_KEY,
} from "../../model/kinds/node.ts";
import {
  type EgressIP,
  GLOBAL_ZONE,
  type KubernetesObject,
  type Node,
  type Pod,
} from "../../model/objects.ts";
import type { Selector } from "../../model/select.ts";

export function encode(object: KubernetesObject): Readonly<Record<string, unknown>> {
  switch (object.kind) {
    case "EgressIP":
      return { apiVersion: "k8s.ovn.org/v1", ...egressIP(object) };
    case "Node":
      return { apiVersion: "v1", ...node(object) };
    case "Namespace": {
      const { kind, name, uid, labels } = object;
      return { apiVersion: "v1", kind, metadata: { name, uid, labels } };
    }
    case "Pod":
      return { apiVersion: "v1", ...pod(object) };
  }
}

function egressIP({ kind, name, uid, created, requested, assignments, ...selectors }: EgressIP) {
  const { namespaceSelector, podSelector } = selectors;
  return {
    kind,
    metadata: { name, uid, ...(created === "" ? {} : { creationTimestamp: created }) },
    spec: {
      egressIPs: requested,
      namespaceSelector: selectorOf(namespaceSelector),
      podSelector: selectorOf(podSelector),
    },
    status: { items: assignments.map(({ node: of, address }) => ({ node: of, egressIP: address })) },
  };
}

function selectorOf(selector: Selector) {
  return selector.length === 0 ? {} : { matchExpressions: selector };
}

function node(object: Node) {
  const { kind, name, uid, internalAddresses, hostCidrs, secondaryEgressIPsText, primary, zone } = object;
  const { transit, podSubnets, cloud, assignable, leaving } = object;
  const annotations = {
    ...when(hostCidrs, HOST_CIDRS_KEY, hostCidrs.map(formatCidr)),
    ...(secondaryEgressIPsText === undefined ? {} : { [SECONDARY_KEY]: secondaryEgressIPsText }),
    ...(cloud
      ? { [CLOUD_KEY]: JSON.stringify([{ ifaddr: byFamily(primary) }]) }
      : when(primary, PRIMARY_KEY, byFamily(primary))),
    ...(zone === GLOBAL_ZONE ? {} : { [ZONE_KEY]: zone }),
    ...when(transit, TRANSIT_KEY, byFamily(transit)),
    ...when(podSubnets, SUBNETS_KEY, { default: podSubnets.map(formatCidr) }),
  };
  const [why, which = ""] = leaving.split(" ");
  const labels = {
    ...(assignable ? { [ASSIGNABLE_KEY]: "" } : {}),
    ...(why === "label" ? { [which]: "" } : {}),
  };
  return {
    kind,
    metadata: {
      name,
      uid,
      annotations,
      labels,
      ...(why === "it" ? { deletionTimestamp: SOME_TIME } : {}),
    },
    ...(why === "taint" ? { spec: { taints: [{ key: which, effect: "NoSchedule" }] } } : {}),
    status: { addresses: internalAddresses.map((address) => ({ type: "InternalIP", address })) },
  };
}

/** That it is being deleted is what is known of it. */
const SOME_TIME = "2000-01-01T00:00:00Z";

function when(list: readonly unknown[], key: string, value: unknown): Readonly<Record<string, string>> {
  return list.length === 0 ? {} : { [key]: JSON.stringify(value) };
}

function byFamily(cidrs: readonly Cidr[]): Readonly<Record<string, string>> {
  return Object.fromEntries(cidrs.map((cidr) => [`ipv${cidr.family}`, formatCidr(cidr)]));
}

function pod({ kind, namespace, name, uid, labels, node: nodeName, ...of }: Pod) {
  const phase = of.finished ? "Succeeded" : of.running ? "Running" : undefined;
  return {
    kind,
    metadata: { namespace, name, uid, labels },
    spec: { ...(nodeName === "" ? {} : { nodeName }), ...(of.hostNetwork ? { hostNetwork: true } : {}) },
    status: {
      ...(phase === undefined ? {} : { phase }),
      ...(of.addresses.length === 0 ? {} : { podIPs: of.addresses.map((ip) => ({ ip })) }),
    },
  };
}

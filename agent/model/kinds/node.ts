// Node, v1, with the annotations of reference A.3: the addresses it has, the network it calls primary.
// Also whether it may be assigned egress IPs, and whether it is being taken out (README, "When a node leaves").
// In: the raw object. Out: a Node; an annotation nobody can read is reported and as good as missing. Pure.
import {
  type Address,
  type Cidr,
  compareAddresses,
  formatCidr,
  parseAddress,
  parseCidr,
  sortedAddresses,
} from "../ip.ts";
import { GLOBAL_ZONE, type Node } from "../objects.ts";
import {
  annotationPath,
  describe,
  isObject,
  jsonAt,
  listAt,
  objectAt,
  type Raw,
  type Report,
} from "../raw.ts";
import { type Meta, uidAt } from "./meta.ts";

export const HOST_CIDRS_KEY = "k8s.ovn.org/host-cidrs";
export const SECONDARY_KEY = "k8s.ovn.org/secondary-host-egress-ips";
export const PRIMARY_KEY = "k8s.ovn.org/node-primary-ifaddr";
export const ZONE_KEY = "k8s.ovn.org/zone-name";
export const TRANSIT_KEY = "k8s.ovn.org/node-transit-switch-port-ifaddr";
export const SUBNETS_KEY = "k8s.ovn.org/node-subnets";
export const CLOUD_KEY = "cloud.network.openshift.io/egress-ipconfig";
export const ASSIGNABLE_KEY = "k8s.ovn.org/egress-assignable";
const LEAVING_KEY = "egressip-agent.io/leaving";

/**
 * Taints of nodes that are gone for certain, or go within moments and do not come back. Not the ones that are taken back when it comes
 * to nothing (karpenter.sh/disrupted, DeletionCandidateOfClusterAutoscaler), nor of nodes that only take no pods
 * (unschedulable) or are not well (not-ready, unreachable): what moves egress IPs away from those is who assigns them.
 */
const LEAVING_TAINTS: readonly string[] = [
  "node.kubernetes.io/out-of-service",
  "node.cloudprovider.kubernetes.io/shutdown",
  "ToBeDeletedByClusterAutoscaler",
];

export function decodeNode(raw: Raw, meta: Meta, report: Report): Node {
  const { spec, status } = raw;
  const annotations = objectAt(meta.annotations, "metadata.annotations", report);
  const labels = objectAt(meta.labels, "metadata.labels", report);
  const { addresses } = objectAt(status, "status", report);
  const { taints } = objectAt(spec, "spec", report);
  const cloud = annotations[CLOUD_KEY] !== undefined;
  const internal = internalAddressesAt(addresses, report);
  const hostCidrs = hostCidrsAt(annotations, report);
  const primary = cloud ? cloudPrimaryAt(annotations, report) : primaryAt(annotations, report);
  const secondaryEgressIPs = secondaryEgressIPsAt(annotations, report);
  const own = new Set([...internal, ...primary.map(({ address }) => address)]);
  // Published before its writer saw the other annotation (known-faults BL-43): an egress IP, not an address of the node.
  const isEgressIP = (address: Address) => secondaryEgressIPs.includes(address) && !own.has(address);
  return {
    kind: "Node",
    name: meta.name,
    uid: uidAt(meta.uid, report),
    internalAddresses: internal,
    hostCidrs: Object.freeze(hostCidrs.filter(({ address }) => !isEgressIP(address))),
    secondaryEgressIPs,
    secondaryEgressIPsText: textAt(annotations[SECONDARY_KEY]),
    primary,
    zone: zoneAt(annotations, report),
    transit: transitAt(annotations, report),
    podSubnets: podSubnetsAt(annotations, report),
    cloud,
    assignable: labels[ASSIGNABLE_KEY] !== undefined,
    leaving: leavingAt(meta, labels, taints, report),
  };
}

const textAt = (raw: unknown): string | undefined => (typeof raw === "string" ? raw : undefined);

function leavingAt({ deletion }: Meta, labels: Raw, taints: unknown, report: Report): string {
  // There is no such moment before somebody has asked for the deletion, whenever it is said to be.
  if (deletion !== undefined && deletion !== null) return "it is being deleted";
  if (labels[LEAVING_KEY] !== undefined) return `label ${LEAVING_KEY}`;
  const found = new Set<string>();
  for (const [at, item] of listAt(taints, "spec.taints", report).entries()) {
    const { key } = objectAt(item, `spec.taints[${at}]`, report, "required");
    if (typeof key === "string") found.add(key);
    else report(`spec.taints[${at}].key`, `must be text, not ${describe(key)}`);
  }
  const taint = LEAVING_TAINTS.find((known) => found.has(known));
  return taint === undefined ? "" : `taint ${taint}`;
}

function zoneAt(annotations: Raw, report: Report): string {
  const zone = annotations[ZONE_KEY];
  if (typeof zone === "string" && zone !== "") return zone;
  if (zone !== undefined) report(annotationPath(ZONE_KEY), `must be a name, not ${describe(zone)}`);
  return GLOBAL_ZONE;
}

function transitAt(annotations: Raw, report: Report): readonly Cidr[] {
  const path = annotationPath(TRANSIT_KEY);
  return familyPairAt(jsonAt(annotations[TRANSIT_KEY], path, report), path, report);
}

/** `{"default":["10.244.1.0/24","fd00:10:244:1::/64"]}`, or one text where there is one. */
function podSubnetsAt(annotations: Raw, report: Report): readonly Cidr[] {
  const path = annotationPath(SUBNETS_KEY);
  const raw = jsonAt(annotations[SUBNETS_KEY], path, report);
  if (raw === undefined) return Object.freeze([]);
  const { default: own } = objectAt(raw, path, report, "required");
  const found: Cidr[] = [];
  const listed = typeof own === "string" ? [own] : listAt(own, `${path}.default`, report);
  for (const [at, item] of listed.entries()) {
    const cidr = typeof item === "string" ? parseCidr(item) : undefined;
    if (cidr === undefined) report(`${path}.default[${at}]`, `must be a network, not ${describe(item)}`);
    else found.push(Object.freeze(cidr));
  }
  return Object.freeze(found);
}

function internalAddressesAt(raw: unknown, report: Report): readonly Address[] {
  const found = new Set<Address>();
  for (const [at, item] of listAt(raw, "status.addresses", report).entries()) {
    const path = `status.addresses[${at}]`;
    const { type, address } = objectAt(item, path, report, "required");
    if (typeof type !== "string") report(`${path}.type`, `must be text, not ${describe(type)}`);
    if (type !== "InternalIP") continue;
    const parsed = typeof address === "string" ? parseAddress(address) : undefined;
    if (parsed === undefined) report(`${path}.address`, `must be an IP address, not ${describe(address)}`);
    else found.add(parsed);
  }
  return sortedAddresses(found);
}

function hostCidrsAt(annotations: Raw, report: Report): readonly Cidr[] {
  const path = annotationPath(HOST_CIDRS_KEY);
  const found = new Map<string, Cidr>();
  for (const [at, item] of listAt(
    jsonAt(annotations[HOST_CIDRS_KEY], path, report),
    path,
    report,
  ).entries()) {
    const cidr = typeof item === "string" ? parseCidr(item) : undefined;
    if (cidr === undefined)
      report(`${path}[${at}]`, `must be an address with a prefix length, not ${describe(item)}`);
    else found.set(formatCidr(cidr), Object.freeze(cidr));
  }
  return Object.freeze(
    [...found.values()].sort((a, b) => compareAddresses(a.address, b.address) || a.length - b.length),
  );
}

/** `["10.10.10.50"]`, without prefix lengths. */
function secondaryEgressIPsAt(annotations: Raw, report: Report): readonly Address[] {
  const path = annotationPath(SECONDARY_KEY);
  const found = new Set<Address>();
  for (const [at, item] of listAt(jsonAt(annotations[SECONDARY_KEY], path, report), path, report).entries()) {
    const address = typeof item === "string" ? parseAddress(item) : undefined;
    if (address === undefined) report(`${path}[${at}]`, `must be an IP address, not ${describe(item)}`);
    else found.add(address);
  }
  return sortedAddresses(found);
}

function primaryAt(annotations: Raw, report: Report): readonly Cidr[] {
  const path = annotationPath(PRIMARY_KEY);
  if (annotations[PRIMARY_KEY] === undefined)
    report(path, "is missing; the node's primary network is not known");
  return familyPairAt(jsonAt(annotations[PRIMARY_KEY], path, report), path, report);
}

/**
 * When the annotation is there but cannot be read, the node stays a cloud node without a known network:
 * falling back to what holds on bare metal would host addresses the cloud does not deliver (reference A.5
 * step 3).
 */
function cloudPrimaryAt(annotations: Raw, report: Report): readonly Cidr[] {
  const path = annotationPath(CLOUD_KEY);
  const raw = jsonAt(annotations[CLOUD_KEY], path, report);
  const configs = listAt(raw, path, report);
  if (raw === null || (Array.isArray(raw) && configs.length === 0))
    report(path, "names no interface; the node's primary network is not known");
  if (configs.length === 0) return Object.freeze([]);
  const { ifaddr } = objectAt(configs[0], `${path}[0]`, report, "required");
  return familyPairAt(ifaddr ?? {}, `${path}[0].ifaddr`, report);
}

/**
 * `{"ipv4":"172.18.0.3/16","ipv6":"fc00::3/64"}`, one of them enough; Go leaves an absent one out or empty.
 */
function familyPairAt(raw: unknown, path: string, report: Report): readonly Cidr[] {
  if (raw === undefined) return Object.freeze([]);
  const { ipv4, ipv6 } = objectAt(raw, path, report, "required");
  const found: Cidr[] = [];
  if (isObject(raw) && isAbsent(ipv4) && isAbsent(ipv6))
    report(path, "has neither an ipv4 nor an ipv6 address");
  for (const [family, value] of [
    [4, ipv4],
    [6, ipv6],
  ] as const) {
    if (isAbsent(value)) continue;
    const cidr = typeof value === "string" ? parseCidr(value) : undefined;
    if (cidr?.family === family) found.push(Object.freeze(cidr));
    else
      report(
        `${path}.ipv${family}`,
        `must be an IPv${family} address with a prefix length, not ${describe(value)}`,
      );
  }
  return Object.freeze(found);
}

function isAbsent(raw: unknown): boolean {
  return raw === undefined || raw === null || raw === "";
}

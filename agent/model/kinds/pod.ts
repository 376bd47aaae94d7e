// Pod and Namespace, v1 (reference A.4): who may be selected, where it runs, and the addresses it sends from.
// In: the raw object. Out: a Pod or a Namespace. Pure.
import { type Address, type Family, familyOf, parseAddress, parseCidr, sortedAddresses } from "../ip.ts";
import { isLabelKey, isLabelValue, isSubdomain } from "../names.ts";
import type { Namespace, Pod } from "../objects.ts";
import { annotationPath, describe, jsonAt, listAt, objectAt, quote, type Raw, type Report } from "../raw.ts";
import type { Labels } from "../select.ts";
import { type Meta, uidAt } from "./meta.ts";

export const POD_NETWORKS_KEY = "k8s.ovn.org/pod-networks";

export function decodePod(raw: Raw, meta: Meta, report: Report): Pod {
  const { spec, status } = raw;
  const { nodeName, hostNetwork } = objectAt(spec, "spec", report);
  const statusObject = objectAt(status, "status", report);
  const { phase } = statusObject;
  const scheduled = nodeName !== undefined && nodeName !== null && nodeName !== "";
  const usableNode = typeof nodeName === "string" && isSubdomain(nodeName);
  if (scheduled && !usableNode) report("spec.nodeName", `must be a node's name, not ${describe(nodeName)}`);
  const hostNetworkKnown =
    hostNetwork === undefined || hostNetwork === null || typeof hostNetwork === "boolean";
  if (!hostNetworkKnown) report("spec.hostNetwork", `must be true or false, not ${describe(hostNetwork)}`);
  if (phase !== undefined && phase !== null && typeof phase !== "string")
    report("status.phase", `must be text, not ${describe(phase)}`);
  // In doubt the pod may be on the host's network, whose traffic must never be moved.
  const onHost = hostNetwork === true || !hostNetworkKnown;
  const finished = phase === "Succeeded" || phase === "Failed";
  return {
    kind: "Pod",
    namespace: meta.namespace,
    name: meta.name,
    uid: uidAt(meta.uid, report),
    labels: labelsAt(meta.labels, report),
    node: usableNode ? nodeName : "",
    hostNetwork: onHost,
    finished,
    running: phase === "Running",
    addresses: onHost || finished ? Object.freeze([]) : podAddresses(statusObject, meta, report),
  };
}

/** Reference A.4: status.podIPs, else the annotation's `default` entry, else status.podIP. */
function podAddresses(status: Raw, meta: Meta, report: Report): readonly Address[] {
  const { podIPs, podIP } = status;
  const listed = onePerFamily(report);
  for (const [at, item] of listAt(podIPs, "status.podIPs", report).entries()) {
    const { ip } = objectAt(item, `status.podIPs[${at}]`, report, "required");
    listed.add(typeof ip === "string" ? parseAddress(ip) : undefined, ip, `status.podIPs[${at}].ip`);
  }
  if (listed.found.size > 0) return sortedAddresses(listed.found.values());
  const annotated = onePerFamily(report);
  const annotations = objectAt(meta.annotations, "metadata.annotations", report);
  const path = annotationPath(POD_NETWORKS_KEY);
  const { default: network } = objectAt(jsonAt(annotations[POD_NETWORKS_KEY], path, report), path, report);
  const { ip_addresses: many, ip_address: one } = objectAt(network, `${path}.default`, report);
  for (const [at, cidr] of listAt(many, `${path}.default.ip_addresses`, report).entries())
    annotated.add(addressOfCidr(cidr), cidr, `${path}.default.ip_addresses[${at}]`);
  if (annotated.found.size === 0 && one !== undefined && one !== "")
    annotated.add(addressOfCidr(one), one, `${path}.default.ip_address`);
  if (annotated.found.size > 0) return sortedAddresses(annotated.found.values());
  if (podIP === undefined || podIP === null || podIP === "") return Object.freeze([]);
  listed.add(typeof podIP === "string" ? parseAddress(podIP) : undefined, podIP, "status.podIP");
  return sortedAddresses(listed.found.values());
}

function addressOfCidr(raw: unknown): Address | undefined {
  return typeof raw === "string" ? parseCidr(raw)?.address : undefined;
}

/** Collects at most one address a family; what is not an address, or a second one, is reported. */
function onePerFamily(report: Report) {
  const found = new Map<Family, Address>();
  const add = (address: Address | undefined, raw: unknown, path: string): void => {
    if (address === undefined) {
      report(path, `must be an IP address, not ${describe(raw)}`);
      return;
    }
    const family = familyOf(address);
    const first = found.get(family);
    if (first === undefined) found.set(family, address);
    else report(path, `is a second IPv${family} address, ${address}; ${first} is used`);
  };
  return { found, add };
}

export function decodeNamespace(_raw: Raw, meta: Meta, report: Report): Namespace {
  return {
    kind: "Namespace",
    name: meta.name,
    uid: uidAt(meta.uid, report),
    labels: labelsAt(meta.labels, report),
  };
}

export function labelsAt(raw: unknown, report: Report): Labels {
  const kept: Record<string, string> = {};
  const labels = objectAt(raw, "metadata.labels", report);
  for (const key of Object.keys(labels)) {
    const value = labels[key];
    if (!isLabelKey(key)) report(`metadata.labels[${quote(key)}]`, "is not a valid label key");
    else if (typeof value === "string" && isLabelValue(value)) kept[key] = value;
    else report(`metadata.labels[${quote(key)}]`, `must be a label value, not ${describe(value)}`);
  }
  return Object.freeze(kept);
}

// EgressIP, k8s.ovn.org/v1 (reference A.1): what is asked for, and which node is to give it.
// In: the raw object. Out: an EgressIP, or nothing when a selector cannot be trusted. Pure.
import { type Address, compareAddresses, familyOf, parseAddress, sortedAddresses } from "../ip.ts";
import { isSubdomain } from "../names.ts";
import type { Assignment, EgressIP } from "../objects.ts";
import { describe, listAt, objectAt, type Raw, type Report, refuse } from "../raw.ts";
import { everything, parseSelector, type Selector } from "../select.ts";
import { type Meta, uidAt } from "./meta.ts";

export function decodeEgressIP(raw: Raw, meta: Meta, report: Report): EgressIP | undefined {
  const { spec, status } = raw;
  const { namespaceSelector, podSelector, egressIPs, trafficSelector } = objectAt(spec, "spec", report);
  if (namespaceSelector === undefined || namespaceSelector === null)
    return refuse(report, "spec.namespaceSelector", "is missing; {} would select every namespace");
  if (trafficSelector !== undefined && trafficSelector !== null)
    return refuse(
      report,
      "spec.trafficSelector",
      "is not supported: this EgressIP is for some destinations only, and would be given for all; it is not served",
    );
  const namespaces = selectorAt(namespaceSelector, "spec.namespaceSelector", report);
  const pods =
    podSelector === undefined ? everything : selectorAt(podSelector ?? {}, "spec.podSelector", report);
  if (egressIPs === undefined) report("spec.egressIPs", "is missing");
  const requested = addressesAt(egressIPs, "spec.egressIPs", report);
  const { items } = objectAt(status, "status", report);
  const assignments = assignmentsAt(items, requested, report);
  // A selector nobody could read must not turn into one that matches everything: then there is no object at
  // all.
  if (namespaces === undefined || pods === undefined) return undefined;
  return {
    kind: "EgressIP",
    name: meta.name,
    uid: uidAt(meta.uid, report),
    created: timestampAt(meta.created, "metadata.creationTimestamp", report),
    requested,
    assignments,
    namespaceSelector: namespaces,
    podSelector: pods,
  };
}

function assignmentsAt(raw: unknown, requested: readonly Address[], report: Report): readonly Assignment[] {
  const known = new Set(requested);
  const kept = new Map<Address, Assignment>();
  for (const [at, item] of listAt(raw, "status.items", report).entries()) {
    const path = `status.items[${at}]`;
    const { node, egressIP } = objectAt(item, path, report, "required");
    const address = typeof egressIP === "string" ? parseAddress(egressIP) : undefined;
    if (typeof node !== "string" || !isSubdomain(node))
      report(`${path}.node`, `must be a node's name, not ${describe(node)}`);
    else if (address === undefined)
      report(`${path}.egressIP`, `must be an IP address, not ${describe(egressIP)}`);
    else if (!known.has(address)) report(`${path}.egressIP`, `${address} is not in spec.egressIPs`);
    // Every node reads the same list, so all of them settle for the same one.
    else if (kept.has(address))
      report(`${path}.egressIP`, `${address} is already assigned to ${kept.get(address)?.node}`);
    else kept.set(address, Object.freeze({ node, address, family: familyOf(address) }));
  }
  return Object.freeze([...kept.values()].sort((a, b) => compareAddresses(a.address, b.address)));
}

function selectorAt(raw: unknown, path: string, report: Report): Selector | undefined {
  const parsed = parseSelector(raw, path);
  if ("selector" in parsed) return parsed.selector;
  for (const fault of parsed.faults) report(fault.path, fault.text);
  return undefined;
}

function addressesAt(raw: unknown, path: string, report: Report): readonly Address[] {
  const found = new Set<Address>();
  for (const [at, item] of listAt(raw, path, report).entries()) {
    const address = typeof item === "string" ? parseAddress(item) : undefined;
    if (address === undefined) report(`${path}[${at}]`, `must be an IP address, not ${describe(item)}`);
    else if (found.has(address)) report(`${path}[${at}]`, `${address} is already in the list`);
    else found.add(address);
  }
  return sortedAddresses(found);
}

/** As the API server writes it, whole seconds in UTC: then comparing as text is comparing in time. */
export function timestampAt(raw: unknown, path: string, report: Report): string {
  if (raw === undefined || raw === null) return "";
  if (typeof raw === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(raw)) return raw;
  report(path, `must be like 2026-01-02T03:04:05Z, not ${describe(raw)}`);
  return "";
}

// EgressIPAM, redhatcop.redhat.io/v1alpha1: pools by the value of a node label. In: the raw object. Out: an Ipam. Pure.
// One that is wrong is kept with its faults, since it can be deleted, and what was given by it stays.
import { type Address, type Cidr, contains, parseAddress, parseCidr } from "../../model/ip.ts";
import { timestampAt } from "../../model/kinds/egressip.ts";
import type { Meta } from "../../model/kinds/meta.ts";
import { isLabelKey } from "../../model/names.ts";
import { describe, listAt, objectAt, type Raw, type Report } from "../../model/raw.ts";
import { parseSelector, type Selector } from "../../model/select.ts";

export interface Pool {
  readonly cidr: Cidr;
  readonly labelValue: string;
  readonly reserved: ReadonlySet<Address>;
}

export interface Ipam {
  readonly kind: "EgressIPAM";
  readonly name: string;
  readonly created: string;
  readonly deleting: boolean;
  readonly topologyLabel: string;
  readonly nodeSelector: Selector;
  readonly pools: readonly Pool[];
  /** What is wrong with it, as `PATH: TEXT`; with any of it nothing is given by it. */
  readonly faults: readonly string[];
}

export function decodeIpam(raw: Raw, meta: Meta, report: Report): Ipam {
  const faults: string[] = [];
  const fault: Report = (path, text) => {
    faults.push(`${path} ${text}`);
    report(path, text);
  };
  const { topologyLabel, nodeSelector, cidrAssignments } = objectAt(raw["spec"], "spec", fault, "required");
  const isKey = typeof topologyLabel === "string" && isLabelKey(topologyLabel);
  if (!isKey) fault("spec.topologyLabel", `must be a label key, not ${describe(topologyLabel)}`);
  const parsed = parseSelector(nodeSelector ?? {}, "spec.nodeSelector");
  if ("faults" in parsed) for (const { path, text } of parsed.faults) fault(path, text);
  const pools = listAt(cidrAssignments, "spec.cidrAssignments", fault).flatMap((item, at) =>
    poolAt(item, `spec.cidrAssignments[${at}]`, fault),
  );
  if (pools.length === 0) fault("spec.cidrAssignments", "has no pool; nothing can be given");
  for (const [at, { cidr }] of pools.entries())
    if (pools.some((other, before) => before < at && overlap(other.cidr, cidr)))
      fault(`spec.cidrAssignments[${at}].CIDR`, "overlaps another pool of this object");
  return {
    kind: "EgressIPAM",
    name: meta.name,
    created: timestampAt(meta.created, "metadata.creationTimestamp", report),
    deleting: meta.deletion !== undefined && meta.deletion !== null,
    topologyLabel: isKey ? topologyLabel : "",
    nodeSelector: "selector" in parsed ? parsed.selector : [],
    pools: Object.freeze(pools),
    faults: Object.freeze(faults),
  };
}

function poolAt(raw: unknown, path: string, fault: Report): readonly Pool[] {
  const { CIDR: text, labelValue, reservedIPs } = objectAt(raw, path, fault, "required");
  const cidr = typeof text === "string" ? parseCidr(text) : undefined;
  if (cidr?.family !== 4) {
    fault(`${path}.CIDR`, `must be an IPv4 network, not ${describe(text)}`);
    return [];
  }
  if (typeof labelValue !== "string")
    fault(`${path}.labelValue`, `must be text, not ${describe(labelValue)}`);
  const reserved = new Set<Address>();
  for (const [at, item] of listAt(reservedIPs, `${path}.reservedIPs`, fault).entries()) {
    const address = typeof item === "string" ? parseAddress(item) : undefined;
    const where = `${path}.reservedIPs[${at}]`;
    if (address === undefined) fault(where, `must be an IP address, not ${describe(item)}`);
    else if (!contains(cidr, address)) fault(where, `${address} is not in ${text}`);
    else if (reserved.has(address)) fault(where, `${address} is already in the list`);
    else reserved.add(address);
  }
  return [Object.freeze({ cidr, labelValue: typeof labelValue === "string" ? labelValue : "", reserved })];
}

const overlap = (a: Cidr, b: Cidr) => contains(a, b.network) || contains(b, a.network);

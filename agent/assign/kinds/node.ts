// Node as somebody who may get egress IPs: what model/kinds/node.ts reads of it, and Ready, labels, capacity, gateways.
// In: the raw object. Out: a Member; a capacity that nobody can read is none, since the cloud would refuse. Pure.
import { type Address, parseAddress, sortedAddresses } from "../../model/ip.ts";
import type { Meta } from "../../model/kinds/meta.ts";
import { CLOUD_KEY, decodeNode } from "../../model/kinds/node.ts";
import { labelsAt } from "../../model/kinds/pod.ts";
import {
  annotationPath,
  describe,
  jsonAt,
  listAt,
  objectAt,
  type Raw,
  type Report,
} from "../../model/raw.ts";
import type { Capacity, Member } from "../objects.ts";

const GATEWAY_KEY = "k8s.ovn.org/l3-gateway-config";

export function decodeMember(raw: Raw, meta: Meta, report: Report): Member {
  const { spec, status } = raw;
  const node = Object.freeze(decodeNode(raw, meta, report));
  const annotations = objectAt(meta.annotations, "metadata.annotations", report);
  const { conditions } = objectAt(status, "status", report);
  const { providerID } = objectAt(spec, "spec", report);
  return {
    kind: "Node",
    name: meta.name,
    node,
    labels: labelsAt(meta.labels, report),
    ready: readyAt(conditions, report),
    capacity: node.cloud ? capacityAt(annotations, report) : Object.freeze({}),
    gateways: gatewaysAt(annotations, report),
    provider: typeof providerID === "string" ? (/^([a-z]+):\/\//.exec(providerID)?.[1] ?? "") : "",
  };
}

function readyAt(raw: unknown, report: Report): boolean {
  return listAt(raw, "status.conditions", report).some((item, at) => {
    const { type, status } = objectAt(item, `status.conditions[${at}]`, report, "required");
    return type === "Ready" && status === "True";
  });
}

function capacityAt(annotations: Raw, report: Report): Capacity {
  const path = `${annotationPath(CLOUD_KEY)}[0].capacity`;
  // That it cannot be read was said when the network was looked for.
  const quiet: Report = () => {};
  const first = listAt(jsonAt(annotations[CLOUD_KEY], path, quiet), path, quiet)[0];
  const { capacity } = objectAt(first, path, quiet);
  const found: { -readonly [key in keyof Capacity]: Capacity[key] } = {};
  const limits = objectAt(capacity, path, report);
  for (const key of ["ip", "ipv4", "ipv6"] as const) {
    const value = limits[key];
    if (value === undefined || value === null) continue;
    const isCount = typeof value === "number" && Number.isInteger(value) && value >= 0;
    if (!isCount) report(`${path}.${key}`, `must be a count, not ${describe(value)}; taken as 0`);
    found[key] = isCount ? value : 0;
  }
  return Object.freeze(found);
}

function gatewaysAt(annotations: Raw, report: Report): readonly Address[] {
  const path = annotationPath(GATEWAY_KEY);
  const { default: own } = objectAt(jsonAt(annotations[GATEWAY_KEY], path, report), path, report);
  const { "next-hops": many, "next-hop": one } = objectAt(own, `${path}.default`, report);
  const found = new Set<Address>();
  for (const hop of [...listAt(many, `${path}.default.next-hops`, report), one]) {
    const address = typeof hop === "string" ? parseAddress(hop) : undefined;
    if (address !== undefined) found.add(address);
  }
  return sortedAddresses(found);
}

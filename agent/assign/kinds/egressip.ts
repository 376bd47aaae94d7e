// EgressIP as a demand: which addresses want a node, and which items its status has, right or wrong.
// In: the raw object. Out: a Demand. Items stay as they are written: whether they still hold is decided by assign.ts. Pure.
import { type Address, parseAddress, sortedAddresses } from "../../model/ip.ts";
import { timestampAt } from "../../model/kinds/egressip.ts";
import { type Meta, uidAt } from "../../model/kinds/meta.ts";
import { describe, isObject, listAt, objectAt, type Raw, type Report } from "../../model/raw.ts";
import type { Demand, Item } from "../objects.ts";

export const MARK_KEY = "k8s.ovn.org/egressip-mark";
export const MADE_BY_KEY = "egressip-agent.io/egressipam";
export const MADE_FOR_KEY = "egressip-agent.io/namespace";

export function decodeDemand(raw: Raw, meta: Meta, report: Report): Demand {
  const { spec, status } = raw;
  const { egressIPs } = objectAt(spec, "spec", report);
  const requested = new Set<Address>();
  const unreadable: string[] = [];
  for (const item of listAt(egressIPs, "spec.egressIPs", report)) {
    const address = typeof item === "string" ? parseAddress(item) : undefined;
    if (address === undefined) unreadable.push(describe(item));
    else requested.add(address);
  }
  const annotations = objectAt(meta.annotations, "metadata.annotations", report);
  const { [MARK_KEY]: mark, [MADE_BY_KEY]: ipam, [MADE_FOR_KEY]: namespace } = annotations;
  return {
    kind: "EgressIP",
    name: meta.name,
    uid: uidAt(meta.uid, report),
    version: versionOf(raw),
    created: timestampAt(meta.created, "metadata.creationTimestamp", report),
    requested: sortedAddresses(requested),
    unreadable: Object.freeze(unreadable),
    items: itemsAt(status, report),
    hasAnnotations: isObject(meta.annotations),
    mark: typeof mark === "string" ? mark : undefined,
    madeFor:
      typeof ipam === "string" && typeof namespace === "string"
        ? Object.freeze({ ipam, namespace })
        : undefined,
  };
}

function itemsAt(status: unknown, report: Report): readonly Item[] {
  const { items } = objectAt(status, "status", report);
  return Object.freeze(
    listAt(items, "status.items", report).flatMap((item, at): readonly Item[] => {
      const { node, egressIP } = objectAt(item, `status.items[${at}]`, report, "required");
      if (typeof node === "string" && typeof egressIP === "string")
        return [Object.freeze({ node, egressIP })];
      report(`status.items[${at}]`, "must have a node and an egressIP; it is written anew");
      // Kept as an item that nobody can have, so that the status differs from what is wanted.
      return [Object.freeze({ node: "", egressIP: "" })];
    }),
  );
}

function versionOf({ metadata }: Raw): string {
  const { resourceVersion } = isObject(metadata) ? metadata : {};
  return typeof resourceVersion === "string" ? resourceVersion : "";
}

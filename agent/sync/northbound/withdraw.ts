// What cannot wait when an egress IP leaves this node's gateway router for another node's in the same database: NAT rows, for by them
// it answers, and what leads and lets pods in to them. In: plan, facts, the diff. Out: the part of it to be done before all else. Pure.
import type { HostFacts } from "../../model/facts.ts";
import { type Address, familyOf } from "../../model/ip.ts";
import { ARRIVING_PODS, NODE_KEY } from "../../model/northbound-ids.ts";
import { podAddressOf } from "../../model/northbound-pod.ts";
import { getFrom } from "../../model/shards.ts";
import type { Plan } from "../../plan/plan.ts";
import type { Diff } from "../backend.ts";
import type { RowChange } from "./changes.ts";

export function withdrawnRows(
  { northbound: { gives, node } }: Plan,
  { northbound }: HostFacts,
  { establish, retire }: Diff<RowChange>,
): readonly RowChange[] {
  if (gives === undefined) return [];
  const leaving = retire.filter(
    (change) =>
      change.op === "delete" &&
      change.why !== "gone-node" &&
      change.found.table === "NAT" &&
      !gives.has(String(change.found.columns["external_ip"])),
  );
  if (leaving.length === 0) return [];
  const addresses = new Set(leaving.map(podOf));
  const turning = establish.filter(
    (change) =>
      change.op === "update" &&
      change.row.table === "Logical_Router_Policy" &&
      addresses.has(podAddressOf(change.found)),
  );
  const turned = new Set(turning.map(podOf));
  // One that goes, or cannot lead elsewhere yet, goes with its NAT row when all else is there.
  const isLed = ledHere(node, northbound);
  const arriving = establish.flatMap((change) =>
    change.op === "members" && change.of === ARRIVING_PODS && change.remove.length > 0
      ? [{ ...change, add: [] }]
      : [],
  );
  return [
    ...turning,
    ...arriving,
    ...leaving.filter((change) => {
      const address = podOf(change);
      return address !== undefined && (turned.has(address) || !isLed(address));
    }),
  ];
}

/** Whether a pod is led to this node's gateway router by this node's own policy: without a NAT row it would leave as the node. */
export function ledHere(
  node: string,
  { pods, topology }: HostFacts["northbound"],
): (address: Address) => boolean {
  return (address) =>
    (getFrom(pods, address) ?? []).some(({ columns: { nexthops }, ids }) => {
      const hop = topology.gateways.get(node)?.[familyOf(address)];
      return ids[NODE_KEY] === node && Array.isArray(nexthops) && hop !== undefined && nexthops.includes(hop);
    });
}

export function podOf(change: RowChange): Address | undefined {
  return change.op === "delete" || change.op === "update" ? podAddressOf(change.found) : undefined;
}

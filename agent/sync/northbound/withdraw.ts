// What cannot wait when an egress IP leaves this node's gateway router for another node's in the same database: NAT rows, for by them
// it answers, and what leads and lets pods in to them. In: plan, facts, the diff. Out: the part of it to be done before all else. Pure.
// Where a pod gets another address here instead, as when two nodes exchange theirs, its row goes as well, and a new one comes in its turn:
// changed in place it would begin to give the one at the moment at which it ends the other, and two that exchange could not wait.
import type { HostFacts } from "../../model/facts.ts";
import { type Address, familyOf } from "../../model/ip.ts";
import type { FoundRow } from "../../model/northbound.ts";
import { ARRIVING_PODS, NODE_KEY } from "../../model/northbound-ids.ts";
import { podAddressOf } from "../../model/northbound-pod.ts";
import { getFrom } from "../../model/shards.ts";
import type { Plan } from "../../plan/plan.ts";
import type { Diff } from "../backend.ts";
import type { RowChange } from "./changes.ts";
import { noMoreArriving } from "./members.ts";

export function withdrawnRows(plan: Plan, facts: HostFacts, diff: Diff<RowChange>): readonly RowChange[] {
  const { gives, node } = plan.northbound;
  if (gives === undefined) return [];
  const { northbound } = facts;
  const leaving = diff.retire.filter(
    (change) =>
      change.op === "delete" &&
      change.why !== "gone-node" &&
      change.found.table === "NAT" &&
      !gives.has(String(change.found.columns["external_ip"])),
  );
  const replaced = replacedHere(plan, diff.establish);
  if (leaving.length + replaced.length === 0) return [];
  const addresses = new Set([...leaving, ...replaced].map(podOf));
  const isLed = ledHere(node, northbound);
  const turning = diff.establish.filter(
    (change) =>
      change.op === "update" &&
      change.row.table === "Logical_Router_Policy" &&
      addresses.has(podAddressOf(change.found)) &&
      !hopsOf(change.row).some((hop) => hop === hopHere(node, northbound, podOf(change))),
  );
  const turnedAway = new Set(turning.map(podOf));
  const away = replaced.flatMap((change) => {
    const pod = podOf(change);
    return pod === undefined || turnedAway.has(pod) ? [] : ledAway(node, northbound, pod);
  });
  const turned = new Set([...turning, ...away].map(podOf));
  return [
    ...turning,
    ...away,
    ...arriving(plan, facts, diff.establish, replaced),
    // One that goes, or cannot lead elsewhere yet, goes with its NAT row when all else is there.
    ...[...leaving, ...replaced].filter((change) => {
      const address = podOf(change);
      return address !== undefined && (turned.has(address) || !isLed(address));
    }),
  ];
}

/** Rows that are to give another address than one that some EgressIP asks for and this node does not give any more. */
function replacedHere(
  { northbound: { gives }, addresses: { notHeld } }: Plan,
  establish: readonly RowChange[],
): readonly RowChange[] {
  return establish.flatMap((change): readonly RowChange[] => {
    if (change.op !== "update" || change.row.table !== "NAT") return [];
    const before = String(change.found.columns["external_ip"]);
    const isAnothers =
      before !== change.row.columns["external_ip"] && !gives?.has(before) && notHeld.has(before);
    return isAnothers ? [{ op: "delete", found: change.found, why: "unwanted" }] : [];
  });
}

/** Own policies for a pod as they are, but for the way to this node's gateway router; held back where that was the only one. */
function ledAway(node: string, northbound: HostFacts["northbound"], address: Address): readonly RowChange[] {
  const here = hopHere(node, northbound, address);
  return (getFrom(northbound.pods, address) ?? [])
    .filter((found) => here !== undefined && isOwn(found, node) && hopsOf(found).includes(here))
    .map(({ uuid, ...found }) => {
      const nexthops = hopsOf(found).filter((hop) => hop !== here);
      const action = nexthops.length === 0 ? "drop" : "reroute";
      const columns = { ...found.columns, action, nexthops };
      return { op: "update", row: { ...found, columns }, found: { ...found, uuid } };
    });
}

/** Who is not let in any more, in one change of each set. */
function arriving(
  { northbound: wanted }: Plan,
  { northbound: found }: HostFacts,
  establish: readonly RowChange[],
  replaced: readonly RowChange[],
): readonly RowChange[] {
  const leaving = establish.flatMap((change) =>
    change.op === "members" && change.of === ARRIVING_PODS && change.remove.length > 0 ? [change] : [],
  );
  const pods = new Set(replaced.map(podOf).filter((pod) => pod !== undefined));
  const out = noMoreArriving(wanted, found, [...pods]);
  const removedOf = (change: RowChange) => (change.op === "members" ? change.remove : []);
  const ofSet = (changes: readonly RowChange[], set: string) =>
    changes.filter((change) => change.op === "members" && change.set === set);
  return [
    ...leaving.map((change) => ({
      ...change,
      add: [],
      remove: [...change.remove, ...ofSet(out, change.set).flatMap(removedOf)],
    })),
    ...out.filter((change) => change.op === "members" && ofSet(leaving, change.set).length === 0),
  ];
}

/** Whether a pod is led to this node's gateway router by this node's own policy: without a NAT row it would leave as the node. */
export function ledHere(node: string, northbound: HostFacts["northbound"]): (address: Address) => boolean {
  return (address) => {
    const here = hopHere(node, northbound, address);
    return (getFrom(northbound.pods, address) ?? []).some(
      (row) => isOwn(row, node) && here !== undefined && hopsOf(row).includes(here),
    );
  };
}

function isOwn({ ids }: FoundRow, node: string): boolean {
  return ids[NODE_KEY] === node;
}

function hopsOf({ columns: { nexthops } }: Pick<FoundRow, "columns">): readonly Address[] {
  return Array.isArray(nexthops) ? nexthops : [];
}

function hopHere(
  node: string,
  { topology }: HostFacts["northbound"],
  address: Address | undefined,
): Address | undefined {
  return address === undefined ? undefined : topology.gateways.get(node)?.[familyOf(address)];
}

export function podOf(change: RowChange): Address | undefined {
  return change.op === "delete" || change.op === "update" ? podAddressOf(change.found) : undefined;
}

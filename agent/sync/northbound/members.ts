// Members of the sets of pods, wanted against found: single ones, since all nodes of a zone write to the sets of served ones.
// In: plan, facts, what happens to the rows of pods, nodes that left. Out: one change a set. Pure but for remembered shards.
import { type Address, type Cidr, contains, type Family, familyOf } from "../../model/ip.ts";
import { lastOf } from "../../model/memo.ts";
import { byCodeUnit } from "../../model/names.ts";
import type { NorthboundFacts, Row } from "../../model/northbound.ts";
import { ARRIVING_PODS, type PodSet, podSet } from "../../model/northbound-ids.ts";
import { podAddressOf } from "../../model/northbound-pod.ts";
import { entriesOf, getFrom, pairwise, type Shard, type Shards } from "../../model/shards.ts";
import type { PlannedNorthbound } from "../../plan/plan.ts";
import type { RowChange } from "./changes.ts";
import type { Paired } from "./pairing.ts";
import type { PodChanges } from "./pods.ts";

interface Members {
  readonly add: readonly Address[];
  readonly remove: readonly Address[];
}

const NO_MEMBERS: Members = Object.freeze({ add: Object.freeze([]), remove: Object.freeze([]) });

/** What happens to the rows of pods, nodes that left, and what happens to the sets themselves. */
type Beside = Pick<PodChanges, "establish" | "kept"> & {
  readonly left: readonly string[];
  readonly sets: readonly RowChange[];
};

export function compareMembers(): (
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  beside: Beside,
) => Paired {
  const ofFamily = (family: Family) =>
    lastOf((podNetworks: readonly Cidr[] | undefined) =>
      pairwise<unknown, true, Members>(NO_MEMBERS, (pods, members) =>
        compareShard(family, podNetworks, pods, members),
      ),
    );
  const perShard = { 4: ofFamily(4), 6: ofFamily(6) };
  return (wanted, found, { establish: rows, kept, left, sets }) => {
    // What was replaced goes with what replaces it, everything else when all is established.
    const replaced = new Set(
      rows.flatMap((change) => (change.op === "delete" ? [podAddressOf(change.found)] : [])),
    );
    // The address of the other family that a pod has is in no row: while one pod's is not known, nobody's goes that nobody has.
    const stays = (address: Address) =>
      kept.size > 0 && !wanted.unresolved.taken.has(address) && !replaced.has(address);
    const changes = ([4, 6] as const).map((family) => {
      const differing = perShard[family](wanted.podNetworks)(wanted.served, found.served[family]);
      const add = differing.flatMap((change) => change.add);
      const removed = differing.flatMap(({ remove }) => remove).filter((address) => !stays(address));
      const orphans = found.leads && left.length > 0 ? ofNobody(wanted, found.served[family]) : [];
      const remove = [...new Set([...removed, ...orphans])];
      const now = remove.filter((address) => replaced.has(address));
      const later = remove.filter((address) => !replaced.has(address));
      return {
        establish: changeOf("egressip-served-pods", wanted, found, sets, family, add, now),
        retire: changeOf("egressip-served-pods", wanted, found, sets, family, [], later),
      };
    });
    return {
      establish: changes.flatMap(({ establish }) => establish),
      retire: changes.flatMap(({ retire }) => retire),
    };
  };
}

/** Pods that arrive: added with their NAT rows, taken away before those; those stay whose rows do. */
export function compareArriving(): (
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  beside: Pick<Beside, "kept" | "sets">,
) => Paired {
  const ofFamily = (family: Family) =>
    pairwise<unknown, true, Members>(NO_MEMBERS, (pods, members) =>
      compareShard(family, undefined, pods, members),
    );
  const perShard = { 4: ofFamily(4), 6: ofFamily(6) };
  return (wanted, found, { kept, sets }) => {
    const changes = ([4, 6] as const).map((family) => {
      const differing = perShard[family](wanted.arriving, found.arriving[family]);
      const add = differing.flatMap((change) => change.add);
      const remove = differing.flatMap((change) => change.remove).filter((address) => !kept.has(address));
      return {
        // Taken away before the NAT row: a packet that has passed here meets that a moment later.
        establish: changeOf(ARRIVING_PODS, wanted, found, sets, family, add, remove),
        retire: [],
      };
    });
    return {
      establish: changes.flatMap(({ establish }) => establish),
      retire: changes.flatMap(({ retire }) => retire),
    };
  };
}

/** What keeps these of other nodes' pods out, of those that may arrive now. */
export function noMoreArriving(
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  addresses: readonly Address[],
): readonly RowChange[] {
  return ([4, 6] as const).flatMap((family) => {
    const remove = addresses.filter((address) => getFrom(found.arriving[family], address) !== undefined);
    return changeOf(ARRIVING_PODS, wanted, found, [], family, [], remove);
  });
}

/** In a set that all nodes write to, a node takes away what is in its own pods' networks; also what is of the wrong family. */
function compareShard(
  family: Family,
  podNetworks: readonly Cidr[] | undefined,
  pods: Shard<unknown>,
  members: Shard<true>,
): Members {
  const wanted = [...pods.keys()].filter((address) => familyOf(address) === family);
  const add = wanted.filter((address) => !members.has(address));
  const remove = [...members.keys()].filter(
    (address) => !wanted.includes(address) && (podNetworks === undefined || isIn(podNetworks, address)),
  );
  return add.length + remove.length === 0 ? NO_MEMBERS : { add, remove };
}

/** Members of nodes that left: in no network of a node that exists. Nobody can say where a node's networks are not known. */
function ofNobody({ nodes, served }: PlannedNorthbound, members: Shards<true>): readonly Address[] {
  const networks = [...nodes.values()];
  if (networks.some((own) => own.length === 0)) return [];
  return [...entriesOf(members)]
    .map(([address]) => address)
    .filter((address) => getFrom(served, address) === undefined && !isIn(networks.flat(), address));
}

function isIn(networks: readonly Cidr[], address: Address): boolean {
  return networks.some((network) => contains(network, address));
}

function changeOf(
  of: PodSet,
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  sets: readonly RowChange[],
  family: Family,
  add: readonly Address[],
  remove: readonly Address[],
): readonly RowChange[] {
  if (add.length + remove.length === 0) return [];
  const { name: set } = podSet(wanted, of, family);
  const named = ({ columns }: Row) => columns["name"] === set;
  // One that is called otherwise and is adopted, too. With the set itself, where this agent makes it; else when whoever leads has.
  const renamed = sets.find((change) => change.op === "update" && named(change.row));
  const uuid = (found.shared.find(named) ?? (renamed?.op === "update" ? renamed.found : undefined))?.uuid;
  if (uuid === undefined && !sets.some((change) => change.op === "insert" && named(change.row))) return [];
  const sorted = (addresses: readonly Address[]) => [...addresses].sort(byCodeUnit);
  return [{ op: "members", of, set, uuid, family, add: sorted(add), remove: sorted(remove) }];
}

// Members of the sets of served pods, wanted against found: single ones, since all nodes of a zone write to the same sets.
// In: plan, facts, what happens to the rows of pods, nodes that left. Out: one change a set. Pure but for remembered shards.
import { type Address, type Cidr, contains, familyOf } from "../../model/ip.ts";
import { lastOf } from "../../model/memo.ts";
import { byCodeUnit } from "../../model/names.ts";
import type { NorthboundFacts, Row } from "../../model/northbound.ts";
import { addressSet } from "../../model/northbound-ids.ts";
import { podAddressOf } from "../../model/northbound-pod.ts";
import { entriesOf, getFrom, pairwise, type Shard } from "../../model/shards.ts";
import type { PlannedNorthbound } from "../../plan/plan.ts";
import type { RowChange } from "./changes.ts";
import type { Paired } from "./pairing.ts";
import type { PodChanges } from "./pods.ts";

interface Members {
  readonly add: readonly Address[];
  readonly remove: readonly Address[];
}

const NO_MEMBERS: Members = Object.freeze({ add: Object.freeze([]), remove: Object.freeze([]) });

type Beside = Pick<PodChanges, "establish" | "kept"> & { readonly left: readonly string[] };

export function compareMembers(): (
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  beside: Beside,
) => Paired {
  const perShard = lastOf((podNetworks: readonly Cidr[] | undefined) =>
    pairwise<unknown, true, Members>(NO_MEMBERS, (pods, members) => compareShard(podNetworks, pods, members)),
  );
  return (wanted, found, { establish: rows, kept, left }) => {
    const changes = perShard(wanted.podNetworks)(wanted.served, found.served);
    // What was replaced goes with what replaces it, everything else when all is established.
    const replaced = new Set(
      rows.flatMap((change) => (change.op === "delete" ? [podAddressOf(change.found)] : [])),
    );
    // The address of the other family that a pod has is in no row: while one pod's is not known, nobody's goes that nobody has.
    const stays = (address: Address) =>
      kept.has(address) || (kept.size > 0 && !wanted.unresolved.taken.has(address) && !replaced.has(address));
    const removed = new Set(changes.flatMap(({ remove }) => remove).filter((address) => !stays(address)));
    if (found.leads && left.length > 0) for (const address of ofNobody(wanted, found)) removed.add(address);
    const now = [...removed].filter((address) => replaced.has(address));
    const later = [...removed].filter((address) => !replaced.has(address));
    const add = changes.flatMap((change) => change.add);
    return { establish: perFamily(wanted, found, add, now), retire: perFamily(wanted, found, [], later) };
  };
}

/** In a set that all nodes write to, a node takes away what is in its own pods' networks. */
function compareShard(
  podNetworks: readonly Cidr[] | undefined,
  pods: Shard<unknown>,
  members: Shard<true>,
): Members {
  const add = [...pods.keys()].filter((address) => !members.has(address));
  const remove = [...members.keys()].filter(
    (address) => !pods.has(address) && (podNetworks === undefined || isIn(podNetworks, address)),
  );
  return add.length + remove.length === 0 ? NO_MEMBERS : { add, remove };
}

/** Members of nodes that left: in no network of a node that exists. Nobody can say where a node's networks are not known. */
function ofNobody({ nodes, served }: PlannedNorthbound, found: NorthboundFacts): readonly Address[] {
  const networks = [...nodes.values()];
  if (networks.some((own) => own.length === 0)) return [];
  return [...entriesOf(found.served)]
    .map(([address]) => address)
    .filter((address) => getFrom(served, address) === undefined && !isIn(networks.flat(), address));
}

function isIn(networks: readonly Cidr[], address: Address): boolean {
  return networks.some((network) => contains(network, address));
}

function perFamily(
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  add: readonly Address[],
  remove: readonly Address[],
): readonly RowChange[] {
  if (add.length + remove.length === 0) return [];
  return ([4, 6] as const).flatMap((family): readonly RowChange[] => {
    const { name } = addressSet(wanted.owner, "egressip-served-pods", family);
    const named = ({ columns }: Row) => columns["name"] === name;
    // With the set itself, where this agent makes it; else when whoever leads has made it.
    const uuid = found.shared.find(named)?.uuid;
    if (uuid === undefined && !(found.leads && wanted.shared.some(named))) return [];
    const ofFamily = (addresses: readonly Address[]) =>
      addresses.filter((address) => familyOf(address) === family).sort(byCodeUnit);
    const change = {
      op: "members",
      set: name,
      uuid,
      family,
      add: ofFamily(add),
      remove: ofFamily(remove),
    } as const;
    return change.add.length + change.remove.length === 0 ? [] : [change];
  });
}

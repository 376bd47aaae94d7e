// What this node wants of the northbound database when the agent goes for good: nothing, or its rows in other hands. Pure.
import { cidrsOf, type FoundRow, type NorthboundFacts, type Row } from "../../../model/northbound.ts";
import {
  ID_KEY,
  NAME_KEY,
  NODE_IPS,
  NODE_KEY,
  OWNER_KEY,
  REFERENCE_OWNER,
  setsByName,
} from "../../../model/northbound-ids.ts";
import type { PodAddresses } from "../../../model/pod-addresses.ts";
import type { Settings } from "../../../model/settings.ts";
import { entriesOf, shardsFrom, withEntries } from "../../../model/shards.ts";
import { nothing, type PlannedNorthbound } from "../../plan.ts";

/** With `handBack` rows stay as they are and become OVN-Kubernetes', which then goes on with them without a gap. */
export function leaveNorthbound(
  { node, northboundOwner: owner, snatPerPod }: Pick<Settings, "node" | "northboundOwner" | "snatPerPod">,
  found: NorthboundFacts,
  handBack: boolean,
): PlannedNorthbound {
  const others = [...found.writers.keys()].filter((writer) => writer !== node && writer !== "");
  const own = [...entriesOf(found.pods)].flatMap(([address, rows]) => {
    const mine = rows.filter(({ ids }) => (ids[NODE_KEY] ?? node) === node);
    return mine.length === 0 ? [] : [[address, mine] as const];
  });
  const leaving: PlannedNorthbound = {
    ...nothing.northbound,
    node,
    owner,
    podNetworks: others.length === 0 ? undefined : cidrsOf(found.topology.podNetworks),
    nodes: new Map(others.map((other) => [other, []])),
    snatPerPod: snatPerPod ? { pods: ownPods(own), to: found.topology.outside.get(node) ?? {} } : undefined,
  };
  if (!handBack) return leaving;
  const renames = setRenames(owner);
  // Pods that are held back have nothing that anybody could go on with: the reference drops none.
  const kept = own.map(
    ([address, rows]) => [address, rows.filter(({ columns }) => !drops(columns))] as const,
  );
  const released = new Set(kept.filter(([, rows]) => rows.length === 0).map(([address]) => address));
  const shared = found.shared.filter((row) => isTheirs(row, found));
  return {
    ...leaving,
    owner: REFERENCE_OWNER,
    pods: shardsFrom(
      kept
        .filter(([address]) => !released.has(address))
        .map(([address, rows]) => [address, rows.map((row) => handOver(row, renames))]),
    ),
    // What others still use is theirs as well, and goes with the last of them.
    shared: others.length > 0 ? [] : shared.map((row) => handOver(row, renames)),
    served: withEntries(
      leaving.served,
      ([4, 6] as const).flatMap((family) =>
        [...entriesOf(found.served[family])]
          .filter(([address]) => !released.has(address))
          .map(([address]) => [address, [address]] as const),
      ),
    ),
  };
}

/** What only this agent has goes, for nobody would keep it right; and where they have a set of their own, ours beside it. */
function isTheirs({ ids }: FoundRow, { theirNodeIps }: NorthboundFacts): boolean {
  if (ids[NAME_KEY] === NODE_IPS) return !theirNodeIps.some((family) => ids["ip-family"] === `v${family}`);
  return !(NODE_KEY in ids);
}

function drops(columns: FoundRow["columns"]): boolean {
  return columns["action"] === "drop";
}

/** A pod that is rerouted by this node's own policy is one of its pods: the others have a NAT row alone. */
function ownPods(own: readonly (readonly [string, readonly FoundRow[]])[]): PodAddresses {
  return shardsFrom(
    own
      .filter(([, rows]) => rows.some(({ table }) => table === "Logical_Router_Policy"))
      .map(([address]) => [address, [address]] as const),
  );
}

/** Names of sets are made from their owner, so both they and the matches that say them change. */
function setRenames(owner: string): ReadonlyMap<string, string> {
  const theirs = new Map([...setsByName(REFERENCE_OWNER)].map(([name, purpose]) => [purpose, name]));
  return new Map([...setsByName(owner)].map(([name, purpose]) => [name, theirs.get(purpose) ?? name]));
}

function handOver({ uuid: _, ...row }: FoundRow, renames: ReadonlyMap<string, string>): Row {
  const owner = row.ids[OWNER_KEY] ?? "";
  const id = row.ids[ID_KEY];
  const renamed = (text: string) =>
    [...renames].reduce((renaming, [from, to]) => renaming.replaceAll(from, to), text);
  const columns = Object.fromEntries(
    Object.entries(row.columns).map(([column, value]) => [
      column,
      typeof value === "string" && (column === "match" || column === "name") ? renamed(value) : value,
    ]),
  );
  const { [NODE_KEY]: __, ...others } = row.ids;
  const ids = {
    ...others,
    [OWNER_KEY]: REFERENCE_OWNER,
    ...(id === undefined ? {} : { [ID_KEY]: `${REFERENCE_OWNER}${id.slice(owner.length)}` }),
  };
  return { ...row, columns, ids };
}

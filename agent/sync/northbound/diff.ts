// Wanted rows against found ones, shard by shard of pod addresses, so that one pod more costs one shard. Pure but for what it
// remembers of shards it has compared.
import type { HostFacts } from "../../model/facts.ts";
import { type Address, type Cidr, contains, familyOf } from "../../model/ip.ts";
import { lastOf } from "../../model/memo.ts";
import { byCodeUnit } from "../../model/names.ts";
import { type FoundRow, gatewayRouter, type NorthboundFacts, type Row } from "../../model/northbound.ts";
import {
  addressSet,
  NAME_KEY,
  NODE_KEY,
  OWNER_TYPE,
  podOfRowName,
  TYPE_KEY,
} from "../../model/northbound-ids.ts";
import { servedSet } from "../../model/owner.ts";
import { entriesOf, getFrom, pairwise, type Shard } from "../../model/shards.ts";
import type { Plan, PlannedNorthbound } from "../../plan/plan.ts";
import type { Diff } from "../backend.ts";
import type { RowChange } from "./changes.ts";
import { NO_CHANGES, type Paired, pair } from "./pairing.ts";
import { sharedPurpose } from "./shared-purpose.ts";

/** The database is not there, or was not read yet. Nothing is written and nothing retired on what was last known. */
export class NorthboundUnreachableError extends Error {
  override readonly name = "NorthboundUnreachableError";
  constructor() {
    super("the northbound database cannot be reached, or has not been read yet; see --ovn-nb");
  }
}

/** `isGone` says whether a node that has no Node object any more has been away for long enough. */
export function createNorthboundDiff(
  isGone: (node: string) => boolean,
): (plan: Plan, facts: HostFacts) => Diff<RowChange> {
  const podChanges = lastOf((node: string, podNetworks: readonly Cidr[]) =>
    pairwise<readonly Row[], readonly FoundRow[], ShardChanges>(NONE, (rows, found) =>
      compare({ node, podNetworks }, rows, found),
    ),
  );
  const memberChanges = lastOf((podNetworks: readonly Cidr[]) =>
    pairwise<unknown, true, Members>(NO_MEMBERS, (pods, members) =>
      compareMembers(podNetworks, pods, members),
    ),
  );
  return (plan, facts) => {
    const { northbound } = facts;
    const wanted = plan.northbound;
    if (northbound.state === "off" || wanted.node === "") return NO_CHANGES;
    if (northbound.state === "stale") throw new NorthboundUnreachableError();
    // Somebody else writes this node's rows; that is a Problem, and no failure that would hold back anything here.
    if (northbound.state === "waiting") return NO_CHANGES;
    const establish: RowChange[] = [];
    const retire: RowChange[] = [];
    const shared = sharedChanges(wanted, northbound, isGone);
    establish.push(...shared.establish);
    retire.push(...shared.retire);
    for (const shard of podChanges(wanted.node, wanted.podNetworks)(wanted.pods, northbound.pods)) {
      for (const [address, changes] of shard) {
        if (shared.complete) establish.push(...podEstablish(plan, facts, address, changes));
        retire.push(...podRetire(wanted, address, changes));
      }
    }
    const members = memberChanges(wanted.podNetworks)(wanted.served, northbound.served);
    addMembers(
      wanted,
      northbound,
      members.filter((change) => change !== NO_MEMBERS),
      establish,
      retire,
    );
    takeNodeSnats(wanted, northbound, establish);
    return { establish: establish.sort(inOrder), retire: retire.sort(inOrder) };
  };
}

/** Exemptions first, then by what a row is for: the order of the text, for a transaction has none. */
function inOrder(a: RowChange, b: RowChange): number {
  return byCodeUnit(sortKey(a), sortKey(b));
}

function sortKey(change: RowChange): string {
  switch (change.op) {
    case "insert":
    case "update":
      return rowKey(change.row);
    case "delete":
      return rowKey(change.found);
    case "members":
      return `2 ${change.family}`;
    default:
      return `3 ${change.pod} ${change.op}`;
  }
}

const TABLE_ORDER = ["Address_Set", "Logical_Router_Static_Route", "QoS", "Logical_Router_Policy", "NAT"];

function rowKey({ table, columns, ids }: Row): string {
  const first = columns["priority"] === 100 || table === "NAT" ? 1 : 0;
  return `${first} ${TABLE_ORDER.indexOf(table)} ${ids[NAME_KEY] ?? ""} ${ids["ip-family"] ?? ""} ${JSON.stringify(columns)}`;
}

// ---- rows of one pod address ---------------------------------------------------------------------------------------------

type ShardChanges = ReadonlyMap<string, Paired>;

const NONE: ShardChanges = new Map();

function compare(
  wanted: Pick<PlannedNorthbound, "node" | "podNetworks">,
  rows: Shard<readonly Row[]>,
  found: Shard<readonly FoundRow[]>,
): ShardChanges {
  const changes = new Map<string, Paired>();
  for (const address of new Set([...rows.keys(), ...found.keys()])) {
    const mine = (found.get(address) ?? []).filter((row) => isMine(wanted, address, row));
    const paired = pair(rows.get(address) ?? [], mine, ({ table }) => table);
    if (paired !== NO_CHANGES) changes.set(address, paired);
  }
  return changes.size === 0 ? NONE : changes;
}

/**
 * Whose a row is, where several nodes write: it says so itself. One that does not (the reference's, to be adopted) is the
 * node's that its NAT port names, or in whose pods' network its address is.
 */
function isMine(
  { node, podNetworks }: Pick<PlannedNorthbound, "node" | "podNetworks">,
  address: string,
  { ids, columns, table }: FoundRow,
): boolean {
  const writer = ids[NODE_KEY];
  if (writer !== undefined) return writer === node;
  if (podNetworks.length === 0) return true;
  if (table === "NAT") return columns["logical_port"] === `k8s-${node}`;
  return address !== "" && podNetworks.some((network) => contains(network, address));
}

function podEstablish(
  plan: Plan,
  facts: HostFacts,
  address: string,
  { establish }: Paired,
): readonly RowChange[] {
  return establish.filter(
    (change) =>
      !("row" in change) || !leadsToKernel(plan, address, change.row) || kernelIsReady(plan, facts, address),
  );
}

function leadsToKernel({ northbound }: Plan, address: string, { columns }: Row): boolean {
  const hop = northbound.kernelHop[familyOf(address)];
  const hops = columns["nexthops"];
  return hop !== undefined && Array.isArray(hops) && hops.includes(hop);
}

/** Led to this host's kernel a moment before that knows what to do with it, the pod would leave with the node's address. */
function kernelIsReady(plan: Plan, facts: HostFacts, address: string): boolean {
  const family = familyOf(address);
  const wanted = getFrom(plan.sets.served[family], address);
  const members = facts.sets.get(servedSet(family))?.members;
  return wanted === undefined || (members !== undefined && getFrom(members, address) === wanted);
}

function podRetire(wanted: PlannedNorthbound, address: string, { retire }: Paired): readonly RowChange[] {
  return retire.flatMap((change): readonly RowChange[] => {
    if (change.op !== "delete") return [change];
    const { found } = change;
    // Its pod runs, and only its address is not known for the moment (known-faults BL-15).
    if (change.why === "unwanted" && wanted.unresolved.has(podOfRowName(found.ids[NAME_KEY] ?? "")))
      return [];
    const back = giveBack(wanted, address, found);
    return back === undefined ? [change] : [change, back];
  });
}

function giveBack(
  { node, snatPerPod }: PlannedNorthbound,
  pod: string,
  { table, on }: FoundRow,
): RowChange | undefined {
  const router = gatewayRouter(node);
  if (snatPerPod === undefined || table !== "NAT" || !on.includes(router)) return undefined;
  const own = snatPerPod.to[familyOf(pod)];
  if (own === undefined || getFrom(snatPerPod.pods, pod) === undefined) return undefined;
  return { op: "give-node-snat", router, pod, node: own };
}

/** The row for one address would stand beside ours for the same address, and which of the two counts nobody says (B.5). */
function takeNodeSnats(wanted: PlannedNorthbound, found: NorthboundFacts, establish: RowChange[]): void {
  if (wanted.snatPerPod === undefined) return;
  for (const [pod, uuids] of entriesOf(found.nodeSnats)) {
    const rows = getFrom(wanted.pods, pod) ?? [];
    if (rows.some(({ table }) => table === "NAT"))
      establish.push({ op: "take-node-snat", router: gatewayRouter(wanted.node), pod, uuids });
  }
}

// ---- rows of the zone ----------------------------------------------------------------------------------------------------

function sharedChanges(
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  isGone: (node: string) => boolean,
): Paired & { readonly complete: boolean } {
  const { establish, retire } = pair(wanted.shared, found.shared, sharedPurpose);
  const missing = establish.filter(({ op }) => op === "insert");
  // Who does not lead waits for the exemptions: without them its pods would reach other pods by way of the egress node.
  if (!found.leads) return { ...NO_CHANGES, complete: missing.length === 0 };
  const others = [...found.writers.keys()].filter((node) => node !== wanted.node && node !== "");
  const gone = others.filter((node) => !wanted.nodes.has(node) && isGone(node));
  const orphans = gone.length === 0 ? [] : rowsOf(found, new Set(gone));
  // The last one out takes away what all of them shared.
  const emptied = wanted.shared.length === 0 && others.length > 0;
  return {
    establish,
    retire: [
      ...(emptied ? [] : retire.filter((change) => change.op !== "delete" || isForEgressIPs(change.found))),
      ...orphans.map((row): RowChange => ({ op: "delete", found: row, why: "gone-node" })),
    ],
    complete: true,
  };
}

/** The other feature's set, which the exemptions name too, is made where it is missing and never taken away. */
function isForEgressIPs({ ids }: FoundRow): boolean {
  return ids[TYPE_KEY] === OWNER_TYPE;
}

function rowsOf({ pods }: NorthboundFacts, nodes: ReadonlySet<string>): readonly FoundRow[] {
  return [...entriesOf(pods)].flatMap(([, rows]) => rows.filter(({ ids }) => nodes.has(ids[NODE_KEY] ?? "")));
}

// ---- members of the sets of served pods ----------------------------------------------------------------------------------

interface Members {
  readonly add: readonly Address[];
  readonly remove: readonly Address[];
}

const NO_MEMBERS: Members = Object.freeze({ add: Object.freeze([]), remove: Object.freeze([]) });

/** In a set that all nodes write to, a node takes away what is in its own pods' networks. */
function compareMembers(podNetworks: readonly Cidr[], pods: Shard<unknown>, members: Shard<true>): Members {
  const add = [...pods.keys()].filter((address) => !members.has(address));
  const remove = [...members.keys()].filter(
    (address) =>
      !pods.has(address) &&
      (podNetworks.length === 0 || podNetworks.some((network) => contains(network, address))),
  );
  return add.length + remove.length === 0 ? NO_MEMBERS : { add, remove };
}

function addMembers(
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  changes: readonly Members[],
  establish: RowChange[],
  retire: RowChange[],
): void {
  for (const family of [4, 6] as const) {
    const { name } = addressSet(wanted.owner, "egressip-served-pods", family);
    const named = ({ columns }: Row) => columns["name"] === name;
    // With the set itself, where this agent makes it; else when whoever leads has made it.
    const uuid = found.shared.find(named)?.uuid;
    if (uuid === undefined && !(found.leads && wanted.shared.some(named))) continue;
    const of = (kind: keyof Members) =>
      changes
        .flatMap((change) => change[kind])
        .filter((address) => familyOf(address) === family)
        .sort(byCodeUnit);
    const [add, remove] = [of("add"), of("remove")];
    if (add.length > 0) establish.push({ op: "members", set: name, uuid, family, add, remove: [] });
    if (remove.length > 0) retire.push({ op: "members", set: name, uuid, family, add: [], remove });
  }
}

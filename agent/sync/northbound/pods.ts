// Rows of single pod addresses, wanted against found. In: plan, facts, and whether the exemptions are there. Out: what to
// establish and to retire, and the addresses whose rows stay although nothing wants them. Pure but for remembered shards.
import type { HostFacts } from "../../model/facts.ts";
import { type Address, type Cidr, contains } from "../../model/ip.ts";
import { lastOf } from "../../model/memo.ts";
import type { FoundRow, Row } from "../../model/northbound.ts";
import { NAME_KEY, NODE_KEY } from "../../model/northbound-ids.ts";
import { pairwise, type Shard } from "../../model/shards.ts";
import type { Plan, PlannedNorthbound } from "../../plan/plan.ts";
import type { RowChange } from "./changes.ts";
import { mayBeLed } from "./kernel.ts";
import { NO_CHANGES, type Paired, pair } from "./pairing.ts";

export interface PodChanges extends Paired {
  readonly kept: ReadonlySet<Address>;
}

type Whose = Pick<PlannedNorthbound, "node" | "podNetworks">;
type ShardChanges = ReadonlyMap<Address, Paired>;

const NONE: ShardChanges = new Map();

export function comparePods(): (plan: Plan, facts: HostFacts, complete: boolean) => PodChanges {
  const perShard = lastOf((node: string, podNetworks: readonly Cidr[] | undefined) =>
    pairwise<readonly Row[], readonly FoundRow[], ShardChanges>(NONE, (rows, found) =>
      compareShard({ node, podNetworks }, rows, found),
    ),
  );
  return (plan, facts, complete) => {
    const { node, podNetworks, pods, unresolved } = plan.northbound;
    const establish: RowChange[] = [];
    const retire: RowChange[] = [];
    const kept = new Set<Address>();
    for (const shard of perShard(node, podNetworks)(pods, facts.northbound.pods))
      for (const [address, changes] of shard) {
        if (complete)
          for (const change of changes.establish)
            if (!("row" in change) || mayBeLed(plan, facts, address, change.row)) establish.push(change);
        for (const change of changes.retire)
          if (isKept(unresolved, address, change)) kept.add(address);
          else retire.push(change);
      }
    const [now, later] = replacedFirst(establish, retire);
    return { establish: [...establish, ...now], retire: later, kept };
  };
}

function compareShard(
  whose: Whose,
  rows: Shard<readonly Row[]>,
  found: Shard<readonly FoundRow[]>,
): ShardChanges {
  const changes = new Map<Address, Paired>();
  const look = (address: Address, wanted: readonly Row[], all: readonly FoundRow[]) => {
    const mine = all.every((row) => isMine(whose, address, row))
      ? all
      : all.filter((row) => isMine(whose, address, row));
    const paired = pair(wanted, mine, tableOf);
    if (paired !== NO_CHANGES) changes.set(address, paired);
  };
  for (const [address, wanted] of rows) look(address, wanted, found.get(address) ?? NO_ROWS);
  for (const [address, all] of found) if (!rows.has(address)) look(address, NO_ROWS, all);
  return changes.size === 0 ? NONE : changes;
}

const NO_ROWS: readonly never[] = Object.freeze([]);

const tableOf = ({ table }: Row): string => table;

/**
 * Whose a row is, where several nodes write: it says so itself. One that does not (the reference's, to be adopted) is the
 * node's that its NAT port names, or in whose pods' network its address is.
 */
function isMine({ node, podNetworks }: Whose, address: Address, { ids, columns, table }: FoundRow): boolean {
  const writer = ids[NODE_KEY];
  if (writer !== undefined) return writer === node;
  if (podNetworks === undefined) return true;
  if (table === "NAT") return columns["logical_port"] === `k8s-${node}`;
  return address !== "" && podNetworks.some((network) => contains(network, address));
}

/** Its pod runs, and only its address is not known for the moment (known-faults BL-15). */
function isKept(
  { names, taken }: PlannedNorthbound["unresolved"],
  address: Address,
  change: RowChange,
): boolean {
  return (
    change.op === "delete" &&
    change.why === "unwanted" &&
    names.has(change.found.ids[NAME_KEY] ?? "") &&
    !taken.has(address)
  );
}

/**
 * A pod that was made anew under its name has another address, and the old one is perhaps somebody else's by now: its old rows
 * go with the transaction that writes the new ones (known-faults BL-03). All others wait until everything is established.
 */
function replacedFirst(
  establish: readonly RowChange[],
  retire: readonly RowChange[],
): readonly [now: readonly RowChange[], later: readonly RowChange[]] {
  if (establish.length === 0 || retire.length === 0) return [[], retire];
  const purpose = ({ table, ids }: Row) => `${table} ${ids["ip-family"]} ${ids[NAME_KEY]}`;
  const written = new Set(establish.flatMap((change) => ("row" in change ? [purpose(change.row)] : [])));
  const isReplaced = (change: RowChange) => change.op === "delete" && written.has(purpose(change.found));
  return [retire.filter(isReplaced), retire.filter((change) => !isReplaced(change))];
}

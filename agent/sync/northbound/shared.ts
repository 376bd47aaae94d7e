// Rows that are no pod's, wanted against found: this node's own, and, the business of the one that leads, those that all nodes of a
// zone share and what nodes have left behind that are gone. In: plan, facts, the nodes that left. Out: changes, and whether pods may
// be steered yet. Pure.
import type { FoundRow, NorthboundFacts, Row } from "../../model/northbound.ts";
import {
  NAME_KEY,
  NODE_KEY,
  OWNER_TYPE,
  REFERENCE_OWNER,
  setsByName,
  TYPE_KEY,
} from "../../model/northbound-ids.ts";
import { entriesOf } from "../../model/shards.ts";
import type { PlannedNorthbound } from "../../plan/plan.ts";
import type { RowChange } from "./changes.ts";
import type { GoneNodes } from "./gone-nodes.ts";
import { type Paired, pair } from "./pairing.ts";

/** Nodes that wrote rows, have no Node object, and have been away for long enough; asked whoever leads, so that time counts. */
export function goneAmong(
  { node, nodes }: Pick<PlannedNorthbound, "node" | "nodes">,
  { writers, shared }: Pick<NorthboundFacts, "writers" | "shared">,
  gone: GoneNodes,
): readonly string[] {
  const names = new Set([...writers.keys(), ...shared.map(writerOf)]);
  return gone([...names].filter((name) => name !== "" && name !== node && !nodes.has(name)));
}

/** "" for a row that is all nodes'. */
const writerOf = ({ ids }: Row): string => ids[NODE_KEY] ?? "";

export function compareShared(
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  left: readonly string[],
): Paired & { readonly missing: readonly Row[] } {
  const purposeOf = sharedPurpose(wanted);
  const compare = (whose: (row: Row) => boolean) =>
    pair(wanted.shared.filter(whose), found.shared.filter(whose), purposeOf);
  // One that serves the purpose of an own one and does not say whose it is, is that one: of sets there is room for one of a name.
  const purposes = new Set(
    wanted.shared.flatMap((row) => (writerOf(row) === wanted.node ? [purposeOf(row)] : [])),
  );
  const isOwn = (row: Row) =>
    writerOf(row) === wanted.node || (writerOf(row) === "" && purposes.has(purposeOf(row)));
  const own = compare(isOwn);
  const paired = compare((row) => writerOf(row) === "" && !isOwn(row));
  const establish = paired.establish.filter((change) => change.op !== "update" || isForEgressIPs(change.row));
  const retire = paired.retire.filter((change) => change.op !== "delete" || isForEgressIPs(change.found));
  // Who does not lead waits for the exemptions: without them its pods would reach other pods by way of the egress node.
  if (!found.leads) {
    const missing = establish.flatMap(missingExemption);
    return { establish: missing.length > 0 ? [] : own.establish, retire: own.retire, missing };
  }
  const hasOthers = [...found.writers.keys()].some((name) => name !== wanted.node && name !== "");
  // The last one out takes away what all of them shared.
  const stays = wanted.shared.length === 0 && hasOthers;
  return {
    establish: [...own.establish, ...establish],
    retire: [
      ...own.retire,
      ...(stays ? [] : retire),
      ...rowsOf(found, new Set(left)).map(
        (row): RowChange => ({ op: "delete", found: row, why: "gone-node" }),
      ),
    ],
    missing: [],
  };
}

const PER_NETWORK = /^EIP-No-Reroute-Pod-To-(Pod|Join)$/;

/**
 * Which shared row a found one is, whoever wrote it and whatever is wrong with it. The match is part of it where there is one row
 * for each pair of networks (reference J.3); a route has nothing but its prefix; a set is what it is called.
 */
function sharedPurpose({ owner, node }: Pick<PlannedNorthbound, "owner" | "node">): (row: Row) => string {
  const sets = new Map([...setsByName(REFERENCE_OWNER), ...setsByName(owner, node)]);
  return ({ table, columns, ids }) => {
    if (table === "Logical_Router_Static_Route") return String(columns["ip_prefix"]);
    const perNetwork = PER_NETWORK.test(String(ids[NAME_KEY]));
    const set = sets.get(String(columns["name"]));
    return set ?? [ids[NAME_KEY], ids["ip-family"], ...(perNetwork ? [columns["match"]] : [])].join(" ");
  };
}

function missingExemption(change: RowChange): readonly Row[] {
  return change.op === "insert" && change.row.table !== "Logical_Router_Static_Route" ? [change.row] : [];
}

/** The other feature's set, which the exemptions name too, is made where it is missing, and is that feature's from then on. */
function isForEgressIPs({ ids }: Row): boolean {
  return ids[TYPE_KEY] === OWNER_TYPE;
}

function rowsOf({ pods, shared }: NorthboundFacts, nodes: ReadonlySet<string>): readonly FoundRow[] {
  if (nodes.size === 0) return [];
  const theirs = (row: Row) => nodes.has(writerOf(row));
  return [...shared.filter(theirs), ...[...entriesOf(pods)].flatMap(([, rows]) => rows.filter(theirs))];
}

// Rows that all nodes of a zone share, wanted against found, and what nodes have left behind that are gone: the business of the
// one that leads. In: plan, facts, the nodes that left. Out: changes, and whether pods may be steered yet. Pure.
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
import { NO_CHANGES, type Paired, pair } from "./pairing.ts";

/** Nodes that wrote rows, have no Node object, and have been away for long enough; asked whoever leads, so that time counts. */
export function goneAmong(
  { node, nodes }: Pick<PlannedNorthbound, "node" | "nodes">,
  { writers }: Pick<NorthboundFacts, "writers">,
  gone: GoneNodes,
): readonly string[] {
  return gone([...writers.keys()].filter((name) => name !== "" && name !== node && !nodes.has(name)));
}

export function compareShared(
  wanted: PlannedNorthbound,
  found: NorthboundFacts,
  left: readonly string[],
): Paired & { readonly missing: readonly Row[] } {
  const paired = pair(wanted.shared, found.shared, sharedPurpose(wanted.owner));
  const establish = paired.establish.filter((change) => change.op !== "update" || isForEgressIPs(change.row));
  const retire = paired.retire.filter((change) => change.op !== "delete" || isForEgressIPs(change.found));
  // Who does not lead waits for the exemptions: without them its pods would reach other pods by way of the egress node.
  if (!found.leads) return { ...NO_CHANGES, missing: establish.flatMap(missingExemption) };
  const hasOthers = [...found.writers.keys()].some((name) => name !== wanted.node && name !== "");
  // The last one out takes away what all of them shared.
  const stays = wanted.shared.length === 0 && hasOthers;
  return {
    establish,
    retire: [
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
function sharedPurpose(owner: string): (row: Row) => string {
  const sets = new Map([...setsByName(REFERENCE_OWNER), ...setsByName(owner)]);
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

function rowsOf({ pods }: NorthboundFacts, nodes: ReadonlySet<string>): readonly FoundRow[] {
  if (nodes.size === 0) return [];
  return [...entriesOf(pods)].flatMap(([, rows]) => rows.filter(({ ids }) => nodes.has(ids[NODE_KEY] ?? "")));
}

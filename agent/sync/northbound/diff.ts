// Wanted rows against found ones: what to establish, and what to retire when everything was established. Pure but for what it
// remembers of shards it has compared: rows are compared shard by shard of pod addresses, so that one pod more costs one shard.
import type { HostFacts } from "../../model/facts.ts";
import { byCodeUnit } from "../../model/names.ts";
import type { Row } from "../../model/northbound.ts";
import { NAME_KEY } from "../../model/northbound-ids.ts";
import { isOfPod } from "../../model/northbound-pod.ts";
import { isEmpty } from "../../model/shards.ts";
import type { Plan } from "../../plan/plan.ts";
import type { Diff } from "../backend.ts";
import type { RowChange } from "./changes.ts";
import { compareArriving, compareMembers } from "./members.ts";
import { giveNodeSnats, restoreNodeSnats, takeNodeSnats } from "./node-snats.ts";
import { comparePods } from "./pods.ts";
import { compareShared, goneAmong } from "./shared.ts";

/** Pods are not steered while what keeps pods and nodes out of it is missing: that would take them away from each other. */
class ExemptionsMissingError extends Error {
  override readonly name = "ExemptionsMissingError";
  constructor(missing: readonly Row[]) {
    const [first] = missing;
    const others = missing.length > 1 ? ` and ${missing.length - 1} more` : "";
    super(
      `waiting for rows that all nodes share: ${first?.table} ${first?.ids[NAME_KEY]} ${first?.columns["match"] ?? ""}${others}; ` +
        "the agent that has the zone's lock writes them, with its own --cluster-networks",
    );
  }
}

/** The database is not there, or was not read yet. Nothing is written and nothing retired on what was last known. */
class NorthboundUnreachableError extends Error {
  override readonly name = "NorthboundUnreachableError";
  constructor() {
    super("the northbound database cannot be reached, or has not been read yet; see --ovn-nb");
  }
}

const NOTHING: Diff<never> = Object.freeze({ establish: Object.freeze([]), retire: Object.freeze([]) });

/** `gone` says which nodes that have no Node object any more have been away for long enough. */
export function createNorthboundDiff(
  gone: Parameters<typeof goneAmong>[2],
): (plan: Plan, facts: HostFacts) => Diff<RowChange> {
  const podChanges = comparePods();
  const memberChanges = compareMembers();
  const arrivingChanges = compareArriving();
  const restoredSnats = restoreNodeSnats();
  return (plan, facts) => {
    const { northbound: wanted } = plan;
    const { northbound: found } = facts;
    if (found.state === "off" || wanted.node === "") return NOTHING;
    if (found.state === "stale") throw new NorthboundUnreachableError();
    // Somebody else writes this node's rows; that is a Problem, and no failure that would hold back anything here.
    if (found.state === "waiting") return NOTHING;
    const left = goneAmong(wanted, found, gone);
    const shared = compareShared(wanted, found, left);
    const pods = podChanges(plan, facts, shared.missing.length === 0);
    if (shared.missing.length > 0 && !isEmpty(wanted.pods)) throw new ExemptionsMissingError(shared.missing);
    const members = memberChanges(wanted, found, { ...pods, left, sets: shared.establish });
    const arriving = arrivingChanges(wanted, found, { kept: pods.kept, sets: shared.establish });
    const establish = [
      ...shared.establish,
      ...pods.establish,
      ...members.establish,
      ...arriving.establish,
      ...takeNodeSnats(wanted, found, pods.kept),
      ...giveNodeSnats(wanted, found, pods.establish),
      ...restoredSnats(wanted, found),
    ];
    const retire = [
      ...shared.retire,
      ...pods.retire,
      ...members.retire,
      ...arriving.retire,
      ...giveNodeSnats(wanted, found, pods.retire),
    ];
    return { establish: inOrder(establish), retire: inOrder(retire) };
  };
}

/** What all share first, then by what a row is for: the order of the text, for a transaction has none. */
function inOrder(changes: readonly RowChange[]): readonly RowChange[] {
  // A key for each change, not for each comparison: a first start has tens of thousands.
  return changes
    .map((change) => [sortKey(change), change] as const)
    .sort(([a, one], [b, other]) => byCodeUnit(a, b) || byCodeUnit(columnsOf(one), columnsOf(other)))
    .map(([, change]) => change);
}

function sortKey(change: RowChange): string {
  const row = rowOf(change);
  if (row !== undefined) return rowKey(row);
  return change.op === "members"
    ? `2 ${change.family}`
    : `3 ${"pod" in change ? change.pod : ""} ${change.op}`;
}

/** Of rows for the same purpose. */
function columnsOf(change: RowChange): string {
  return JSON.stringify(rowOf(change)?.columns ?? {});
}

function rowOf(change: RowChange): Row | undefined {
  if (change.op === "delete") return change.found;
  return change.op === "insert" || change.op === "update" ? change.row : undefined;
}

const TABLE_ORDER = [
  "Address_Set",
  "Logical_Router_Static_Route",
  "QoS",
  "ACL",
  "Logical_Router_Policy",
  "NAT",
];

function rowKey(row: Row): string {
  const place = `${isOfPod(row) ? 1 : 0} ${TABLE_ORDER.indexOf(row.table)}`;
  return `${place} ${row.ids[NAME_KEY] ?? ""} ${row.ids["ip-family"] ?? ""}`;
}

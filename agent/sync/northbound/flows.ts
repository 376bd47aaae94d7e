// Rows change in a moment, the flows that follow from them some milliseconds later: a pod that is no longer led to this host's
// kernel, or gateway router, still arrives there until then. In: what was changed, a session. Out: the moment from which it does not.
import type { Session } from "../../../lib/ovsdb-client/index.ts";
import { mutate, type Operation, type ResultsOf, select, wait } from "../../../lib/ovsdb-client/pure.ts";
import type { Address } from "../../model/ip.ts";
import type { PerFamily, Row } from "../../model/northbound.ts";
import { ARRIVING_PODS } from "../../model/northbound-ids.ts";
import { podAddressOf } from "../../model/northbound-pod.ts";
import { NbGlobal } from "../../model/northbound-schema.ts";
import type { RowChange } from "./changes.ts";

/**
 * Whether something that led pods to this host's kernel or to its gateway router (`hops`) does so no more, also when it leads to the
 * other one of these now, or pods of other zones may not arrive any more.
 */
export function leavesHere(changes: readonly RowChange[], hops: readonly PerFamily<Address>[]): boolean {
  const own = new Set(hops.flatMap((of) => Object.values(of)));
  return changes.some((change) => {
    if (change.op === "members") return change.of === ARRIVING_PODS && change.remove.length > 0;
    if (change.op !== "delete" && change.op !== "update") return false;
    const kept = change.op === "update" ? hopsOf(change.row) : [];
    return hopsOf(change.found).some((hop) => own.has(hop) && !kept.includes(hop));
  });
}

/**
 * Whether pods are led to the gateway router of another node in the same database. Its NAT rows for them are there, or nobody would
 * be led there (plan/parts/northbound/pod-rows.ts); without the flows of these the router gives them its node's address.
 */
export function leadsToOthers(
  changes: readonly RowChange[],
  gateways: ReadonlyMap<string, PerFamily<Address>>,
  node: string,
): boolean {
  const others = new Set(
    [...gateways].flatMap(([name, of]) => (name === node ? [] : (Object.values(of) as Address[]))),
  );
  return changes.some((change) => {
    if (change.op !== "insert" && change.op !== "update") return false;
    const before = change.op === "update" ? hopsOf(change.found) : [];
    return hopsOf(change.row).some((hop) => others.has(hop) && !before.includes(hop));
  });
}

/**
 * Whether pods turn from the one to the other of the two here: nothing outside sees where, so there is time. What arrives from
 * another zone turns by a policy that is new.
 */
export function turnsHere(changes: readonly RowChange[], hops: readonly PerFamily<Address>[]): boolean {
  const own = new Set(hops.flatMap((of) => Object.values(of)));
  const leads = (row: Row) => hopsOf(row).some((hop) => own.has(hop));
  const noMore = new Set(
    changes.flatMap((change) =>
      change.op === "members" && change.of === ARRIVING_PODS ? change.remove : [],
    ),
  );
  return changes.some((change) => {
    if (change.op === "insert") return leads(change.row) && noMore.has(podAddressOf(change.row) ?? "");
    return change.op === "update" && leads(change.row) && leavesHere([change], hops);
  });
}

function hopsOf({ columns }: Row): readonly Address[] {
  const hops = columns["nexthops"];
  return Array.isArray(hops) ? hops : [];
}

/** To be committed with the changes, last: OVN's programs copy the figure when they have followed (ovn-nb(5), NB_Global). */
export const countChange = [
  mutate(NbGlobal, [], [["nb_cfg", "+=", 1]]),
  select(NbGlobal, [], ["nb_cfg"]),
] as const satisfies readonly Operation[];

/** How far OVN's programs are to be to have followed all that was counted so far. */
export const figures = [select(NbGlobal, [], ["nb_cfg"])] as const satisfies readonly Operation[];

/** An answer later than that is none. */
const ANSWER_MS = 10_000;

/**
 * Resolves when the flows of all nodes of the database have followed, or the time is over: where OVN's own programs do not run
 * nothing follows, and waiting on would keep everything else from being done. To whether they have; never rejects.
 */
export async function flowsFollow(
  session: Pick<Session, "transact">,
  results: ResultsOf<readonly Operation[]>,
  atMostMs: number,
): Promise<boolean> {
  const counted = results.at(-1) as ResultsOf<typeof figures>[0];
  const figure = Number(counted.rows[0]?.["nb_cfg"]);
  const none = wait(NbGlobal, [["hv_cfg", "<", figure]], "==", [], {
    columns: ["hv_cfg"],
    timeout: atMostMs,
  });
  return await session.transact([none], { timeoutMs: atMostMs + ANSWER_MS }).then(
    () => true,
    () => false,
  );
}

// Rows change in a moment, the flows that follow from them some milliseconds later: a pod that is no longer led to this host's
// kernel still arrives there until then. In: what was changed, a session. Out: the moment from which it does not.
import type { Session } from "../../../lib/ovsdb-client/index.ts";
import { mutate, type Operation, type ResultsOf, select, wait } from "../../../lib/ovsdb-client/pure.ts";
import { type Address, familyOf } from "../../model/ip.ts";
import type { PerFamily } from "../../model/northbound.ts";
import { NbGlobal } from "../../model/northbound-schema.ts";
import type { RowChange } from "./changes.ts";

/** Whether something that led pods to this host's kernel does so no more. */
export function leavesKernel(changes: readonly RowChange[], kernelHop: PerFamily<Address>): boolean {
  const leads = (hops: unknown) =>
    Array.isArray(hops) && hops.some((hop: Address) => kernelHop[familyOf(hop)] === hop);
  return changes.some(
    (change) =>
      (change.op === "delete" || change.op === "update") &&
      leads(change.found.columns["nexthops"]) &&
      !(change.op === "update" && leads(change.row.columns["nexthops"])),
  );
}

/** To be committed with the changes, last: OVN's programs copy the figure when they have followed (ovn-nb(5), NB_Global). */
export const countChange = [
  mutate(NbGlobal, [], [["nb_cfg", "+=", 1]]),
  select(NbGlobal, [], ["nb_cfg"]),
] as const satisfies readonly Operation[];

/** An answer later than that is none. */
const ANSWER_MS = 10_000;

/**
 * Resolves when the flows of all nodes of the database have followed, or the time is over: where OVN's own programs do not run
 * nothing follows, and waiting on would keep everything else from being done. Never rejects.
 */
export async function flowsFollow(
  session: Pick<Session, "transact">,
  results: ResultsOf<readonly Operation[]>,
  atMostMs: number,
): Promise<void> {
  const counted = results.at(-1) as ResultsOf<typeof countChange>[1];
  const figure = Number(counted.rows[0]?.["nb_cfg"]);
  const none = wait(NbGlobal, [["hv_cfg", "<", figure]], "==", [], {
    columns: ["hv_cfg"],
    timeout: atMostMs,
  });
  await session.transact([none], { timeoutMs: atMostMs + ANSWER_MS }).catch(() => undefined);
}

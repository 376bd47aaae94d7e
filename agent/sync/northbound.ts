// Rows of OVN's northbound database: pods are led to a node that has their egress IP, and its gateway router gives it.
// In: plan, facts. Out: one transaction to establish, one to retire. Last of all to establish and first to retire: a pod is led
// to this host's kernel when that is ready for it, and away again before anything is taken down there.
import type { HostFacts } from "../model/facts.ts";
import type { Plan } from "../plan/plan.ts";
import type { Backend } from "./backend.ts";
import { givesAnew, type RowChange } from "./northbound/changes.ts";
import { createNorthboundDiff } from "./northbound/diff.ts";
import type { GoneNodes } from "./northbound/gone-nodes.ts";
import { withoutLines } from "./northbound/held-lines.ts";
import { predictNorthbound } from "./northbound/predict.ts";
import { printChange } from "./northbound/print.ts";
import { releasedRows } from "./northbound/released.ts";
import { goneAmong } from "./northbound/shared.ts";
import { withdrawnRows } from "./northbound/withdraw.ts";
import type { Tools } from "./tools.ts";

export function northbound(tools: Pick<Tools, "northbound">): Backend<RowChange> {
  const { read } = tools.northbound;
  const gone: GoneNodes = (absent) => tools.northbound.gone(absent);
  return {
    name: "northbound",
    reads: { plan: ["northbound", "sets"] satisfies (keyof Plan)[], facts: ["northbound", "sets"] },
    late: true,
    verifies: "northbound",
    also: (plan, facts) => goneAmong(plan.northbound, facts.northbound, gone).join(),
    diff: createNorthboundDiff(gone),
    withdraw: withdrawnRows,
    release: releasedRows,
    without: withoutLines,
    waits: givesAnew,
    print: (changes) => changes.map(printChange),
    predict: (facts, changes) => ({
      ...facts,
      northbound: predictNorthbound(facts.northbound, changes),
    }),
    ...(read === undefined
      ? {}
      : { reread: async (facts: HostFacts) => ({ ...facts, northbound: await read() }) }),
    apply: (changes) => tools.northbound.commit(changes),
  };
}

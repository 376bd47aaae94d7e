// The two sysctls that replies need. In: plan, facts. Out: values below /proc/sys; what they were is in the record.
import type { HostFacts } from "../model/facts.ts";
import type { Backend } from "./backend.ts";
import type { Tools } from "./tools.ts";

export interface SysctlChange {
  readonly path: string;
  readonly value: string;
}

export function sysctls(tools: Pick<Tools, "writeSysctl">): Backend<SysctlChange> {
  return {
    name: "sysctls",
    reads: { plan: ["sysctls", "reference"], facts: ["sysctls", "record"] },
    verifies: "sysctls",
    diff: (plan, facts) => ({
      establish: Object.entries(plan.sysctls)
        .filter(([path, value]) => facts.sysctls[path] !== undefined && facts.sysctls[path] !== value)
        .map(([path, value]) => ({ path, value })),
      // Whoever goes on with what is ours needs them as much.
      retire: (plan.reference.kind === "hand-back" ? [] : Object.entries(facts.record.sysctls))
        .filter(([path, value]) => plan.sysctls[path] === undefined && differs(facts, path, value))
        .map(([path, value]) => ({ path, value })),
    }),
    print: (changes) => changes.map(({ path, value }) => `sysctl -w ${path}=${value}`),
    predict: (facts, changes) => ({
      ...facts,
      sysctls: { ...facts.sysctls, ...Object.fromEntries(changes.map(({ path, value }) => [path, value])) },
    }),
    apply: async (changes) => {
      for (const { path, value } of changes) await tools.writeSysctl(path, value);
    },
  };
}

/** A path that is gone went with its link: there is nothing to put back. */
function differs(facts: HostFacts, path: string, value: string): boolean {
  return facts.sysctls[path] !== undefined && facts.sysctls[path] !== value;
}

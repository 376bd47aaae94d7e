// Our three chains and the jumps to them, both families. In: plan, facts. Out: `iptables-restore --noflush` input.
import {
  applyToRuleset,
  diffRuleset,
  printRestore,
  type RulesetChange,
} from "../../lib/node-iptables/pure.ts";
import type { HostFacts } from "../model/facts.ts";
import { GUARD_CHAIN, isOurChain } from "../model/owner.ts";
import type { Plan } from "../plan/plan.ts";
import type { Backend } from "./backend.ts";
import type { Tools } from "./tools.ts";

export interface FamilyChange {
  readonly family: 4 | 6;
  readonly change: RulesetChange;
}

const FAMILIES = [4, 6] as const;

/** Marking stops first and the guard goes last. */
const RETIRE_ORDER = ["mangle", "nat", "filter"];

/** The guard last: until packets are marked it would hold back what another program serves still. */
const ADOPT_ORDER = ["nat", "mangle", "filter"];

const byTable = (order: readonly string[]) => (a: FamilyChange, b: FamilyChange) =>
  order.indexOf(a.change.table) - order.indexOf(b.change.table);

export function iptables(tools: Pick<Tools, "iptables">): Backend<FamilyChange> {
  return {
    name: "iptables",
    reads: { plan: ["iptables", "reference"], facts: ["iptables"] },
    urgent: (plan, facts) => FAMILIES.some((family) => guardIsMissing(plan, facts, family)),
    verifies: "iptables",
    diff: (plan, facts) => {
      const diffs = FAMILIES.map((family) => ({
        family,
        ...diffRuleset(facts.iptables[family], plan.iptables[family], isOurChain),
      }));
      const tagged = (pick: "establish" | "retire") =>
        diffs.flatMap((diff) => diff[pick].map((change) => ({ family: diff.family, change })));
      const retire = tagged("retire").sort(byTable(RETIRE_ORDER));
      const establish = tagged("establish");
      if (plan.reference.kind === "adopt") establish.sort(byTable(ADOPT_ORDER));
      return { establish, retire };
    },
    print: (changes) =>
      FAMILIES.flatMap((family) => {
        const text = printRestore(ofFamily(changes, family));
        return text === ""
          ? []
          : [`# ip${family === 4 ? "" : "6"}tables-restore --noflush`, ...text.trimEnd().split("\n")];
      }),
    predict: (facts, changes) => ({
      ...facts,
      iptables: {
        4: applyToRuleset(facts.iptables[4], ofFamily(changes, 4)),
        6: applyToRuleset(facts.iptables[6], ofFamily(changes, 6)),
      },
    }),
    apply: async (changes) => {
      await Promise.all(
        FAMILIES.map(async (family) => {
          const text = printRestore(ofFamily(changes, family));
          if (text !== "") await tools.iptables.restore(family, text);
        }),
      );
    },
  };
}

/** The guard's chain, or every jump to it. */
function guardIsMissing(plan: Plan, facts: HostFacts, family: 4 | 6): boolean {
  const filter = facts.iptables[family].get("filter");
  const jumps = filter?.get("FORWARD")?.rules.some((rule) => rule.endsWith(`-j ${GUARD_CHAIN}`)) ?? false;
  return (
    plan.iptables[family].chains.length > 0 && !(jumps && (filter?.get(GUARD_CHAIN)?.rules.length ?? 0) > 0)
  );
}

function ofFamily(changes: readonly FamilyChange[], family: 4 | 6): readonly RulesetChange[] {
  return changes.filter((entry) => entry.family === family).map(({ change }) => change);
}

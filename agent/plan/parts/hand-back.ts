// What of this host's own goes over to OVN-Kubernetes when the agent goes for good: what that has programmed already, with our
// addresses, open connections and routes that it goes on with. In: facts. Out: what differs from wanting nothing. Pure.

import type { HostFacts } from "../../model/facts.ts";
import { programmedMarks } from "../../model/marks-found.ts";
import { onLink } from "../../model/on-link.ts";
import { routesToLeave, translationsOf } from "../../model/reference.ts";
import { nothing, type Plan } from "../plan.ts";

export type HandedBack = Pick<Plan, "marks" | "reference" | "routes">;

/** Nothing goes over where it has programmed nothing: there nobody would go on with it. */
export function handBackHost(facts: HostFacts): HandedBack {
  const translations = translationsOf(facts);
  if (translations.length === 0) return { marks: [], routes: [], reference: nothing.reference };
  const addresses = new Set(translations.map(onLink));
  const marks = programmedMarks(facts.iptables).filter((programmed) => addresses.has(onLink(programmed)));
  return {
    // Kept: these connections go on.
    marks,
    routes: routesToLeave(facts, translations),
    reference: {
      kind: "hand-back",
      addresses,
      flows: marks.map(({ family, address, mask }) => ({ family, translatedTo: address, mark: 0, mask })),
    },
  };
}

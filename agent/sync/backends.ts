// All backends in the order in which they establish; they retire in reverse. The order is the safety argument:
// a pod that is newly selected is in the set, and thereby held back, before anything steers it; the way out is complete
// (table, rule, guard, SNAT, recorded intent, address, announcement) before an entry gets a mark that is new, or another one,
// and all of this before OVN leads the pod's packets here.
import { addresses } from "./addresses.ts";
import { announce } from "./announce.ts";
import type { AnyBackend } from "./backend.ts";
import { flows } from "./flows.ts";
import { iptables } from "./iptables.ts";
import { leakGuard } from "./leak-guard.ts";
import { northbound } from "./northbound.ts";
import { record } from "./record.ts";
import { reference } from "./reference.ts";
import { routing } from "./routing.ts";
import { sets } from "./sets.ts";
import { steering } from "./steering.ts";
import { sysctls } from "./sysctls.ts";
import type { Tools } from "./tools.ts";

export function createBackends(tools: Tools): readonly AnyBackend[] {
  return [
    record(tools),
    sysctls(tools),
    sets(tools),
    routing(tools),
    leakGuard(tools),
    iptables(tools),
    reference(tools),
    flows(tools),
    addresses(tools),
    announce(tools),
    steering(tools),
    northbound(tools),
  ];
}

// filter FORWARD, first: selected traffic leaves by its egress IP's link or not at all. Pure.
// It looks at the connmark, not the mark: also a packet whose mark was not restored (mangle flushed by somebody) is caught,
// and a served pod's packet that no conntrack entry explains (INVALID) would otherwise leave with the pod's address.
import { hex, type MarkLayout } from "../../model/marks.ts";
import { exemptSet, GUARD_CHAIN, servedSet } from "../../model/owner.ts";
import type { Settings } from "../../model/settings.ts";
import type { Held } from "../../model/snapshot.ts";
import type { ChainAndJump } from "./mark.ts";

export function guardRules(
  settings: Settings,
  layout: MarkLayout,
  held: readonly Held[],
  family: 4 | 6,
): ChainAndJump {
  const blocks = new Map<number, string>();
  for (const { family: of, link, mark } of held) {
    if (of === family) blocks.set((mark & layout.linkMask) >>> 0, link);
  }
  const allowed = [...blocks]
    .sort(([a], [b]) => a - b)
    .map(([bits, link]) => `-o ${link} -m connmark --mark ${hex(bits)}/${hex(layout.linkMask)} -j RETURN`);
  // DNAT: what was addressed to a service and is unmarked was exempt by its service address; the endpoint may be anywhere.
  const served = `-m set --match-set ${servedSet(family)} src -m set ! --match-set ${exemptSet(family)} dst -j DROP`;
  const untranslatable = [`-m conntrack --ctstate INVALID ${served}`];
  const unready = ["-m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j RETURN", served];
  return {
    chain: {
      table: "filter",
      chain: GUARD_CHAIN,
      rules: [
        `-o ${settings.managementPort} -j RETURN`,
        ...allowed,
        `-m connmark ! --mark 0x0/${hex(layout.mask)} -j DROP`,
        `! -i ${settings.managementPort} -j RETURN`,
        ...(settings.whenUnready === "drop" ? unready : untranslatable),
      ],
    },
    jump: { table: "filter", chain: "FORWARD", rule: `-j ${GUARD_CHAIN}` },
  };
}

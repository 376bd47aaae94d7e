// nat POSTROUTING, first: a marked connection leaves its link with its egress IP. One rule per egress IP. Pure.
import { hex, type MarkLayout } from "../../model/marks.ts";
import { SNAT_CHAIN } from "../../model/owner.ts";
import type { Settings } from "../../model/settings.ts";
import type { Held } from "../../model/snapshot.ts";
import { type ChainAndJump, KUBE_MASQUERADE } from "./mark.ts";

export function snatRules(
  settings: Settings,
  layout: MarkLayout,
  held: readonly Held[],
  family: 4 | 6,
): ChainAndJump {
  const random = settings.randomFully ? " --random-fully" : "";
  const ours = held.filter((entry) => entry.family === family).sort((a, b) => a.mark - b.mark);
  return {
    chain: {
      table: "nat",
      chain: SNAT_CHAIN,
      rules: [
        `-m mark --mark ${KUBE_MASQUERADE} -j RETURN`,
        ...ours.map(
          ({ link, mark, address }) =>
            `-o ${link} -m mark --mark ${hex(mark)}/${hex(layout.mask)} -j SNAT --to-source ${address}${random}`,
        ),
      ],
    },
    jump: { table: "nat", chain: "POSTROUTING", rule: `-j ${SNAT_CHAIN}` },
  };
}

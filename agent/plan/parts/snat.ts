// nat POSTROUTING, first: a marked connection leaves its link with its egress IP. One rule per egress IP. Pure.
// The first packet of every connection that leaves the host walks these, also of those that are not ours. So a block of marks
// (model/marks.ts) with many has a chain, and chains of eight below it: of 500 egress IPs a packet passes some twenty-five rules.
// How a block is cut up depends on that block alone: when a link comes or goes, nothing of another one is written.
import type { WantedChain } from "../../../lib/node-iptables/pure.ts";
import { hex, type MarkLayout } from "../../model/marks.ts";
import { SNAT_CHAIN } from "../../model/owner.ts";
import type { Settings } from "../../model/settings.ts";
import type { Held } from "../../model/snapshot.ts";
import { type ChainAndJump, KUBE_MASQUERADE } from "./mark.ts";

/** So many of a block need no chain. */
const FEW = 2;
/** So many of a block need no chains below its chain, which are for so many marks each. */
const EIGHT = 8;

export function snatRules(
  settings: Settings,
  layout: MarkLayout,
  held: readonly Held[],
  family: 4 | 6,
): ChainAndJump {
  const random = settings.randomFully ? " --random-fully" : "";
  const ruleOf = ({ link, mark, address }: Held) =>
    `-o ${link} -m mark --mark ${hex(mark)}/${hex(layout.mask)} -j SNAT --to-source ${address}${random}`;
  const below: WantedChain[] = [];
  /** A jump for each part that has the same bits, to a chain of its rules. */
  const chainsOf = (entries: readonly Held[], mask: number, parent: string, few: number, most: number) =>
    [...Map.groupBy(entries, ({ mark }) => (mark & mask) >>> 0)].flatMap(
      ([bits, part]): readonly string[] => {
        if (part.length <= few) return part.map(ruleOf);
        const chain = `${parent}-${hex(bits / lowestBit(mask)).slice(2)}`;
        const rules = part.length <= most ? part.map(ruleOf) : chainsOf(part, eights, chain, 0, EIGHT);
        // Before the chain that jumps to it: iptables-restore must know where a jump goes.
        below.push({ table: "nat", chain, rules });
        return [`-m mark --mark ${hex(bits)}/${hex(mask)} -j ${chain}`];
      },
    );
  const eights = layout.mask - (EIGHT - 1) * 2 ** layout.addressShift;
  const ours = held.filter((entry) => entry.family === family).sort((a, b) => a.mark - b.mark);
  const rules = chainsOf(ours, layout.linkMask, SNAT_CHAIN, FEW, EIGHT);
  return {
    below,
    chain: {
      table: "nat",
      chain: SNAT_CHAIN,
      rules: [`-m mark --mark ${KUBE_MASQUERADE} -j RETURN`, ...rules],
    },
    jump: { table: "nat", chain: "POSTROUTING", rule: `-j ${SNAT_CHAIN}` },
  };
}

function lowestBit(mask: number): number {
  return (mask & -mask) >>> 0;
}

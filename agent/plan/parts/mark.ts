// mangle PREROUTING: which connections are ours. Pure.
// A flow keeps its mark for life through the connmark; a reply gets it back, so strict rp_filter passes. Only the first
// packet of a connection that a pod opens is looked up. Order matters: the cheapest exits come first.
import type { WantedChain, WantedJump } from "../../../lib/node-iptables/pure.ts";
import { hex, type MarkLayout } from "../../model/marks.ts";
import { exemptSet, MARK_CHAIN, servedSet } from "../../model/owner.ts";
import type { Settings } from "../../model/settings.ts";

/** kube-proxy's masquerade bit: the packet is already promised another source. */
export const KUBE_MASQUERADE = "0x4000/0x4000";
/** The reference's mark for "leave with the node's address" (section 0.3). */
const POD_TO_NODE_MARK = "0x3f0";

export interface ChainAndJump {
  /** Chains that it jumps to, each after those that it jumps to itself. */
  readonly below?: readonly WantedChain[];
  readonly chain: WantedChain;
  readonly jump: WantedJump;
}

export function markRules(settings: Settings, layout: MarkLayout, family: 4 | 6): ChainAndJump {
  const mask = hex(layout.mask);
  const rules = [
    `-m connmark ! --mark 0x0/${mask} -j CONNMARK --restore-mark --nfmask ${mask} --ctmask ${mask}`,
    `-m mark ! --mark 0x0/${mask} -j RETURN`,
    `! -i ${settings.managementPort} -j RETURN`,
    "-m conntrack ! --ctstate NEW -j RETURN",
    `-m mark --mark ${KUBE_MASQUERADE} -j RETURN`,
    `-m mark --mark ${POD_TO_NODE_MARK} -j RETURN`,
    `-m set --match-set ${exemptSet(family)} dst -j RETURN`,
    `-j SET --map-set ${servedSet(family)} src --map-mark`,
    `-m mark ! --mark 0x0/${mask} -j CONNMARK --save-mark --nfmask ${mask} --ctmask ${mask}`,
  ];
  return {
    chain: { table: "mangle", chain: MARK_CHAIN, rules },
    jump: { table: "mangle", chain: "PREROUTING", rule: `-j ${MARK_CHAIN}` },
  };
}

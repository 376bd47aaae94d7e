// What the kernel counted for us: packets that were held back, connections per egress IP. In: listings. Out: figures.
// Asked for when somebody asks, never in a round.
import type { Nft } from "../../lib/nftables/index.ts";
import { parseCounters } from "../../lib/nftables/pure.ts";
import type { Iptables } from "../../lib/node-iptables/index.ts";
import type { RuleCounter } from "../../lib/node-iptables/pure.ts";
import { GUARD_CHAIN, isSnatChain, LEAK_TABLE } from "../model/owner.ts";
import { ARRIVED_COUNTER, LEAK_COUNTER } from "../plan/parts/leak-guard.ts";

export interface Counters {
  /** Packets dropped by each guard since its rules were made. */
  readonly dropped: {
    /** Connections of ours that would have left by another link. */
    readonly otherLink: number;
    /** Selected pods without a ready egress IP, or whose packets were not marked. */
    readonly unready: number;
    /** Marked packets that no rule translated. */
    readonly untranslated: number;
    /** Of other nodes' pods, led here while this node gives them no egress IP. */
    readonly unclaimed: number;
  };
  /** Egress IP to connections it was given to since its rule was made. */
  readonly connections: Readonly<Record<string, number>>;
  /** Egress IP to how often somebody else said that he has it, each MAC at most once a second, while it is here. */
  readonly duplicateClaims: Readonly<Record<string, number>>;
}

export interface CounterSources {
  readonly iptables: Pick<Iptables, "counters">;
  readonly nft: Pick<Nft, "listTable">;
}

export async function readCounters(
  { iptables, nft }: CounterSources,
  duplicateClaims: () => Counters["duplicateClaims"],
): Promise<Counters> {
  const [four, six, leak] = await Promise.all([
    iptables.counters(4),
    iptables.counters(6),
    nft.listTable("inet", LEAK_TABLE),
  ]);
  const rules = [...four, ...six];
  const behindNat = parseCounters(leak ?? "");
  const guarded = (by: string) =>
    behindNat.reduce((sum, { name, packets }) => (name === by ? sum + packets : sum), 0);
  return {
    dropped: {
      otherLink: packetsOf(
        rules,
        ({ chain, rule }) => chain === GUARD_CHAIN && /connmark .*-j DROP$/.test(rule),
      ),
      unready: packetsOf(
        rules,
        ({ chain, rule }) => chain === GUARD_CHAIN && /--match-set .*-j DROP$/.test(rule),
      ),
      untranslated: guarded(LEAK_COUNTER),
      unclaimed: guarded(ARRIVED_COUNTER),
    },
    connections: Object.fromEntries(
      rules.flatMap(({ chain, rule, packets }) => {
        const address = isSnatChain(chain) ? /--to-source (\S+)/.exec(rule)?.[1] : undefined;
        return address === undefined ? [] : [[address, packets]];
      }),
    ),
    duplicateClaims: duplicateClaims(),
  };
}

function packetsOf(rules: readonly RuleCounter[], wanted: (rule: RuleCounter) => boolean): number {
  return rules.filter(wanted).reduce((sum, { packets }) => sum + packets, 0);
}

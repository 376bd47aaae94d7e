// Other agents on this host whose marks would collide with ours. Pure.
import type { HostFacts } from "./facts.ts";
import { hex } from "./marks.ts";
import type { Problem } from "./objects.ts";

/** Calico takes what its configuration gives it from the upper half of the mark, by default all of it. */
const CALICO = { prefix: "cali-", mask: 0xffff0000 };

export function neighbourProblems(iptables: HostFacts["iptables"], markMask: number): readonly Problem[] {
  const calico = ([4, 6] as const).some((family) =>
    [...iptables[family].values()].some((chains) =>
      [...chains.keys()].some((chain) => chain.startsWith(CALICO.prefix)),
    ),
  );
  if (!calico || (markMask & CALICO.mask) >>> 0 === 0) return [];
  const text = `Calico's chains are on this host and its marks (${hex(CALICO.mask)} by default) overlap --mark-mask ${hex(markMask)}: give Calico a mask without these bits (iptablesMarkMask)`;
  return [{ object: "host", path: "", text }];
}

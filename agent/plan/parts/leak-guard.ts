// The last look, after NAT: a marked packet that no rule translated does not leave. Pure.
// iptables has no hook behind its nat table, and the guard must outlive a flushed nat table (known-faults BL-64), so this
// one table is nft's own. It works beside iptables-nft and iptables-legacy alike.
import { LEAK_TABLE } from "../../model/owner.ts";

/** Comment of the rule, by which its counter is found again. */
export const LEAK_COUNTER = "egressip-leak";

/** The table as `nft list table` prints it with the figures taken out (lib/nftables normalizeTable). */
export function leakGuard(managementPort: string, mask: number): string {
  const padded = `0x${mask.toString(16).padStart(8, "0")}`;
  return [
    `table inet ${LEAK_TABLE} {`,
    "chain leak {",
    "type filter hook postrouting priority 300; policy accept;",
    `meta mark & ${padded} != 0x00000000 oifname != "${managementPort}" ct status ! snat counter drop comment "${LEAK_COUNTER}"`,
    "}",
    "}",
    "",
  ].join("\n");
}

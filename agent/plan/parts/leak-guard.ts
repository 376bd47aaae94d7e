// The last look, after NAT: a marked packet leaves with one of our egress IPs or not at all. Pure.
// iptables has no hook behind its nat table, and the guard must outlive a flushed nat table (known-faults BL-64), so this
// one table is nft's own. It works beside iptables-nft and iptables-legacy alike.
import { type Address, sortedAddresses } from "../../model/ip.ts";
import { LEAK_TABLE } from "../../model/owner.ts";
import type { Held } from "../../model/snapshot.ts";

/** Comments of the rules, by which their counters are found again. */
export const LEAK_COUNTER = "egressip-leak";
const SOURCE_COUNTER = "egressip-source";

/** The table as `nft list table` prints it with the figures taken out (lib/nftables normalizeTable). */
export function leakGuard(managementPort: string, mask: number, held: readonly Held[]): string {
  const padded = `0x${mask.toString(16).padStart(8, "0")}`;
  const leaving = `meta mark & ${padded} != 0x00000000 oifname != "${managementPort}"`;
  return [
    `table inet ${LEAK_TABLE} {`,
    "chain leak {",
    "type filter hook postrouting priority 300; policy accept;",
    `${leaving} ct status ! snat counter drop comment "${LEAK_COUNTER}"`,
    // Translated, but by somebody else: with our chain flushed or not first (BL-33) the node's own masquerade gets it.
    ...([4, 6] as const).flatMap((family) => {
      const addresses = held.filter((entry) => entry.family === family).map(({ address }) => address);
      const field = family === 4 ? "ip saddr" : "ip6 saddr";
      return addresses.length === 0
        ? []
        : [`${leaving} ${field} != ${setText(addresses)} counter drop comment "${SOURCE_COUNTER}"`];
    }),
    "}",
    "}",
    "",
  ].join("\n");
}

/** `wanted`, which also lets out what `observed` lets out: flows of an egress IP that leaves live until they are ended. */
export function lettingOutAlso(wanted: string, observed: string): string {
  const present = new Map(observed.split("\n").map((line) => [sourcesOf(line)?.lead, sourcesOf(line)]));
  return wanted
    .split("\n")
    .map((line) => {
      const sources = sourcesOf(line);
      const more = sources && present.get(sources.lead);
      if (sources === undefined || more === undefined) return line;
      return `${sources.lead}${setText([...sources.addresses, ...more.addresses])}${sources.rest}`;
    })
    .join("\n");
}

interface Sources {
  readonly lead: string;
  readonly addresses: readonly Address[];
  readonly rest: string;
}

function sourcesOf(line: string): Sources | undefined {
  const [, lead, several, one, rest] =
    /^(.* ip6? saddr != )(?:\{ ([^}]+) \}|([0-9a-f.:]+))( .*)$/.exec(line) ?? [];
  if (lead === undefined || rest === undefined) return undefined;
  return { lead, addresses: (several ?? one ?? "").split(", "), rest };
}

/** As nft prints it: in order, and a set of one without braces. */
function setText(addresses: readonly Address[]): string {
  const [only = "", ...others] = sortedAddresses(new Set(addresses));
  return others.length === 0 ? only : `{ ${[only, ...others].join(", ")} }`;
}

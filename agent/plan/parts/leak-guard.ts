// The last look, after NAT: what is marked, by us or by OVN, leaves with one of our egress IPs or not at all. Pure.
// iptables has no hook behind its nat table, and the guard must outlive a flushed nat table (known-faults BL-64), so this
// one table is nft's own. It works beside iptables-nft and iptables-legacy alike.
// OVN's mark says that a packet is a selected pod's (reference I.2): it is held also while our chains and sets are empty. Where other
// nodes share the database, their pods' packets come without it, and with their own address do not leave here at all.
import { formatDestination } from "../../model/destination.ts";
import { type Address, type Cidr, sortedAddresses } from "../../model/ip.ts";
import { LEAK_TABLE, LED_MARK } from "../../model/owner.ts";
import type { Settings } from "../../model/settings.ts";
import type { Held } from "../../model/snapshot.ts";

/** Comments of the rules that drop, by which their counters are found again. */
export const LEAK_COUNTER = "egressip-leak";
export const ARRIVED_COUNTER = "egressip-arrived";

const LED = `meta mark ${hex32(LED_MARK)} jump unmarked`;

/**
 * The table as `nft list table` prints it with the figures taken out (lib/nftables normalizeTable). `ownPods` are this node's pods'
 * networks where other nodes' agents lead pods here, at their own time; empty where none do, or nobody can tell.
 */
export function leakGuard(settings: Settings, held: readonly Held[], ownPods: readonly Cidr[]): string {
  const unmarked = `meta mark & ${hex32(settings.markMask)} == ${hex32(0)}`;
  return [
    `table inet ${LEAK_TABLE} {`,
    "chain leak {",
    "type filter hook postrouting priority 300; policy accept;",
    ...(ownPods.length === 0 ? [] : [`iifname "${settings.managementPort}" jump arrived`]),
    `${unmarked} meta mark != ${hex32(LED_MARK)} accept`,
    `oifname "${settings.managementPort}" accept`,
    // Whoever translated it: with our chain flushed or not first (BL-33) the node's own masquerade gets it.
    ...([4, 6] as const).flatMap((family) => {
      const addresses = held.filter((entry) => entry.family === family).map(({ address }) => address);
      return addresses.length === 0
        ? []
        : [`${family === 4 ? "ip" : "ip6"} saddr ${setText(addresses)} accept`];
    }),
    // Led here and not marked by us: rightly so, or because nothing of ours was there.
    LED,
    `counter drop comment "${LEAK_COUNTER}"`,
    "}",
    "chain unmarked {",
    ...passing(settings),
    "}",
    ...(ownPods.length === 0 ? [] : ["chain arrived {", ...arrived(settings, ownPods), "}"]),
    "}",
    "",
  ].join("\n");
}

/**
 * Another node's pod has nothing to leave here with but an egress IP of this one, or what somebody else translates it to (an
 * EgressService, whose node has other nodes' pods led to it in the same way): behind NAT neither has a pod's address any more. One
 * that still does was led here before this node knew of it, or after it was told that the egress IP is another's (BL-21).
 */
function arrived(
  { managementPort, clusterNetworks, serviceNetworks, exemptNetworks }: Settings,
  ownPods: readonly Cidr[],
): readonly string[] {
  return [
    `oifname "${managementPort}" return`,
    ...lines(ownPods, "saddr", "return"),
    // What somebody has begun from outside is his, whichever pod answers.
    "ct direction reply return",
    ...lines([...serviceNetworks, ...exemptNetworks], "daddr", "return"),
    ...lines(clusterNetworks, "saddr", `counter drop comment "${ARRIVED_COUNTER}"`),
  ];
}

/** One by one: nft joins the networks of a set, and would print others than it was given. */
function lines(networks: readonly Cidr[], way: "saddr" | "daddr", verdict: string): readonly string[] {
  return [...new Set(networks.filter(({ length }) => length > 0).map(formatDestination))].map(
    (network) => `${network.includes(":") ? "ip6" : "ip"} ${way} ${network} ${verdict}`,
  );
}

/** What the mark chain leaves without a mark. Of pods' and nodes' addresses there are none: for them OVN leads nothing here. */
function passing({ clusterNetworks, serviceNetworks, exemptNetworks }: Settings): readonly string[] {
  return [
    "ct direction reply accept",
    "ct status dnat accept",
    ...lines([...serviceNetworks, ...exemptNetworks], "daddr", "accept"),
    // Known from before it was led here, and translated by somebody else: it keeps its source.
    ...lines(clusterNetworks, "saddr", "return"),
    "ct state established,related accept",
  ];
}

function hex32(value: number): string {
  return `0x${value.toString(16).padStart(8, "0")}`;
}

/** `wanted`, which also lets out what `observed` lets out: flows of an egress IP that leaves live until they are ended. */
export function lettingOutAlso(wanted: string, observed: string): string {
  const present = observed.split("\n").map(sourcesOf);
  const added = new Map(
    present.flatMap((sources) => (sources === undefined ? [] : [[sources.field, sources]])),
  );
  const lines = wanted.split("\n").map((line) => {
    const sources = sourcesOf(line);
    const more = sources && added.get(sources.field);
    if (sources === undefined || more === undefined) return line;
    added.delete(sources.field);
    return `${sources.field} saddr ${setText([...sources.addresses, ...more.addresses])} accept`;
  });
  // A family that none is wanted of any more still has its flows.
  const behind = lines.indexOf(LED);
  const rest = [...added.values()].map(
    ({ field, addresses }) => `${field} saddr ${setText(addresses)} accept`,
  );
  return behind < 0 ? wanted : [...lines.slice(0, behind), ...rest, ...lines.slice(behind)].join("\n");
}

export interface LetOut {
  readonly field: "ip" | "ip6";
  readonly addresses: readonly Address[];
}

/** The egress IPs that a line of the table lets out, if it is such a line. */
export function sourcesOf(line: string): LetOut | undefined {
  const [, field, several, one] = /^(ip6?) saddr (?:\{ ([^}]+) \}|([0-9a-f.:]+)) accept$/.exec(line) ?? [];
  if (field === undefined) return undefined;
  return { field: field === "ip" ? "ip" : "ip6", addresses: (several ?? one ?? "").split(", ") };
}

/** As nft prints it: in order, and a set of one without braces. */
function setText(addresses: readonly Address[]): string {
  const [only = "", ...others] = sortedAddresses(new Set(addresses));
  return others.length === 0 ? only : `{ ${[only, ...others].join(", ")} }`;
}

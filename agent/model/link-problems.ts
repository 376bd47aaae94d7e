// What keeps packets from leaving or replies from coming back although everything is programmed: one text for each cause, with
// the value found and the value needed. In: an egress IP, its link, the host's facts. Out: texts. Pure.
// A value that was not read is not known and no Problem. What each value does: test/kernel/link-problems.test.ts, by packets.

import type { Link, Route } from "../../lib/netlink/pure.ts";
import { parseDestination } from "./destination.ts";
import type { HostFacts } from "./facts.ts";
import {
  type Address,
  type Cidr,
  contains,
  type Family,
  formatCidr,
  longestPrefix,
  parseCidr,
} from "./ip.ts";
import { perObject } from "./memo.ts";
import type { Settings } from "./settings.ts";
import { either, forwardingPath, highest, sysctlName, sysctlPath } from "./sysctls.ts";

type Host = Pick<HostFacts, "network" | "sysctls" | "record">;

interface Placed {
  readonly address: Address;
  readonly family: Family;
  readonly link: Link;
  /** In shared gateway mode OVN alone gives egress IPs of the primary network: nothing of this kernel is asked. */
  readonly byKernel: boolean;
}

export function linkProblems(
  { address, family, link, byKernel }: Placed,
  host: Host,
  settings: Pick<Settings, "managementPort" | "manageForwarding">,
): readonly string[] {
  const state = link.up ? "without carrier" : "down";
  const texts = link.running ? [] : [`link ${link.name} is ${state}: nothing can leave with it`];
  if (!byKernel) return texts;
  return [
    ...texts,
    ...(family === 4
      ? [
          ...forwarding4(link.name, host, settings),
          ...reversePath(link.name, host),
          ...arp(address, link, host),
        ]
      : [...switchedOff6(host, settings), ...forwarding6(link.name, host, settings)]),
    ...(link.running ? noRoute(family, link, host) : []),
  ];
}

/** The kernel asks the link that a packet comes in by: the pods' for what leaves, the hosting one for replies. */
function forwarding4(
  link: string,
  { sysctls }: Host,
  { managementPort, manageForwarding }: Pick<Settings, "managementPort" | "manageForwarding">,
): readonly string[] {
  const off = (name: string) => sysctls[forwardingPath(4, name)] === "0";
  const needed = (name: string) => `${sysctlName(forwardingPath(4, name))} is 0 and must be 1`;
  const own = `${needed(link)}, or nothing is forwarded with the egress IP; see --manage-forwarding`;
  return [
    ...(off(link) && !manageForwarding ? [own] : []),
    ...(off(managementPort) ? [`${needed(managementPort)}, or nothing that pods send is forwarded`] : []),
  ];
}

function forwarding6(
  link: string,
  { sysctls }: Host,
  { managementPort }: Pick<Settings, "managementPort">,
): readonly string[] {
  const path = forwardingPath(6, link);
  const forced = (name: string) => sysctls[sysctlPath(6, name, "force_forwarding")] === "1";
  if (sysctls[path] !== "0" || (forced(link) && forced(managementPort))) return [];
  return [`${sysctlName(path)} is 0 and must be 1, or nothing is forwarded with the egress IP`];
}

/** Of the hosting link it cannot be: switching IPv6 off takes its addresses away, and it hosts no more. */
function switchedOff6(
  { sysctls }: Host,
  { managementPort }: Pick<Settings, "managementPort">,
): readonly string[] {
  const path = sysctlPath(6, managementPort, "disable_ipv6");
  if (sysctls[path] !== "1") return [];
  return [`${sysctlName(path)} is 1 and must be 0, or nothing that pods send by IPv6 gets in`];
}

/** Where IPv6 is off, for an address that no link can host: those links have lost theirs. */
export function switchedOff(family: Family, { sysctls }: Host): string {
  const off = Object.keys(sysctls).filter((path) => path.endsWith("/disable_ipv6") && sysctls[path] === "1");
  const said = off.map((path) => `${sysctlName(path)} is 1 and must be 0 where it is to be hosted`);
  return family === 6 && said.length > 0 ? `; ${said.join(", ")}` : "";
}

/**
 * Strict filtering (1) takes a reply only where the way back leads by the same link; with src_valid_mark its mark says so. That
 * is ours to set: a Problem only where it is found off although it is recorded, for then somebody else or /proc/sys keeps it off.
 */
function reversePath(link: string, { sysctls, record }: Host): readonly string[] {
  const mark = sysctlPath(4, "all", "src_valid_mark");
  if (record.sysctls[mark] === undefined || either(sysctls, link, "src_valid_mark") !== false) return [];
  return strict(sysctls, link).map(
    (found) =>
      `${sysctlName(mark)} is 0 and must be 1 while ${found}, or replies that come in by ${link} are dropped`,
  );
}

function strict(sysctls: Host["sysctls"], link: string): readonly string[] {
  if (highest(sysctls, link, "rp_filter") !== 1) return [];
  const path = ["all", link]
    .map((name) => sysctlPath(4, name, "rp_filter"))
    .find((at) => sysctls[at] === "1");
  return path === undefined ? [] : [`${sysctlName(path)} is 1 (strict)`];
}

/**
 * net/ipv4/arp.c: 8 answers nobody. 1 wants the address on the link that is asked, 2 also the asker in a network of that link, 3
 * more than host scope: all so here, for the link has an address of the network besides. Other values ask for nothing.
 * A request also has to pass rp_filter and arp_filter, by the table of its link alone, as it has no mark.
 */
function arp(address: Address, link: Link, { network, sysctls }: Host): readonly string[] {
  const unanswered = "or ARP requests for the egress IP are not answered";
  const silent = ["all", link.name].flatMap((name) => {
    const path = sysctlPath(4, name, "arp_ignore");
    return sysctls[path] === "8" ? [`${sysctlName(path)} is 8 and must be 0 to 3, ${unanswered}`] : [];
  });
  const ignores = highest(sysctls, link.name, "arp_ignore") === 8 ? silent : [];
  const elsewhere = ledElsewhere(address, link, network);
  if (elsewhere === undefined) return ignores;
  const because = `${unanswered}: table ${tableOf(link)} leads to ${elsewhere.destination} by ${elsewhere.link}`;
  const filters = ["all", link.name]
    .map((name) => sysctlPath(4, name, "arp_filter"))
    .filter((path) => sysctls[path] === "1");
  return [
    ...ignores,
    ...strict(sysctls, link.name).map((found) => `${found} and must be 0 or 2, ${because}`),
    ...filters.map((path) => `${sysctlName(path)} is 1 and must be 0, ${because}`),
  ];
}

/** What a link's own table is made of. */
function tableOf({ vrf = "main" }: Link): string {
  return vrf;
}

/** The network that the egress IP and those who ask for it are in, where another link leads there. */
function ledElsewhere(
  address: Address,
  link: Link,
  { routes }: Host["network"],
): { readonly destination: string; readonly link: string } | undefined {
  const best = longestPrefix(waysByTable(routes).get(tableOf(link)) ?? [], ({ cidr }) => cidr, address);
  const hop = best?.route.hops[0];
  if (best === undefined || hop === undefined || best.route.hops.some((one) => one.link === link.name))
    return undefined;
  return { destination: best.route.destination, link: hop.link };
}

interface Way {
  readonly route: Route;
  readonly cidr: Cidr;
}

/** IPv4 routes by table, the best of equal ones first: read once for all egress IPs, since a table may be a whole internet's. */
const waysByTable = perObject((routes: readonly Route[]): ReadonlyMap<string, readonly Way[]> => {
  const tables = new Map<string, Way[]>();
  for (const route of routes) {
    const cidr =
      route.family === 4 && route.type === "unicast" ? parseDestination(route.destination) : undefined;
    if (cidr === undefined) continue;
    const ways = tables.get(route.table) ?? [];
    tables.set(route.table, ways);
    ways.push({ route, cidr });
  }
  for (const ways of tables.values()) ways.sort((a, b) => a.route.metric - b.route.metric);
  return tables;
});

/** fe80:: leads nowhere. */
function noRoute(family: Family, link: Link, { network }: Host): readonly string[] {
  if (linksWithWays(network.routes).has(`${family} ${tableOf(link)} ${link.name}`)) return [];
  return [
    `link ${link.name} has no IPv${family} route in table ${tableOf(link)} and needs one, to its network or by a gateway: what is not on the link itself is not reached`,
  ];
}

const linksWithWays = perObject(
  (routes: readonly Route[]): ReadonlySet<string> =>
    new Set(
      routes
        .filter(({ type, destination }) => type === "unicast" && !destination.startsWith("fe80:"))
        .flatMap(({ family, table, hops }) => hops.map(({ link }) => `${family} ${table} ${link}`)),
    ),
);

/** With promote_secondaries off, an address that goes takes those with it that came after it in its network (known-faults BL-41). */
export function promotionProblem(address: Address, { network, sysctls }: Host): string | undefined {
  for (const first of network.addresses) {
    if (first.address !== address || first.family !== 4 || first.flags.includes("secondary")) continue;
    const cidr = parseCidr(`${first.address}/${first.length}`);
    if (cidr === undefined || either(sysctls, first.link, "promote_secondaries") !== false) continue;
    const followers = network.addresses
      .filter((other) => other.link === first.link && other.length === first.length)
      .filter((other) => other.flags.includes("secondary") && contains(cidr, other.address))
      .map((other) => other.address);
    if (followers.length === 0) continue;
    const name = sysctlName(sysctlPath(4, first.link, "promote_secondaries"));
    return `${formatCidr(cidr)} is the first address of its network on ${first.link}, and ${name} is 0 and must be 1, or taking it away takes ${followers.join(", ")} with it`;
  }
  return undefined;
}

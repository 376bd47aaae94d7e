// How everything of ours is told from everything else: one name, prefix or number a kind. Pure.
// Also read by uninstall, which has nothing else to go by.
import type { Link } from "../../lib/netlink/pure.ts";
import type { Family } from "./ip.ts";

/** rtnetlink protocol of our rules and routes; unassigned in iproute2's rt_protos. */
export const ROUTE_PROTOCOL = "233";
/** Priority of our rules: the reference's, so that they stand where operators look for them. For a link of a VRF: link-tables.ts. */
export const RULE_PRIORITY = 6000;
/** Table of a link is this plus its ifindex, as in the reference (section D.4). */
const TABLE_BASE = 1000;
/** Last route of each of our tables: below every real one, so a link that goes down cannot leak through main. */
export const BLACKHOLE_METRIC = 4294967295;

export const MARK_CHAIN = "EGRESSIP-MARK";
export const SNAT_CHAIN = "EGRESSIP-SNAT";
export const GUARD_CHAIN = "EGRESSIP-GUARD";
export const LEAK_TABLE = "egressip";

/** Packet mark of what OVN's policies lead to this host's kernel for an egress IP: the reference's (0.3, since 2026). */
export const LED_MARK = 1009;

export function isOurChain(_table: string, chain: string): boolean {
  return chain === MARK_CHAIN || chain === GUARD_CHAIN || isSnatChain(chain);
}

/** Where many egress IPs are given, most have their rules in chains below it. */
export function isSnatChain(chain: string): boolean {
  return chain === SNAT_CHAIN || /^EGRESSIP-SNAT(-[0-9a-f]+){1,2}$/.test(chain);
}

/** Pod address to mark. */
export function servedSet(family: Family): string {
  return `egressip${family}`;
}

/** Destinations that keep the pod's own source. */
export function exemptSet(family: Family): string {
  return `egressip-exempt${family}`;
}

export function isOurSet(name: string): boolean {
  return /^egressip(-exempt)?[46]$/.test(name);
}

export function linkTable({ index }: Pick<Link, "index">): string {
  return String(TABLE_BASE + index);
}

/** Names of links by their tables. */
export function linksByTable(links: readonly Link[]): ReadonlyMap<string, string> {
  return new Map(links.map((link) => [linkTable(link), link.name]));
}

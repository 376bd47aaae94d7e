// The sysctls that decide whether a link can host: their paths below net/, and how the kernel joins `all` and the link's. Pure.
// include/linux/inetdevice.h says which are joined how: IN_DEV_MAXCONF the higher one, IN_DEV_ORCONF either one.
import type { HostFacts } from "./facts.ts";
import type { Family } from "./ip.ts";

export type Sysctls = HostFacts["sysctls"];

/** Read for each link that has an address, and joined with the same one of `all`; `forwarding` is the link's alone. */
export const JOINED_IPV4 = [
  "rp_filter",
  "src_valid_mark",
  "arp_ignore",
  "arp_filter",
  "promote_secondaries",
] as const;

type Joined = (typeof JOINED_IPV4)[number];

export function sysctlPath(family: Family, link: string, name: string): string {
  return `net/ipv${family}/conf/${link}/${name}`;
}

/** IPv6 has one switch for all links (ip6_forward in net/ipv6/ip6_output.c), and exceptions by `force_forwarding`. */
export function forwardingPath(family: Family, link: string): string {
  return sysctlPath(family, family === 4 ? link : "all", "forwarding");
}

/** As `sysctl` takes it: a dot within a link's name (eth0.100) is a slash there. */
export function sysctlName(path: string): string {
  return path.replace(/[./]/g, (sign) => (sign === "." ? "/" : "."));
}

/** The value that counts on a link, of what is the higher one of both. Undefined while one of them is not known. */
export function highest(sysctls: Sysctls, link: string, name: Joined): number | undefined {
  const values = both(sysctls, link, name);
  return values === undefined ? undefined : Math.max(...values);
}

/** Whether it is on for a link, of what is on when either is. Undefined while that is not known. */
export function either(sysctls: Sysctls, link: string, name: Joined): boolean | undefined {
  const values = both(sysctls, link, name);
  return values?.some((value) => value !== 0);
}

function both(sysctls: Sysctls, link: string, name: Joined): readonly [number, number] | undefined {
  const [all, own] = [sysctls[sysctlPath(4, "all", name)], sysctls[sysctlPath(4, link, name)]];
  return all === undefined || own === undefined ? undefined : [Number(all), Number(own)];
}

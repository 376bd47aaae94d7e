// Numbers of tables, protocols and kinds of routes that have one name everywhere (linux/rtnetlink.h). Pure.
// A host may name others in /etc/iproute2, and iproute2 prints those names; asked for numbers, it names none at all.

const TABLES: ReadonlyMap<string, string> = new Map([
  ["253", "default"],
  ["254", "main"],
  ["255", "local"],
]);

const PROTOCOLS: ReadonlyMap<string, string> = new Map([
  ["1", "redirect"],
  ["2", "kernel"],
  ["3", "boot"],
  ["4", "static"],
  ["9", "ra"],
  ["16", "dhcp"],
]);

const TYPES: ReadonlyMap<string, string> = new Map([
  ["1", "unicast"],
  ["2", "local"],
  ["3", "broadcast"],
  ["4", "anycast"],
  ["5", "multicast"],
  ["6", "blackhole"],
  ["7", "unreachable"],
  ["8", "prohibit"],
  ["9", "throw"],
  ["10", "nat"],
]);

const IP_PROTOCOLS: ReadonlyMap<string, string> = new Map([
  ["1", "icmp"],
  ["6", "tcp"],
  ["17", "udp"],
  ["58", "ipv6-icmp"],
]);

const named = (names: ReadonlyMap<string, string>) => (text: string) => names.get(text) ?? text;

export const tableName = named(TABLES);
export const protocolName = named(PROTOCOLS);
/** Of a route; of a rule that does not look up, too. */
export const typeName = named(TYPES);

/** `ipproto-17`, as iproute2 prints a number here. */
export const ipProtocolName = (text: string): string =>
  named(IP_PROTOCOLS)(text.replace(/^ipproto-(?=\d+$)/, ""));

// The sysctls that decide whether links host and steer. In: links, and what we recorded. Out: path to value.
// Read without yielding: files of /proc/sys wait for nothing, and a promise for each costs as much again as the reading.
import { readFileSync } from "node:fs";
import type { HostFacts, IntentRecord, NetworkFacts } from "../model/facts.ts";
import { byCodeUnit } from "../model/names.ts";
import { forwardingPath, JOINED_IPV4, sysctlPath } from "../model/sysctls.ts";

/** As they are now; the object of before where nothing is another. A file that is not there is left out. */
export function readSysctls(
  managementPort: string,
  network: NetworkFacts,
  record: IntentRecord,
  before: HostFacts["sysctls"] | undefined,
): HostFacts["sysctls"] {
  const found: Record<string, string> = {};
  const links = linksOf(managementPort, network);
  // What we changed is read also when its link has lost its addresses, or it would never be put back.
  for (const path of new Set([...pathsOf(links), ...Object.keys(record.sysctls)])) {
    const value = readSysctl(path);
    if (value !== undefined) found[path] = value;
  }
  if (found[forwardingPath(6, "all")] === "0") {
    // Exceptions to that switch, since Linux 6.17.
    for (const link of links) {
      const path = sysctlPath(6, link, "force_forwarding");
      const value = readSysctl(path);
      if (value !== undefined) found[path] = value;
    }
  }
  return before !== undefined && JSON.stringify(before) === JSON.stringify(found) ? before : found;
}

/** Only links that can host or steer are asked: a node may have hundreds of veths. */
function linksOf(managementPort: string, network: NetworkFacts): readonly string[] {
  const links = network.addresses.filter(({ scope }) => scope === "global").map(({ link }) => link);
  return [...new Set([...links, managementPort])].sort(byCodeUnit);
}

function pathsOf(links: readonly string[]): readonly string[] {
  return [
    ...JOINED_IPV4.map((name) => sysctlPath(4, "all", name)),
    forwardingPath(6, "all"),
    ...links.flatMap((link) => [
      forwardingPath(4, link),
      ...JOINED_IPV4.map((name) => sysctlPath(4, link, name)),
      sysctlPath(6, link, "disable_ipv6"),
    ]),
  ];
}

function readSysctl(path: string): string | undefined {
  try {
    return readFileSync(`/proc/sys/${path}`, "utf8").trim();
  } catch {
    return undefined; // the family is off, or the link went while we read
  }
}

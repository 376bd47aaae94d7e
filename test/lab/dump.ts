// Everything of a node that an agent may touch, as one text that is the same as long as nothing changed:
// counters, comments, times and hash seeds are left out, sets are sorted. A runner for the node in, text out.
import type { Run } from "../../lib/exec/index.ts";

// Listing or restoring may leave an empty table or base chain behind that was not there: no difference to any packet.
function withoutEmptyTables(save: string): string {
  return save.replaceAll(/^\*\w+\n(?::\S+ ACCEPT\n)*COMMIT\n/gm, "");
}

function withoutEmptyChains(ruleset: string): string {
  return ruleset
    .replaceAll(/^\tchain \S+ \{\n\t\ttype .*policy accept;\n\t\}\n/gm, "")
    .replaceAll(/^table \S+ \S+ \{\n\}\n/gm, "");
}

function sorted(text: string): string {
  return linesOf(text)
    .sort((a, b) => (a < b ? -1 : 1))
    .join("");
}

function linesOf(text: string): string[] {
  return text.match(/.*\n/g) ?? [];
}

interface Section {
  readonly command: string;
  readonly args: readonly string[];
  /** Takes out what changes by itself. Lines without comments in, each ending in a newline. */
  readonly clean?: (text: string) => string;
}

const ipTables = (["iptables", "ip6tables"] as const).flatMap((tool) =>
  (["nft", "legacy"] as const).map(
    (backend): Section => ({
      command: `${tool}-${backend}-save`,
      args: [],
      clean: (text) => withoutEmptyTables(text.replaceAll(/ \[\d+:\d+\]$/gm, "")),
    }),
  ),
);

const sysctlNames = [
  "ipv4/ip_forward",
  ...["forwarding", "rp_filter", "src_valid_mark", "arp_ignore", "arp_announce", "promote_secondaries"].map(
    (name) => `ipv4/conf/*/${name}`,
  ),
  ...["forwarding", "disable_ipv6", "accept_ra"].map((name) => `ipv6/conf/*/${name}`),
];

const sections: readonly Section[] = [
  ...ipTables,
  { command: "nft", args: ["--stateless", "list", "ruleset"], clean: withoutEmptyChains },
  {
    command: "ipset",
    args: ["save"],
    // Members come in hash order, and the hash has a new seed at each creation.
    clean: (text) => {
      const members = linesOf(text).filter((line) => line.startsWith("add "));
      const sets = linesOf(text).filter((line) => line.startsWith("create "));
      return `${sets.join("")}${sorted(members.join(""))}`.replaceAll(/ initval \S+/g, "");
    },
  },
  { command: "ip", args: ["-oneline", "link", "show"] },
  { command: "ip", args: ["-oneline", "address", "show"] },
  { command: "ip", args: ["-4", "rule", "show"] },
  { command: "ip", args: ["-6", "rule", "show"] },
  { command: "ip", args: ["-4", "route", "show", "table", "all"], clean: sorted },
  { command: "ip", args: ["-6", "route", "show", "table", "all"], clean: sorted },
  {
    command: "sh",
    args: ["-c", `cd /proc/sys/net && grep -H . ${sysctlNames.join(" ")}`],
    clean: sorted,
  },
];

export async function dump(run: Run): Promise<string> {
  const texts = sections.map(async ({ command, args, clean = (text: string) => text }) => {
    const { stdout } = await run(command, args);
    const plain = linesOf(stdout).filter((line) => line.trim() !== "" && !line.startsWith("#"));
    const title = command === "sh" ? "sysctl" : [command, ...args].join(" ");
    return `== ${title}\n${clean(plain.join(""))}`;
  });
  return (await Promise.all(texts)).join("\n");
}

// Whether this process may make network namespaces and has the tools for it. Nothing in, the reason why not out.
import { spawnSync } from "node:child_process";

/** The smallest thing that needs all of it: a namespace with a link, a rule and a set. */
function firstFailure(backend: "nft" | "legacy"): string | undefined {
  const name = `privileged-${process.pid}`;
  const inside = ["netns", "exec", name];
  const steps: readonly (readonly [string, ...string[]])[] = [
    ["ip", "netns", "add", name],
    ["ip", "-n", name, "link", "add", "x", "type", "veth", "peer", "name", "y"],
    ["ip", ...inside, `iptables-${backend}`, "-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE"],
    ["ip", ...inside, `ip6tables-${backend}`, "-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE"],
    ["ip", ...inside, "ipset", "create", "x", "hash:ip", "skbinfo"],
    ["ip", ...inside, "nft", "list", "ruleset"],
    ["tcpdump", "--version"],
    ["perl", "-MTime::HiRes", "-e", "1"],
  ];
  try {
    for (const [command, ...args] of steps) {
      const { status, stderr, error } = spawnSync(command, args, { encoding: "utf8" });
      if (status !== 0) return `${[command, ...args].join(" ")}: ${error?.message ?? stderr.trim()}`;
    }
    return undefined;
  } finally {
    spawnSync("ip", ["netns", "del", name]);
  }
}

/** Links that a kernel may have been built without. */
export type LinkKind = "bridge" | "macvlan" | "vlan" | "bond" | "vrf";

const LINK_WORDS: Readonly<Record<LinkKind, readonly string[]>> = {
  bridge: ["type", "bridge"],
  macvlan: ["link", "x", "type", "macvlan"],
  vlan: ["link", "x", "type", "vlan", "id", "5"],
  bond: ["type", "bond"],
  vrf: ["type", "vrf", "table", "10"],
};

/** Why links of this kind cannot be made here; undefined when they can. */
export function canMakeLinks(kind: LinkKind): string | undefined {
  const why = canRunKernelTests();
  if (why !== undefined) return why;
  const name = `links-${process.pid}`;
  const make = (...words: readonly string[]) =>
    spawnSync("ip", ["-n", name, "link", "add", ...words], { encoding: "utf8" });
  spawnSync("ip", ["netns", "add", name]);
  try {
    make("x", "type", "veth", "peer", "name", "y");
    const { status, stderr } = make("name", "z", ...LINK_WORDS[kind]);
    return status === 0 ? undefined : `no ${kind} in this kernel: ${stderr.split("\n")[0]}`;
  } finally {
    spawnSync("ip", ["netns", "del", name]);
  }
}

const answers = new Map<string, string | undefined>();

/** Why tests that need network namespaces cannot run here; undefined when they can. */
export function canRunKernelTests(backend: "nft" | "legacy" = "nft"): string | undefined {
  if (process.getuid?.() !== 0) return "not root";
  if (!answers.has(backend)) answers.set(backend, firstFailure(backend));
  return answers.get(backend);
}

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

const answers = new Map<string, string | undefined>();

/** Why tests that need network namespaces cannot run here; undefined when they can. */
export function canRunKernelTests(backend: "nft" | "legacy" = "nft"): string | undefined {
  if (process.getuid?.() !== 0) return "not root";
  if (!answers.has(backend)) answers.set(backend, firstFailure(backend));
  return answers.get(backend);
}

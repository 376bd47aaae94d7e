// An agent that is killed at one of its writes, whichever: before the tool does it, in the middle, or after. In: a home, manifests.
// Out: whether it was, or had all done in fewer writes.
import { chmod, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Home } from "./agent.ts";
import type { Manifests } from "./agent-manifests.ts";
import { until } from "./until.ts";

/**
 * Starts an agent whose tools kill it at its write number `at`. False: it did all it had to do in fewer writes.
 * "amid" gives the tool the first half of its lines; what is one transaction then fails, or is smaller.
 */
export async function killedAt(
  home: Home,
  manifests: Manifests,
  at: number,
  moment: "before" | "amid" | "after",
  flags: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  const directory = join(home.directory, "tools");
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory);
  await writeFile(join(directory, "tool"), killingTool);
  await chmod(join(directory, "tool"), 0o755);
  const names = ["ip", "ipset", "nft", "iptables-nft-restore", "ip6tables-nft-restore", "conntrack", "perl"];
  for (const name of names) await symlink("tool", join(directory, name));
  const environment = {
    PATH: `${directory}:${process.env["PATH"]}`,
    KILL_AT: String(at),
    KILL_MOMENT: moment,
  };
  const agent = await home.spawn(manifests.directory, flags, environment);
  const done = () =>
    agent.status().then(
      ({ ready }) => ready,
      () => false,
    );
  await until(async () => agent.ended || (await done()), "killed or done", 20_000);
  const killed = agent.ended;
  await agent.kill();
  return killed;
}

const killingTool = `#!/bin/sh
# Stands for a tool. Reading it leaves alone; at write number KILL_AT, from 0, it kills the agent.
directory=$(dirname "$0")
name=$(basename "$0")
# PATH stays as it is: what this starts may start tools too.
tool=$(PATH=$(printf %s "$PATH" | sed "s,^$directory:,,") command -v "$name")
case "$name $*" in
  "ip "*-batch* | "ipset restore"* | "nft -f"* | *"-restore "* | "conntrack "* | "perl -e"*AF_PACKET* | "perl -e"*NETLINK_NETFILTER*) ;;
  *) exec "$tool" "$@" ;;
esac
number=0
until mkdir "$directory/$number" 2>/dev/null; do number=$((number + 1)); done
[ "$number" = "$KILL_AT" ] || exec "$tool" "$@"
# The agent itself, or the small process that starts its tools.
agent=$PPID
[ "$(cat "/proc/$agent/comm")" = perl ] && agent=$(cut -d' ' -f4 "/proc/$agent/stat")
input=$(cat)
lines=$(printf '%s\\n' "$input" | wc -l)
case $KILL_MOMENT in
  amid) printf '%s\\n' "$input" | head -n "$((lines / 2))" | "$tool" "$@" ;;
  after) printf '%s\\n' "$input" | "$tool" "$@" ;;
esac
kill -9 "$agent"
`;

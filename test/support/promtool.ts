// Prometheus' promtool for tests: the one on PATH, else that of the Debian package, fetched once for each machine into the cache outside
// of the checkout (get-promtool.sh, 5 s). In: a subcommand. Out: what it said, and its status.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const getPromtool = fileURLToPath(new URL("get-promtool.sh", import.meta.url));

const runs = (program: string) => spawnSync(program, ["--version"]).status === 0;

function find(): { readonly program: string } | { readonly why: string } {
  if (runs("promtool")) return { program: "promtool" };
  const { EGRESSIP_CACHE, XDG_CACHE_HOME } = process.env;
  const cache = EGRESSIP_CACHE || join(XDG_CACHE_HOME || join(homedir(), ".cache"), "egressip-agent");
  const root = join(cache, "promtool");
  if (!existsSync(root)) {
    const { status, stderr, error } = spawnSync("sh", [getPromtool, root], { encoding: "utf8" });
    const said = stderr?.trim().split("\n").at(-1);
    if (status !== 0) return { why: `no promtool: ${error?.message ?? said ?? `exit status ${status}`}` };
  }
  return { program: join(root, "bin/promtool") };
}

let found: ReturnType<typeof find> | undefined;

/** Why there is none here; undefined when there is. For a test that skips itself by name: it waits. */
export function noPromtool(): string | undefined {
  found ??= find();
  return "why" in found ? found.why : undefined;
}

/** Standard output and error together: linters say some things there and some here. */
export function promtool(
  args: readonly string[],
  input = "",
): { readonly status: number | null; readonly said: string } {
  found ??= find();
  if ("why" in found) throw new Error(found.why);
  const { status, stdout, stderr } = spawnSync(found.program, args, { encoding: "utf8", input });
  return { status, said: `${stdout}${stderr}` };
}

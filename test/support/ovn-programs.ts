// Open vSwitch's and OVN's programs for tests, of a Debian release that need not be this machine's. In: a release. Out:
// where its programs and schemas are, after they were fetched if they had to be (get-ovn.sh, 5 s, once for each machine).
// They are files in a cache outside of the checkout; nothing is installed or started by it.
import { execFile, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** trixie: OVN 25.03, OVS 3.5. bookworm: 23.03, 3.1. sid moves: 26.03, 4.0 or later. */
export type OvnSuite = "trixie" | "bookworm" | "sid";

export interface OvnPrograms {
  readonly suite: OvnSuite;
  /** A folder with ovs-vsctl, ovsdb-server, ovn-nbctl and so on, to call or to put first on PATH. */
  readonly bin: string;
  readonly nbSchema: string;
  readonly sbSchema: string;
  readonly ovsSchema: string;
}

const getOvn = fileURLToPath(new URL("get-ovn.sh", import.meta.url));

function cacheOf(suite: OvnSuite): string {
  const { EGRESSIP_CACHE, XDG_CACHE_HOME } = process.env;
  const cache = EGRESSIP_CACHE || join(XDG_CACHE_HOME || join(homedir(), ".cache"), "egressip-agent");
  return join(cache, `ovn-${suite}`);
}

/** Fetches what is missing. Throws what get-ovn.sh said when that cannot be done. */
export async function ovnPrograms(suite: OvnSuite = "trixie"): Promise<OvnPrograms> {
  const root = cacheOf(suite);
  if (!existsSync(root)) await promisify(execFile)("sh", [getOvn, suite, root]);
  return {
    suite,
    bin: join(root, "bin"),
    nbSchema: join(root, "usr/share/ovn/ovn-nb.ovsschema"),
    sbSchema: join(root, "usr/share/ovn/ovn-sb.ovsschema"),
    ovsSchema: join(root, "usr/share/openvswitch/vswitch.ovsschema"),
  };
}

const reasons = new Map<OvnSuite, string | undefined>();

function firstReason(suite: OvnSuite): string | undefined {
  if (process.getuid?.() !== 0) return "not root";
  const root = cacheOf(suite);
  if (existsSync(root)) return undefined;
  const { status, stderr, error } = spawnSync("sh", [getOvn, suite, root], { encoding: "utf8" });
  if (status === 0) return undefined;
  const said = stderr?.trim().split("\n").at(-1);
  return `no OVN of Debian's ${suite}: ${error?.message ?? said ?? `exit status ${status}`}`;
}

/**
 * Why this release's OVN cannot be had on this machine; undefined when it can, and then it is there. For a file that skips
 * itself by name, which has to know before its tests are collected: hence it waits.
 */
export function noOvn(suite: OvnSuite = "trixie"): string | undefined {
  if (!reasons.has(suite)) reasons.set(suite, firstReason(suite));
  return reasons.get(suite);
}

// iptables and ipset on this host. In: text for -restore. Out: parsed -save. Two spawns at most per call, never per rule.
import type { Run } from "../exec/index.ts";
import { type IpSet, parseSave, parseSets, type Ruleset } from "./pure.ts";

export { ParseError } from "./errors.ts";

export type Backend = "nft" | "legacy";
export type Family = 4 | 6;

/** Seconds to wait for the xtables lock. Without -w iptables-legacy waits for ever; with it, it exits 4 when late. */
const LOCK_WAIT_SECONDS = 5;

export interface Iptables {
  /** All tables of one family. Throws ToolError, ParseError. */
  save(family: Family): Promise<Ruleset>;
  /** One transaction per table; the rest of the tables stays (`--noflush`). Throws ToolError naming the bad line. */
  restore(family: Family, text: string): Promise<void>;
}

export function createIptables(run: Run, backend: Backend): Iptables {
  const command = (family: Family, verb: string) =>
    `${family === 4 ? "iptables" : "ip6tables"}-${backend}-${verb}`;
  return {
    save: async (family) => parseSave((await run(command(family, "save"), [])).stdout),
    restore: async (family, text) => {
      const wait = backend === "legacy" ? ["-w", String(LOCK_WAIT_SECONDS)] : [];
      await run(command(family, "restore"), ["--noflush", ...wait], { input: text });
    },
  };
}

export interface Ipset {
  /** Sets whose name `wanted` accepts. */
  save(wanted: (name: string) => boolean): Promise<ReadonlyMap<string, IpSet>>;
  /** `-exist`: adding what is there updates its extensions, deleting what is gone is no failure. */
  restore(text: string): Promise<void>;
}

export function createIpset(run: Run): Ipset {
  return {
    save: async (wanted) => parseSets((await run("ipset", ["save"])).stdout, wanted),
    restore: async (text) => {
      await run("ipset", ["restore", "-exist"], { input: text });
    },
  };
}

/**
 * Which backend this host's other agents use (kube-proxy's, OVN-Kubernetes' or any user chains), and whether both
 * hold rules. Legacy is chosen only when it alone has user chains: nft is the default of every supported system.
 */
export async function detectBackend(
  run: Run,
): Promise<{ readonly backend: Backend; readonly mixed: boolean }> {
  const [nft, legacy] = await Promise.all(
    (["nft", "legacy"] as const).map(async (backend) => {
      const saved = await run(`iptables-${backend}-save`, [], { okExitCodes: [0, 1, 127] }).catch(
        () => undefined,
      );
      return saved === undefined ? 0 : (saved.stdout.match(/^:(?!EGRESSIP-)\S+ - /gm) ?? []).length;
    }),
  );
  const mixed = (nft ?? 0) > 0 && (legacy ?? 0) > 0;
  return { backend: (legacy ?? 0) > 0 && (nft ?? 0) === 0 ? "legacy" : "nft", mixed };
}

// iptables and ipset on this host. In: text for -restore. Out: parsed -save. Two spawns at most per call, never per rule.
import type { Run } from "../exec/index.ts";
import {
  type Chain,
  hiddenTables,
  type IpSet,
  parseCounters,
  parseNftTable,
  parseSave,
  parseSets,
  parseSizes,
  type RuleCounter,
  type Ruleset,
} from "./pure.ts";

export { ParseError } from "./errors.ts";

export type Backend = "nft" | "legacy";
export type Family = 4 | 6;

/** Seconds to wait for the xtables lock. Without -w iptables-legacy waits for ever; with it, it exits 4 when late. */
const LOCK_WAIT_SECONDS = 5;

export interface Iptables {
  /**
   * All tables of one family. Of a table that iptables-nft-save leaves out because of somebody's native nft rule, the
   * chains that `exact` names are listed one by one, and the others are what nft tells of them (see native.ts).
   * Throws ToolError, ParseError.
   */
  save(family: Family, exact: (table: string, chain: string) => boolean): Promise<Ruleset>;
  /** Packets that each rule has seen, of all tables. */
  counters(family: Family): Promise<readonly RuleCounter[]>;
  /** One transaction per table; the rest of the tables stays (`--noflush`). Throws ToolError naming the bad line. */
  restore(family: Family, text: string): Promise<void>;
}

export function createIptables(run: Run, backend: Backend): Iptables {
  const command = (family: Family, verb: string) =>
    `${family === 4 ? "iptables" : "ip6tables"}-${backend}-${verb}`;
  return {
    save: async (family, exact) => {
      const { stdout } = await run(command(family, "save"), []);
      const hidden = hiddenTables(stdout);
      const shown = parseSave(stdout);
      if (hidden.length === 0) return shown;
      const found = hidden.map(
        async (table) => [table, await readHidden(run, family, table, exact)] as const,
      );
      return new Map([...shown, ...(await Promise.all(found))]);
    },
    counters: async (family) => parseCounters((await run(command(family, "save"), ["-c"])).stdout),
    restore: async (family, text) => {
      const wait = backend === "legacy" ? ["-w", String(LOCK_WAIT_SECONDS)] : [];
      await run(command(family, "restore"), ["--noflush", ...wait], { input: text });
    },
  };
}

async function readHidden(
  run: Run,
  family: Family,
  table: string,
  exact: (table: string, chain: string) => boolean,
): Promise<ReadonlyMap<string, Chain>> {
  const listed = await run("nft", ["--json", "list", "table", family === 4 ? "ip" : "ip6", table]);
  const chains = new Map(parseNftTable(listed.stdout));
  const command = family === 4 ? "iptables-nft" : "ip6tables-nft";
  const ours = [...chains.keys()].filter((chain) => exact(table, chain));
  const read = ours.map(async (chain) => {
    // Status 1: this is the chain with the native rule in it. What nft tells of it then has to do.
    const { exitCode, stdout } = await run(command, ["-t", table, "-S", chain], { okExitCodes: [0, 1] });
    if (exitCode !== 0) return;
    const rules = stdout.split("\n").filter((line) => line.startsWith("-A "));
    const parsed = parseSave([`*${table}`, `:${chain} - [0:0]`, ...rules].join("\n"));
    chains.set(chain, parsed.get(table)?.get(chain) as Chain);
  });
  await Promise.all(read);
  return chains;
}

export interface Ipset {
  /** Sets whose name `wanted` accepts. */
  save(wanted: (name: string) => boolean): Promise<ReadonlyMap<string, IpSet>>;
  /** Entries of each set, without listing them. */
  sizes(): Promise<ReadonlyMap<string, number>>;
  /** `-exist`: adding what is there updates its extensions, deleting what is gone is no failure. */
  restore(text: string): Promise<void>;
}

export function createIpset(run: Run): Ipset {
  return {
    save: async (wanted) => parseSets((await run("ipset", ["save"])).stdout, wanted),
    sizes: async () => parseSizes((await run("ipset", ["list", "-terse"])).stdout),
    restore: async (text) => {
      await run("ipset", ["restore", "-exist"], { input: text });
    },
  };
}

/**
 * Which backend others use on this host, by their user chains (`ours` tells which do not count), and whether both do. Legacy is chosen only when it alone has user chains: nft is the default of every supported system.
 */
export async function detectBackend(
  run: Run,
  ours: (chain: string) => boolean,
): Promise<{ readonly backend: Backend; readonly mixed: boolean }> {
  const [nft, legacy] = await Promise.all(
    (["nft", "legacy"] as const).map(async (backend) => {
      const saved = await run(`iptables-${backend}-save`, [], { okExitCodes: [0, 1, 127] }).catch(
        () => undefined,
      );
      if (saved === undefined) return 0;
      // A table that is not shown may hold anything; only a table in use gets rules that hide it.
      const { stdout } = saved;
      const chains = [...stdout.matchAll(/^:(\S+) - /gm)].filter(([, chain = ""]) => !ours(chain));
      return chains.length + hiddenTables(stdout).length;
    }),
  );
  const mixed = (nft ?? 0) > 0 && (legacy ?? 0) > 0;
  return { backend: (legacy ?? 0) > 0 && (nft ?? 0) === 0 ? "legacy" : "nft", mixed };
}

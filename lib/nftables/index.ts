// The host's nftables. In: table names, scripts. Out: listings as text, and a call for each change anybody makes.
import { type Follower, type follow, type Run, ToolError } from "../exec/index.ts";
import { type HookedChain, parseGeneration, parseHooks } from "./pure.ts";

export type NftFamily = "arp" | "bridge" | "inet" | "ip" | "ip6" | "netdev";

/** Who committed a transaction, where the kernel says. */
export interface NftChange {
  readonly process?: string;
  readonly pid?: number;
}

export interface Nft {
  /** The table's listing as nft prints it, undefined when there is no such table. Throws ToolError. */
  listTable(family: NftFamily, name: string): Promise<string | undefined>;
  /** The same without the elements of sets and maps. */
  listTerse(family: NftFamily, name: string): Promise<string | undefined>;
  /** One map with its elements. */
  listMap(family: NftFamily, table: string, name: string): Promise<string | undefined>;
  /** Chains of all tables that the kernel calls by itself. Throws ToolError. */
  listHooks(): Promise<readonly HookedChain[]>;
  /** Applies a script as one transaction. Throws ToolError with nft's words, line and column. */
  apply(script: string): Promise<void>;
  /**
   * Calls back once per transaction of this network namespace, our own included. `onEnd` is called when nft ends
   * without having been closed: from then on nothing is heard.
   */
  monitor(
    followTool: typeof follow,
    onChange: (change: NftChange) => void,
    onEnd: (why: string) => void,
  ): Follower;
}

export function createNft(run: Run): Nft {
  const list = async (...args: readonly string[]): Promise<string | undefined> => {
    try {
      return (await run("nft", args)).stdout;
    } catch (error) {
      if (error instanceof ToolError && saysAbsent(error)) return undefined;
      throw error;
    }
  };
  return {
    listTable: (family, name) => list("list", "table", family, name),
    listTerse: (family, name) => list("--terse", "list", "table", family, name),
    listMap: (family, table, name) => list("list", "map", family, table, name),
    listHooks: async () => parseHooks((await run("nft", ["list", "chains"])).stdout),
    apply: async (script) => {
      await run("nft", ["-f", "-"], { input: script });
    },
    monitor: (followTool, onChange, onEnd) =>
      followTool("nft", ["monitor"], {
        line: (line) => {
          const change = parseGeneration(line);
          // "# ERROR: We lost some netlink events!": anything may have changed.
          if (change !== undefined) onChange(who(change));
          else if (line.startsWith("# ERROR")) onChange({});
        },
        end: onEnd,
      }),
  };
}

/** Status 1 alone says only that it failed: without privileges nft ends with it too. */
function saysAbsent(error: ToolError): boolean {
  return error.exitCode === 1 && error.stderr.startsWith("Error: No such file or directory");
}

function who({ process, pid }: NftChange): NftChange {
  return { ...(process === undefined ? {} : { process }), ...(pid === undefined ? {} : { pid }) };
}

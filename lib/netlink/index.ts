// iproute2 on this host: listings by `ip -json`, changes by `ip -batch`, `ip monitor` only as a wake-up.
import type { follow, Run } from "../exec/index.ts";
import { BatchError } from "./errors.ts";
import {
  type Link,
  type LinkAddress,
  type Neighbour,
  parseAddresses,
  parseNeighbours,
  parseRoutes,
  parseRules,
  parseVrfs,
  type Route,
  type Rule,
  withVrfs,
} from "./pure.ts";

export { BatchError, ParseError } from "./errors.ts";

export interface NetworkState {
  readonly links: readonly Link[];
  readonly addresses: readonly LinkAddress[];
  readonly routes: readonly Route[];
  readonly rules: readonly Rule[];
}

export interface Netlink {
  /**
   * Four spawns, in parallel, and then a fifth where there may be a VRF. Throws ToolError, ParseError.
   */
  read(): Promise<NetworkState>;
  /** Whom the host knows on its links, of both families. One spawn. Throws ToolError, ParseError. */
  neighbours(): Promise<readonly Neighbour[]>;
  /**
   * Lines without the leading `ip`; a line that starts with `-6 ` goes into a batch of its own, since rules do not tell
   * their family by their words.
   * Goes on after a refused line (`-force`) and then throws BatchError naming each of them.
   */
  batch(lines: readonly string[]): Promise<void>;
}

export function createNetlink(run: Run): Netlink {
  return {
    read: async () => {
      const [addresses, routes, rules4, rules6] = await Promise.all([
        run("ip", ["-json", "address", "show"]),
        run("ip", ["-json", "-Numeric", "-details", "route", "show", "table", "all"]),
        run("ip", ["-4", "-json", "-Numeric", "rule", "show"]),
        run("ip", ["-6", "-json", "-Numeric", "rule", "show"]),
      ]);
      const { links, addresses: found } = parseAddresses(addresses.stdout);
      const rules = [...parseRules(rules4.stdout, 4), ...parseRules(rules6.stdout, 6)];
      return {
        links: mayHaveVrfs(links, found, rules) ? withVrfs(links, await readVrfs(run)) : links,
        addresses: found,
        routes: parseRoutes(routes.stdout),
        rules,
      };
    },
    neighbours: async () => parseNeighbours((await run("ip", ["-json", "neigh", "show"])).stdout),
    batch: async (lines) => {
      const six = lines.filter((line) => line.startsWith("-6 ")).map((line) => line.slice(3));
      const any = lines.filter((line) => !line.startsWith("-6 "));
      const failed = [...(await batchOf(run, [], any)), ...(await batchOf(run, ["-6"], six))];
      if (failed.length > 0) throw new BatchError(failed);
    },
  };
}

/**
 * The kernel makes a rule `l3mdev` with the first VRF and never takes it away; somebody else may have. Details of all links are
 * three times as much text as the links, so they are asked for only then, and only of VRFs.
 */
function mayHaveVrfs(
  links: readonly Link[],
  addresses: readonly LinkAddress[],
  rules: readonly Rule[],
): boolean {
  if (rules.some(({ selector }) => selector.split(" ").includes("l3mdev"))) return true;
  const global = new Set(addresses.filter(({ scope }) => scope === "global").map(({ link }) => link));
  return links.some(({ name, master }) => master !== "" && global.has(name));
}

async function readVrfs(run: Run): Promise<ReadonlyMap<string, string>> {
  return parseVrfs((await run("ip", ["-json", "-details", "link", "show", "type", "vrf"])).stdout);
}

type Refused = { readonly line: string; readonly why: string };

/** 1 and 2 are refused lines; 255 is a line that iproute2 does not understand. */
const STATUSES = [0, 1, 2, 255];

async function batchOf(
  run: Run,
  family: readonly string[],
  lines: readonly string[],
): Promise<readonly Refused[]> {
  if (lines.length === 0) return [];
  const { exitCode, stderr } = await run("ip", [...family, "-force", "-batch", "-"], {
    input: `${lines.join("\n")}\n`,
    okExitCodes: STATUSES,
  });
  if (exitCode === 0) return [];
  const messages = stderr.split("\n").filter((message) => message !== "");
  if (COMMAND_FAILED.test(messages.at(-1) ?? "")) return refusedLines(lines, messages);
  // A line that iproute2 does not understand ends it there, `-force` or not, and is not named: the others one by one.
  const refused: Refused[] = [];
  for (const line of lines) {
    const alone = await run("ip", [...family, "-batch", "-"], { input: `${line}\n`, okExitCodes: STATUSES });
    const why = alone.stderr.split("\n").filter((message) => message !== "" && !COMMAND_FAILED.test(message));
    if (alone.exitCode !== 0 && !isDone(line, alone.stderr)) refused.push({ line, why: why.join(" ") });
  }
  return refused;
}

const COMMAND_FAILED = /^Command failed -:(\d+)$/;

/** `Error: …\nCommand failed -:3` to the line that failed and its reason. */
function refusedLines(lines: readonly string[], messages: readonly string[]): readonly Refused[] {
  const refused: Refused[] = [];
  let why: string[] = [];
  for (const message of messages) {
    const at = COMMAND_FAILED.exec(message);
    if (at === null) why.push(message);
    else {
      refused.push({ line: lines[Number(at[1]) - 1] ?? "?", why: why.join(" ") });
      why = [];
    }
  }
  return refused;
}

/** Refused because it was carried out before: by the run that ended early. */
function isDone(line: string, stderr: string): boolean {
  return / del /.test(line)
    ? /No such (?:process|file)|Cannot assign requested address/.test(stderr)
    : /File exists/.test(stderr);
}

/** Calls back on each line of `ip monitor`: the text is not trusted, only that something changed. */
export function monitorNetwork(
  start: typeof follow,
  on: { readonly change: () => void; readonly end: (why: string) => void },
): { close(): void } {
  return start("ip", ["-oneline", "monitor", "link", "address", "route", "rule"], {
    line: on.change,
    end: on.end,
  });
}

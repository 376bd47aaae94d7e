// Tracked connections of the host. In: marks and addresses. Out: how many flows were deleted, or the flows.
import { type Run, ToolError } from "../exec/index.ts";
import {
  type Deletion,
  deleteArgs,
  type Family,
  type Flow,
  familyName,
  ParseError,
  parseDeleted,
  parseFlows,
  type TranslatedChange,
} from "./pure.ts";
import { changeTranslated } from "./translated.ts";

export type { Deletion, Family, Flow, TranslatedChange, Tuple } from "./pure.ts";
export { ParseError };

export interface Conntrack {
  /** Deletes the zone 0 flows whose mark has these bits under the mask; how many at least. */
  deleteByMark(family: Family, mark: number, mask: number): Promise<number>;
  /** Deletes the zone 0 flows that were opened from the address, of this mark only if one is given; how many at least. */
  deleteBySource(family: Family, address: string, mark?: number, mask?: number): Promise<number>;
  /** Marks or ends the zone 0 flows whose source is translated to these addresses; how many it had to. One spawn. */
  changeTranslated(changes: readonly TranslatedChange[]): Promise<number>;
  /** Every flow of the family, of all zones. */
  list(family: Family): Promise<readonly Flow[]>;
}

/** All methods throw ToolError when conntrack fails and ParseError when its answer cannot be read. */
export function createConntrack(run: Run): Conntrack {
  return {
    deleteByMark: (family, mark, mask) => deleteFlows(run, { family, mark, mask }),
    deleteBySource: (family, source, mark, mask) =>
      deleteFlows(run, {
        family,
        source,
        ...(mark === undefined ? {} : { mark }),
        ...(mask === undefined ? {} : { mask }),
      }),
    changeTranslated: (changes) => changeTranslated(run, changes),
    list: async (family) => {
      const { stdout } = await run("conntrack", ["-L", "-f", familyName(family), "-o", "extended"]);
      return parseFlows(stdout);
    },
  };
}

async function deleteFlows(run: Run, deletion: Deletion): Promise<number> {
  const stderr = await runDelete(run, deleteArgs(deletion));
  const deleted = parseDeleted(stderr);
  if (deleted === undefined) throw new ParseError("conntrack does not say how many flows it deleted", stderr);
  return deleted;
}

/**
 * Status 1 says both "nothing matched" and "failed"; only in the first case conntrack gets to counting. It fails as well
 * when a flow that it is about to delete ends by itself (1.4.7), with others still there: the next run does not meet it.
 */
async function runDelete(run: Run, args: readonly string[]): Promise<string> {
  for (let runs = 1; ; runs++) {
    try {
      return (await run("conntrack", args)).stderr;
    } catch (error) {
      if (!(error instanceof ToolError) || error.exitCode !== 1) throw error;
      if (parseDeleted(error.stderr) === 0) return error.stderr;
      if (runs === MOST_RUNS || !error.stderr.includes(ENDED_MEANWHILE)) throw error;
    }
  }
}

const ENDED_MEANWHILE = "such conntrack doesn't exist";
/** Each one gets past flows that ended meanwhile; so many in a row are not chance. */
const MOST_RUNS = 100;

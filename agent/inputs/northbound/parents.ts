// Under which router each row stands. It is in the router, in a column with an entry for each row: asked for once on each
// connection and at the slow tick, and not followed. In: the session, and where rows belong. Out: those that stand elsewhere.
import type { Changes, Session } from "../../../lib/ovsdb-client/index.ts";
import { select } from "../../../lib/ovsdb-client/pure.ts";
import { byCodeUnit } from "../../model/names.ts";
import { CLUSTER_ROUTER } from "../../model/northbound.ts";
import { isPodTable, type StandsOn } from "./pod-rows.ts";

export interface Parents {
  /** Asked and answered on this connection. */
  readonly known: boolean;
  /** Routers of a row that stands elsewhere than it belongs. */
  readonly standsOn: StandsOn;
  take(changes: Changes): void;
  /** Another connection: what was told on the last one may be past. */
  forget(): void;
  /**
   * Resolves when there is an answer, or none is to be had. Never rejects. Not `whole`: only what stands under other routers than
   * most rows do, where that will do; whether rows are gone that nobody told of is then not seen.
   */
  ask(whole: boolean): Promise<void>;
}

/** Milliseconds. Whether the other side lives is asked beside it: this is for columns of many megabytes on slow lines. */
const ANSWER_MS = 120_000;

export function createParents(
  session: Pick<Session, "transact">,
  places: () => Iterable<readonly [string, string]>,
  /** The gateway router of this node. */
  ownRouter: string,
  told: {
    /** These rows stand elsewhere than was known. */
    readonly moved: (uuids: Iterable<string>) => void;
    /** Rows are known here that the server does not have, and has not told of. */
    readonly behind: () => void;
  },
): Parents {
  let strays: ReadonlyMap<string, readonly string[]> = new Map();
  let known = false;
  let connection = 0;
  let asking: Promise<void> | undefined;
  /** Rows that are newer than the question, perhaps newer than the answer. */
  const fresh = new Set<string>();

  const compare = (found: ReadonlyMap<string, readonly string[]>) => {
    const now = new Map<string, readonly string[]>();
    let missing = false;
    for (const [uuid, expected] of places()) {
      const on = found.get(uuid);
      if (on !== undefined && (on.length !== 1 || on[0] !== expected)) now.set(uuid, on);
      else if (on === undefined && fresh.has(uuid)) continue;
      // Without a parent there is no such row.
      else if (on === undefined) missing = true;
    }
    const before = strays;
    strays = now;
    const differing = [...now, ...before].filter(
      ([uuid]) => now.get(uuid)?.join() !== before.get(uuid)?.join(),
    );
    if (differing.length > 0) told.moved(differing.map(([uuid]) => uuid));
    if (missing) told.behind();
    return !missing;
  };
  /** Whether each row stands where it belongs, by what stands under all other routers: next to nothing, and a row is under one. */
  const areInPlace = (elsewhere: ReadonlyMap<string, readonly string[]>) => {
    for (const [uuid, expected] of places()) {
      const on = elsewhere.get(uuid);
      if (on === undefined ? expected !== CLUSTER_ROUTER && expected !== ownRouter : on.join() !== expected)
        return false;
    }
    return strays.size === 0;
  };
  const ask = async (whole: boolean) => {
    const asked = connection;
    fresh.clear();
    try {
      if (!whole) {
        const answers = await session.transact(
          [
            select("Logical_Router", [["name", "!=", CLUSTER_ROUTER]], ["name", "policies"]),
            select("Logical_Router", [["name", "!=", ownRouter]], ["name", "nat"]),
          ],
          { timeoutMs: ANSWER_MS },
        );
        if (asked !== connection) return;
        known = areInPlace(parentsOf(answers.flatMap(({ rows }) => rows)));
        if (known) return;
      }
      const [{ rows }] = await session.transact([select("Logical_Router", [], ["name", "policies", "nat"])], {
        timeoutMs: ANSWER_MS,
      });
      if (asked === connection) known = compare(parentsOf(rows));
    } catch {
      // Lost between two lines: the session says so itself, and on the next connection it is asked again.
    }
  };
  return {
    get known() {
      return known;
    },
    standsOn: (uuid) => strays.get(uuid),
    take: ({ tables }) => {
      if (asking === undefined) return;
      for (const [table, changes] of tables)
        if (isPodTable(table))
          for (const { uuid, before } of changes) if (before === undefined) fresh.add(uuid);
    },
    forget: () => {
      known = false;
      connection++;
      asking = undefined;
    },
    ask: (whole) => {
      if (asking !== undefined) return asking;
      const now = ask(whole).finally(() => {
        if (asking === now) asking = undefined;
      });
      asking = now;
      return now;
    },
  };
}

function parentsOf(
  rows: readonly { readonly [column: string]: unknown }[],
): ReadonlyMap<string, readonly string[]> {
  const parents = new Map<string, string[]>();
  for (const { name, policies = [], nat = [] } of rows)
    for (const column of [policies, nat] as readonly (readonly string[])[])
      for (const uuid of column) {
        const others = parents.get(uuid);
        if (others === undefined) parents.set(uuid, [name as string]);
        else others.push(name as string);
      }
  for (const names of parents.values()) names.sort(byCodeUnit);
  return parents;
}

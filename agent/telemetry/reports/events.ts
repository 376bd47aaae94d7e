// What is to be said of an EgressIP: the difference between how things stand and what was said last. In: two Standings of one
// EgressIP. Out: events in words a person can act on, each with what is said once it is written. Pure.
// Since it is a difference, nothing is said twice, and what came and went before it could be said is not said at all.
import { byCodeUnit } from "../../model/names.ts";
import type { EgressIP } from "../../model/objects.ts";
import type { Standing } from "./standing.ts";

export type Reason =
  | "AddressProgrammed"
  | "AddressMovedAway"
  | "AddressConflict"
  | "AddressUnservable"
  | "AddressRestored";

export interface Said {
  readonly reason: Reason;
  readonly type: "Normal" | "Warning";
  readonly text: string;
  /** It may have been said before this process began: then it is not said again. */
  readonly maybeSaid: boolean;
  /** What of the Standing is said with it. */
  readonly says: Partial<Standing>;
}

/** What the API takes for the newer kind of events (validation of events.k8s.io), and as much as anybody reads. */
const LONGEST = 1000;

export function eventsOf(said: Standing | undefined, now: Standing, node: string): readonly Said[] {
  const { given, conflicts = [], troubles = [] } = now;
  const before = said?.given ?? new Map<string, string>();
  const isNew = (text: readonly string[], last: readonly string[] | undefined) =>
    text.length > 0 && text.join("\n") !== last?.join("\n");
  const added = [...given].filter(([address]) => !before.has(address));
  const gone = [...before.keys()].filter((address) => !given.has(address)).sort(byCodeUnit);
  const events: Said[] = [];
  const say = (reason: Reason, text: string, says: Partial<Standing>, maybeSaid = false) =>
    events.push({
      reason,
      type: reason === "AddressConflict" || reason === "AddressUnservable" ? "Warning" : "Normal",
      text: text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text,
      maybeSaid,
      says,
    });
  // A conflict first: it is what most likely explains the rest.
  if (isNew(conflicts, said?.conflicts))
    say(
      "AddressConflict",
      `on node ${node}, ${conflicts.join("; ")}`,
      { conflicts },
      isUnknown(said, "conflicts"),
    );
  if (isNew(troubles, said?.troubles))
    say(
      "AddressUnservable",
      `on node ${node}, ${troubles.join("; ")}`,
      { troubles },
      isUnknown(said, "troubles"),
    );
  if (gone.length > 0) {
    const kept = new Map([...before].filter(([address]) => given.has(address)));
    say("AddressMovedAway", goneText(gone, now.egressIP, node), { given: kept });
  }
  if (added.length > 0) {
    const all = new Map([...before, ...added]);
    say("AddressProgrammed", `node ${node} gives ${printed(added)} now`, { given: all });
  }
  if (hasTold(said) && conflicts.length + troubles.length === 0 && given.size > 0 && added.length === 0)
    say(
      "AddressRestored",
      `node ${node} gives ${printed([...given])} again: what kept it from that is over`,
      {
        conflicts: [],
        troubles: [],
      },
    );
  return events;
}

/**
 * What is over without a word, since another one says as much: that all is well again comes when all is, and what is given now, or not
 * any more, has its own event. What was not known and is well needs none either.
 */
export function settled(said: Standing | undefined, now: Standing): Standing {
  const { conflicts = [], troubles = [] } = now;
  const base = said ?? { given: new Map<string, string>(), conflicts: [], troubles: [] };
  const isSilent =
    !hasTold(said) ||
    now.given.size === 0 ||
    [...now.given.keys()].some((address) => !base.given.has(address));
  return {
    ...base,
    egressIP: now.egressIP,
    ...(conflicts.length === 0 && (isSilent || troubles.length > 0) ? { conflicts: [] } : {}),
    ...(troubles.length === 0 && (isSilent || conflicts.length > 0) ? { troubles: [] } : {}),
  };
}

function isUnknown(said: Standing | undefined, what: "conflicts" | "troubles"): boolean {
  return said !== undefined && said[what] === undefined;
}

function hasTold(said: Standing | undefined): boolean {
  return (said?.conflicts?.length ?? 0) + (said?.troubles?.length ?? 0) > 0;
}

function printed(given: readonly (readonly [string, string])[]): string {
  return given.map(([address, link]) => `${address} on link ${link}`).join(" and ");
}

function goneText(gone: readonly string[], { requested, assignments }: EgressIP, node: string): string {
  const whereabouts = gone.map((address) => {
    const now = assignments.find((one) => one.address === address)?.node;
    if (now !== undefined) return `${address}, which is assigned to node ${now}`;
    return requested.includes(address)
      ? `${address}, which is assigned to no node`
      : `${address}, which the EgressIP does not ask for`;
  });
  return `node ${node} does not give any more: ${whereabouts.join("; ")}`;
}

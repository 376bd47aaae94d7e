// An annotation of the own Node that lists addresses: what it says, what it has to say, and the patch that turns one into the other.
// A JSON patch that first tests for the text it was worked out from: no other key is touched, and what somebody else has written into
// the same list meanwhile is never overwritten; the server refuses (422), and it is worked out anew from what the watch brings. A
// merge patch or server-side apply would put our text over his. Pure.
import { type Address, parseAddress, sortedAddresses } from "../../model/ip.ts";

/** Whoever publishes host-cidrs leaves out what this lists (reference A.5). */
export const SECONDARY_KEY = "k8s.ovn.org/secondary-host-egress-ips";

export interface AnnotationChange {
  readonly from: string | undefined;
  /** Undefined: the annotation goes. */
  readonly to: string | undefined;
}

/**
 * `listed` is all it has to say once a round has brought the host there. Before that, and while it fails, nothing is taken away: an
 * address may still be on its link. Undefined: it is as it should be; or nobody can read it, and then it stays until somebody
 * puts it right (a Problem of the Node says so).
 */
export function annotationChange(
  says: string | undefined,
  listed: readonly Address[],
  isDone: boolean,
): AnnotationChange | undefined {
  const found = entriesOf(says);
  if (found === undefined) return undefined;
  const wanted = new Set(isDone ? listed : [...found, ...listed]);
  if (wanted.size === found.length && found.every((address) => wanted.has(address))) return undefined;
  return { from: says, to: wanted.size === 0 ? undefined : JSON.stringify(sortedAddresses(wanted)) };
}

/** Undefined for a text that is no list of addresses. */
export function entriesOf(says: string | undefined): readonly Address[] | undefined {
  if (says === undefined) return [];
  let parsed: unknown;
  try {
    parsed = JSON.parse(says);
  } catch {
    return undefined;
  }
  if (!Array.isArray(parsed)) return undefined;
  const entries = parsed.map((entry) => (typeof entry === "string" ? parseAddress(entry) : undefined));
  return entries.some((entry) => entry === undefined) ? undefined : [...new Set(entries as Address[])];
}

/** Operations of RFC 6902 on a Node that has annotations, and on one that has none, to which none can be added one by one. */
export function annotationPatches(
  key: string,
  { from, to }: AnnotationChange,
): readonly (readonly object[])[] {
  const path = `/metadata/annotations/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  // Of a key that is not there `test` says that it is null.
  const test = { op: "test", path, value: from ?? null };
  if (to === undefined) return [[test, { op: "remove", path }]];
  if (from !== undefined) return [[test, { op: "replace", path, value: to }]];
  return [
    [test, { op: "add", path, value: to }],
    [
      { op: "test", path: "/metadata/annotations", value: null },
      { op: "add", path: "/metadata/annotations", value: { [key]: to } },
    ],
  ];
}

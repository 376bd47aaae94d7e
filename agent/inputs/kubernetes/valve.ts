// Whether a new list can be believed (known-faults BL-91): a server that was restored from an older copy, or has lost its data,
// answers as politely as any other. In: what was known, what the list says. Out: why it is held back, or nothing. Pure.
// The policy: what a watch tells happened is believed at once. A list that leaves nothing of a kind of which something was known,
// that lacks this agent's own Node, or that is of an older state than what was known, counts only when a second one, asked for
// after a while, says so too; until then what was known stays, and an alarm says why. A kind that the server does not know (404)
// is no list at all.

/** What is known of a kind. */
export interface Known {
  readonly objects: number;
  /** Of nodes: whether this agent's own is among them; undefined where no list of them was ever believed. */
  readonly hasOwn?: boolean | undefined;
  /** The newest state of the server that was heard of; undefined before the first. */
  readonly resourceVersion?: string | undefined;
}

export interface Listed {
  readonly objects: number;
  readonly hasOwn?: boolean;
  readonly resourceVersion?: string | undefined;
  /** An object of it was found in an older state than was known. */
  readonly isBehind?: boolean;
  /** Fewer objects were asked for than before. */
  readonly isNarrower: boolean;
}

export function doubtIn(known: Known, listed: Listed): string | undefined {
  if (isOlder(listed.resourceVersion, known.resourceVersion))
    return `the server is at resourceVersion ${listed.resourceVersion}, and was at ${known.resourceVersion} before: it went back to older data`;
  if (listed.isBehind === true)
    return "the server has an object in an older state than it had before: it went back to older data";
  if (listed.hasOwn === false && known.hasOwn !== false) return "this agent's own node is not among them";
  if (listed.objects > 0 || known.objects === 0 || listed.isNarrower) return undefined;
  return `the list is empty, and there were ${known.objects}`;
}

/** They are revisions of the server's store, comparable by KEP-5504; what is no number is taken as not older. */
function isOlder(a: string | undefined, b: string | undefined): boolean {
  if (a === undefined || b === undefined || !/^[1-9]\d*$/.test(a) || !/^[1-9]\d*$/.test(b)) return false;
  return a.length === b.length ? a < b : a.length < b.length;
}

// conntrack(8) as text: the command line that deletes, the number it answers, the flows it lists. Pure.
import { ParseError } from "./errors.ts";

export { ParseError } from "./errors.ts";

export type Family = 4 | 6;

/** One direction of a flow. Ports only where the protocol has them. */
export interface Tuple {
  readonly src: string;
  readonly dst: string;
  readonly sport?: number;
  readonly dport?: number;
}

export interface Flow {
  /** "tcp", "udp", "icmpv6"; the number as text for a protocol that conntrack has no name for. */
  readonly protocol: string;
  readonly orig: Tuple;
  readonly reply: Tuple;
  readonly mark: number;
  /** 0 is the host's own zone. */
  readonly zone: number;
  /** "ESTABLISHED" and so on, for protocols with states. */
  readonly state?: string;
  /** "UNREPLIED", "ASSURED", "OFFLOAD", as printed. */
  readonly flags: readonly string[];
}

/** Which flows to delete: by mark, by original source, or by both. The mask is 0xffffffff when left out. */
export type Deletion =
  | { readonly family: Family; readonly mark: number; readonly mask?: number }
  | { readonly family: Family; readonly source: string; readonly mark?: number; readonly mask?: number };

/** What becomes of flows whose source is translated to an address: they get these bits under the mask, or end. */
export type TranslatedChange =
  | {
      readonly family: Family;
      readonly translatedTo: string;
      readonly mark: number;
      readonly mask: number;
    }
  | { readonly family: Family; readonly translatedTo: string; readonly ends: true };

/** conntrack's arguments. Throws RangeError for a deletion that would match flows it does not name. */
export function deleteArgs(deletion: Deletion): readonly string[] {
  const { family, mark, mask = 0xffffffff } = deletion;
  const args = ["-D", "-f", familyName(family), "--zone", "0"];
  if ("source" in deletion) args.push("--orig-src", checkedAddress(family, deletion.source));
  if (mark !== undefined) args.push("--mark", markText(mark, mask, "source" in deletion));
  return args;
}

/** The exact command line that deletes, as text. */
export function printDelete(deletion: Deletion): string {
  return ["conntrack", ...deleteArgs(deletion)].join(" ");
}

/** As one would type it; who carries it out is translated.ts. */
export function printTranslated(change: TranslatedChange): string {
  const where = `-f ${familyName(change.family)} --reply-dst ${checkedAddress(change.family, change.translatedTo)}`;
  if ("ends" in change) return `conntrack -D ${where} --zone 0`;
  return `conntrack -U ${where} --mark ${markText(change.mark, change.mask, true)}`;
}

/** As the script of translated.ts reads it. */
export function translatedLine(change: TranslatedChange): string {
  const where = `${change.family} ${checkedAddress(change.family, change.translatedTo)}`;
  if ("ends" in change) return where;
  markText(change.mark, change.mask, true);
  return `${where} ${change.mark} ${change.mask}`;
}

export function familyName(family: Family): "ipv4" | "ipv6" {
  return family === 4 ? "ipv4" : "ipv6";
}

/** The number in "conntrack v1.4.7 (conntrack-tools): 3 flow entries have been deleted.", if it is there. */
export function parseDeleted(stderr: string): number | undefined {
  const count = /(\d+) flow entries have been deleted/.exec(stderr)?.[1];
  return count === undefined ? undefined : Number(count);
}

/** The output of `conntrack -L`, with or without `-o extended`, in its order. Throws ParseError. */
export function parseFlows(text: string): readonly Flow[] {
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map(parseFlow);
}

// [FAMILY NUMBER] PROTOCOL NUMBER [TIMEOUT] [STATE] src=... ; offloaded flows have no timeout.
const FLOW = /^(?:ipv[46] +\d+ +)?([a-z]\S*) +(\d+) (?:(\d+) )?(?:([A-Z][A-Z0-9_]*) )?(src=.*)$/;

function parseFlow(line: string): Flow {
  const [, name, number = "", , state, rest] = FLOW.exec(line) ?? [];
  if (name === undefined || rest === undefined) throw new ParseError("not a conntrack entry", line);
  const directions: Map<string, string>[] = [];
  const others = new Map<string, string>();
  const flags: string[] = [];
  for (const word of rest.trim().split(/ +/)) {
    const [, flag, key, value = ""] = /^(?:\[([A-Z_]+)\]|([a-z_-]+)=(.*))$/.exec(word) ?? [];
    if (flag !== undefined) flags.push(flag);
    else if (key === undefined) throw new ParseError(`unknown word ${word} in a conntrack entry`, line);
    else if (key === "src") directions.push(new Map([[key, value]]));
    else if (DIRECTION_KEYS.has(key)) directions.at(-1)?.set(key, value);
    else others.set(key, value);
  }
  const [orig, reply, ...more] = directions;
  if (orig === undefined || reply === undefined || more.length > 0) {
    throw new ParseError("a conntrack entry without two directions", line);
  }
  return {
    protocol: name === "unknown" ? number : name,
    orig: tuple(orig, line),
    reply: tuple(reply, line),
    mark: figure(others.get("mark") ?? "0", line),
    zone: figure(others.get("zone") ?? "0", line),
    ...(state === undefined ? {} : { state }),
    flags,
  };
}

const DIRECTION_KEYS: ReadonlySet<string> = new Set(["dst", "sport", "dport"]);

function tuple(direction: ReadonlyMap<string, string>, line: string): Tuple {
  const [src, dst, sport, dport] = ["src", "dst", "sport", "dport"].map((key) => direction.get(key));
  if (src === undefined || dst === undefined)
    throw new ParseError("a conntrack entry without addresses", line);
  return {
    src,
    dst,
    ...(sport === undefined ? {} : { sport: figure(sport, line) }),
    ...(dport === undefined ? {} : { dport: figure(dport, line) }),
  };
}

function figure(text: string, line: string): number {
  if (!/^\d+$/.test(text)) throw new ParseError(`not a number: ${text}`, line);
  return Number(text);
}

/** conntrack takes a prefix too, and would then delete the flows of a whole network. */
function checkedAddress(family: Family, address: string): string {
  const plausible = family === 4 ? /^\d+(\.\d+){3}$/ : /^[0-9a-f:]*:[0-9a-f:.]*$/i;
  if (!plausible.test(address)) throw new RangeError(`not an IPv${family} address: ${address}`);
  return address;
}

/**
 * conntrack reads what is not a number as 0, and 0/MASK alone are the flows that are nobody's: only together with an
 * address does mark 0 name flows.
 */
function markText(mark: number, mask: number, zeroAllowed: boolean): string {
  for (const [bits, least] of [
    [mark, zeroAllowed ? 0 : 1],
    [mask, 1],
  ] as const) {
    if (!Number.isInteger(bits) || bits < least || bits > 0xffffffff)
      throw new RangeError(`not a mark: ${bits}`);
  }
  const text = `0x${mark.toString(16)}/0x${mask.toString(16)}`;
  if ((mark & mask) >>> 0 !== mark) throw new RangeError(`mark outside its mask: ${text}`);
  return text;
}

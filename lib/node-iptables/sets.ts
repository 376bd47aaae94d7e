// `ipset save` text to values and the lines of `ipset restore`. Pure.
import { ParseError } from "./errors.ts";

export interface IpSet {
  readonly name: string;
  /** `hash:ip`, `hash:net`, … */
  readonly type: string;
  /** Create options we compare: family, maxelem, skbinfo, timeout …; sizes that the kernel chooses are left out. */
  readonly options: string;
  /**
   * Members with their extensions (`skbmark 0x100000/0x7ff00000`), "" for none, in the order of the text. Read as they are walked:
   * a set of many thousands is mostly compared with what is known, and nobody keeps it. Walking throws ParseError.
   */
  readonly members: Iterable<readonly [member: string, extension: string]>;
}

/** Grown or drawn by the kernel, so never a difference. */
const CHOSEN_BY_KERNEL = new Set(["hashsize", "bucketsize", "initval"]);

/**
 * Parses `ipset save`. Only sets that `wanted` names are given, and of others no line is looked at, since other agents' sets may be
 * huge. Throws ParseError on a line of another shape.
 */
export function parseSets(text: string, wanted: (name: string) => boolean): ReadonlyMap<string, IpSet> {
  const sets = new Map<string, IpSet>();
  for (let start = 0; start < text.length; ) {
    const next = text.indexOf("\ncreate ", start);
    const end = next < 0 ? text.length : next + 1;
    const header = lineAt(text, start);
    const created = /^create (\S+) (\S+) ?(.*)$/.exec(header);
    if (created === null) throw malformed(text, start);
    const [, name, type, options] = created as unknown as [string, string, string, string];
    const from = start + header.length + 1;
    if (wanted(name))
      sets.set(name, {
        name,
        type,
        options: comparableOptions(options),
        members: { [Symbol.iterator]: () => membersOf(text, name, from, end) },
      });
    start = end;
  }
  return sets;
}

function* membersOf(text: string, name: string, from: number, end: number): Generator<[string, string]> {
  const prefix = `add ${name} `;
  for (let start = from; start < end; ) {
    const newline = text.indexOf("\n", start);
    const stop = newline < 0 ? text.length : newline;
    if (!text.startsWith(prefix, start)) throw malformed(text, start);
    const member = start + prefix.length;
    const space = text.indexOf(" ", member);
    if (space < 0 || space >= stop) yield [text.slice(member, stop), ""];
    else yield [text.slice(member, space), text.slice(space + 1, stop)];
    start = stop + 1;
  }
}

function lineAt(text: string, start: number): string {
  const newline = text.indexOf("\n", start);
  return text.slice(start, newline < 0 ? text.length : newline);
}

function malformed(text: string, start: number): ParseError {
  return new ParseError("ipset save", text.slice(0, start).split("\n").length, lineAt(text, start));
}

/** `ipset list -terse`: how many entries each set has. Throws ParseError where a set does not say. */
export function parseSizes(text: string): ReadonlyMap<string, number> {
  const sizes = new Map<string, number>();
  for (const block of text.split("\n\n")) {
    const name = /^Name: (.+)$/m.exec(block)?.[1];
    const entries = /^Number of entries: (\d+)$/m.exec(block)?.[1];
    if (name === undefined) continue;
    if (entries === undefined) throw new ParseError("ipset list", 1, block);
    sizes.set(name, Number(entries));
  }
  return sizes;
}

function comparableOptions(options: string): string {
  const words = options.split(" ");
  const out: string[] = [];
  for (let i = 0; i < words.length; i++) {
    if (CHOSEN_BY_KERNEL.has(words[i] as string)) i++;
    else out.push(words[i] as string);
  }
  return out.join(" ");
}

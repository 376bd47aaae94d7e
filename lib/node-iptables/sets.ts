// `ipset save` text to values and the lines of `ipset restore`. Pure.
import { ParseError } from "./errors.ts";

export interface IpSet {
  readonly name: string;
  /** `hash:ip`, `hash:net`, … */
  readonly type: string;
  /** Create options we compare: family, maxelem, skbinfo, timeout …; sizes that the kernel chooses are left out. */
  readonly options: string;
  /** Member to its extensions (`skbmark 0x100000/0x7ff00000`), "" for none. */
  readonly members: ReadonlyMap<string, string>;
}

/** Grown or drawn by the kernel, so never a difference. */
const CHOSEN_BY_KERNEL = new Set(["hashsize", "bucketsize", "initval"]);

/**
 * Parses `ipset save`. Only sets that `wanted` names are kept, since other agents' sets may be huge.
 * Throws ParseError on a line of another shape.
 */
export function parseSets(text: string, wanted: (name: string) => boolean): ReadonlyMap<string, IpSet> {
  const sets = new Map<
    string,
    { name: string; type: string; options: string; members: Map<string, string> }
  >();
  let current: { readonly name: string; readonly members: Map<string, string> } | undefined;
  let number = 0;
  let start = 0;
  while (start < text.length) {
    number++;
    const newline = text.indexOf("\n", start);
    const end = newline < 0 ? text.length : newline;
    const line = text.slice(start, end);
    start = end + 1;
    if (line === "") continue;
    if (line.startsWith("add ")) {
      const nameEnd = line.indexOf(" ", 4);
      if (nameEnd < 0) throw new ParseError("ipset save", number, line);
      if (current === undefined || line.slice(4, nameEnd) !== current.name) continue;
      const memberEnd = line.indexOf(" ", nameEnd + 1);
      if (memberEnd < 0) current.members.set(line.slice(nameEnd + 1), "");
      else current.members.set(line.slice(nameEnd + 1, memberEnd), line.slice(memberEnd + 1));
      continue;
    }
    const created = /^create (\S+) (\S+) ?(.*)$/.exec(line);
    if (created === null) throw new ParseError("ipset save", number, line);
    const [, name, type, options] = created as unknown as [string, string, string, string];
    if (!wanted(name)) {
      current = undefined;
      continue;
    }
    const set = { name, type, options: comparableOptions(options), members: new Map<string, string>() };
    sets.set(name, set);
    current = set;
  }
  return sets;
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

// nft(8) listings and monitor lines as text. In: what nft prints. Out: comparable text, figures, who did it. Pure.
// Strings in nft's language have no escapes: a quoted string ends at the next quote, whatever stands in it.

export interface Counter {
  /** The rule's comment. */
  readonly name: string;
  readonly packets: number;
  readonly bytes: number;
}

export interface Generation {
  readonly generation: number;
  readonly pid?: number;
  /** The program's name as the kernel keeps it: 15 characters at most. */
  readonly process?: string;
}

/** The listing without figures, handles and indentation; equal for equal rules. Comments are left as they are. */
export function normalizeTable(text: string): string {
  return text
    .split("\n")
    .map((line) => outsideQuotes(line.replace(/ # handle \d+$/, ""), withoutFigures).trim())
    .filter((line) => line !== "")
    .map((line) => `${line}\n`)
    .join("");
}

/** Each rule's counter, by the rule's comment. Rules without a comment are left out; in the listing's order. */
export function parseCounters(text: string): readonly Counter[] {
  return text.split("\n").flatMap((line) => {
    const name = /(?:^|\s)comment "([^"]*)"/.exec(line)?.[1];
    // With the strings blanked, so that a comment or a log prefix about counters is not one.
    const [, packets, bytes] =
      /\bcounter packets (\d+) bytes (\d+)/.exec(line.replace(/"[^"]*"/g, '""')) ?? [];
    return name === undefined || packets === undefined
      ? []
      : [{ name, packets: Number(packets), bytes: Number(bytes) }];
  });
}

/** Names of the table's chains and maps, in the listing's order. */
export function parseNames(text: string): {
  readonly chains: readonly string[];
  readonly maps: readonly string[];
} {
  const named = (kind: string) =>
    [...text.matchAll(new RegExp(`^\\s*${kind} (\\S+) \\{`, "gm"))].map(([, name = ""]) => name);
  return { chains: named("chain"), maps: named("map") };
}

/** A chain that the kernel calls by itself. */
export interface HookedChain {
  readonly family: string;
  readonly table: string;
  readonly chain: string;
  readonly hook: string;
}

/** `nft list chains`: of all tables those that are at a hook, in the listing's order. */
export function parseHooks(text: string): readonly HookedChain[] {
  const found: HookedChain[] = [];
  let [family, table, chain] = ["", "", ""];
  for (const line of text.split("\n")) {
    const [, kind, words = ""] = /^\s*(table|chain) (.+) \{$/.exec(line) ?? [];
    if (kind === "table") [family = "", table = ""] = words.split(" ");
    if (kind === "chain") chain = words;
    const hook = /^\s*type \S+ hook (\S+) /.exec(line)?.[1];
    if (hook !== undefined) found.push({ family, table, chain, hook });
  }
  return found;
}

/** Elements of a listed map: the parts of each key, without quotes, and the value. */
export function parseElements(
  text: string,
): readonly { readonly key: readonly string[]; readonly value: string }[] {
  const [, elements = ""] = /\belements = \{([^}]*)\}/.exec(text) ?? [];
  const word = /"[^"]*"|[^\s",]+/g;
  return elements.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/).flatMap((element) => {
    const words = (element.match(word) ?? []).map((each) => each.replaceAll('"', ""));
    const value = words.at(-1);
    return value === undefined || words.at(-2) !== ":"
      ? []
      : [{ key: words.slice(0, -2).filter((each) => each !== "."), value }];
  });
}

/** The line that ends each transaction in `nft monitor`; undefined for every other line. */
export function parseGeneration(line: string): Generation | undefined {
  // The name may hold anything, a parenthesis or a line break too; then the closing one is on the next line.
  const match = /^# new generation (\d+)(?: by process (\d+) \((.*?)\)?)?$/.exec(line);
  if (match === null) return undefined;
  const [, generation, pid, process] = match;
  return {
    generation: Number(generation),
    ...(pid === undefined ? {} : { pid: Number(pid) }),
    ...(process === undefined ? {} : { process }),
  };
}

/** In rules and set elements "counter packets 5 bytes 300"; in a named counter the figures have their own line. */
function withoutFigures(text: string): string {
  return text
    .replace(/\bcounter packets \d+ bytes \d+/g, "counter")
    .replace(/^\s*packets \d+ bytes \d+\s*$/, "")
    .replace(/ expires \S+?(?=[ ,]|$)/g, "");
}

function outsideQuotes(line: string, edit: (text: string) => string): string {
  return line
    .split(/("[^"]*")/)
    .map((piece) => (piece.startsWith('"') ? piece : edit(piece)))
    .join("");
}

// Dumps of a node to compare when things were made anew, and so are listed in another order. Pure.

/**
 * The dump with tables of nft and iptables and routing rules sorted: of those the order means nothing to a packet, as long as
 * rules of one priority look at different marks. The order of rules in a chain stays as it is.
 */
export function unordered(dump: string): string {
  return dump
    .replaceAll(/^\n/gm, "")
    .split(/^(?===)/m)
    .map((section) => {
      const separator = separators.find(([title]) => title.test(section))?.[1];
      return separator === undefined ? section : section.split(separator).sort(byCodeUnit).join("");
    })
    .join("");
}

const separators: readonly (readonly [title: RegExp, separator: RegExp])[] = [
  [/^== nft /, /^(?=table )/m],
  [/^== ip6?tables-\w+-save/, /^(?=\*)/m],
  [/^== ip -\d rule /, /^/m],
];

const byCodeUnit = (a: string, b: string) => (a < b ? -1 : 1);

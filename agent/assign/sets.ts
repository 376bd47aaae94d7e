// Sets of names, put together: what ES2025 has as methods, for the year that types are checked against. Pure.

export type Names = ReadonlySet<string>;

export const union = (a: Names, b: Names): Names =>
  b.size === 0 ? a : a.size === 0 ? b : new Set([...a, ...b]);

export const without = (a: Names, b: Names): Names =>
  b.size === 0 ? a : new Set([...a].filter((name) => !b.has(name)));

export const both = (a: Names, b: Names): Names => new Set([...a].filter((name) => b.has(name)));

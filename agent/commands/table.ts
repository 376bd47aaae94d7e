// Plain objects as text columns for a person. Pure.

/** A list of records becomes a table with headings; a record becomes lines of `key: value`; the rest is indented. */
export function asTable(value: unknown): string {
  if (Array.isArray(value))
    return value.length === 0 ? "(none)\n" : rows(value as readonly Record<string, unknown>[]);
  if (typeof value !== "object" || value === null) return `${String(value)}\n`;
  return Object.entries(value)
    .map(([key, entry]) => line(key, entry))
    .join("");
}

function line(key: string, entry: unknown): string {
  if (Array.isArray(entry)) {
    if (entry.length === 0) return "";
    const inner = entry.every((item) => typeof item !== "object")
      ? entry.map((item) => `${String(item)}\n`).join("")
      : records(entry);
    return `${key}:\n${indent(inner)}`;
  }
  if (typeof entry === "object" && entry !== null) return `${key}:\n${indent(asTable(entry))}`;
  return `${key}: ${String(entry)}\n`;
}

function records(entries: readonly unknown[]): string {
  const flat = entries.every((entry) =>
    Object.values(entry as object).every((field) => typeof field !== "object"),
  );
  return flat
    ? rows(entries as readonly Record<string, unknown>[])
    : entries.map((entry) => `${asTable(entry)}\n`).join("");
}

function rows(records: readonly Record<string, unknown>[]): string {
  const heads = Object.keys(records[0] ?? {});
  const cells = records.map((record) => heads.map((head) => String(record[head] ?? "")));
  const widths = heads.map((head, column) =>
    Math.max(head.length, ...cells.map((row) => row[column]?.length ?? 0)),
  );
  const print = (row: readonly string[]) =>
    `${row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd()}\n`;
  return [print(heads.map((head) => head.toUpperCase())), ...cells.map(print)].join("");
}

function indent(text: string): string {
  return text.replace(/^(?=.)/gm, "  ");
}

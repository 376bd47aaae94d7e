// Reading values of unknown shape: what every decoder says about a wrong one, in the same words, on one line.
// In: parsed JSON or YAML. Out: the value as the type asked for, or an empty one and a report. Pure.

export type Raw = Readonly<Record<string, unknown>>;
/** Writes down one thing that is wrong: the path of the field, and a text that reads on from it. */
export type Report = (path: string, text: string) => void;

/** A JSON object, and so neither null nor a list. */
export function isObject(raw: unknown): raw is Raw {
  return typeof raw === "object" && raw !== null && !Array.isArray(raw);
}

/** Missing and null are an empty object unless `required`; any other type is reported and then empty too. */
export function objectAt(raw: unknown, path: string, report: Report, required?: "required"): Raw {
  if (isObject(raw)) return raw;
  if (required !== undefined || (raw !== undefined && raw !== null))
    report(path, `must be an object, not ${describe(raw)}`);
  return {};
}

/** Missing and null are an empty list; any other type is reported and then empty too. */
export function listAt(raw: unknown, path: string, report: Report): readonly unknown[] {
  if (Array.isArray(raw)) return raw;
  if (raw !== undefined && raw !== null) report(path, `must be a list, not ${describe(raw)}`);
  return [];
}

/** What the JSON in `raw` says; undefined when it is missing, and when it is reported as not being JSON. */
export function jsonAt(raw: unknown, path: string, report: Report): unknown {
  if (raw === undefined) return undefined;
  if (typeof raw !== "string") return refuse(report, path, `must be text, not ${describe(raw)}`);
  try {
    return JSON.parse(raw);
  } catch {
    return refuse(report, path, `must be JSON, not ${quote(raw)}`);
  }
}

/** Path of an annotation, whose key has dots of its own. */
export function annotationPath(key: string): string {
  return `metadata.annotations[${quote(key)}]`;
}

/** Reports, and is the undefined that its caller gives back. */
export function refuse(report: Report, path: string, text: string): undefined {
  report(path, text);
}

/** What a value of the wrong type is, for a sentence: `missing`, `a list`, `the number 3`, `"text"`. */
export function describe(raw: unknown): string {
  if (raw === undefined) return "missing";
  if (raw === null) return "null";
  if (Array.isArray(raw)) return "a list";
  if (typeof raw === "string") return quote(raw);
  return typeof raw === "object" ? "an object" : `the ${typeof raw} ${oneLine(String(raw), 40)}`;
}

/** Text from outside as JSON text of at most 80 printable ASCII characters. */
export function quote(text: string): string {
  return oneLine(JSON.stringify(text.slice(0, 81)), 80);
}

/**
 * Text as at most `most` characters of printable ASCII on one line, the rest escaped or cut: no name can
 * break a log line, hide in one (bidirectional and zero-width characters), or flood it.
 */
export function oneLine(text: string, most: number): string {
  const escaped = text
    .slice(0, most + 1)
    .replace(/[^\x20-\x7e]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return escaped.length <= most ? escaped : `${escaped.slice(0, most - 3)}...`;
}

// The bytes of one YAML or JSON file, cut into documents decoded one by one: a change costs what it changed.
// In: bytes, and the documents known from before. Out: documents in order, with their objects and problems.
// No file system here; files.ts owns which bytes, when, and what becomes of them.
import { hash } from "node:crypto";
import { parseAllDocuments } from "yaml";
import { decode, expand } from "../model/decode.ts";
import { keyOf, type Problem } from "../model/objects.ts";
import { oneLine } from "../model/raw.ts";
import type { Entry } from "./claims.ts";

/** What one document's text says; depends on nothing else, so that the same text is never parsed twice. */
export interface Document {
  readonly entries: readonly Entry[];
  readonly problems: readonly Problem[];
  /**
   * Set when the text is not YAML; then there are no entries. `line` counts from 0 at the document's first
   * line.
   */
  readonly fault?: { readonly line: number; readonly text: string };
}

export interface PlacedDocument {
  readonly document: Document;
  /** Hash of its text. */
  readonly id: string;
  /** Line in the file, from 1. */
  readonly line: number;
}

/**
 * Reads a file. `known` gives the document an id had before, which is then taken as it is. `breathe` is
 * awaited between documents that had to be parsed, for a caller who has other things to do. `name` tells JSON
 * from YAML and stands in problems.
 */
export async function readDocuments(
  name: string,
  bytes: Buffer,
  known: (id: string) => Document | undefined,
  breathe: () => Promise<void>,
): Promise<readonly PlacedDocument[]> {
  const placed: PlacedDocument[] = [];
  let line = 1;
  for (const piece of splitDocuments(bytes)) {
    const id = hash("sha256", piece, "base64");
    let document = known(id);
    if (document === undefined) {
      // A string of its own for each document: names and labels are slices of it, and would keep the whole
      // file's text alive.
      document = parseDocument(name, piece.toString("utf8"));
      await breathe();
    }
    placed.push({ document, id, line });
    line += countLines(piece);
  }
  return placed;
}

/** What problems call a file. */
export function originOf(name: string): string {
  return `file:${oneLine(name, 255)}`;
}

/**
 * Cuts before each `---` at the start of a line. YAML 1.2.2 section 9.1.2 forbids that marker inside any
 * scalar, block scalars included, so it is always a boundary. A file with directives (`%`) stays whole, as a
 * directive belongs to the document after the marker.
 */
export function splitDocuments(bytes: Buffer): readonly Buffer[] {
  if (bytes[0] === percent || bytes.includes("\n%")) return [bytes];
  const pieces: Buffer[] = [];
  let start = 0;
  for (let at = bytes.indexOf("\n---"); at >= 0; at = bytes.indexOf("\n---", at + 1)) {
    if (!endsMarker(bytes[at + 4])) continue;
    pieces.push(bytes.subarray(start, at + 1));
    start = at + 1;
  }
  pieces.push(bytes.subarray(start));
  return pieces;
}

const percent = 0x25;
const newline = 0x0a;

function endsMarker(byte: number | undefined): boolean {
  return byte === undefined || byte === 0x20 || byte === 0x09 || byte === newline || byte === 0x0d;
}

function countLines(bytes: Buffer): number {
  let lines = 0;
  for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1)) lines++;
  return lines;
}

function parseDocument(name: string, text: string): Document {
  const parsed = parseValues(name, text);
  return "values" in parsed
    ? documentOf(name, parsed.values)
    : { entries: [], problems: [], fault: { ...parsed, text: oneLine(parsed.text, 200) } };
}

/**
 * What stands between the markers of a text, or the first fault in it. `name` tells JSON from YAML; `line` counts from 0.
 */
export function parseValues(
  name: string,
  text: string,
): { readonly values: readonly unknown[] } | { readonly line: number; readonly text: string } {
  // Twenty times faster than the YAML parser, which gets to see JSON only when it is to say what is wrong
  // where.
  const json = name.endsWith(".json") ? parseJson(text) : undefined;
  if (json !== undefined) return { values: [json.value] };
  try {
    return parseYaml(text);
  } catch (error) {
    // Too many aliases (a ReferenceError), and nesting too deep for the stack (a RangeError): neither has a
    // position.
    return { line: 0, text: error instanceof Error ? error.message : String(error) };
  }
}

function parseJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/**
 * The core schema knows no dates, so that timestamps stay text, and no merge keys; both by any YAML version.
 */
function parseYaml(text: string): ReturnType<typeof parseValues> {
  const documents = parseAllDocuments(text, {
    schema: "core",
    merge: false,
    resolveKnownTags: false,
    stringKeys: true,
    uniqueKeys: true,
    // Positions are offsets; lines are counted only when there is an error.
    prettyErrors: false,
    logLevel: "silent",
  });
  const streamErrors = "empty" in documents ? documents.errors : [];
  const error = [...streamErrors, ...documents.flatMap((document) => document.errors)][0];
  if (error !== undefined) {
    // What was never closed is found missing at the very end, behind the last line there is to look at.
    const before = text.slice(0, Math.min(error.pos[0], text.trimEnd().length));
    return { line: before.split("\n").length - 1, text: error.message };
  }
  return { values: documents.map((document): unknown => document.toJS({ maxAliasCount: 100 })) };
}

function documentOf(name: string, values: readonly unknown[]): Document {
  const origin = originOf(name);
  const entries: Entry[] = [];
  const problems: Problem[] = [];
  for (const value of values) {
    // Nothing between two markers, or only a comment.
    if (value === null || value === undefined) continue;
    const items = expand(value);
    const isList = items.length !== 1 || items[0] !== value;
    for (const [at, item] of items.entries()) {
      const { object, problems: found } = decode(item, origin);
      if (object !== undefined) entries.push({ key: keyOf(object), object });
      for (const problem of found)
        problems.push(isList && problem.object === origin ? within(problem, `items[${at}]`) : problem);
    }
  }
  return { entries, problems };
}

function within(problem: Problem, path: string): Problem {
  return { ...problem, path: problem.path === "" ? path : `${path}.${problem.path}` };
}

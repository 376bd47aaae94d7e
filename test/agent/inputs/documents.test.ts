// Cutting a file into documents must change nothing: piece by piece says what the YAML parser says of the
// whole.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { readDocuments, splitDocuments } from "../../../agent/inputs/documents.ts";
import { yamlLike } from "../../support/yaml-like.ts";

const split = (text: string) => splitDocuments(Buffer.from(text)).map((piece) => piece.toString());

/** What the parser makes of a text, or "bad"; empty documents do not count. */
function valuesOf(text: string): unknown {
  const documents = parseAllDocuments(text, { schema: "core", logLevel: "silent", stringKeys: true });
  const errors = documents.flatMap((document) => document.errors);
  if (errors.length > 0 || ("empty" in documents && documents.errors.length > 0)) return "bad";
  try {
    return documents.map((document): unknown => document.toJS()).filter((value) => value !== null);
  } catch {
    return "bad";
  }
}

describe("splitDocuments", () => {
  it.each([
    ["", [""]],
    ["a: 1\n", ["a: 1\n"]],
    ["---\na: 1\n", ["---\na: 1\n"]],
    ["# c\n---\na: 1\n---\nb: 2", ["# c\n", "---\na: 1\n", "---\nb: 2"]],
    ["a: 1\n---", ["a: 1\n", "---"]],
    ["a: 1\r\n---\r\nb: 2\r\n", ["a: 1\r\n", "---\r\nb: 2\r\n"]],
    ["a: 1\n--- {b: 2}\n---\t# c\n", ["a: 1\n", "--- {b: 2}\n", "---\t# c\n"]],
    ["a: |\n  ---\n ---\n----\n---x\n", ["a: |\n  ---\n ---\n----\n---x\n"]],
    ["%YAML 1.2\n---\na\n---\nb\n", ["%YAML 1.2\n---\na\n---\nb\n"]],
    ["---\na\n...\n%YAML 1.2\n---\nb\n", ["---\na\n...\n%YAML 1.2\n---\nb\n"]],
  ])("%j", (text, pieces) => {
    expect(split(text)).toEqual(pieces);
  });

  it("loses no byte, and no meaning", () => {
    const line = fc.constantFrom(
      ...[
        "---",
        "--- ",
        "---\t",
        "---x",
        "--- |",
        "--- 'q",
        "...",
        "a: |",
        "a: >-",
        "a: 'q",
        'a: "q',
        "  text",
        "  ---",
        " ---",
        "  'q",
        "q'",
        'q"',
      ],
      ...[
        "- 1",
        "- - 2",
        "b: 1",
        "c: {d: 1,",
        "e: 2}",
        "f: [",
        "]",
        "# c",
        "",
        "%YAML 1.2",
        "%x",
        "?",
        "plain",
        "&a x",
        "*a",
      ],
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 12 }), fc.constantFrom("\n", "\r\n"), (lines, end) => {
        const text = lines.join(end);
        const pieces = split(text);
        expect(pieces.join("")).toBe(text);
        const values = pieces.map(valuesOf);
        const together: unknown = values.includes("bad") ? "bad" : values.flat();
        expect(together).toEqual(valuesOf(text));
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("readDocuments", () => {
  const read = async (text: string, known: Parameters<typeof readDocuments>[2] = () => undefined) => {
    let parsed = 0;
    const placed = await readDocuments("a.yaml", Buffer.from(text), known, async () => void parsed++);
    return { placed, parsed };
  };
  const namespace = (name: string) => `---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ${name}}\n`;

  it("parses a text once", async () => {
    const { placed, parsed } = await read(namespace("a") + namespace("b"));
    expect(parsed).toBe(2);
    const byId = new Map(placed.map(({ id, document }) => [id, document]));
    const again = await read(namespace("b") + namespace("c") + namespace("a"), (id) => byId.get(id));
    expect(again.parsed).toBe(1);
    const [b, , a] = again.placed;
    expect([a?.document, b?.document]).toEqual([...byId.values()]);
    expect(a?.document).toBe(byId.get(a?.id ?? ""));
    expect(again.placed.map(({ line }) => line)).toEqual([1, 5, 9]);
  });

  it("reads any text without a throw, and says what is wrong on one line", async () => {
    await fc.assert(
      fc.asyncProperty(yamlLike, fc.constantFrom("a.yaml", "a.json"), async (text, name) => {
        const bytes = Buffer.from(text);
        const placed = await readDocuments(
          name,
          bytes,
          () => undefined,
          async () => undefined,
        );
        for (const { document, line } of placed) {
          const lines = text.split("\n").length;
          expect(line + (document.fault?.line ?? 0)).toBeLessThanOrEqual(lines);
          const said = [document.fault?.text ?? "", ...document.problems.map((problem) => problem.text)];
          for (const sentence of said) expect(sentence).toMatch(/^[\x20-\x7e]*$/);
        }
      }),
      { numRuns: 2_000 },
    );
  }, 30_000);

  it("says of a fault in which line of its document it is", async () => {
    const { placed } = await read(`${namespace("a")}---\nx: 1\ny: [\n`);
    expect(placed[1]).toMatchObject({
      line: 5,
      document: { entries: [], fault: { line: expect.any(Number) } },
    });
    expect(placed[1]?.document.fault?.line).toBeGreaterThanOrEqual(2);
  });
});

// Bytes to lines and items, cut anywhere: what comes out does not depend on where.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ParseError } from "../../../lib/kubernetes/errors.ts";
import { createItemSplitter } from "../../../lib/kubernetes/items.ts";
import { createLineSplitter } from "../../../lib/kubernetes/lines.ts";

const LIMIT = 1_000_000;

/** The bytes of `text` in pieces of the given sizes, in turn; empty pieces too. */
function pieces(text: string, sizes: readonly number[]): readonly Uint8Array[] {
  const bytes = Buffer.from(text);
  const found: Uint8Array[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes.length === 0 ? bytes.length : (sizes[turn % sizes.length] ?? 1);
    // A copy, as buffers of a socket are used again.
    found.push(Uint8Array.from(bytes.subarray(at, at + size)));
    at += size;
  }
  return found;
}

const sizes = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 8 }).filter((all) => {
  return all.some((size) => size > 0);
});
/** Keys and texts that look like the list around them. */
const text = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.constantFrom('"items":[', "items", '\\"', "\\", "{[", "]}", '{"a":"', "\n", "äöü€😀", "}]}"),
);
const object = fc.dictionary(
  text,
  fc.oneof(
    text,
    fc.integer(),
    fc.constant(null),
    fc.array(fc.oneof(text, fc.dictionary(text, text)), { maxLength: 3 }),
    fc.dictionary(text, text, { maxKeys: 3 }),
  ),
  { maxKeys: 4 },
);
const printed = (value: unknown, spaces: number): string => JSON.stringify(value, null, spaces);

describe("lines", () => {
  const split = (chunks: readonly Uint8Array[]) => {
    const splitter = createLineSplitter(LIMIT);
    return chunks.flatMap((chunk) => [...splitter.push(chunk)]);
  };

  it("are the same wherever the bytes were cut", () => {
    fc.assert(
      fc.property(fc.array(object), sizes, fc.boolean(), (objects, cuts, whole) => {
        const all = objects.map((one) => JSON.stringify(one));
        const end = whole || all.length === 0 ? "" : '{"half":';
        expect(split(pieces(all.map((line) => `${line}\n`).join("") + end, cuts))).toEqual(all);
      }),
    );
  });

  it("may be empty, or end as on another system", () => {
    expect(split(pieces('\n{"a":1}\r\n\n', []))).toEqual(['{"a":1}\r']);
  });

  it("are not gathered without end", () => {
    const splitter = createLineSplitter(10);
    expect([...splitter.push(Buffer.from("0123456789"))]).toEqual([]);
    expect(() => [...splitter.push(Buffer.from("0"))]).toThrow(ParseError);
  });
});

describe("items", () => {
  const split = (chunks: readonly Uint8Array[], limit = LIMIT) => {
    const splitter = createItemSplitter(limit);
    const items = chunks.flatMap((chunk) => [...splitter.push(chunk)]);
    return { items: items.map((item) => JSON.parse(item) as unknown), around: splitter.end() };
  };

  it("are those that JSON.parse finds, wherever the bytes were cut", () => {
    const list = fc.record(
      {
        before: fc.dictionary(text, fc.oneof(text, object, fc.array(object)), { maxKeys: 3 }),
        items: fc.array(object),
        after: fc.dictionary(text, fc.oneof(text, object, fc.array(object)), { maxKeys: 3 }),
      },
      { requiredKeys: ["before", "items", "after"] },
    );
    fc.assert(
      fc.property(list, sizes, fc.constantFrom(0, 2), ({ before, items, after }, cuts, spaces) => {
        const whole: Record<string, unknown> = {
          ...without(before),
          items,
          metadata: { resourceVersion: "7", items: [{ items: [1] }] },
          ...without(after),
        };
        const found = split(pieces(printed(whole, spaces), cuts));
        expect(found.items).toEqual(items);
        expect(found.around).toEqual({ ...whole, items: [] });
      }),
    );
  });

  it("are none in a list without, or with null", () => {
    expect(split(pieces('{"kind":"PodList","items":[],"metadata":{}}', [3])).items).toEqual([]);
    expect(split(pieces('{"kind":"PodList","items":null}\n', [3])).around).toEqual({
      kind: "PodList",
      items: null,
    });
  });

  it("are handed on as they come, not at the end", () => {
    const splitter = createItemSplitter(LIMIT);
    expect([...splitter.push(Buffer.from('{"items":[{"a":1},{"b":'))]).toEqual(['{"a":1}']);
    expect([...splitter.push(Buffer.from("2},"))]).toEqual(['{"b":2}']);
  });

  const whole = '{"kind":"PodList","items":[{"a":"x"},{"b":[1]}],"metadata":{"resourceVersion":"7"}}';
  it("of a list that was cut are never a whole list", () => {
    for (let length = 0; length < whole.length; length++)
      expect(() => split(pieces(whole.slice(0, length), [5]))).toThrow(ParseError);
  });

  it.each([
    "<html></html>",
    "[]",
    '"items"',
    "{}{}",
    "{}]",
    '{"items":[1]}',
    '{"items":[{}],}',
    '{"items":[[1]',
  ])("are not found in %s", (bad) => {
    expect(() => split(pieces(bad, [2]))).toThrow(ParseError);
  });

  it("are not gathered without end", () => {
    expect(() => split(pieces(whole.replace('"x"', JSON.stringify("x".repeat(200))), [50]), 100)).toThrow(
      ParseError,
    );
  });
});

function without(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { items: _, metadata: __, ...rest } = record;
  return rest;
}

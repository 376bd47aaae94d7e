// Cutting a stream of bytes into messages: wherever the chunks end, whatever the strings hold.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OversizedError, ParseError } from "../../../lib/ovsdb-client/errors.ts";
import { createFrameSplitter } from "../../../lib/ovsdb-client/frames.ts";

const MiB = 1024 * 1024;
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

function splitAll(chunks: readonly Uint8Array[], limitBytes = MiB): readonly string[] {
  const splitter = createFrameSplitter(limitBytes);
  return chunks.flatMap((chunk) => splitter.push(chunk));
}

/** Every text in two pieces, at every byte. */
function inTwo(text: string): readonly (readonly Uint8Array[])[] {
  const bytes = bytesOf(text);
  return Array.from({ length: bytes.length + 1 }, (_, at) => [bytes.subarray(0, at), bytes.subarray(at)]);
}

describe("one message", () => {
  it.each([
    '{"id":"echo","method":"echo","params":[]}',
    "{}",
    '{"a":{"b":{"c":[{},{"d":"}"}]}}}',
    '{"text":"braces }{ and \\"quotes\\" and \\\\"}',
    '{"text":"\\\\\\\\"}',
    '{"text":"\\\\\\""}',
    '{"é":"héllo — 日本語 🦈"}',
    '{"text":"\\u007b\\ud83e\\udd88"}',
    '{ "blank" :\n\t[ 1 , 2 ]\r\n}',
  ])("comes whole however it is cut: %s", (text) => {
    for (const chunks of inTwo(text)) expect(splitAll(chunks)).toEqual([text]);
    expect(splitAll([...bytesOf(text)].map((byte) => Uint8Array.of(byte)))).toEqual([text]);
  });
});

describe("several messages", () => {
  it("come in order out of one chunk, with or without blanks between them", () => {
    expect(splitAll([bytesOf('{"a":1}{"b":2}\n {"c":3}\r\n\t')])).toEqual(['{"a":1}', '{"b":2}', '{"c":3}']);
  });

  it("come out of any chunks at all", () => {
    const message = fc
      .dictionary(fc.string({ unit: "grapheme" }), fc.jsonValue())
      .map((of) => JSON.stringify(of));
    fc.assert(
      fc.property(fc.array(message, { maxLength: 6 }), fc.array(fc.nat(40)), (messages, sizes) => {
        const bytes = bytesOf(messages.join(""));
        const chunks: Uint8Array[] = [];
        let at = 0;
        for (const size of sizes) {
          chunks.push(bytes.subarray(at, at + size));
          at += size;
        }
        chunks.push(bytes.subarray(Math.min(at, bytes.length)));
        expect(splitAll(chunks)).toEqual(messages);
      }),
    );
  });

  it("are handed out as soon as their last byte is there, and not before", () => {
    const splitter = createFrameSplitter(MiB);
    expect(splitter.push(bytesOf('{"a":1}{"b"'))).toEqual(['{"a":1}']);
    expect(splitter.push(bytesOf(":2"))).toEqual([]);
    expect(splitter.push(bytesOf("}"))).toEqual(['{"b":2}']);
    expect(splitter.push(new Uint8Array())).toEqual([]);
  });
});

describe("a large message", () => {
  it("of 50 MB in small chunks is put together once, not once for each chunk", () => {
    const item = `"${"x".repeat(1_000)}\\"}"`;
    const text = `{"result":[${Array.from({ length: 50_000 }, () => item).join(",")}]}`;
    const bytes = bytesOf(text);
    const splitter = createFrameSplitter(64 * MiB);
    const found: string[] = [];
    // 100 000 chunks: what is copied again for each of them would be terabytes, and the test's deadline long over.
    for (let at = 0; at < bytes.length; at += 512) found.push(...splitter.push(bytes.subarray(at, at + 512)));
    expect(found).toHaveLength(1);
    expect(found[0] === text).toBe(true);
  });

  it.each([
    ["in one chunk", [bytesOf(`{"a":"${"x".repeat(100)}"}`)]],
    ["in many", [...bytesOf(`{"a":"${"x".repeat(100)}"}`)].map((byte) => Uint8Array.of(byte))],
    ["that never ends", [bytesOf(`{"a":"${"x".repeat(100)}`)]],
  ])("is refused beyond the limit: %s", (_, chunks) => {
    expect(() => splitAll(chunks, 50)).toThrow(OversizedError);
  });

  it("may be as large as the limit, each on its own", () => {
    const text = `{"a":"${"x".repeat(42)}"}`;
    expect(text).toHaveLength(50);
    expect(splitAll([bytesOf(text + text + text)], 50)).toEqual([text, text, text]);
    expect(() => splitAll([bytesOf(text)], 49)).toThrow(OversizedError);
  });
});

describe("what is no message", () => {
  it.each(["x", "[1]", '"text"', "}", '{"a":1},{"b":2}', "null"])("is refused: %s", (text) => {
    expect(() => splitAll([bytesOf(text)])).toThrow(ParseError);
  });

  it("is not made into text when it is not UTF-8", () => {
    const bytes = bytesOf('{"a":"é"}');
    const at = bytes.indexOf(0xc3);
    expect(() => splitAll([bytes.with(at + 1, 0x41)])).toThrow(ParseError);
  });
});

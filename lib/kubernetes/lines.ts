// A watch's bytes to its lines, cut anywhere: one JSON object a line. In: chunks as they come. Out: the text of each whole
// line. A character is never cut, since a line feed is no part of one in UTF-8. Pure.
import { ParseError } from "./errors.ts";

const LINE_FEED = 0x0a;

export interface LineSplitter {
  /** The lines that `chunk` completes, in order; empty ones are left out. Throws ParseError for one over the limit. */
  push(chunk: Uint8Array): Generator<string>;
}

export function createLineSplitter(limitBytes: number): LineSplitter {
  let pieces: Uint8Array[] = [];
  let size = 0;
  return {
    *push(chunk) {
      let start = 0;
      for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
        const text = joined(pieces, chunk.subarray(start, end));
        pieces = [];
        size = 0;
        start = end + 1;
        if (text.trim() !== "") yield text;
      }
      if (start === chunk.length) return;
      pieces.push(chunk.subarray(start));
      size += chunk.length - start;
      if (size > limitBytes) throw new ParseError(`a line of more than ${limitBytes} bytes`);
    },
  };
}

/** Text of bytes that came in pieces. */
export function joined(pieces: readonly Uint8Array[], last: Uint8Array): string {
  const whole = pieces.length === 0 ? last : Buffer.concat([...pieces, last]);
  return Buffer.from(whole.buffer, whole.byteOffset, whole.byteLength).toString("utf8");
}

// Bytes to messages: JSON objects that follow each other without a delimiter (RFC 7047, 4), cut anywhere.
// In: chunks as they come. Out: the text of each whole message. Each byte is looked at once, however many chunks a
// message takes. Pure.
import { OversizedError, ParseError } from "./errors.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN = 0x7b;
const CLOSE = 0x7d;

/** Space, tab, line feed, carriage return: what JSON allows between values. */
const isBlank = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

export interface FrameSplitter {
  /**
   * The messages that `chunk` completes, in order. Throws OversizedError for one of more than the limit, ParseError for
   * anything between messages that is not blank, and for bytes that are not UTF-8; then the splitter is of no more use.
   */
  push(chunk: Uint8Array): readonly string[];
}

export function createFrameSplitter(limitBytes: number): FrameSplitter {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** Whole chunks of the message that has begun. */
  let pieces: Uint8Array[] = [];
  let size = 0;
  let depth = 0;
  let inString = false;
  /** The byte before was a backslash in a string, at the very end of a chunk. */
  let escaped = false;

  const text = (bytes: Uint8Array): string => {
    try {
      return decoder.decode(bytes);
    } catch (cause) {
      throw new ParseError("a message that is not UTF-8", cause);
    }
  };

  const whole = (last: Uint8Array): string => {
    if (size + last.length > limitBytes) throw new OversizedError(limitBytes);
    if (pieces.length === 0) return text(last);
    const bytes = new Uint8Array(size + last.length);
    let at = 0;
    for (const piece of pieces) {
      bytes.set(piece, at);
      at += piece.length;
    }
    bytes.set(last, at);
    pieces = [];
    size = 0;
    return text(bytes);
  };

  return {
    push: (chunk) => {
      const messages: string[] = [];
      const end = chunk.length;
      let start = 0;
      let at = 0;
      if (escaped && end > 0) {
        escaped = false;
        at = 1;
      }
      while (at < end) {
        let byte = chunk[at] as number;
        if (inString) {
          // Most bytes of a dump are inside strings.
          while (byte !== QUOTE && byte !== BACKSLASH && ++at < end) byte = chunk[at] as number;
          if (at >= end) break;
          if (byte === QUOTE) inString = false;
          else if (++at >= end) {
            escaped = true;
            break;
          }
        } else if (depth === 0) {
          if (byte === OPEN) {
            depth = 1;
            start = at;
          } else if (!isBlank(byte)) throw new ParseError(`byte 0x${byte.toString(16)} between messages`);
        } else if (byte === QUOTE) inString = true;
        else if (byte === OPEN) depth++;
        else if (byte === CLOSE && --depth === 0) messages.push(whole(chunk.subarray(start, at + 1)));
        at++;
      }
      if (depth > 0) {
        const rest = chunk.subarray(start);
        pieces.push(rest);
        size += rest.length;
        if (size > limitBytes) throw new OversizedError(limitBytes);
      }
      return messages;
    },
  };
}

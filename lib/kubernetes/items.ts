// A list's bytes to its items, cut anywhere: `{"kind":"PodList",…,"items":[{…},{…}]}` is never in memory as a whole. In:
// chunks as they come. Out: the text of each item, and at the end everything around them. Pure.
import { ParseError } from "./errors.ts";
import { joined } from "./lines.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN = 0x7b;
const CLOSE = 0x7d;
const ITEMS = '"items"';

export interface ItemSplitter {
  /** The text of each item that `chunk` completes, in order. Throws ParseError for what is no JSON object. */
  push(chunk: Uint8Array): Generator<string>;
  /** The object without its items: `{"kind":"PodList",…,"items":[]}`. Throws ParseError where the end was not reached. */
  end(): Readonly<Record<string, unknown>>;
}

/**
 * Depth is counted outside of strings only. Items are what stands at depth two in the list that follows the key `items` of
 * the outermost object: everything from depth three on belongs to the item it is in.
 */
export function createItemSplitter(limitBytes: number): ItemSplitter {
  /** Of the item that has begun, or of what is around the items. */
  let pieces: Uint8Array[] = [];
  let size = 0;
  let around = "";
  let depth = 0;
  let inString = false;
  /** The byte before was a backslash in a string, at the very end of a chunk. */
  let escaped = false;
  let inItems = false;
  let over = false;

  const take = (last: Uint8Array): string => {
    const text = joined(pieces, last);
    pieces = [];
    size = 0;
    return text;
  };
  const keep = (rest: Uint8Array): void => {
    if (rest.length === 0) return;
    pieces.push(rest);
    size += rest.length;
    if (size > limitBytes)
      throw new ParseError(`${inItems ? "an item" : "a list"} of more than ${limitBytes} bytes`);
  };

  return {
    *push(chunk) {
      const end = chunk.length;
      /** Where what is being gathered began. */
      let start = 0;
      let at = 0;
      if (escaped && end > 0) {
        escaped = false;
        at = 1;
      }
      for (; at < end; at++) {
        let byte = chunk[at] as number;
        if (inString) {
          while (byte !== QUOTE && byte !== BACKSLASH && ++at < end) byte = chunk[at] as number;
          if (at >= end) break;
          if (byte === QUOTE) inString = false;
          else if (++at >= end) escaped = true;
          continue;
        }
        if (byte === QUOTE) inString = true;
        else if (byte === OPEN || byte === OPEN_LIST) {
          if (over || (depth === 0 && byte !== OPEN)) throw new ParseError("not one JSON object");
          depth++;
          if (depth === 2 && byte === OPEN_LIST && !inItems) {
            const text = take(chunk.subarray(start, at + 1));
            start = at + 1;
            around += text;
            inItems = endsWithItemsKey(around);
          } else if (depth === 3 && inItems) start = at;
        } else if (byte === CLOSE || byte === CLOSE_LIST) {
          depth--;
          if (depth === 2 && inItems) {
            yield take(chunk.subarray(start, at + 1));
            start = at + 1;
          } else if (depth === 1 && inItems) {
            inItems = false;
            start = at;
          } else if (depth === 0) over = true;
          else if (depth < 0) throw new ParseError("not one JSON object");
        } else if (depth === 2 && inItems && byte > 0x20 && byte !== COMMA)
          throw new ParseError("an item that is no object");
      }
      // Between items nothing is kept.
      if (!(inItems && depth === 2)) keep(chunk.subarray(start));
    },
    end() {
      const text = around + take(new Uint8Array());
      if (!over) throw new ParseError(`a list that was cut after ${text.length} characters`);
      const value: unknown = parsed(text);
      return value as Readonly<Record<string, unknown>>;
    },
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ParseError("a list that is no JSON", cause);
  }
}

/** `…,"items" : [`; a value that ends like this has its quotes escaped. */
function endsWithItemsKey(text: string): boolean {
  const before = text.slice(0, -1).trimEnd();
  if (before.charCodeAt(before.length - 1) !== COLON) return false;
  const key = before.slice(0, -1).trimEnd();
  return key.endsWith(ITEMS) && !key.endsWith(`\\${ITEMS}`);
}

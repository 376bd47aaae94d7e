// Text of a watch's line or a list's item to what is kept of it. In: JSON text. Out: what happened to which object, in which
// version. Throws ParseError for text that is none of the API's. Pure.
import { ParseError } from "./errors.ts";

type Raw = Readonly<Record<string, unknown>>;

/** An object and what identifies it. */
export interface Item {
  /** `namespace/name`, or `name`. */
  readonly key: string;
  /** UID and resourceVersion: another one is another object, or another state of it. */
  readonly version: Version;
  readonly raw: Raw;
}

export interface Version {
  readonly uid: string;
  readonly resourceVersion: string;
}

export type Event =
  | { readonly type: "put"; readonly item: Item }
  | { readonly type: "delete"; readonly item: Item }
  | { readonly type: "bookmark"; readonly resourceVersion: string; readonly initialEventsEnd: boolean }
  | { readonly type: "error"; readonly status: Raw };

/** KEP-3157: says that all objects of a watch with sendInitialEvents have been sent. */
const INITIAL_EVENTS_END = "k8s.io/initial-events-end";

export function readEvent(line: string): Event {
  const event = parsed(line);
  const { type, object } = isObject(event) ? event : {};
  if (!isObject(object)) throw new ParseError(`an event without object: ${line.slice(0, 200)}`);
  switch (type) {
    case "ADDED":
    case "MODIFIED":
      return { type: "put", item: itemOf(object) };
    case "DELETED":
      return { type: "delete", item: itemOf(object) };
    case "BOOKMARK": {
      const { metadata } = object;
      const annotations = isObject(metadata) ? metadata["annotations"] : undefined;
      return {
        type: "bookmark",
        resourceVersion: resourceVersionOf(object),
        initialEventsEnd: isObject(annotations) && annotations[INITIAL_EVENTS_END] === "true",
      };
    }
    case "ERROR":
      return { type: "error", status: object };
    default:
      throw new ParseError(`an event of type ${JSON.stringify(type)}`);
  }
}

export const readItem = (text: string): Item => itemOf(parsed(text));

function itemOf(raw: unknown): Item {
  const metadata = isObject(raw) ? raw["metadata"] : undefined;
  if (!isObject(raw) || !isObject(metadata)) throw new ParseError("an object without metadata");
  const { name, namespace, uid } = metadata;
  if (typeof name !== "string" || name === "") throw new ParseError("an object without name");
  return {
    key: typeof namespace === "string" && namespace !== "" ? `${namespace}/${name}` : name,
    version: { uid: typeof uid === "string" ? uid : "", resourceVersion: resourceVersionOf(raw) },
    raw,
  };
}

/** Of an object, or of a list. */
export function resourceVersionOf({ metadata }: Raw): string {
  const version = isObject(metadata) ? metadata["resourceVersion"] : undefined;
  if (typeof version !== "string" || version === "")
    throw new ParseError("an object without resourceVersion");
  return version;
}

/**
 * Whether `a` is an older state of the whole than `b`. They are the store's revisions, and told to be comparable since
 * Kubernetes 1.35 (KEP-5504); ones that are no numbers are taken as not older.
 */
export const isBefore = (a: string, b: string): boolean =>
  NUMBER.test(a) && NUMBER.test(b) && (a.length === b.length ? a < b : a.length < b.length);

/** As servers write them; of any length, so they are compared as text. */
const NUMBER = /^(?:0|[1-9]\d*)$/;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ParseError(`no JSON: ${text.slice(0, 200)}`, cause);
  }
}

const isObject = (value: unknown): value is Raw =>
  typeof value === "object" && value !== null && !Array.isArray(value);

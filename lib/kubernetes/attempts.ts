// The two questions that a reflection asks: for a list, in pages, and for a watch. In: where, and what takes what comes. Out:
// what it came to, and thrown what kept it from that.
import { ParseError, UnreachableError } from "./errors.ts";
import { type Event, isBefore, readEvent, readItem, resourceVersionOf } from "./events.ts";
import { createItemSplitter } from "./items.ts";
import { createLineSplitter } from "./lines.ts";
import { expectWithin, type Reading, readInSlices } from "./reading.ts";
import { statusError } from "./status.ts";
import type { Gathering, Known, Store } from "./store.ts";
import type { Answer, Transport } from "./transport.ts";

export interface Attempt extends Reading {
  readonly transport: Transport;
  readonly path: string;
  /** Selectors. */
  readonly query: Readonly<Record<string, string>>;
}

/** etcd keeps a value below 1.5 MiB, as protobuf; JSON of it is larger. */
const LIMIT_BYTES = 32 * 1024 * 1024;
const PAGE = "500";

/** The answer, which begins in time. */
async function ask(attempt: Attempt, query: Attempt["query"]): Promise<Answer> {
  const { transport, path, abort, onContact } = attempt;
  const cancel = expectWithin(attempt, `GET ${path}`);
  try {
    const answer = await transport.open("GET", path, { query, signal: abort.signal });
    onContact();
    return answer;
  } finally {
    cancel();
  }
}

type Around = Readonly<Record<string, unknown>>;

/** One page: hands on its items, returns what is around them. Throws for anything that is not a whole list. */
async function page(
  attempt: Attempt,
  query: Attempt["query"],
  take: (text: string) => void,
): Promise<Around> {
  const answer = await ask(attempt, query);
  const items = createItemSplitter(LIMIT_BYTES);
  await readInSlices(answer, items.push, take, attempt);
  const around = items.end();
  if (typeof around["kind"] !== "string" || !around["kind"].endsWith("List") || !("items" in around))
    throw new ParseError(`${answer.asked}: the answer is no list`);
  return around;
}

/** Gathers everything and returns its resourceVersion; nothing is committed. Throws for anything that is not a whole list. */
export async function list(attempt: Attempt, gathering: Gathering, paged: boolean): Promise<string> {
  const query = { ...attempt.query, ...(paged ? { limit: PAGE } : {}) };
  let resourceVersion: string | undefined;
  let next = "";
  do {
    const wanted = next === "" ? query : { ...query, continue: next };
    const around = await page(attempt, wanted, (text) => gathering.put(readItem(text)));
    const version = resourceVersionOf(around);
    if (resourceVersion !== undefined && version !== resourceVersion)
      throw new ParseError(`${attempt.path}: pages of different lists, ${resourceVersion} and ${version}`);
    resourceVersion = version;
    const { continue: more } = around["metadata"] as { continue?: unknown };
    next = typeof more === "string" ? more : "";
  } while (next !== "");
  return resourceVersion;
}

export type Progress = "ahead" | "behind" | "unknown";

/**
 * Whether the server is behind what was seen: its store was restored from a copy. A watch from a version that is yet to come
 * is taken by servers, and then silent for as long; one that has come as far again tells what it did since, not what it undid. So it
 * is asked for what changed last before, by name, where `known` has something: servers look that up. Where all of it is gone, that
 * is unknown. Without any it is asked without selectors, for which it would have to search.
 */
export async function progressOf(
  attempt: Attempt,
  resourceVersion: string,
  known: readonly (Known & { readonly path: string })[],
): Promise<Progress> {
  for (const { path, key, resourceVersion: before } of known) {
    let now: string | undefined;
    const query = { limit: "1", fieldSelector: `metadata.name=${key.slice(key.indexOf("/") + 1)}` };
    const around = await page({ ...attempt, path }, query, (text) => {
      now = readItem(text).version.resourceVersion;
    });
    if (isBefore(resourceVersionOf(around), resourceVersion)) return "behind";
    if (now !== undefined) return isBefore(now, before) ? "behind" : "ahead";
  }
  if (known.length > 0) return "unknown";
  const around = await page(attempt, { limit: "1" }, () => {});
  return isBefore(resourceVersionOf(around), resourceVersion) ? "behind" : "ahead";
}

/** Of a watch that runs: what it has come to. */
export interface Position {
  resourceVersion: string | undefined;
}

export interface WatchParts {
  /** After which the server ends it. */
  readonly timeoutSeconds: number;
  readonly gathering: Gathering | undefined;
  /** The server took it. */
  onOpen(): void;
  onEvent(): void;
  /** The store is right at a newer version. */
  onMoved(): void;
  onListed(resourceVersion: string): void;
}

/**
 * Follows a watch into the store until it ends; the position is moved along, so that it holds whatever is thrown. With
 * `gathering` the watch begins with all objects, and `onListed` is called when they are there.
 */
export async function watch(
  attempt: Attempt,
  store: Pick<Store<unknown>, "put" | "remove">,
  position: Position,
  { timeoutSeconds, gathering, onOpen, onEvent, onMoved, onListed }: WatchParts,
): Promise<void> {
  const answer = await ask(attempt, {
    ...attempt.query,
    watch: "true",
    allowWatchBookmarks: "true",
    timeoutSeconds: String(timeoutSeconds),
    ...(gathering === undefined
      ? { resourceVersion: position.resourceVersion ?? "" }
      : { sendInitialEvents: "true", resourceVersionMatch: "NotOlderThan" }),
  });
  onOpen();
  let into: Pick<Store<unknown>, "put" | "remove"> = gathering ?? store;
  const move = (resourceVersion: string): void => {
    position.resourceVersion = resourceVersion;
    onMoved();
  };
  const take = (event: Event): void => {
    onEvent();
    switch (event.type) {
      case "put":
      case "delete":
        into[event.type === "put" ? "put" : "remove"](event.item);
        if (into === store) move(event.item.version.resourceVersion);
        return;
      case "bookmark":
        if (event.initialEventsEnd && into !== store) {
          into = store;
          position.resourceVersion = event.resourceVersion;
          gathering?.commit();
          onListed(event.resourceVersion);
        } else if (into === store) move(event.resourceVersion);
        return;
      case "error":
        throw statusError(answer.asked, event.status);
    }
  };
  const lines = createLineSplitter(LIMIT_BYTES);
  await readInSlices(answer, lines.push, (line) => take(readEvent(line)), attempt);
  // Half a line at the end tells nothing: its event is sent again, to whoever goes on from the last whole one.
  if (into !== store) throw new UnreachableError(`${answer.asked}: ended before all objects were sent`);
}

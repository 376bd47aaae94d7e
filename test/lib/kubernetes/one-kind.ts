// Pods of a scripted server: a store with revisions, listed in pages and watched, that can be told to misbehave. As a real server
// answers (1.20 for lists and watches, 1.33 for watchLists), where test/cluster shows that it does.
import type { Handler, Question, Reply } from "./scripted-server.ts";

export interface Pod {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
  };
  readonly value: string;
}

/** Answers in place of the store; where it returns true, the store answers. */
export type Fault = (question: Question, reply: Reply) => unknown;

export interface OneKind {
  readonly handler: Handler;
  /** For the next questions, one each; for the next watches; and for the next lists that are more than a question how far it is. */
  readonly faults: Fault[];
  readonly watchFaults: Fault[];
  readonly listFaults: Fault[];
  readonly objects: ReadonlyMap<string, Pod>;
  revision: number;
  /** Knows sendInitialEvents. */
  watchList: boolean;
  /** Of expired watches: as HTTP status, or as an event. */
  expiry: "status" | "event";
  /** The kind is there. */
  known: boolean;
  /** Watches that run. */
  readonly watches: number;
  put(name: string, value?: string): void;
  remove(name: string): void;
  /** What lies before now is not told any more. */
  compact(): void;
  bookmark(): void;
  /** Of running watches. */
  end(how: "end" | "reset"): void;
  /** As from a copy of earlier. */
  restore(revision: number): void;
}

interface Happened {
  readonly revision: number;
  readonly type: string;
  readonly object: Pod;
}

export const status = (code: number, reason: string, details?: object) => ({
  kind: "Status",
  apiVersion: "v1",
  status: "Failure",
  code,
  reason,
  message: `it is ${reason}`,
  details,
});

export function oneKind(): OneKind {
  const objects = new Map<string, Pod>();
  let happened: Happened[] = [];
  /** What there was at each revision, for copies of it. */
  const past: { readonly revision: number; readonly objects: readonly (readonly [string, Pod])[] }[] = [
    { revision: 1, objects: [] },
  ];
  let compacted = 0;
  let uids = 0;
  const watches = new Set<Reply>();
  const pages = new Map<string, { readonly revision: number; readonly rest: readonly Pod[] }>();

  const tell = (type: string, object: Pod): void => {
    happened.push({ revision: kind.revision, type, object });
    past.push({ revision: kind.revision, objects: [...objects] });
    for (const reply of watches) reply.write({ type, object });
  };
  const bookmark = (annotations?: object) => ({
    type: "BOOKMARK",
    object: { kind: "Pod", metadata: { resourceVersion: String(kind.revision), annotations } },
  });

  const list = ({ query }: Question, reply: Reply): void => {
    const { continue: wanted } = query;
    const page = pages.get(wanted ?? "");
    if (wanted !== undefined && (page === undefined || page.revision < compacted)) {
      reply.send(410, status(410, "Expired"));
      return;
    }
    const wants = query["fieldSelector"]?.replace(/^metadata\.name=/, "");
    const all = [...objects.values()].filter(({ metadata }) => (wants ?? metadata.name) === metadata.name);
    const { revision, rest } = page ?? { revision: kind.revision, rest: all };
    const limit = Number(query["limit"] ?? Number.POSITIVE_INFINITY);
    const token = `${revision}-${rest.length}`;
    const more = rest.length > limit ? token : undefined;
    if (more !== undefined) pages.set(token, { revision, rest: rest.slice(limit) });
    const metadata = { resourceVersion: String(revision), continue: more };
    reply.send(200, { kind: "PodList", apiVersion: "v1", metadata, items: rest.slice(0, limit) });
  };

  const watch = ({ query }: Question, reply: Reply): void => {
    if (query["resourceVersionMatch"] !== undefined) {
      if (!kind.watchList) {
        reply.send(422, status(422, "Invalid"));
        return;
      }
      reply.write(...[...objects.values()].map((object) => ({ type: "ADDED", object })));
      reply.write(bookmark({ "k8s.io/initial-events-end": "true" }));
    } else {
      const from = Number(query["resourceVersion"]);
      if (from < compacted) {
        if (kind.expiry === "status") reply.send(410, status(410, "Expired"));
        else {
          reply.write({ type: "ERROR", object: status(410, "Expired") });
          reply.end();
        }
        return;
      }
      reply.write();
      for (const { revision, type, object } of happened) if (revision > from) reply.write({ type, object });
    }
    watches.add(reply);
  };

  const kind: OneKind = {
    faults: [],
    watchFaults: [],
    listFaults: [],
    objects,
    revision: 1,
    watchList: false,
    expiry: "event",
    known: true,
    get watches() {
      for (const reply of watches) if (reply.closed) watches.delete(reply);
      return watches.size;
    },
    handler: (question, reply) => {
      const isWatch = question.query["watch"] === "true";
      const own = isWatch ? kind.watchFaults : question.query["limit"] === "1" ? [] : kind.listFaults;
      const fault = kind.faults.shift() ?? own.shift();
      if (fault !== undefined && fault(question, reply) !== true) return;
      if (!kind.known) reply.send(404, "404 page not found\n");
      else if (isWatch) watch(question, reply);
      else list(question, reply);
    },
    put: (name, value = name) => {
      const known = objects.get(name);
      const uid = known?.metadata.uid ?? `uid-${++uids}`;
      const resourceVersion = String(++kind.revision);
      const object: Pod = { metadata: { name, namespace: "shop", uid, resourceVersion }, value };
      objects.set(name, object);
      tell(known === undefined ? "ADDED" : "MODIFIED", object);
    },
    remove: (name) => {
      const known = objects.get(name);
      if (known === undefined) return;
      objects.delete(name);
      const metadata = { ...known.metadata, resourceVersion: String(++kind.revision) };
      tell("DELETED", { ...known, metadata });
    },
    compact: () => {
      compacted = ++kind.revision;
      happened = [];
    },
    bookmark: () => {
      kind.revision++;
      for (const reply of watches) reply.write(bookmark());
    },
    end: (how) => {
      for (const reply of watches) reply[how]();
      watches.clear();
    },
    restore: (revision) => {
      kind.end("reset");
      while ((past.at(-1)?.revision ?? 0) > revision) past.pop();
      objects.clear();
      for (const [name, object] of past.at(-1)?.objects ?? []) objects.set(name, object);
      kind.revision = revision;
      happened = [];
      // A server that starts knows what is, and nothing of how it came to be.
      compacted = revision;
    },
  };
  return kind;
}

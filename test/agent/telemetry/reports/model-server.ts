// An API server as far as reports use one: events and one Node, merge and JSON patches, refusals as a test has them.
// What the real one does is in test/cluster; here each request is noted with its time. In: requests. Out: answers, StatusErrors.
import { type Cluster, StatusError, UnreachableError } from "../../../../lib/kubernetes/index.ts";

interface Requested {
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  /** What it changed, `Node/node1`; undefined for a refusal, and for what changed nothing. */
  readonly wrote: string | undefined;
}

export interface ModelServer {
  readonly request: Cluster["request"];
  readonly requests: readonly Requested[];
  /** Bodies of events by name. */
  readonly events: Map<string, Record<string, unknown>>;
  annotations: Record<string, string> | undefined;
  /** Answers so instead: a code, or no answer at all. */
  refuse: ((method: string, path: string) => Refused | undefined) | undefined;
}

export type Refused = { readonly code: number; readonly retryAfterMs?: number } | "unreachable";

interface Operation {
  readonly op: string;
  readonly path: string;
  readonly value?: unknown;
}

export function modelServer(now: () => number): ModelServer {
  const requests: Requested[] = [];
  const server: ModelServer = {
    requests,
    events: new Map(),
    annotations: {},
    refuse: undefined,
    request: async (method, path, { body, signal } = {}) => {
      // An answer takes a while.
      await Promise.resolve();
      signal?.throwIfAborted();
      let wrote: string | undefined;
      const at = now();
      try {
        const refused = server.refuse?.(method, path);
        if (refused === "unreachable") throw new UnreachableError("connect ECONNREFUSED");
        if (refused !== undefined) throw statusError(refused.code, `${method} ${path}`, refused.retryAfterMs);
        const { answer, ...change } = path.startsWith("/api/v1/nodes/")
          ? patchNode(server, body as readonly Operation[])
          : writeEvent(server, method, path, body as Record<string, unknown>);
        wrote = change.wrote;
        return answer;
      } finally {
        requests.push({ at, method, path, body, wrote });
      }
    },
  };
  return server;
}

interface Answered {
  readonly answer: unknown;
  readonly wrote: string | undefined;
}

function writeEvent(
  { events }: ModelServer,
  method: string,
  path: string,
  body: Record<string, unknown>,
): Answered {
  const name =
    method === "POST" ? (body["metadata"] as { readonly name: string }).name : (path.split("/").at(-1) ?? "");
  const before = events.get(name);
  if (method === "POST" && before !== undefined) throw statusError(409, `events "${name}" already exists`);
  if (method === "PATCH" && before === undefined) throw statusError(404, `events "${name}" not found`);
  const after = { ...before, ...body };
  events.set(name, after);
  return {
    answer: after,
    wrote: JSON.stringify(after) === JSON.stringify(before) ? undefined : `Event/${name}`,
  };
}

function patchNode(server: ModelServer, operations: readonly Operation[]): Answered {
  let annotations = server.annotations === undefined ? undefined : { ...server.annotations };
  for (const { op, path, value } of operations) {
    const refused = statusError(422, "the server rejected our request due to an error in our request");
    if (path === "/metadata/annotations") {
      if (op === "test" && annotations !== undefined) throw refused;
      if (op === "add") annotations = { ...(value as Record<string, string>) };
      continue;
    }
    const key = path.slice("/metadata/annotations/".length).replaceAll("~1", "/").replaceAll("~0", "~");
    if (annotations === undefined && op !== "test") throw refused;
    if (op === "test" && (annotations?.[key] ?? null) !== value) throw refused;
    if ((op === "remove" || op === "replace") && annotations?.[key] === undefined) throw refused;
    if (op === "remove") delete annotations?.[key];
    if (op === "replace" || op === "add") annotations = { ...annotations, [key]: String(value) };
  }
  server.annotations = annotations;
  return { answer: { metadata: { annotations } }, wrote: "Node/node1" };
}

function statusError(code: number, message: string, retryAfterMs?: number): StatusError {
  return new StatusError("model", { code, reason: "", message, retryAfterMs, details: undefined });
}

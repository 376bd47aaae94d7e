// Requests over one bounded pool of connections, HTTP/2 where the server offers it. In: what to ask. Out: an open answer, or
// StatusError or UnreachableError. A pool is for one server, CA and client certificate; with another one a new pool is made,
// and the old one ends when what runs over it has ended.
import type { Dispatcher } from "undici";
import { abortable, type Decorator, saysWhenWritten } from "./aborting.ts";
import { UnreachableError } from "./errors.ts";
import type { Credentials, Identity } from "./identity.ts";
import { withQuery } from "./paths.ts";
import { refusalOf } from "./status.ts";
import type { RequestOptions } from "./types.ts";

export interface Transport {
  /** Resolves with the headers of an answer that is no refusal. Never asks twice. */
  open(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  close(): Promise<void>;
}

export interface Answer {
  /** `GET https://host:port/path`: for what is said of it. */
  readonly asked: string;
  readonly body: AsyncIterable<Uint8Array> & { text(): Promise<string> };
}

export interface TransportSettings {
  readonly userAgent: string;
  /** At most this many connections: without HTTP/2 each watch has one of its own. */
  readonly connections: number;
  readonly headersTimeoutMs: number;
}

export async function openTransport(
  credentials: Credentials,
  { userAgent, connections, headersTimeoutMs }: TransportSettings,
): Promise<Transport> {
  // 80 ms and 28 MB: for those only who have a server to ask.
  const { DecoratorHandler, Pool, ProxyAgent } = await import("undici");
  let pool: { readonly key: string; readonly dispatcher: Dispatcher } | undefined;
  const open = new Set<Dispatcher>();
  let closed = false;

  const make = ({ server, proxy, tls }: Identity): Dispatcher => {
    const settings = {
      connections,
      headersTimeout: headersTimeoutMs,
      // How long a body may be silent is for its reader to say.
      bodyTimeout: 0,
      // One that is not answered before the next ends the connection.
      h2Options: { pingInterval: 20_000 },
    };
    // Load balancers forget idle connections after a minute.
    const connect = { ...tls, timeout: 10_000, keepAlive: true, keepAliveInitialDelay: 30_000 };
    const dispatcher =
      proxy === undefined
        ? new Pool(new URL(server).origin, { ...settings, connect })
        : new ProxyAgent({ ...settings, uri: proxy, requestTls: connect });
    return dispatcher.compose(saysWhenWritten(DecoratorHandler as unknown as Decorator));
  };

  const dispatcherFor = (identity: Identity): Dispatcher => {
    if (closed) throw new UnreachableError("the cluster is closed");
    if (pool?.key === identity.connectionKey) return pool.dispatcher;
    const old = pool?.dispatcher;
    pool = { key: identity.connectionKey, dispatcher: make(identity) };
    open.add(pool.dispatcher);
    // Takes no more, and ends with the last answer that it is giving.
    void old?.close().then(
      () => open.delete(old),
      () => open.delete(old),
    );
    return pool.dispatcher;
  };

  return {
    open: async (method, path, { query, body, contentType, signal } = {}) => {
      const identity = await credentials.current();
      const url = new URL(withQuery(`${identity.server}${path}`, query));
      const asked = `${method} ${url.origin}${url.pathname}`;
      signal?.throwIfAborted();
      let answer: Dispatcher.ResponseData;
      try {
        answer = await dispatcherFor(identity).request({
          origin: url.origin,
          path: `${url.pathname}${url.search}`,
          method: method as Dispatcher.HttpMethod,
          headers: {
            ...identity.headers,
            accept: "application/json",
            "user-agent": userAgent,
            ...(body === undefined ? {} : { "content-type": contentType ?? "application/json" }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
          ...(signal === undefined ? {} : abortable(signal).options),
        });
      } catch (cause) {
        if (cause === signal?.reason && signal?.aborted) throw cause;
        credentials.doubt(identity, "unreached");
        throw unreachable(asked, cause, credentials.failure);
      }
      if (answer.statusCode >= 200 && answer.statusCode < 300) return { asked, body: answer.body };
      if (answer.statusCode === 401) credentials.doubt(identity, "refused");
      const text = await answer.body.text().catch(() => "");
      const { "retry-after": header } = answer.headers;
      const retryAfter = Array.isArray(header) ? header[0] : header;
      throw refusalOf(
        asked,
        { code: answer.statusCode, retryAfter, body: text, now: Date.now() },
        credentials.failure,
      );
    },
    close: async () => {
      closed = true;
      await Promise.allSettled([...open].map((dispatcher) => dispatcher.destroy()));
    },
  };
}

export function unreachable(asked: string, cause: unknown, why?: Error): UnreachableError {
  if (cause instanceof UnreachableError) return cause;
  const { message } = cause as Error;
  const credentials = why === undefined ? "" : `; ${why.message}`;
  return new UnreachableError(`${asked}: ${message}${credentials}`, cause);
}

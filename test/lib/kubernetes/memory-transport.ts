// A transport without connections, for histories by the hundred: what a handler writes is what the client reads, in chunks of odd
// sizes.
import { refusalOf } from "../../../lib/kubernetes/status.ts";
import { type Transport, unreachable } from "../../../lib/kubernetes/transport.ts";
import type { Handler, Reply } from "./scripted-server.ts";

interface Stream {
  readonly reply: Reply;
  readonly body: AsyncIterable<Uint8Array> & { text(): Promise<string> };
  readonly head: Promise<{ readonly code: number; readonly text: string }>;
  abort(reason: unknown): void;
}

function stream(chunkSize: () => number): Stream {
  let waiting: Uint8Array[] = [];
  let over: { readonly error?: unknown } | undefined;
  let wake = (): void => {};
  const head = Promise.withResolvers<{ readonly code: number; readonly text: string }>();
  head.promise.catch(() => {});
  const write = (bytes: Uint8Array): void => {
    for (let at = 0; at < bytes.length; ) {
      const size = chunkSize();
      waiting.push(bytes.slice(at, at + size));
      at += size;
    }
    wake();
  };
  const finish = (error?: unknown): void => {
    over ??= error === undefined ? {} : { error };
    if (error !== undefined) {
      waiting = [];
      head.reject(error);
    }
    wake();
  };
  async function* read(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        const chunk = waiting.shift();
        if (chunk !== undefined) yield chunk;
        else if (over !== undefined) {
          if ("error" in over) throw over.error;
          return;
        } else
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      }
    } finally {
      over ??= {};
    }
  }
  const begin = (code: number, text = ""): void => head.resolve({ code, text });
  return {
    head: head.promise,
    body: Object.assign(read(), {
      text: () => Promise.reject(new Error("a reflection reads in slices")),
    }),
    abort: finish,
    reply: {
      send: (code, body) => {
        const text = typeof body === "string" ? body : JSON.stringify(body);
        begin(code, text);
        write(Buffer.from(text));
        finish();
      },
      write: (...lines) => {
        begin(200);
        for (const line of lines)
          write(Buffer.from(`${typeof line === "string" ? line : JSON.stringify(line)}\n`));
      },
      writeBytes: (bytes) => {
        begin(200);
        write(Buffer.from(bytes));
      },
      end: () => {
        begin(200);
        finish();
      },
      reset: () => finish(new Error("reset")),
      get closed() {
        return over !== undefined;
      },
    },
  };
}

/** `chunkSize` says how many bytes the next chunk has. `running` counts answers that are not over. */
export function memoryTransport(
  handler: Handler,
  chunkSize: () => number,
): Transport & { readonly running: number } {
  const streams = new Set<Stream>();
  return {
    open: async (method, path, { query = {}, signal } = {}) => {
      const asked = `${method} ${path}`;
      const made = stream(chunkSize);
      streams.add(made);
      signal?.addEventListener("abort", () => made.abort(signal.reason), { once: true });
      const headers = {};
      setImmediate(() =>
        handler({ method, path, query, headers, client: undefined, protocol: "none", body: "" }, made.reply),
      );
      const { code, text } = await made.head.catch((cause: unknown) => {
        throw unreachable(asked, cause);
      });
      if (code >= 200 && code < 300) return { asked, body: made.body };
      throw refusalOf(asked, { code, retryAfter: undefined, body: text, now: 0 });
    },
    close: async () => {},
    get running() {
      for (const one of streams) if (one.reply.closed) streams.delete(one);
      return streams.size;
    },
  };
}

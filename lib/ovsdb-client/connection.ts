// JSON-RPC over one stream (RFC 7047, 4): requests with deadlines, notifications, echo both ways.
// In: a connected stream. Out: replies, notifications, and at last the reason why it ended. Lives once; whoever wants
// another makes another.
import type { Duplex } from "node:stream";
import type { Clock } from "./clock.ts";
import { ConnectionError, ParseError, UnresponsiveError } from "./errors.ts";
import { createFrameSplitter } from "./frames.ts";
import { type Json, type Message, parseMessage, remoteError } from "./messages.ts";

export interface ConnectionOptions {
  readonly clock: Clock;
  /** Nothing received for as long: ask by `echo`. Nothing for as long again: it is dead. */
  readonly probeMs: number;
  readonly limitBytes: number;
  /** Called in the order of the stream. What it throws ends the connection. */
  readonly notified: (method: string, params: readonly Json[]) => void;
  /** Called once, with the reason, before any pending request hears of it. */
  readonly ended: (reason: Error) => void;
}

interface Pending {
  readonly method: string;
  readonly received: (result: Json) => void;
  readonly failed: (error: Error) => void;
  readonly cancel: () => void;
}

export interface Connection {
  /** Requests without reply yet, probes not counted. */
  readonly pending: number;
  /**
   * `receive` is called before anything that comes after the reply is looked at; what it throws ends the connection.
   * Rejects with RemoteError for an error reply, with the reason when the connection ends, and with UnresponsiveError when
   * there is no reply in time: which ends the connection too.
   */
  request<T>(
    method: string,
    params: readonly Json[],
    timeoutMs: number,
    receive: (result: Json) => T,
  ): Promise<T>;
  /** Calls back as soon as no request is without reply. */
  whenIdle(call: () => void): void;
  end(reason: Error): void;
}

export function createConnection(stream: Duplex, options: ConnectionOptions): Connection {
  const { clock, probeMs, limitBytes, notified, ended } = options;
  const splitter = createFrameSplitter(limitBytes);
  const pending = new Map<number, Pending>();
  let over: Error | undefined;
  let lastId = 0;
  let probeId = -1;
  let lastHeard = clock.now();
  let cancelProbe = (): void => {};
  let idle = (): void => {};

  const end = (reason: Error): void => {
    if (over !== undefined) return;
    over = reason;
    cancelProbe();
    stream.destroy();
    ended(reason);
    for (const { cancel, failed } of pending.values()) {
      cancel();
      failed(reason);
    }
    pending.clear();
  };

  const send = (message: Json): void => {
    stream.write(JSON.stringify(message));
  };

  const reply = ({ id, error, result }: Message & { readonly kind: "reply" }): void => {
    if (id === probeId) return;
    const request = typeof id === "number" ? pending.get(id) : undefined;
    if (request === undefined)
      throw new ParseError(`a reply to nothing that was asked: id ${JSON.stringify(id)}`);
    pending.delete(id as number);
    request.cancel();
    if (error === null) request.received(result);
    else request.failed(remoteError(request.method, error));
    if (pending.size === 0) idle();
  };

  const dispatch = (message: Message): void => {
    switch (message.kind) {
      case "reply":
        reply(message);
        break;
      case "notification":
        notified(message.method, message.params);
        break;
      case "request":
        // RFC 7047, 4.1.11: either side may ask, with any id.
        if (message.method === "echo") send({ id: message.id, result: message.params, error: null });
        else send({ id: message.id, result: null, error: "unknown method" });
    }
  };

  const probe = (): void => {
    const silent = clock.now() - lastHeard;
    if (silent < probeMs) {
      wake(probeMs - silent, probe);
      return;
    }
    probeId = ++lastId;
    const asked = lastHeard;
    send({ method: "echo", params: [], id: probeId });
    wake(probeMs, () => {
      if (lastHeard !== asked) probe();
      else end(new UnresponsiveError(`nothing heard for ${2 * probeMs} ms, an echo request included`));
    });
  };
  const wake = (ms: number, call: () => void): void => {
    cancelProbe = clock.after(ms, call);
  };

  stream.on("data", (chunk: Uint8Array) => {
    lastHeard = clock.now();
    try {
      for (const text of splitter.push(chunk)) {
        if (over !== undefined) return;
        dispatch(parseMessage(text));
      }
    } catch (error) {
      end(error instanceof Error ? error : new ConnectionError(String(error)));
    }
  });
  stream.on("error", (error) => end(new ConnectionError(error.message, error)));
  stream.on("close", () => end(new ConnectionError("closed by the other side")));
  if (stream.destroyed) queueMicrotask(() => end(new ConnectionError("closed by the other side")));
  wake(probeMs, probe);

  return {
    get pending() {
      return pending.size;
    },
    request: (method, params, timeoutMs, receive) =>
      new Promise((resolve, reject) => {
        if (over !== undefined) return reject(over);
        const id = ++lastId;
        const cancel = clock.after(timeoutMs, () =>
          end(new UnresponsiveError(`no reply to ${method} within ${timeoutMs} ms`)),
        );
        const received = (result: Json): void => {
          try {
            resolve(receive(result));
          } catch (error) {
            reject(error);
            throw error;
          }
        };
        pending.set(id, { method, received, failed: reject, cancel });
        send({ method, params, id });
      }),
    whenIdle: (call) => {
      idle = call;
      if (pending.size === 0) call();
    },
    end,
  };
}

// A client that does nothing but send and receive. In: an endpoint, messages as text. Out: the reply, parsed. It knows no
// schema, checks nothing and keeps nothing: the floor of the bench, and what fills large databases.
import { connect } from "node:net";
import { createFrameSplitter } from "../../lib/ovsdb-client/frames.ts";

export interface BareClient {
  /** Sends text as it is, and resolves with the reply, parsed, whatever else arrives before it. */
  ask(message: string): Promise<Readonly<Record<string, unknown>>>;
  close(): void;
}

export async function openBareClient(endpoint: string): Promise<BareClient> {
  const socket = connect(endpoint.replace(/^unix:/, ""));
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  let answered: ((reply: Readonly<Record<string, unknown>>) => void) | undefined;
  const splitter = createFrameSplitter(1 << 30);
  socket.on("data", (chunk: Buffer) => {
    for (const text of splitter.push(chunk)) {
      const message = JSON.parse(text) as Readonly<Record<string, unknown>>;
      if (message["id"] === 1) answered?.(message);
    }
  });
  return {
    ask: (message) => {
      const { promise, resolve } = Promise.withResolvers<Readonly<Record<string, unknown>>>();
      answered = resolve;
      socket.write(message);
      return promise;
    },
    close: () => void socket.destroy(),
  };
}

export function request(method: string, params: readonly unknown[]): string {
  return JSON.stringify({ method, params, id: 1 });
}

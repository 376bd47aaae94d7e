// An API server that says what a test wants it to: HTTPS on loopback, HTTP/2 or 1.1, answers cut and streams held open at will.
// For what a real one does only when it is ill, or in a version that is not at hand. Connections and questions are counted.
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import { createServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { type Authority, authority, type Certificate } from "./certificates.ts";

export interface Question {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly headers: Readonly<Record<string, unknown>>;
  /** Common name of the client's certificate. */
  readonly client: string | undefined;
  readonly protocol: string;
  readonly body: string;
}

export interface Reply {
  /** Headers and a whole answer. */
  send(code: number, body: unknown, headers?: Readonly<Record<string, string>>): void;
  /** Begins an answer of 200, or goes on with it. */
  write(...lines: readonly unknown[]): void;
  /** As they are, without line feed. */
  writeBytes(bytes: Uint8Array | string): void;
  /** Ends it as it should. */
  end(): void;
  /** RST_STREAM with INTERNAL_ERROR, as Go's server does, or the end of the connection where there is only one stream. */
  reset(): void;
  /** The client has ended it, or we have. */
  readonly closed: boolean;
}

export type Handler = (question: Question, reply: Reply) => void;

export interface ScriptedServer {
  readonly ca: Authority;
  readonly url: string;
  /** In their order, also those that were cut. */
  readonly questions: Question[];
  /** Connections made, ever. */
  readonly accepted: number;
  /** Connections that are open. */
  readonly open: number;
  /** Answers that have begun and not ended. */
  readonly streams: number;
  handler: Handler;
  /** For new connections. */
  certify(certificate: Certificate, clientCa?: string): void;
  /** Cuts every connection. */
  cut(): void;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export async function scriptedServer(
  handler: Handler,
  { http2 = true, ca = authority("ca") }: { http2?: boolean; ca?: Authority } = {},
): Promise<ScriptedServer> {
  const questions: Question[] = [];
  const sockets = new Set<Socket>();
  const replies = new Set<Reply>();
  let accepted = 0;
  const settings = { ...ca.server(), ca: ca.cert, requestCert: true, rejectUnauthorized: false };
  const server = http2 ? createSecureServer({ ...settings, allowHTTP1: true }) : createServer(settings);
  const scripted: ScriptedServer = {
    ca,
    url: "",
    questions,
    handler,
    get accepted() {
      return accepted;
    },
    get open() {
      return sockets.size;
    },
    get streams() {
      return replies.size;
    },
    certify: ({ cert, key }, clientCa = ca.cert) => server.setSecureContext({ cert, key, ca: clientCa }),
    cut: () => {
      for (const socket of sockets) socket.destroy();
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
    [Symbol.asyncDispose]: () => scripted.close(),
  };
  server.on("connection", (socket: Socket) => {
    accepted++;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
  });
  for (const event of ["sessionError", "tlsClientError", "clientError"]) server.on(event, () => {});
  server.on("request", (request: Http2ServerRequest, response: Http2ServerResponse) => {
    const reply = replyOn(request, response);
    replies.add(reply);
    response.on("close", () => replies.delete(reply)).on("error", () => {});
    request.on("error", () => {});
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      const url = new URL(request.url, "https://server");
      const socket = (request.stream?.session?.socket ?? request.socket) as TLSSocket;
      const peer = socket.getPeerCertificate?.();
      const question: Question = {
        method: request.method,
        path: url.pathname,
        query: Object.fromEntries(url.searchParams),
        headers: request.headers,
        client: peer?.subject?.CN as string | undefined,
        protocol: request.httpVersion,
        body,
      };
      questions.push(question);
      scripted.handler(question, reply);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(scripted, { url: `https://127.0.0.1:${port}` });
}

function replyOn(request: Http2ServerRequest, response: Http2ServerResponse): Reply {
  let closed = false;
  response.on("close", () => {
    closed = true;
  });
  const begin = (code: number, headers: Readonly<Record<string, string>> = {}): void => {
    if (!response.headersSent) response.writeHead(code, { "content-type": "application/json", ...headers });
  };
  const reply: Reply = {
    send: (code, body, headers) => {
      begin(code, headers);
      response.end(typeof body === "string" ? body : JSON.stringify(body));
    },
    write: (...lines) => {
      begin(200);
      if (lines.length === 0) response.stream ? undefined : (response as unknown as Flushing).flushHeaders();
      for (const line of lines) response.write(`${typeof line === "string" ? line : JSON.stringify(line)}\n`);
    },
    writeBytes: (bytes) => {
      begin(200);
      response.write(bytes);
    },
    end: () => {
      begin(200);
      response.end();
    },
    reset: () => (response.stream ? response.stream.close(2) : request.socket.destroy()),
    get closed() {
      return closed;
    },
  };
  return reply;
}

interface Flushing {
  flushHeaders(): void;
}

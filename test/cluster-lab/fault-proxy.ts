// Stands between clients and a real API server and makes it a bad one, by request (a status, an RST, silence, half an event, an empty
// list) and by connection (lines.ts). In: the server. Out: addresses to talk to, with the server's own certificate, HTTP/1.1 and
// HTTP/2, and every request that came. Whoever shows a client certificate is not passed on with it: tokens only.
import { readFileSync } from "node:fs";
import { type OutgoingHttpHeaders, ServerResponse } from "node:http";
import {
  constants,
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from "node:http2";
import { Agent, request } from "node:https";
import type { AddressInfo } from "node:net";
import type { ApiServer } from "./api-server.ts";
import { type Call, callOf } from "./calls.ts";
import { type Fault, refusal, type Sink, withFault } from "./faults.ts";
import { Lines } from "./lines.ts";

type Incoming = Http2ServerRequest;
/** Of HTTP/1.1 the same, but for its type. */
type Outgoing = Http2ServerResponse;

export class FaultProxy {
  /** Asked for each request: what is to become of it. Undefined passes it on. */
  fault: (call: Call) => Fault | undefined = () => undefined;
  /** The connections, and what can be done to them. */
  readonly lines: Lines;
  /** On loopback. */
  readonly url: string;
  /** Every request so far, in order, refused ones too. */
  readonly calls: Call[] = [];
  readonly #api: ApiServer;
  readonly #front: Http2SecureServer;
  readonly #upstream: Agent;
  #answering = 0;

  private constructor(api: ApiServer, front: Http2SecureServer, lines: Lines, port: number) {
    this.#api = api;
    this.#front = front;
    this.lines = lines;
    this.url = `https://127.0.0.1:${port}`;
    this.#upstream = new Agent({ keepAlive: true });
  }

  static async open(api: ApiServer): Promise<FaultProxy> {
    const front = createSecureServer({ allowHTTP1: true, ...certificateOf(api) });
    await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
    const lines = new Lines((front.address() as AddressInfo).port);
    const proxy = new FaultProxy(api, front, lines, await lines.listen("127.0.0.1", 0));
    front.on("request", (incoming: Incoming, outgoing: Outgoing) => proxy.#answer(incoming, outgoing));
    front.on("session", (session) => session.on("error", () => undefined));
    // A client that was cut off in the middle of a handshake, or that does not trust the server.
    front.on("tlsClientError", () => undefined);
    return proxy;
  }

  /** Also listens in a network namespace, for agents in a lab: `proxy.listenIn(lab.namespace("ext"), "172.18.0.100", 6443)`. */
  async listenIn(namespace: string, address: string, port: number): Promise<string> {
    const taken = await this.lines.listen(address, port, namespace);
    return `https://${address.includes(":") ? `[${address}]` : address}:${taken}`;
  }

  /** How many requests of this kind came so far: `count("list", "pods")`. */
  count(verb?: Call["verb"], resource?: string): number {
    const isOfIt = (call: Call) =>
      (verb === undefined || call.verb === verb) && (resource === undefined || call.resource === resource);
    return this.calls.filter(isOfIt).length;
  }

  /** Requests that are being answered now: each watch is one. */
  get answering(): number {
    return this.#answering;
  }

  /** After `api.rotateAuthority()`: shows the certificate that the server now has. */
  renewCertificate(): void {
    this.#front.setSecureContext(certificateOf(this.#api));
  }

  async close(): Promise<void> {
    await this.lines.refuse();
    this.#upstream.destroy();
    await new Promise((resolve) => this.#front.close(resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #answer(incoming: Incoming, outgoing: Outgoing): void {
    const call = callOf(incoming.method, incoming.url, incoming.headers);
    this.calls.push(call);
    this.#answering++;
    outgoing.once("close", () => this.#answering--);
    for (const end of [incoming, outgoing]) end.on("error", () => undefined);
    const port = incoming.socket.remotePort;
    const fault = this.fault(call);
    if (fault === "silence") return;
    if (fault === "reset") {
      this.lines.cutOf(port, "now");
      return;
    }
    const reset = () => {
      if (incoming.httpVersionMajor === 2) return outgoing.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
      this.lines.cutOf(port, "when ended");
      incoming.socket.destroySoon();
    };
    if (typeof fault === "object" && "status" in fault) {
      const { headers, body } = refusal(fault, call);
      begin(outgoing, fault.status, headers);
      outgoing.end(body);
      return;
    }
    const pass = () => this.#pass(incoming, outgoing, withFault(fault, outgoing, reset));
    if (typeof fault === "object" && "until" in fault) void fault.until.then(pass);
    else pass();
  }

  #pass(incoming: Incoming, outgoing: Outgoing, sink: Sink): void {
    if (outgoing.destroyed) return;
    const server = new URL(this.#api.url);
    const headers = Object.fromEntries(
      Object.entries(incoming.headers).filter(([name]) => !name.startsWith(":") && !HOP_BY_HOP.has(name)),
    );
    const asked = request(
      {
        host: server.hostname,
        port: server.port,
        method: incoming.method,
        path: incoming.url,
        headers: { ...headers, ...(sink.plain ? { "accept-encoding": "identity" } : {}) },
        agent: this.#upstream,
        ca: readFileSync(this.#api.file("ca.crt")),
      },
      (answer) => {
        const kept = Object.entries(answer.headers).filter(
          ([name]) => !HOP_BY_HOP.has(name) && !sink.drops(name),
        );
        begin(outgoing, answer.statusCode ?? 502, Object.fromEntries(kept));
        answer.on("data", (chunk: Buffer) => {
          if (sink.write(chunk) === false) {
            answer.pause();
            outgoing.once("drain", () => answer.resume());
          }
        });
        answer.on("end", () => sink.end());
        answer.on("error", () => outgoing.destroy());
      },
    );
    // The server is not there: as a load balancer says it.
    asked.on("error", () => {
      if (outgoing.headersSent || outgoing.destroyed) return void outgoing.destroy();
      const { headers: said, body } = refusal({ status: 503 }, undefined);
      begin(outgoing, 503, said);
      outgoing.end(body);
    });
    outgoing.once("close", () => asked.destroy());
    incoming.on("data", (chunk: Buffer) => void asked.write(chunk));
    incoming.on("end", () => asked.end());
  }
}

/** The head of a watch comes before its first event: HTTP/1.1 would keep it back until then. */
function begin(outgoing: Outgoing, status: number, headers: OutgoingHttpHeaders): void {
  outgoing.writeHead(status, headers);
  const either: unknown = outgoing;
  if (either instanceof ServerResponse) either.flushHeaders();
}

/** Of one connection, and not of the next. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  ...["connection", "keep-alive", "transfer-encoding", "upgrade", "host", "http2-settings", "te"],
]);

function certificateOf(api: ApiServer) {
  return { cert: readFileSync(api.file("server.crt")), key: readFileSync(api.file("server.key")) };
}

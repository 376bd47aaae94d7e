// A line between an OVSDB client and its server that can be bad: slow, silent in both directions, deaf to updates, or cut in the
// moment between a commit and its reply. In: the server's endpoint. Out: an endpoint of its own, and what to do to the line.
import { rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { createFrameSplitter } from "../../lib/ovsdb-client/frames.ts";

interface Line {
  readonly client: Socket;
  readonly server: Socket;
}

export class OvsdbProxy {
  readonly endpoint: string;
  /** Of the server's to the client. */
  bytesPerSecond = Infinity;
  /** Updates do not arrive; replies do. */
  withholdsUpdates = false;
  /** Called with each message of the server's, parsed, before it is passed on; false keeps it back. */
  passes: (message: Message) => boolean = () => true;
  /** Called with each message of the client's. */
  heard: (message: Message) => void = () => {};
  readonly #path: string;
  readonly #listener: Server;
  readonly #lines = new Set<Line>();
  readonly #stranded = new Set<Line>();
  #accepted = 0;
  #passed = 0;

  private constructor(path: string, listener: Server) {
    this.#path = path;
    this.endpoint = `unix:${path}`;
    this.#listener = listener;
  }

  static async open(endpoint: string): Promise<OvsdbProxy> {
    const target = endpoint.replace(/^unix:/, "");
    const path = `${target}.proxy`;
    rmSync(path, { force: true });
    const listener = createServer();
    const proxy = new OvsdbProxy(path, listener);
    listener.on("connection", (client) => proxy.#join(client, target));
    await new Promise<void>((resolve) => listener.listen(path, resolve));
    return proxy;
  }

  /** Connections made so far. */
  get accepted(): number {
    return this.#accepted;
  }

  /** Bytes passed to clients so far. */
  get passed(): number {
    return this.#passed;
  }

  /** As when somebody pulls the plug at the client's end: both ends are told. */
  cut(): void {
    for (const { client, server } of this.#lines) {
      client.destroy();
      server.destroy();
    }
  }

  /** All connections that there are fall silent for good, and neither end hears when the other goes; new ones work. */
  strand(): void {
    for (const line of this.#lines) this.#stranded.add(line);
    this.#lines.clear();
  }

  /** What a server does that has asked for long enough. */
  endStranded(): void {
    for (const { client, server } of this.#stranded) {
      client.destroy();
      server.destroy();
    }
    this.#stranded.clear();
  }

  async close(): Promise<void> {
    this.cut();
    this.endStranded();
    await new Promise((resolve) => this.#listener.close(resolve));
    rmSync(this.#path, { force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #join(client: Socket, target: string): void {
    this.#accepted++;
    const server = connect(target);
    const line = { client, server };
    this.#lines.add(line);
    const fromServer = createFrameSplitter(1 << 30);
    const fromClient = createFrameSplitter(1 << 30);
    const end = () => {
      if (this.#stranded.has(line)) return;
      this.#lines.delete(line);
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) socket.on("error", end).on("close", end);
    client.on("data", (chunk: Uint8Array) => {
      if (this.#stranded.has(line)) return;
      for (const text of fromClient.push(chunk)) this.heard(JSON.parse(text) as Message);
      server.write(chunk);
    });
    server.on("data", (chunk: Uint8Array) => {
      if (this.#stranded.has(line)) return;
      if (this.bytesPerSecond !== Infinity) this.#passSlowly(line, chunk);
      else
        for (const text of fromServer.push(chunk))
          if (this.#wants(JSON.parse(text) as Message)) this.#pass(client, text);
    });
  }

  #wants(message: Message): boolean {
    const isUpdate = message.method?.startsWith("update") === true && message.params?.[0] === "replica";
    return this.passes(message) && !(isUpdate && this.withholdsUpdates);
  }

  #pass(client: Socket, text: string | Uint8Array): void {
    this.#passed += text.length;
    client.write(text);
  }

  /** The server is not read faster than the line is: the rest waits in its own buffers. */
  #passSlowly({ client, server }: Line, chunk: Uint8Array): void {
    server.pause();
    this.#pass(client, chunk);
    setTimeout(() => server.resume(), (chunk.length / this.bytesPerSecond) * 1000);
  }
}

export interface Message {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: readonly unknown[];
  readonly result?: unknown;
}

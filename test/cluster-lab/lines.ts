// TCP connections between clients and a port that can be bad: cut, silent in both directions, slow, or refused. In: ports to listen
// at, on loopback or inside of network namespaces, and the port that is led to. Out: what to do to the lines, and how many there are.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { listenInside } from "./listen-inside.ts";

interface Line {
  readonly client: Socket;
  readonly server: Socket;
  /** When the server's end has said all, the client gets it, and then an RST. */
  endsInReset: boolean;
}

interface Place {
  readonly namespace: string | undefined;
  readonly address: string;
  readonly port: number;
}

export class Lines {
  /** Of the server's to the clients, of each line. */
  bytesPerSecond = Infinity;
  /** New connections are accepted, and then nothing comes of them, until `revive()`. */
  deaf: boolean = false; // widened: tests set it
  readonly #target: number;
  readonly #places: Place[] = [];
  #listeners: Server[] = [];
  readonly #lines = new Set<Line>();
  readonly #silent = new Set<Line>();
  #accepted = 0;

  constructor(target: number) {
    this.#target = target;
  }

  /** The port: any that is free for 0. A namespace's own loopback is not ours. */
  async listen(address: string, port: number, namespace?: string): Promise<number> {
    const listener = await this.#listen({ address, port, namespace });
    const { port: taken } = listener.address() as AddressInfo;
    this.#places.push({ address, port: taken, namespace });
    return taken;
  }

  async #listen({ address, port, namespace }: Place): Promise<Server> {
    const listener =
      namespace === undefined
        ? createServer().listen(port, address)
        : await listenInside(namespace, address, port);
    if (!listener.listening) await once(listener, "listening");
    listener.on("connection", (client: Socket) => this.#join(client));
    this.#listeners.push(listener);
    return listener;
  }

  /** Connections that clients had so far. */
  get accepted(): number {
    return this.#accepted;
  }

  /** That there are now, silent ones among them. */
  get open(): number {
    return this.#lines.size + this.#silent.size;
  }

  /** RST to both ends of every line. */
  cut(): void {
    for (const line of [...this.#lines, ...this.#silent]) reset(line);
  }

  /**
   * RST for the line whose end towards the server has this port, at once or when the server's end has closed and the client has all
   * that came before. A line that is gone is left alone.
   */
  cutOf(port: number | undefined, when: "now" | "when ended"): void {
    const line = [...this.#lines].find(({ server }) => server.localPort === port);
    if (line === undefined) return;
    if (when === "now") reset(line);
    else line.endsInReset = true;
  }

  /** All lines that there are fall silent for good, and neither end hears when the other goes; new ones work unless `deaf`. */
  strand(): void {
    for (const line of this.#lines) {
      line.client.pause();
      line.server.pause();
      this.#silent.add(line);
    }
    this.#lines.clear();
  }

  /** Half open: the server knows that its clients are gone, and they wait for what it says. */
  strandClients(): void {
    const all = [...this.#lines];
    this.strand();
    for (const { server } of all) server.destroy();
  }

  /** A black hole: what is there falls silent, and so does all that is new. */
  blackHole(): void {
    this.deaf = true;
    this.strand();
  }

  /** New connections work again. Silent ones stay silent: whatever forgot them does not remember. */
  revive(): void {
    this.deaf = false;
  }

  /** RST for who is there, refusal for who comes. */
  async refuse(): Promise<void> {
    const closing = this.#listeners.map((listener) => new Promise((resolve) => listener.close(resolve)));
    this.#listeners = [];
    this.cut();
    await Promise.all(closing);
  }

  /** At the same ports as before. */
  async accept(): Promise<void> {
    for (const place of this.#places) await this.#listen(place);
  }

  #join(client: Socket): void {
    this.#accepted++;
    const server = connect(this.#target, "127.0.0.1");
    const line: Line = { client, server, endsInReset: false };
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
    }
    const isLive = () => this.#lines.has(line);
    if (this.deaf) {
      this.#silent.add(line);
      client.pause();
      server.destroy();
    } else this.#lines.add(line);
    client.on("close", () => {
      this.#silent.delete(line);
      if (this.#lines.delete(line)) server.destroySoon();
    });
    server.on("close", () => {
      if (!this.#lines.delete(line)) return;
      if (line.endsInReset) client.write("", () => client.resetAndDestroy());
      else client.destroySoon();
    });
    client.on("data", (chunk) => {
      if (isLive() && !server.write(chunk)) wait(client, server, isLive);
    });
    server.on("data", (chunk) => {
      if (!isLive()) return;
      const isFull = !client.write(chunk);
      if (this.bytesPerSecond !== Infinity) {
        server.pause();
        setTimeout(() => isLive() && server.resume(), (chunk.length / this.bytesPerSecond) * 1000);
      } else if (isFull) wait(server, client, isLive);
    });
  }
}

function wait(from: Socket, to: Socket, isLive: () => boolean): void {
  from.pause();
  to.once("drain", () => isLive() && from.resume());
}

function reset({ client, server }: Line): void {
  client.resetAndDestroy();
  server.resetAndDestroy();
}

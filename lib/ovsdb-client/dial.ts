// A stream to one endpoint: unix, tcp or ssl. In: where, and the certificates. Out: a connected stream, or
// ConnectionError; never later than the deadline.
import net from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "./clock.ts";
import type { Endpoint } from "./endpoints.ts";
import { ConnectionError } from "./errors.ts";
import type { TlsMaterial } from "./tls-files.ts";

export interface DialOptions {
  /** Of ssl: endpoints. */
  readonly material: TlsMaterial | undefined;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export type Dial = (endpoint: Endpoint, options: DialOptions) => Promise<Duplex>;

export const dial: Dial = (endpoint, { material, timeoutMs, clock, signal }) =>
  new Promise((resolve, reject) => {
    const [socket, ready] = open(endpoint, material);
    const fail = (what: string, cause?: unknown): void => {
      settled();
      socket.destroy();
      reject(new ConnectionError(`${endpoint.text}: ${what}`, cause));
    };
    const cancel = clock.after(timeoutMs, () => fail(`not connected within ${timeoutMs} ms`));
    const aborted = (): void => fail("given up");
    const settled = (): void => {
      cancel();
      signal.removeEventListener("abort", aborted);
    };
    // Stays on: an error between here and the first reader has somebody to hear it.
    socket.on("error", (error) => fail(error.message, error));
    socket.once("close", () => fail("closed"));
    socket.once(ready, () => {
      settled();
      resolve(socket);
    });
    if (signal.aborted) aborted();
    else signal.addEventListener("abort", aborted);
  });

function open(endpoint: Endpoint, material: TlsMaterial | undefined): readonly [net.Socket, string] {
  if (endpoint.kind === "unix") return [net.connect({ path: endpoint.path }), "connect"];
  const { host, port } = endpoint;
  if (endpoint.kind === "tcp") return [net.connect({ host, port, noDelay: true }), "connect"];
  // Loaded where it is needed: it takes some MiB of memory.
  const socket = process.getBuiltinModule("node:tls").connect({
    host,
    port,
    ...material,
    // An address is no server name (RFC 6066, 3).
    ...(net.isIP(host) === 0 ? { servername: host } : {}),
    // Certificates of OVS and OVN are made for systems, not for names: the CA alone says who may be a server.
    checkServerIdentity: () => undefined,
    rejectUnauthorized: true,
    minVersion: "TLSv1.2",
  });
  socket.setNoDelay(true);
  return [socket, "secureConnect"];
}

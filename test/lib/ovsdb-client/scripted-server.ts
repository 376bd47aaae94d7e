// A server that does what a test says, right or wrong, over a real unix socket: for everything that a real one never does
// when asked to. In: an answer for each method. Out: where it listens, and what it heard.
import { mkdtemp, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFrameSplitter } from "../../../lib/ovsdb-client/frames.ts";
import type { Json } from "../../../lib/ovsdb-client/index.ts";
import { ZOO_SCHEMA } from "./zoo.ts";

export interface Heard {
  readonly method: string;
  readonly params: readonly Json[];
  readonly id: Json;
  /** Of replies to what the server asked. */
  readonly result: Json;
  /** The how-manieth connection it came over, from 0. */
  readonly peer: number;
}

export interface Peer {
  readonly number: number;
  /** As it is: also half a message. */
  write(text: string | Uint8Array): void;
  notify(method: string, ...params: readonly Json[]): void;
  reply(id: Json, result: Json): void;
  destroy(): void;
  readonly destroyed: boolean;
}

export const WITHHELD = Symbol("no reply");
export class Refusal {
  readonly error: Json;

  constructor(error: Json) {
    this.error = error;
  }
}

type Answer = (params: readonly Json[], peer: Peer, id: Json) => Json | Refusal | typeof WITHHELD;
export type Answers = Record<string, Answer>;

export interface ScriptedServer extends AsyncDisposable {
  readonly endpoint: string;
  readonly peers: readonly Peer[];
  readonly heard: readonly Heard[];
  /** What was asked by this method, over one connection or all. */
  asked(method: string, peer?: number): readonly Heard[];
  readonly answers: Answers;
}

export const ZERO = "00000000-0000-0000-0000-000000000000";
export const unknownMethod: Answer = () => new Refusal("unknown method");

/** Alone, with the Zoo, empty, and no _Server; each answer can be another, also later. */
export async function scriptedServer(answers: Answers = {}): Promise<ScriptedServer> {
  const folder = await mkdtemp(join(tmpdir(), "ovsdb-client-"));
  const path = join(folder, "s");
  const peers: Peer[] = [];
  const heard: Heard[] = [];
  const all: Answers = {
    list_dbs: () => ["Zoo"],
    get_schema: () => ZOO_SCHEMA,
    monitor_cond_since: () => [false, ZERO, {}],
    transact: (params) => params.slice(1).map(() => ({})),
    echo: (params) => params,
    lock: () => ({ locked: true }),
    steal: () => ({ locked: true }),
    unlock: () => ({}),
    set_db_change_aware: () => ({}),
    ...answers,
  };

  const server = net.createServer((socket) => {
    const splitter = createFrameSplitter(2 ** 26);
    const send = (message: Json): void => void socket.write(JSON.stringify(message));
    const peer: Peer = {
      number: peers.length,
      write: (text) => void socket.write(text),
      notify: (method, ...params) => send({ id: null, method, params }),
      reply: (id, result) => send({ id, result, error: null }),
      destroy: () => void socket.destroy(),
      get destroyed() {
        return socket.destroyed;
      },
    };
    peers.push(peer);
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      for (const text of splitter.push(chunk)) {
        const { method = "", params = [], id = null, result = null } = JSON.parse(text) as Partial<Heard>;
        heard.push({ method, params, id, result, peer: peer.number });
        if (method === "") continue;
        const answer = (all[method] ?? unknownMethod)(params, peer, id);
        if (answer === WITHHELD) continue;
        if (answer instanceof Refusal) send({ id, result: null, error: answer.error });
        else peer.reply(id, answer);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));

  return {
    endpoint: `unix:${path}`,
    peers,
    heard,
    answers: all,
    asked: (method, peer) =>
      heard.filter((one) => one.method === method && (peer === undefined || one.peer === peer)),
    async [Symbol.asyncDispose]() {
      for (const peer of peers) peer.destroy();
      await new Promise((resolve) => server.close(resolve));
      await rm(folder, { recursive: true });
    },
  };
}

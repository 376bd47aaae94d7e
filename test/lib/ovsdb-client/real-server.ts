// Real ovsdb-servers for tests: each with a folder of its own below the system's temporary one, ended by its pid.
// In: a schema, remotes. Out: where it listens, and what can be done to it.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import {
  connectOvsdb,
  type Json,
  type Session,
  type SessionOptions,
} from "../../../lib/ovsdb-client/index.ts";
import { type OvnPrograms, ovnPrograms } from "../../support/ovn-programs.ts";
import { until } from "../../support/until.ts";
import { ZOO_SCHEMA } from "./zoo.ts";

const exec = promisify(execFile);

/** Runs a program to its end and gives what it printed. */
export type Tool = (program: string, ...args: readonly string[]) => Promise<string>;

export interface Folder extends AsyncDisposable {
  readonly path: string;
  readonly programs: OvnPrograms;
  readonly tool: Tool;
  /** Where a file of this folder is. */
  at(name: string): string;
  /** A server of this folder; its name tells its socket and its database apart. */
  server(name: string, options?: ServerOptions): Promise<RealServer>;
}

export interface ServerOptions {
  /** Also: "ptcp:0:127.0.0.1". */
  readonly args?: readonly string[];
  /** Made from the schema if it is not there. */
  readonly database?: string;
  readonly schema?: string;
}

export interface RealServer {
  readonly endpoint: string;
  readonly database: string;
  readonly pid: number;
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL, and waits for its end. */
  kill(): Promise<void>;
  /** The same again, after `kill`. */
  start(): Promise<void>;
  /** ovs-appctl. */
  control(...args: readonly string[]): Promise<string>;
  log(): Promise<string>;
}

export async function openFolder(): Promise<Folder> {
  const programs = await ovnPrograms();
  // Not in a deep place: a unix socket's name has 107 bytes.
  const path = await mkdtemp(join(tmpdir(), "ovsdb-"));
  const servers: RealServer[] = [];
  const at = (name: string): string => join(path, name);
  const tool: Tool = async (program, ...args) =>
    (await exec(join(programs.bin, program), args, { cwd: path, env: { ...process.env, OVS_RUNDIR: path } }))
      .stdout;
  return {
    path,
    programs,
    tool,
    at,
    server: async (name, options = {}) => {
      const database = options.database ?? at(`${name}.db`);
      if (options.database === undefined) {
        const schema = options.schema ?? (await schemaFile(at("zoo.ovsschema"), ZOO_SCHEMA));
        await tool("ovsdb-tool", "create", database, schema);
      }
      const server = await startServer(programs, tool, at(name), database, options.args ?? []);
      servers.push(server);
      return server;
    },
    async [Symbol.asyncDispose]() {
      for (const server of servers) await server.kill();
      await rm(path, { recursive: true });
    },
  };
}

export async function schemaFile(path: string, schema: Json): Promise<string> {
  await writeFile(path, JSON.stringify(schema));
  return path;
}

async function startServer(
  programs: OvnPrograms,
  tool: Tool,
  base: string,
  database: string,
  args: readonly string[],
): Promise<RealServer> {
  const [socket, control, log] = [`${base}.sock`, `${base}.ctl`, `${base}.log`];
  let child: ChildProcess | undefined;
  const server: RealServer = {
    endpoint: `unix:${socket}`,
    database,
    get pid() {
      if (child?.pid === undefined) throw new Error("the server does not run");
      return child.pid;
    },
    signal: (signal) => void child?.kill(signal),
    kill: async () => {
      if (child === undefined) return;
      const ended = child.exitCode !== null || child.signalCode !== null ? undefined : once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      child = undefined;
    },
    start: async () => {
      const program = join(programs.bin, "ovsdb-server");
      const own = [`--remote=punix:${socket}`, `--unixctl=${control}`, `--log-file=${log}`, "-vconsole:off"];
      child = spawn(program, [...own, ...args, database], {
        stdio: "ignore",
        env: { ...process.env, OVS_RUNDIR: tmpdir() },
      });
      await until(() => takesConnections(socket), `${socket} listening`, 20_000);
    },
    control: (...words) => tool("ovs-appctl", "-t", control, ...words),
    log: () => readFile(log, "utf8"),
  };
  await server.start();
  return server;
}

function takesConnections(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect({ path }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

/** Quick to try again, as tests want it; the deadlines are those of real life. */
export function openSession(server: RealServer, options: Partial<SessionOptions> = {}): Session {
  return connectOvsdb({
    endpoints: server.endpoint,
    database: "Zoo",
    tables: [],
    backoff: { first: 5, most: 50 },
    ...options,
  });
}

/** What a promise is rejected with; an Error if it is not. */
export const rejection = async (promise: Promise<unknown>): Promise<unknown> =>
  await promise.then(
    (value) => new Error(`not rejected, but ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );

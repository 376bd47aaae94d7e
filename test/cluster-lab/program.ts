// One program of the cluster lab: started, stopped, killed, paused and started again, always by its process id, and ended by the
// kernel when the process that started it is gone, whatever ended that. In: its command line, and how to tell that it is ready.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { until } from "../support/until.ts";

export interface ProgramPlan {
  readonly name: string;
  readonly program: string;
  readonly args: () => readonly string[];
  readonly logFile: string;
  readonly ready: () => Promise<boolean>;
}

export class Program {
  readonly #plan: ProgramPlan;
  #child: ChildProcess | undefined;
  #closed: Promise<unknown> = Promise.resolve();

  constructor(plan: ProgramPlan) {
    this.#plan = plan;
  }

  get pid(): number {
    const pid = this.#running?.pid;
    if (pid === undefined) throw new Error(`${this.#plan.name} does not run`);
    return pid;
  }

  get runs(): boolean {
    return this.#running !== undefined;
  }

  get #running(): ChildProcess | undefined {
    const child = this.#child;
    return child !== undefined && child.exitCode === null && child.signalCode === null ? child : undefined;
  }

  log(): Promise<string> {
    return readFile(this.#plan.logFile, "utf8");
  }

  /** Does not wait until it is ready. */
  launch(): void {
    const { name, program, args, logFile } = this.#plan;
    if (this.#running !== undefined) throw new Error(`${name} runs already`);
    const log = openSync(logFile, "a");
    // setpriv becomes the program: the child's id is the program's.
    const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", program, ...args()], {
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    this.#child = child;
    this.#closed = once(child, "close");
    this.#closed.catch(() => undefined);
  }

  async start(): Promise<void> {
    this.launch();
    await this.ready();
  }

  async ready(): Promise<void> {
    const { name, ready } = this.#plan;
    const state = async () => (this.#running === undefined ? "ended" : await ready());
    const reached = await until(state, `${name} is ready`, 60_000).catch(async (cause: Error) => {
      throw new Error(`${cause.message}\n${await this.#lastWords()}`);
    });
    if (reached === "ended") throw new Error(`${name} ended:\n${await this.#lastWords()}`);
  }

  /** As systemd does it. */
  stop(): Promise<void> {
    return this.#end("SIGTERM");
  }

  kill(): Promise<void> {
    return this.#end("SIGKILL");
  }

  /** It keeps its sockets and says nothing. */
  pause(): void {
    process.kill(this.pid, "SIGSTOP");
  }

  resume(): void {
    process.kill(this.pid, "SIGCONT");
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    this.#running?.kill(signal);
    await this.#closed;
  }

  async #lastWords(): Promise<string> {
    return (await this.log()).trimEnd().split("\n").slice(-15).join("\n");
  }
}

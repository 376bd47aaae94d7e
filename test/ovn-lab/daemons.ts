// OVS's and OVN's daemons of a lab: started in a namespace, found by the id each writes into the lab's folder, and ended by it.
// A daemon has detached, and so is ready, when `start` returns.
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../lib/exec/index.ts";
import { processesIn } from "../lab/down.ts";
import { until } from "../support/until.ts";

export interface DaemonPlan {
  readonly namespace: string;
  /** Of its sockets, log and process id. Unix sockets know no network namespaces: whoever has the path may talk to it. */
  readonly folder: string;
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
}

export class Daemon {
  readonly plan: DaemonPlan;

  constructor(plan: DaemonPlan) {
    this.plan = plan;
  }

  async start(): Promise<void> {
    const { namespace, folder, program, args } = this.plan;
    await run("ip", [
      ...["netns", "exec", namespace, "env", `OVS_RUNDIR=${folder}`, `OVN_RUNDIR=${folder}`, program],
      ...["--detach", "--no-chdir", "-vconsole:off"],
      ...[`--pidfile=${this.#file("pid")}`, `--log-file=${this.#file("log")}`, ...args],
    ]);
  }

  /** Of the process that runs now. Throws when there is none: an id may have been given to somebody else since. */
  async pid(): Promise<number> {
    const text = await readFile(this.#file("pid"), "utf8").catch(() => "");
    const pid = Number.parseInt(text, 10);
    if ((await processesIn(this.plan.namespace)).includes(pid)) return pid;
    throw new Error(`${this.plan.name} of ${this.plan.namespace} does not run`);
  }

  /** As if it hung: it keeps its sockets and says nothing. */
  async pause(): Promise<void> {
    process.kill(await this.pid(), "SIGSTOP");
  }

  async resume(): Promise<void> {
    process.kill(await this.pid(), "SIGCONT");
  }

  /** At once, without a word to anybody; its database file stays. */
  async kill(): Promise<void> {
    const pid = await this.pid();
    process.kill(pid, "SIGKILL");
    const { namespace, name } = this.plan;
    await until(async () => !(await processesIn(namespace)).includes(pid), `${name} of ${namespace} ends`);
    await rm(this.#file("pid"), { force: true });
  }

  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  #file(ending: string): string {
    return join(this.plan.folder, `${this.plan.name}.${ending}`);
  }
}

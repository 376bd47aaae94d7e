// The agent as a process in a lab node, and what it says of itself through its debug socket.
// In: a lab, a node, a folder of manifests. Out: a running agent; tests wait for its rounds, never for time.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Explanation } from "../../agent/telemetry/explain/account.ts";
import { pathOf, type Words } from "../../agent/telemetry/explain/question.ts";
import type { Run, RunResult } from "../../lib/exec/index.ts";
import { podNetworks, serviceNetworks } from "../lab/topology.ts";
import { until } from "./until.ts";

const program = fileURLToPath(new URL("../../agent/main.ts", import.meta.url));

/** Settings by flag, without dashes. */
type Flags = Readonly<Record<string, string>>;

/** Of a lab, with or without OVN, what an agent needs: nodes to run on. */
export interface Nodes<Node extends string> {
  namespace(node: Node | "node1"): string;
  nodeExec(node: Node | "node1", ...command: Parameters<Run>): ReturnType<Run>;
}

/** What /status answers, as far as tests look at it. */
export interface AgentStatus {
  readonly ready: boolean;
  readonly error?: string;
  readonly rounds: number;
  readonly held: number;
  readonly unready: number;
  readonly pods: number;
  readonly secondaryHostEgressIPs: readonly string[];
  readonly problems: readonly { readonly object: string; readonly text: string }[];
  readonly failures: readonly { readonly backend: string; readonly error: string }[];
  readonly contention: readonly { readonly backend: string; readonly line: string; readonly times: number }[];
  /** Processes started so far, by tool. */
  readonly spawned: Readonly<Record<string, number>>;
}

/**
 * Where agents of one node keep their state: outlives each of them, as on a real node. `remove()` ends them all.
 */
export class Home {
  readonly directory: string;
  readonly node: string;
  readonly namespace: string;
  readonly #exec: Run;
  readonly #agents: Agent[] = [];

  private constructor(directory: string, node: string, namespace: string, exec: Run) {
    this.directory = directory;
    this.node = node;
    this.namespace = namespace;
    this.#exec = exec;
  }

  static async of<Node extends string>(lab: Nodes<Node>, node: Node | "node1" = "node1"): Promise<Home> {
    const directory = await mkdtemp(join(tmpdir(), "egressip-home-"));
    return new Home(directory, node, lab.namespace(node), (...command) => lab.nodeExec(node, ...command));
  }

  get stateDirectory(): string {
    return join(this.directory, "state");
  }

  get debugSocket(): string {
    return join(this.directory, "debug.sock");
  }

  async remove(): Promise<void> {
    await this.#killAll();
    await rm(this.directory, { recursive: true, force: true });
  }

  /** The command line of `run` and `plan`. */
  words(command: "run" | "plan", manifests: string, flags: Flags = {}): string[] {
    const settings: Flags = {
      node: this.node,
      "gateway-mode": "local",
      manifests,
      "cluster-networks": `${podNetworks[4]},${podNetworks[6]}`,
      "service-networks": `${serviceNetworks[4]},${serviceNetworks[6]}`,
      "state-dir": this.stateDirectory,
      "debug-socket": this.debugSocket,
      // What a test sees repaired was told of by the kernel, not found by the slow tick.
      "resync-seconds": "3600",
      ...flags,
    };
    return [program, command, ...Object.entries(settings).flatMap(([flag, value]) => [`--${flag}`, value])];
  }

  /** `egressip-agent plan`: status 0 and "nothing to do", or 2 and what would change. */
  plan(manifests: string, flags: Flags = {}): Promise<RunResult> {
    const words = this.words("plan", manifests, flags);
    return this.#exec(process.execPath, words, { okExitCodes: [0, 2] });
  }

  /** `egressip-agent drain`: what the agent that runs here is told; status 0, or 1 where something is still answered for. */
  drain(...flags: readonly string[]): Promise<RunResult> {
    const words = [program, "drain", "--debug-socket", this.debugSocket, ...flags];
    return this.#exec(process.execPath, words, { okExitCodes: [0, 1] });
  }

  /** Of agents that a failed test has left running there is nothing to be seen afterwards. */
  async uninstall(...flags: readonly string[]): Promise<RunResult> {
    await this.#killAll();
    const words = [program, "uninstall", "--state-dir", this.stateDirectory, ...flags];
    return this.#exec(process.execPath, words);
  }

  /** Starts the daemon; resolves once it answers or has ended, whatever it has done by then. */
  async spawn(manifests: string, flags: Flags = {}, environment: Flags = {}): Promise<Agent> {
    const agent = new Agent(this, this.words("run", manifests, flags), environment);
    this.#agents.push(agent);
    await until(() => agent.ended || agent.answers(), "the agent answers or ends", 20_000);
    return agent;
  }

  async #killAll(): Promise<void> {
    await Promise.all(this.#agents.splice(0).map((agent) => agent.kill()));
  }

  /** The same, and waits until it has done what there is to do. */
  async start(manifests: string, flags: Flags = {}): Promise<Agent> {
    const agent = await this.spawn(manifests, flags);
    await agent.ready();
    return agent;
  }
}

export class Agent {
  readonly #home: Pick<Home, "namespace" | "debugSocket">;
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  /** `ADDRESS LINK`, by its log: asking for the list would have it read counters each time. */
  readonly #held = new Set<string>();
  #said = "";

  constructor(home: Pick<Home, "namespace" | "debugSocket">, words: readonly string[], environment: Flags) {
    this.#home = home;
    const inside = ["netns", "exec", home.namespace, process.execPath, ...words];
    // `ip netns exec` becomes the agent: the child's id is the agent's.
    this.#child = spawn("ip", inside, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...environment },
    });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      if (stream !== null) createInterface({ input: stream }).on("line", (line) => this.#note(line));
    this.#closed = once(this.#child, "close");
  }

  get ended(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Its log so far. */
  get said(): string {
    return this.#said;
  }

  status(): Promise<AgentStatus> {
    return this.#ask("/status") as Promise<AgentStatus>;
  }

  counters(): Promise<unknown> {
    return this.#ask("/counters");
  }

  /** What each round changed, as text; rounds that changed nothing are not in it. */
  async changes(): Promise<readonly string[]> {
    const changes = (await this.#ask("/changes")) as readonly { readonly text: string }[];
    return changes.map(({ text }) => text);
  }

  /** As `egressip-agent explain` asks. */
  explain(words: Words): Promise<Explanation> {
    return this.#ask(pathOf(words)) as Promise<Explanation>;
  }

  async answers(): Promise<boolean> {
    return this.status().then(
      () => true,
      () => false,
    );
  }

  /** Waits for a round after which this is so; the error says what it was instead, and what the agent said. */
  async when(
    isSo: (status: AgentStatus) => boolean,
    what: string,
    deadlineMs = 10_000,
  ): Promise<AgentStatus> {
    let last: AgentStatus | undefined;
    const found = until(
      async () => {
        last = await this.status();
        return isSo(last) && last;
      },
      what,
      deadlineMs,
    );
    return found.catch((cause: Error) => {
      const tail = this.#said.split("\n").slice(-15).join("\n");
      throw new Error(`${cause.message}\n${JSON.stringify(last)}\n${tail}`, { cause });
    });
  }

  ready(): Promise<AgentStatus> {
    return this.when((status) => status.ready, "a round without failures");
  }

  /** These addresses are served and no others. */
  async serves(...addresses: readonly string[]): Promise<AgentStatus> {
    const held = () => new Set([...this.#held].map((entry) => entry.split(" ")[0]));
    const same = () => held().size === addresses.length && addresses.every((one) => held().has(one));
    await until(same, "it serves", 10_000).catch((cause: Error) => {
      const [have, want] = [[...held()].join(" "), addresses.join(" ")];
      throw new Error(`${cause.message} "${want}", but "${have}"`, { cause });
    });
    return this.ready();
  }

  /**
   * Has it read everything anew, and waits until it did: a round that was under way when it was asked does not count,
   * hence twice.
   */
  async lookAgain(): Promise<AgentStatus> {
    for (let times = 0; times < 2; times++) {
      const { rounds } = await this.status();
      this.#child.kill("SIGHUP");
      await this.when((status) => status.rounds > rounds, "a round after SIGHUP");
    }
    return this.ready();
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** It sees what was done meanwhile as done at once. */
  async paused(act: () => Promise<unknown>): Promise<void> {
    this.#child.kill("SIGSTOP");
    await act().finally(() => this.#child.kill("SIGCONT"));
  }

  /** As `kill -9`: nothing is put in order. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#closed;
  }

  /** As systemd and kubelet end it; the exit status. */
  async stop(): Promise<number | null> {
    this.#child.kill("SIGTERM");
    await this.#closed;
    return this.#child.exitCode;
  }

  #note(line: string): void {
    this.#said += `${line}\n`;
    const [, address, link, event] =
      /"address":"([^"]+)","link":"([^"]+)","event":"address(Held|Released)"/.exec(line) ?? [];
    if (event === "Held") this.#held.add(`${address} ${link}`);
    if (event === "Released") this.#held.delete(`${address} ${link}`);
  }

  #ask(path: string): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const call = request({ socketPath: this.#home.debugSocket, path }, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => {
          text += chunk;
        });
        response.on("end", () => resolve(JSON.parse(text)));
        response.on("error", reject);
      });
      call.on("error", reject);
      call.end();
    });
  }
}

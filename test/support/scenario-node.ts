// The agent on a node of the lab, a command at a time: `run --once`, `plan`, `facts`, `uninstall`. In: a lab and flags.
// Out: exit status and text of each. Keeps its state directory and its folder of manifests from one command to the next.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Texts } from "../../agent/config.ts";
import type { Lab } from "../lab/lab.ts";
import type { Manifests } from "./scenario.ts";
import type { Question, Reply } from "./scenario-agent.ts";

const program = fileURLToPath(new URL("scenario-agent.ts", import.meta.url));

export class ScenarioNode implements AsyncDisposable {
  readonly #directory: string;
  readonly #child: ChildProcess;
  readonly #flags: Texts;
  #asked = 0;

  private constructor(directory: string, child: ChildProcess, flags: Texts) {
    this.#directory = directory;
    this.#child = child;
    this.#flags = flags;
  }

  static async on(lab: Lab, flags: Texts): Promise<ScenarioNode> {
    const directory = await mkdtemp(join(tmpdir(), "scenario-"));
    await mkdir(join(directory, "manifests"));
    const inside = ["netns", "exec", lab.namespace("node1"), process.execPath];
    const child = fork(program, [], { execPath: "ip", execArgv: inside });
    return new ScenarioNode(directory, child, {
      ...flags,
      manifests: join(directory, "manifests"),
      "state-dir": join(directory, "state"),
    });
  }

  /** The whole folder changes at once, as a ConfigMap does. */
  async tell(manifests: Manifests): Promise<void> {
    const list = { apiVersion: "v1", kind: "List", items: [...manifests.values()] };
    const path = join(this.#directory, "manifests", "all.json");
    await writeFile(`${path}.new`, JSON.stringify(list, undefined, 2));
    await rename(`${path}.new`, path);
  }

  async ask(command: Question["command"]): Promise<Omit<Reply, "id">> {
    const id = this.#asked++;
    const closed = new AbortController();
    const onExit = () => closed.abort();
    this.#child.once("exit", onExit);
    this.#child.send({ id, command, flags: this.#flags } satisfies Question);
    const [{ status, text }] = (await once(this.#child, "message", { signal: closed.signal })) as [Reply];
    this.#child.off("exit", onExit);
    return { status, text };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.connected) {
      const exited = once(this.#child, "exit");
      this.#child.disconnect();
      await exited;
    }
    await rm(this.#directory, { recursive: true, force: true });
  }
}

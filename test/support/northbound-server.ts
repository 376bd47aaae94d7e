// A real northbound database for tests of rows: ovsdb-server on OVN's schema with what OVN-Kubernetes has in it before there is
// any egress IP (test/ovn-lab's rows), and nothing that carries packets. It listens in a folder of its own and ends with the test.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { northbound } from "../ovn-lab/northbound.ts";
import { type Cluster, firstPods, type OvnNode, type OvnPod, zonesOf } from "../ovn-lab/topology.ts";
import { complaint, type Transaction } from "../ovn-lab/transaction.ts";
import { ovnPrograms } from "./ovn-programs.ts";
import { until } from "./until.ts";

const exec = promisify(execFile);

export interface ServerOptions {
  /** The node whose zone it is. */
  readonly node?: OvnNode;
  readonly cluster?: Partial<Cluster>;
  /** Instead of the lab's. */
  readonly pods?: readonly OvnPod[];
  /** False: tables without rows. */
  readonly rows?: boolean;
}

export class NorthboundServer {
  readonly directory: string;
  readonly endpoint: string;
  readonly #bin: string;
  #server: ChildProcess | undefined;

  private constructor(bin: string) {
    this.#bin = bin;
    this.directory = mkdtempSync(join(tmpdir(), "nb-"));
    this.endpoint = `unix:${join(this.directory, "nb.sock")}`;
  }

  static async open({
    node = "node1",
    cluster = {},
    pods,
    rows = true,
  }: ServerOptions = {}): Promise<NorthboundServer> {
    const { bin, nbSchema } = await ovnPrograms();
    const server = new NorthboundServer(bin);
    await exec(join(bin, "ovsdb-tool"), ["create", server.#file("nb.db"), nbSchema]);
    await server.start();
    const whole: Cluster = {
      nodes: ["node1", "node2", "node3"],
      interconnect: true,
      gateway: "shared",
      families: [4, 6],
      disableSnatMultipleGws: false,
      ...cluster,
    };
    const zone = zonesOf(whole).find(({ nodes }) => nodes.includes(node));
    if (zone === undefined) throw new Error(`${node} is in no zone`);
    if (rows) await server.transact(northbound(whole, zone, pods ?? firstPods(whole.nodes)));
    return server;
  }

  #file(name: string): string {
    return join(this.directory, name);
  }

  get pid(): number {
    const pid = this.#server?.pid;
    if (pid === undefined) throw new Error("the server does not run");
    return pid;
  }

  async start(): Promise<void> {
    this.#server = spawn(
      join(this.#bin, "ovsdb-server"),
      [
        ...[`--remote=p${this.endpoint}`, `--unixctl=${this.#file("ctl")}`, "--no-chdir", "-vconsole:off"],
        ...[`--log-file=${this.#file("log")}`, this.#file("nb.db")],
      ],
      { stdio: "ignore" },
    );
    await until(
      () =>
        this.client("list-dbs").then(
          () => true,
          () => false,
        ),
      "the northbound server answers",
    );
  }

  /** Ends it at once; the database file stays. */
  async kill(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    const ended = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGKILL");
    await ended;
    this.#server = undefined;
    rmSync(this.#file("nb.sock"), { force: true });
    rmSync(this.#file("ctl"), { force: true });
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** ovsdb-client with the endpoint after the command. */
  async client(command: string, ...args: readonly string[]): Promise<string> {
    const { stdout } = await exec(
      join(this.#bin, "ovsdb-client"),
      ["--timeout=10", command, this.endpoint, ...args],
      {
        maxBuffer: 1 << 30,
      },
    );
    return stdout;
  }

  async transact(rows: Transaction): Promise<void> {
    const why = complaint(await this.client("transact", rows.text("OVN_Northbound")));
    if (why !== undefined) throw new Error(why);
  }

  /** `nbctl("lr-policy-list", "ovn_cluster_router")` */
  async nbctl(...args: readonly string[]): Promise<string> {
    const { stdout } = await exec(join(this.#bin, "ovn-nbctl"), [
      `--db=${this.endpoint}`,
      "--timeout=10",
      ...args,
    ]);
    return stdout;
  }
}

// A real etcd and a real kube-apiserver on loopback, as tests hold them: `await using api = await ApiServer.up()`, four seconds.
// RBAC is on, nothing else of a cluster runs: no controller, no kubelet. Each of the two can be stopped, killed, paused and started
// again on its port; what they hold can be compacted, kept and put back. Both end with this object, or with its process.
import { cp, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, fetch } from "undici";
import { allEnded } from "../support/all-ended.ts";
import { type KubePrograms, kubePrograms } from "../support/kube-programs.ts";
import { until } from "../support/until.ts";
import { etcdArguments, type Ports, serverArguments } from "./arguments.ts";
import { Authority } from "./authority.ts";
import { type AccountName, type AccountToken, tokenOf, writeKubeconfig } from "./identities.ts";
import { Objects } from "./objects.ts";
import { Program } from "./program.ts";

export class ApiServer {
  /** Of both; also room for a test's own files. */
  readonly folder: string;
  /** `v1.20.2`, for a suite to say what it ran on. */
  readonly version: string;
  readonly minor: number;
  /** `https://127.0.0.1:PORT` */
  readonly url: string;
  readonly etcd: Program;
  readonly server: Program;
  readonly #etcdUrl: string;
  readonly #authority: Authority;
  #objects: Objects | undefined;

  private constructor(folder: string, programs: KubePrograms, ports: Ports) {
    this.folder = folder;
    this.version = programs.version;
    this.minor = programs.minor;
    this.url = `https://127.0.0.1:${ports.server}`;
    this.#etcdUrl = `http://127.0.0.1:${ports.etcd}`;
    this.#authority = new Authority(folder);
    this.etcd = new Program({
      name: "etcd",
      program: programs.etcd,
      args: () => etcdArguments(programs.etcd, join(folder, "etcd"), ports),
      logFile: join(folder, "etcd.log"),
      ready: () => answers(`${this.#etcdUrl}/health`),
    });
    this.server = new Program({
      name: "kube-apiserver",
      program: programs.kubeApiserver,
      args: () => serverArguments(programs.minor, folder, ports),
      logFile: join(folder, "kube-apiserver.log"),
      ready: () => this.#serverAnswers(),
    });
  }

  static async up(): Promise<ApiServer> {
    const programs = kubePrograms();
    const api = new ApiServer(await mkdtemp(join(tmpdir(), "kube-")), programs, await freePorts());
    try {
      await api.#makeIdentities();
      await api.start();
      // The server says that it is ready, and then makes these.
      for (const name of ["default", "kube-system"]) {
        const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
        await until(() => api.objects.isThere(namespace), `namespace ${name}`, 20_000);
      }
    } catch (error) {
      await api.close();
      throw error;
    }
    return api;
  }

  async #makeIdentities(): Promise<void> {
    const authority = this.#authority;
    await allEnded([
      authority.makeAuthority("ca"),
      authority.makeAuthority("client-ca"),
      authority.makeTokenKey(),
    ]);
    await allEnded([
      authority.issueServer("ca"),
      authority.issueClient("admin", "/O=system:masters/CN=admin", "client-ca"),
    ]);
  }

  /** Those of the two that do not run; ready when this returns. */
  async start(): Promise<void> {
    if (!this.etcd.runs) await this.etcd.start();
    if (!this.server.runs) await this.server.start();
  }

  /** The server only, without a word to its clients; ready again when this returns. */
  async restart(): Promise<void> {
    await this.server.kill();
    await this.server.start();
  }

  async close(): Promise<void> {
    await this.#objects?.close();
    await allEnded([this.server.kill(), this.etcd.kill()]);
    await rm(this.folder, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  // ---- who asks ------------------------------------------------------------------------------------

  /** Reads and writes as the administrator, past any proxy. */
  get objects(): Objects {
    this.#objects ??= new Objects(this.url, (name) => this.file(name));
    return this.#objects;
  }

  /** In the folder: `ca.crt` is whom clients trust, `admin.crt` and `admin.key` are the administrator's. */
  file(name: string): string {
    return this.#authority.file(name);
  }

  /** A token of a service account that is there, as the kubelet gets one for its pods. */
  token(account: AccountName, options?: AccountToken): Promise<string> {
    return tokenOf(this.objects, this.file("sa.key"), account, options);
  }

  /** A file with this identity and no other: a token, a file that holds one, or the administrator's certificate. */
  kubeconfig(
    who: { readonly token: string } | { readonly tokenFile: string } | "admin",
    server: string = this.url,
  ): Promise<string> {
    return writeKubeconfig(this.folder, server, who);
  }

  /**
   * From now on it serves with a certificate of another authority, and `ca.crt` is that one's: who does not read it again cannot
   * connect any more.
   */
  async rotateAuthority(): Promise<void> {
    await this.#authority.makeAuthority("ca");
    await this.#authority.issueServer("ca");
    await this.restart();
    await this.#objects?.close();
    this.#objects = undefined;
  }

  // ---- what etcd holds -----------------------------------------------------------------------------

  /**
   * Forgets all but the newest revision. The server's watch cache may know older ones still: 410 is certain after `restart()`,
   * or for revision 1.
   */
  async compact(): Promise<void> {
    const { header } = (await this.#askEtcd("kv/range", { key: btoa("x") })) as EtcdAnswer;
    await this.#askEtcd("kv/compaction", { revision: header.revision, physical: true });
  }

  /**
   * Many objects at once, past the server and its checks: whole ones, as it would have stored them. It reads JSON as well as what it
   * writes itself. In: key in etcd without `/registry/`, and the object.
   */
  async store(objects: readonly (readonly [string, unknown])[]): Promise<void> {
    for (let at = 0; at < objects.length; at += STORED_AT_ONCE) {
      const success = objects.slice(at, at + STORED_AT_ONCE).map(([key, object]) => ({
        request_put: {
          key: btoa(`/registry/${key}`),
          value: Buffer.from(JSON.stringify(object)).toString("base64"),
        },
      }));
      await this.#askEtcd("kv/txn", { success });
    }
  }

  /** As a backup has it, for `restoreData`. The server is up throughout, etcd is away for a moment. */
  async saveData(): Promise<string> {
    const saved = await mkdtemp(join(this.folder, "saved-"));
    await this.etcd.stop();
    await cp(join(this.folder, "etcd"), saved, { recursive: true });
    await this.etcd.start();
    await this.server.ready();
    return saved;
  }

  /** What an administrator does after a disaster: revisions go back, and what was written since has never been. */
  async restoreData(saved: string): Promise<void> {
    await this.server.kill();
    await this.etcd.kill();
    await rm(join(this.folder, "etcd"), { recursive: true });
    await mkdir(join(this.folder, "etcd"), { mode: 0o700 });
    await cp(saved, join(this.folder, "etcd"), { recursive: true });
    await this.start();
  }

  async #askEtcd(path: string, body: unknown): Promise<unknown> {
    const response = await fetch(`${this.#etcdUrl}/v3/${path}`, {
      method: "POST",
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`etcd ${path}: ${response.status} ${await response.text()}`);
    return await response.json();
  }

  /** By a connection of its own each time: one that was kept may belong to a server that is gone. */
  async #serverAnswers(): Promise<boolean> {
    const dispatcher = new Agent({ connect: { ca: await readFile(this.file("ca.crt")) } });
    return await answers(`${this.url}/readyz`, dispatcher).finally(() => dispatcher.destroy());
  }
}

/** A transaction of etcd has 128 operations and 1.5 MB at most. */
const STORED_AT_ONCE = 100;

interface EtcdAnswer {
  readonly header: { readonly revision: string };
}

async function answers(url: string, dispatcher?: Agent): Promise<boolean> {
  const options = { signal: AbortSignal.timeout(2_000), ...(dispatcher === undefined ? {} : { dispatcher }) };
  return await fetch(url, options).then(
    async (response) => {
      await response.text();
      return response.ok;
    },
    () => false,
  );
}

/** Three at once, so that they differ. */
async function freePorts(): Promise<Ports> {
  const listeners = await Promise.all(
    [1, 2, 3].map(
      () =>
        new Promise<ReturnType<typeof createServer>>((resolve) => {
          const listener = createServer().listen(0, "127.0.0.1", () => resolve(listener));
        }),
    ),
  );
  const [server = 0, etcd = 0, etcdPeer = 0] = listeners.map((listener) => {
    const address = listener.address();
    return address !== null && typeof address === "object" ? address.port : 0;
  });
  await Promise.all(listeners.map((listener) => new Promise((resolve) => listener.close(resolve))));
  return { server, etcd, etcdPeer };
}

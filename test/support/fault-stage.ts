// One agent on a node and a kernel of its own, whose way to the API server can be made a bad one: what each fault is tried on. In: the
// server, and a number that tells this one's objects from the others'. Out: the agent, what its host has, what it asked for and when.
import { access, mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { ApiServer } from "../cluster-lab/api-server.ts";
import type { Call } from "../cluster-lab/calls.ts";
import { FaultProxy } from "../cluster-lab/fault-proxy.ts";
import type { Fault } from "../cluster-lab/faults.ts";
import { mountAccount, writeKubeconfig } from "../cluster-lab/identities.ts";
import { type KubeObject, Refusal } from "../cluster-lab/objects.ts";
import { Lab } from "../lab/lab.ts";
import { outside } from "../lab/topology.ts";
import { type Agent, type AgentStatus, Home } from "./agent.ts";
import { allEnded } from "./all-ended.ts";
import { object } from "./cluster-source.ts";
import { until } from "./until.ts";

/** The lab's own server has the usual port. */
const API_PORT = 7443;
const ACCOUNT = { namespace: "egressip-agent", name: "egressip-agent" };

export interface FollowedStatus extends AgentStatus {
  readonly kubernetes: {
    readonly ready: boolean;
    readonly unconfirmed?: { readonly why: string };
    readonly kinds: readonly {
      readonly kind: string;
      readonly failure: string | null;
      readonly counts: { readonly gaps: number; readonly watches: number } | null;
    }[];
  } | null;
}

interface Asked {
  readonly call: Call;
  /** Of performance.now(). */
  readonly at: number;
}

export class FaultStage {
  readonly api: ApiServer;
  readonly proxy: FaultProxy;
  readonly lab: Lab;
  readonly home: Home;
  /** What the agent has of its service account, as the kubelet mounts it. */
  readonly mount: string;
  /** Everything that was asked for. */
  readonly asked: Asked[] = [];
  fault: (call: Call) => Fault | undefined = () => undefined;
  readonly #number: number;
  readonly #flags: Readonly<Record<string, string>>;
  #agent: Agent | undefined;

  private constructor(
    parts: Pick<FaultStage, "api" | "proxy" | "lab" | "home" | "mount">,
    number: number,
    flags: Readonly<Record<string, string>>,
  ) {
    ({ api: this.api, proxy: this.proxy, lab: this.lab, home: this.home, mount: this.mount } = parts);
    this.#number = number;
    this.#flags = flags;
    this.proxy.fault = (call) => {
      this.asked.push({ call, at: performance.now() });
      return this.fault(call);
    };
  }

  /** Numbers are from 1 to 40. The server has the packaged account, and the CRD. */
  static async up(api: ApiServer, number: number): Promise<FaultStage> {
    const lab = await Lab.up({ prefix: `f${number}x${process.pid}` });
    let proxy: FaultProxy | undefined;
    let home: Home | undefined;
    try {
      proxy = await FaultProxy.open(api);
      home = await Home.of(lab);
      const url = await proxy.listenIn(lab.namespace("ext"), outside.ext.server[4], API_PORT);
      const mount = join(home.directory, "account");
      await mkdir(mount);
      const kubeconfig = await writeKubeconfig(mount, url, { tokenFile: join(mount, "token") });
      const flags = { source: "kubernetes", kubeconfig, node: `node-${number}` };
      const stage = new FaultStage({ api, proxy, lab, home, mount }, number, flags);
      await stage.renewAccount();
      await api.objects.apply(object.node(`node-${number}`, "172.18.0.11"));
      await stage.#apply();
      return stage;
    } catch (error) {
      await allEnded([Promise.resolve(proxy?.close()), Promise.resolve(home?.remove())]).finally(() =>
        lab.down(),
      );
      throw error;
    }
  }

  async down(): Promise<void> {
    // Whom a fault still holds would not be let go.
    this.proxy.lines.cut();
    try {
      await allEnded([this.home.remove(), this.proxy.close()]);
    } finally {
      await this.lab.down();
    }
  }

  // ---- the agent -----------------------------------------------------------------------------------

  get agent(): Agent {
    if (this.#agent === undefined) throw new Error("no agent was started");
    return this.#agent;
  }

  /** Whatever becomes of it. */
  async spawn(environment: Readonly<Record<string, string>> = {}): Promise<Agent> {
    this.#agent = await this.home.spawn("none", this.#flags, environment);
    return this.#agent;
  }

  /** As a process that ends without having been asked to; what it knew is on disk or not. */
  async kill({ forgets }: { readonly forgets: boolean }): Promise<void> {
    const folder = join(this.home.stateDirectory, "last-good");
    const isThere = () =>
      access(join(folder, "objects.json")).then(
        () => true,
        () => false,
      );
    await until(isThere, "its last good state is written");
    await this.agent.kill();
    if (forgets) await rm(folder, { recursive: true });
  }

  async status(): Promise<FollowedStatus> {
    return (await this.agent.status()) as FollowedStatus;
  }

  when(isSo: (status: FollowedStatus) => unknown, what: string, deadlineMs: number): Promise<FollowedStatus> {
    const of = this.agent.when((status) => Boolean(isSo(status as FollowedStatus)), what, deadlineMs);
    return of as Promise<FollowedStatus>;
  }

  /** A token and the authority's certificate, as they are now. A token is taken for a minute longer than it says. */
  async renewAccount(options?: { readonly seconds: number }): Promise<void> {
    const token = await this.api.token(ACCOUNT, options);
    const authority = await readFile(this.api.file("ca.crt"), "utf8");
    await mountAccount(this.mount, { token, "ca.crt": authority, namespace: ACCOUNT.namespace });
  }

  /** Once its token is none any more. */
  async untilExpired(): Promise<void> {
    const token = await readFile(join(this.mount, "token"), "utf8");
    const isRefused = () =>
      this.api.objects.request("GET", "/api/v1/nodes", { token }).then(
        () => false,
        (error: unknown) => error instanceof Refusal && error.status === 401,
      );
    await until(isRefused, "the token has expired", 90_000);
  }

  // ---- its objects ---------------------------------------------------------------------------------

  /** The second goes elsewhere when something happens behind the agent's back. */
  get addresses(): readonly [string, string] {
    return [`10.10.10.${50 + this.#number}`, `10.10.10.${100 + this.#number}`];
  }

  #pod(name: string, host: number): KubeObject {
    const of = object.pod(name, `10.244.${100 + this.#number}.${host}`, { node: `node-${this.#number}` });
    return { ...of, metadata: { ...of.metadata, namespace: `shop-${this.#number}` } };
  }

  #egressIP(second: string): KubeObject {
    const [a, b] = this.addresses;
    const web = object.egressIP(`web-${this.#number}`, { [a]: `node-${this.#number}`, [b]: second });
    const selectors = {
      namespaceSelector: { matchLabels: { of: String(this.#number) } },
      podSelector: { matchLabels: { app: "web" } },
    };
    return { ...web, spec: { egressIPs: [a, b], ...selectors } };
  }

  async #apply(): Promise<void> {
    const { objects } = this.api;
    await objects.apply(
      object.namespace(`shop-${this.#number}`, { of: String(this.#number) }),
      ...["stays", "leaves", "again"].map((name, at) => this.#pod(name, 3 + at)),
      this.#egressIP(`node-${this.#number}`),
    );
  }

  /** What the agent gives at first, as `given` has it. */
  get atFirst(): Given {
    return {
      addresses: [...this.addresses].sort(),
      pods: [3, 4, 5].map((host) => `10.244.${100 + this.#number}.${host}`),
    };
  }

  /** One pod is replaced by another one of its name, with another address; with 0 by one with its first. */
  async churn(times: number): Promise<void> {
    const pod = this.#pod("again", times === 0 ? 5 : 10 + (times % 200));
    await this.api.objects.remove(pod);
    await this.api.objects.apply(pod);
  }

  /** A pod is deleted, another one comes back under its name (BL-93), and an egress IP is given to somebody else. */
  async changeBehindItsBack(): Promise<void> {
    const { objects } = this.api;
    await objects.remove(this.#pod("leaves", 4));
    await objects.remove(this.#pod("again", 5));
    await objects.apply(this.#pod("again", 9), this.#egressIP("elsewhere"));
  }

  /** All is as at first. */
  async putBack(): Promise<void> {
    await this.#apply();
    await this.churn(0);
  }

  /** Lines of a dump are of what has gone elsewhere with that: an egress IP, or pods. */
  isOf(line: string, what: "the egress IP" | "the pods"): boolean {
    const pods = this.atFirst.pods.slice(1);
    return (what === "the pods" ? pods : [this.addresses[1]]).some((address) => line.includes(address));
  }

  /** What it gives when it knows of that. */
  get inTheEnd(): Given {
    const [a] = this.addresses;
    return { addresses: [a], pods: [3, 9].map((host) => `10.244.${100 + this.#number}.${host}`) };
  }

  // ---- its host ------------------------------------------------------------------------------------

  dump(): Promise<string> {
    return this.lab.dump("node1");
  }

  /** Until the kernel has this and no more, and the agent has nothing to complain of. */
  async has(wanted: Given, what: string, deadlineMs: number): Promise<void> {
    let last: unknown;
    let looked = -1;
    const isSo = async () => {
      const { ready, kubernetes, error, rounds } = await this.status();
      if (!ready || kubernetes?.unconfirmed !== undefined) {
        last = [ready, kubernetes?.unconfirmed, error];
        return false;
      }
      // Between rounds nothing changes, and a dump is a dozen processes.
      if (rounds === looked) return false;
      looked = rounds;
      last = given(await this.dump());
      return JSON.stringify(last) === JSON.stringify(wanted);
    };
    await until(isSo, what, deadlineMs).catch((cause: Error) => {
      const said = this.agent.said.split("\n").slice(-12);
      const tail = said.map((line) => line.slice(0, 400)).join("\n");
      throw new Error(`${cause.message}; last: ${JSON.stringify(last)}\n${tail}`, { cause });
    });
  }
}

interface Given {
  readonly addresses: readonly string[];
  readonly pods: readonly string[];
}

/** What a host gives, by its dump: addresses of links, and the pods they are for. */
function given(dump: string): Given {
  const found = (pattern: RegExp) => [...dump.matchAll(pattern)].map(([, of = ""]) => of).sort();
  return {
    addresses: found(/ inet (10\.10\.10\.\d+)\/32 /g),
    pods: found(/^add egressip4 (\S+)/gm),
  };
}

/** Most requests in any second. */
export function mostInASecond(asked: readonly Asked[]): number {
  const counts = asked.map(({ at }, from) => {
    const next = asked.findIndex((other) => other.at >= at + 1_000);
    return (next === -1 ? asked.length : next) - from;
  });
  return Math.max(0, ...counts);
}

// A node with its agent's rounds, an API server and a clock, all in memory, for tests of what is reported.
// In: what is assigned, what is wrong; a real server in place of the model, where there is one. Out: rounds over the real plan and
// the real backends, whose tools only take notes.
import { createBuild, type Objects } from "../../../../agent/model/build.ts";
import type { HostFacts, Rival } from "../../../../agent/model/facts.ts";
import { decodeNode } from "../../../../agent/model/kinds/node.ts";
import type { EgressIP, KubernetesObject } from "../../../../agent/model/objects.ts";
import { createMode } from "../../../../agent/plan/modes.ts";
import { createBackends } from "../../../../agent/sync/backends.ts";
import { carryOut } from "../../../../agent/sync/round.ts";
import { createReports, type Reports } from "../../../../agent/telemetry/reports/reports.ts";
import type { Cluster } from "../../../../lib/kubernetes/index.ts";
import { manualClock } from "../../../lib/ovsdb-client/manual-clock.ts";
import { bareHost, egressIP, node1, node2, objects, settings } from "../../make.ts";
import { recordingTools } from "../../tools.ts";
import { type ModelServer, modelServer } from "./model-server.ts";

export const KEY = "k8s.ovn.org/secondary-host-egress-ips";

export class World {
  readonly clock = manualClock();
  readonly server: ModelServer = modelServer(() => this.clock.now());
  /** `subject: message`, or `subject: well`. */
  readonly told: string[] = [];
  /** EgressIP to address to node. */
  assigned: Readonly<Record<string, Readonly<Record<string, string>>>> = {};
  /** Addresses asked for and assigned to nobody. */
  pending: Readonly<Record<string, readonly string[]>> = {};
  rivals: readonly Rival[] = [];
  /** Links that are down. */
  down: ReadonlySet<string> = new Set();
  failing: Readonly<Record<string, string>> = {};
  unconfirmed: Objects["unconfirmed"];
  /** What the watch has brought of the own Node; `watch()` brings it up to date. */
  seen: string | undefined;
  host: HostFacts = bareHost;
  /** Of EgressIPs as the server has them; else made up. */
  uids: Readonly<Record<string, string>> = {};
  readonly #request: Cluster["request"];
  #asking = 0;
  #reports: Reports;
  #build = createBuild();
  #mode = createMode("local");
  #tools = recordingTools();
  #backends = createBackends(this.#tools);

  constructor(request?: Cluster["request"]) {
    const ask = request ?? this.server.request;
    this.#request = (...of) => {
      this.#asking++;
      return ask(...of).finally(() => this.#asking--);
    };
    this.#reports = this.#start();
  }

  #start(): Reports {
    return createReports({
      request: this.#request,
      log: {
        info: ({ subject }: { subject: string }) => this.told.push(`${subject}: well`),
        warn: ({ subject, error }: { subject: string; error: string }) =>
          this.told.push(`${subject}: ${error}`),
      } as never,
      clock: this.clock,
      chance: () => 0.5,
      date: () => new Date(Date.UTC(2026, 0, 1) + this.clock.now()),
    });
  }

  /** Another process, which finds what the one before it has left, and lists all objects anew. */
  restart(): void {
    this.watch();
    this.#reports.close();
    this.#reports = this.#start();
    this.#build = createBuild();
    this.#mode = createMode("local");
    this.#backends = createBackends(this.#tools);
  }

  close(): void {
    this.#reports.close();
  }

  watch(): void {
    this.seen = this.server.annotations?.[KEY];
  }

  /** A round, and all that becomes of it within a second and a half. */
  async round(): Promise<void> {
    await this.roundOnly();
    await this.pass(1_500);
  }

  /** In the middle of it, once its plan is there, `between` is called. */
  async roundOnly(between: () => unknown = () => {}): Promise<void> {
    const { host } = this;
    const links = host.network.links.map((link) => ({ ...link, running: !this.down.has(link.name) }));
    const observed: HostFacts = { ...host, rivals: this.rivals, network: { ...host.network, links } };
    const all = { ...objects(...this.#objects()), unconfirmed: this.unconfirmed };
    const snapshot = this.#build(settings, all, observed);
    const plan = this.#mode.plan(snapshot);
    this.#reports.planned({ objects: all, snapshot, plan });
    await this.#flush();
    await between();
    this.#tools.fail(this.failing);
    const outcome = await carryOut(this.#backends, plan, observed, { write: true, held: () => false });
    this.host = outcome.facts;
    this.#reports.took({ objects: all, snapshot, plan, outcome });
    await this.#flush();
  }

  #objects(): readonly KubernetesObject[] {
    const names = new Set([...Object.keys(this.assigned), ...Object.keys(this.pending)]);
    const egressIPs: EgressIP[] = [...names].map((name) => {
      const at = this.assigned[name] ?? {};
      const uid = this.uids[name] ?? `uid-${name}`;
      return egressIP(name, { at, uid, requested: [...Object.keys(at), ...(this.pending[name] ?? [])] });
    });
    const { secondaryEgressIPs, secondaryEgressIPsText } = decodeNode(
      {},
      {
        name: "node1",
        namespace: "",
        uid: "",
        created: "",
        deletion: undefined,
        labels: {},
        annotations: this.seen === undefined ? {} : { [KEY]: this.seen },
      },
      () => {},
    );
    return [{ ...node1, secondaryEgressIPs, secondaryEgressIPsText }, node2, ...egressIPs];
  }

  /** Time passes, and what is set for it happens. */
  async pass(ms: number): Promise<void> {
    // Where nothing is set for a time, it passes at once.
    for (let left = ms; left > 0; left -= 50) {
      if (this.clock.waiting === 0) {
        this.clock.advance(left);
        break;
      }
      this.clock.advance(Math.min(left, 50));
      await this.#flush();
    }
  }

  /** Everything that only waits for promises, and for answers. */
  async #flush(): Promise<void> {
    do await new Promise((resolve) => setImmediate(resolve));
    while (this.#asking > 0);
  }

  get said(): readonly string[] {
    return [...this.server.events.values()].map(
      ({ involvedObject, reason, message, count }) =>
        `${(involvedObject as { readonly name: string }).name} ${String(reason)} ${String(count)}: ${String(message)}`,
    );
  }

  /** What was written since it was last asked. */
  takeWrites(): readonly string[] {
    const { requests } = this.server;
    const since = requests.slice(this.#asked);
    this.#asked = requests.length;
    return since.flatMap(({ wrote }) => (wrote === undefined ? [] : [wrote]));
  }

  #asked = 0;
}

// The OVN lab as tests and the command line hold it: `const lab = await OvnLab.up({ prefix })`, ask, `lab.down()`.
// Long because it is the list of all that can be done with a lab; how, is in the other files.
import { type Run, type RunOptions, type RunResult, run } from "../../lib/exec/index.ts";
import { type Capture, capture, captureFrames, watchLeaks } from "../lab/capture.ts";
import { type Client, startClient } from "../lab/client.ts";
import { type Connection, type ConnectionOptions, openConnection } from "../lab/connection.ts";
import { removeNamespaces } from "../lab/down.ts";
import { ask, type Outcome } from "../lab/probe.ts";
import { type Sender, type SenderOptions, startSender } from "../lab/sender.ts";
import { type Destination, type Family, families, type Protocol, serverPort } from "../lab/topology.ts";
import type { LabOptions } from "../lab/wiring.ts";
import { type OvnSuite, ovnPrograms } from "../support/ovn-programs.ts";
import type { Daemon } from "./daemons.ts";
import { placeName, takeDown } from "./down.ts";
import { type DumpOptions, northboundText } from "./dump.ts";
import { manifests, nodeAnnotations, writeManifests } from "./manifests.ts";
import { whoHas } from "./neighbours.ts";
import { addPodRows, addressSetRows, removePodRows } from "./northbound.ts";
import {
  daemonOf,
  fileOf,
  type LabPlan,
  loadPlan,
  type NodeDaemon,
  placeOfZone,
  savePlan,
  type Tool,
  toolWords,
  type ZoneDaemon,
  zoneOf,
} from "./plan.ts";
import { podMac, portNameOf } from "./row-parts.ts";
import { syncHv, tool, transact } from "./tools.ts";
import {
  type Cluster,
  firstPods,
  type OvnNode,
  type OvnPod,
  ovnDestinations,
  ovnMac,
  ovnNodePlans,
  ovnNodes,
  ovnPod,
  zonesOf,
} from "./topology.ts";
import { build, claim, placesOf } from "./up.ts";
import { plugIn } from "./up-node.ts";

export interface OvnUpOptions extends Partial<Omit<Cluster, "nodes">>, Partial<LabOptions> {
  /** Start of the namespaces' names and name of the lab's folder. In tests: something with the process id in it. */
  readonly prefix?: string;
  /** 2 by default. */
  readonly nodes?: 2 | 3;
  /** Debian's release whose OVN it is, trixie by default. */
  readonly suite?: OvnSuite;
  /** Take down a lab of that prefix first. */
  readonly force?: boolean;
}

export const defaultPrefix = "ovn";

/** A name of the lab's, or an address and port. */
export type OvnDestination = string | Destination;

/** One lab. Its namespaces and daemons live on without this object; its clients do not. */
export class OvnLab implements AsyncDisposable {
  readonly #plan: LabPlan;
  readonly #clients = new Map<string, Client>();

  private constructor(plan: LabPlan) {
    this.#plan = plan;
  }

  /** Makes a lab, 1 to 2 s. Takes what it made down again when it fails. */
  static async up(options: OvnUpOptions = {}): Promise<OvnLab> {
    const { prefix = defaultPrefix, suite = "trixie", force = false } = options;
    const nodes = ovnNodes.slice(0, options.nodes ?? 2);
    const ovn = await ovnPrograms(suite);
    const plan: LabPlan = {
      prefix,
      ovn,
      // OVS 3.1 aborts when a translated port comes back soon.
      ovs: suite === "bookworm" ? await ovnPrograms("trixie") : ovn,
      nodes,
      pods: firstPods(nodes),
      interconnect: options.interconnect ?? true,
      gateway: options.gateway ?? "shared",
      families: options.families ?? families,
      disableSnatMultipleGws: options.disableSnatMultipleGws ?? false,
      backend: options.backend ?? "nft",
      rpFilter: options.rpFilter ?? 0,
    };
    if (force) await takeDown(prefix);
    await claim(plan);
    try {
      await build(plan);
    } catch (error) {
      await takeDown(prefix);
      throw error;
    }
    return new OvnLab(plan);
  }

  /** A lab that is up already. */
  static async attach(prefix: string = defaultPrefix): Promise<OvnLab> {
    return new OvnLab(await loadPlan(prefix));
  }

  /** Ends this object's processes and leaves the lab. */
  detach(): void {
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
  }

  async down(): Promise<void> {
    this.detach();
    await takeDown(this.prefix);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.down();
  }

  get prefix(): string {
    return this.#plan.prefix;
  }

  get nodes(): readonly OvnNode[] {
    return this.#plan.nodes;
  }

  get pods(): readonly OvnPod[] {
    return this.#plan.pods;
  }

  get cluster(): Cluster {
    return this.#plan;
  }

  namespace(place: string): string {
    if (!placesOf(this.#plan).includes(place)) throw new Error(`the lab has no ${place}`);
    return `${this.prefix}-${place}`;
  }

  // ---- commands ----------------------------------------------------------------------------------

  /** Runs a command in a namespace. Throws ToolError like `run` does. */
  exec(place: string, command: string, args: readonly string[], options?: RunOptions): Promise<RunResult> {
    return run("ip", ["netns", "exec", this.namespace(place), command, ...args], options);
  }

  /** The same on a node. */
  nodeExec(
    node: OvnNode,
    command: string,
    args: readonly string[],
    options?: RunOptions,
  ): Promise<RunResult> {
    return this.exec(node, command, args, options);
  }

  /** A `Run` whose commands all run on that node: to give to code that takes one. */
  runOn(node: OvnNode): Run {
    return (command, args, options) => this.exec(node, command, args, options);
  }

  /** A tool of OVN's or OVS's against that node's sockets; what it printed. */
  async tool(node: OvnNode, name: Tool, ...args: readonly string[]): Promise<string> {
    return (await tool(this.#plan, node, name, args)).stdout;
  }

  /** The tool's whole command line, to run it otherwise. */
  toolWords(node: OvnNode, name: Tool): string[] {
    return toolWords(this.#plan, node, name);
  }

  /** The command line that follows a pod's first packet through OVN. */
  traceWords(from: string, to: OvnDestination, protocol: Protocol = "tcp", family: Family = 4): string[] {
    const pod = this.pods.find(({ name }) => name === from);
    if (pod === undefined) throw new Error(`the lab has no pod ${from}`);
    const { [family]: address, port } = this.destination(to);
    const packet = [
      `inport=="${portNameOf(pod)}"`,
      `eth.src==${podMac(pod)}`,
      `eth.dst==${ovnMac(ovnNodePlans[pod.node].gateway[4])}`,
      `ip${family}.src==${pod[family]}`,
      `ip${family}.dst==${address}`,
      "ip.ttl==64",
      `${protocol}.dst==${port}`,
    ].join(" && ");
    return [...this.toolWords(pod.node, "ovn-trace"), pod.node, packet];
  }

  nbctl(node: OvnNode, ...args: readonly string[]): Promise<string> {
    return this.tool(node, "ovn-nbctl", ...args);
  }

  sbctl(node: OvnNode, ...args: readonly string[]): Promise<string> {
    return this.tool(node, "ovn-sbctl", ...args);
  }

  /** Waits until what is in this node's Northbound database is in the flows of every node of its zone; without one, of all. */
  async syncHv(node?: OvnNode): Promise<void> {
    const of = zonesOf(this.#plan).filter(({ nodes }) => node === undefined || nodes.includes(node));
    await Promise.all(of.map(({ nodes: [first] }) => first && syncHv(this.#plan, first)));
  }

  // ---- databases and daemons ----------------------------------------------------------------------

  /** Paths, at most 107 bytes long, that may be opened from any namespace. */
  nbSocket(node: OvnNode): string {
    return fileOf(this.#plan, placeOfZone(zoneOf(this.#plan, node)), "nb.sock");
  }

  sbSocket(node: OvnNode): string {
    return fileOf(this.#plan, placeOfZone(zoneOf(this.#plan, node)), "sb.sock");
  }

  /** Open vSwitch's own database. */
  ovsSocket(node: OvnNode): string {
    return fileOf(this.#plan, node, "db.sock");
  }

  /** Of that node's zone, or of that node, to pause, kill and start again. */
  daemon(node: OvnNode, name: ZoneDaemon | NodeDaemon): Daemon {
    return daemonOf(this.#plan, node, name);
  }

  /** The node's Northbound database as text that is the same until something is written; see dump.ts. */
  northbound(node: OvnNode, options?: DumpOptions): Promise<string> {
    return northboundText(this.#plan, node, options);
  }

  // ---- packets -------------------------------------------------------------------------------------

  destination(to: OvnDestination): Destination {
    if (typeof to !== "string") return to;
    const pod = this.pods.find(({ name }) => name === to);
    if (pod !== undefined) return { 4: pod[4], 6: pod[6], port: serverPort };
    const known = ovnDestinations[to];
    if (known === undefined) throw new Error(`no such destination: ${to}`);
    return known;
  }

  probe(
    from: string,
    to: OvnDestination,
    protocol: Protocol = "tcp",
    family: Family = 4,
    deadlineMs?: number,
  ): Promise<Outcome> {
    return ask(this.#client(from), { to: this.destination(to), protocol, family }, deadlineMs);
  }

  /** Every protocol and family of the lab from each place to each destination: `a1 ext tcp 4: ext saw 172.18.0.11`. */
  async view(from: readonly string[], to: readonly string[], deadlineMs?: number): Promise<string[]> {
    const probes = from.flatMap((place) =>
      to.flatMap((name) =>
        (["tcp", "udp"] as const).flatMap((protocol) =>
          this.#plan.families.map(async (family) => {
            const outcome = await this.probe(place, name, protocol, family, deadlineMs);
            const what = "failed" in outcome ? outcome.failed : `${outcome.server} saw ${outcome.source}`;
            return `${place} ${name} ${protocol} ${family}: ${what}`;
          }),
        ),
      ),
    );
    return await Promise.all(probes);
  }

  /** A stream of datagrams; 1 000 a second by default. */
  sender(
    from: string,
    { to = "internet", ...options }: Omit<SenderOptions, "to"> & { readonly to?: OvnDestination } = {},
  ): Sender {
    return startSender(this.#client(from), { ...options, to: this.destination(to) });
  }

  /** A TCP connection that lives until it is stopped. */
  connection(
    from: string,
    { to = "internet", ...options }: Omit<ConnectionOptions, "to"> & { readonly to?: OvnDestination } = {},
  ): Connection {
    return openConnection(this.#client(from), { ...options, to: this.destination(to) });
  }

  /** tcpdump's lines. Resolves when it listens. */
  capture(place: string, device: string, filter: string): Promise<Capture<string[]>> {
    return capture(this.namespace(place), device, filter);
  }

  /** The frames themselves, from the Ethernet header on. */
  captureFrames(place: string, device: string, filter: string): Promise<Capture<Uint8Array[]>> {
    return captureFrames(this.namespace(place), device, filter);
  }

  /** Looks for pod addresses on both networks outside, not inside of tunnels; `stop()` gives the offending lines. */
  watchLeaks(): Promise<Capture<string[]>> {
    return watchLeaks((place) => this.namespace(place));
  }

  /** Asks for an address by ARP or NDP, outside or as a node on its br-ex: the MAC addresses that answer, each once, sorted. */
  whoHas(address: string, from: "ext" | "sec" | OvnNode = "ext"): Promise<string[]> {
    const device = from === "ext" || from === "sec" ? "lan" : "br-ex";
    return whoHas(this.namespace(from), device, address);
  }

  // ---- changes -------------------------------------------------------------------------------------

  /** A node's link into the primary network, at the other end. */
  async uplink(node: OvnNode, state: "up" | "down"): Promise<void> {
    await run("ip", ["-n", this.namespace("ext"), "link", "set", node, state]);
  }

  /** A pod that is there, in OVN and as a namespace, when this returns. `host` is the last part of its addresses. */
  async addPod(
    name: string,
    node: OvnNode,
    host: number,
    { serves = false, ...more }: Parameters<typeof ovnPod>[3] & { serves?: boolean } = {},
  ): Promise<OvnPod> {
    if (!placeName.test(name) || placesOf(this.#plan).includes(name))
      throw new Error(`a pod cannot be called ${name}`);
    const pod = ovnPod(name, node, host, more);
    this.#plan.pods = [...this.pods, pod];
    await savePlan(this.#plan);
    await Promise.all([
      transact(this.#plan, node, "nb", addPodRows(this.#plan, pod)),
      plugIn(this.#plan, pod, serves),
    ]);
    await this.#inEachZone(() => addressSetRows(this.#plan, pod, "insert"));
    await this.syncHv(node);
    return pod;
  }

  async removePod(name: string): Promise<void> {
    const pod = this.pods.find((other) => other.name === name);
    if (pod === undefined) throw new Error(`the lab has no pod ${name}`);
    const namespace = this.namespace(name);
    this.#clients.get(name)?.close();
    this.#clients.delete(name);
    await this.tool(pod.node, "ovs-vsctl", "del-port", "br-int", name);
    await this.#inEachZone(() => addressSetRows(this.#plan, pod, "delete"));
    await removePodRows(this.#plan.disableSnatMultipleGws, pod, (...args) => this.nbctl(pod.node, ...args));
    await removeNamespaces([namespace]);
    this.#plan.pods = this.pods.filter((other) => other !== pod);
    await savePlan(this.#plan);
    await this.syncHv(pod.node);
  }

  async #inEachZone(rows: () => ReturnType<typeof addressSetRows>): Promise<void> {
    for (const { nodes } of zonesOf(this.#plan)) {
      const [first] = nodes;
      if (first !== undefined) await transact(this.#plan, first, "nb", rows());
    }
  }

  // ---- what Kubernetes would say ---------------------------------------------------------------------

  /** What OVN-Kubernetes would have put on the Node object. */
  nodeAnnotations(node: OvnNode): Readonly<Record<string, string>> {
    return nodeAnnotations(this.#plan, node);
  }

  /** Nodes, Namespaces and Pods as objects. */
  manifests() {
    return manifests(this.#plan, this.pods);
  }

  /** The same as nodes.yaml, namespaces.yaml and pods.yaml in a folder, each replaced whole. */
  writeManifests(folder: string): Promise<void> {
    return writeManifests(folder, this.manifests());
  }

  #client(place: string): Client {
    const present = this.#clients.get(place);
    if (present !== undefined) return present;
    const client = startClient(this.namespace(place));
    this.#clients.set(place, client);
    return client;
  }
}

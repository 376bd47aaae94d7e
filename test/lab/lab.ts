// The lab as tests and the command line hold it: `const lab = await Lab.up({ prefix })`, ask, `lab.down()`.
import { type Run, type RunOptions, type RunResult, run } from "../../lib/exec/index.ts";
import { type Capture, capture, captureFrames, watchLeaks } from "./capture.ts";
import { type Client, startClient } from "./client.ts";
import { type Connection, type ConnectionOptions, openConnection } from "./connection.ts";
import { namespacesOf, takeDown } from "./down.ts";
import { dump } from "./dump.ts";
import { ask, matrix, type Outcome, type Probe, shown } from "./probe.ts";
import { type Sender, type SenderOptions, startSender } from "./sender.ts";
import { steer, unsteer } from "./steer.ts";
import {
  type Destination,
  type DestinationName,
  type Family,
  families,
  type NodeName,
  namespaceOf,
  type Place,
  type PodName,
  type Protocol,
  places,
} from "./topology.ts";
import { build, claim } from "./up.ts";
import type { LabOptions } from "./wiring.ts";

export interface UpOptions extends Partial<LabOptions> {
  /** Start of the namespaces' names. In tests: something with the process id in it. */
  readonly prefix?: string;
  /** Take down a lab of that prefix first. */
  readonly force?: boolean;
}

export const defaultPrefix = "eip";

/** One lab. Its namespaces live on without this object; its clients do not. */
export class Lab implements AsyncDisposable {
  readonly prefix: string;
  readonly #clients = new Map<Place, Client>();

  private constructor(prefix: string) {
    this.prefix = prefix;
  }

  /** Makes a lab, about 0.3 s. Takes what it made down again when it fails. */
  static async up(options: UpOptions = {}): Promise<Lab> {
    const { prefix = defaultPrefix, backend = "nft", rpFilter = 0, force = false } = options;
    if (force) await takeDown(prefix);
    await claim(prefix);
    try {
      await build(prefix, { backend, rpFilter });
    } catch (error) {
      await takeDown(prefix);
      throw error;
    }
    return new Lab(prefix);
  }

  /** A lab that is up already. */
  static async attach(prefix: string = defaultPrefix): Promise<Lab> {
    if ((await namespacesOf(prefix)).length < places.length) throw new Error(`there is no lab "${prefix}"`);
    return new Lab(prefix);
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

  namespace(place: Place): string {
    return namespaceOf(this.prefix, place);
  }

  /** Runs a command in a namespace. Throws ToolError like `run` does. */
  exec(place: Place, command: string, args: readonly string[], options?: RunOptions): Promise<RunResult> {
    return run("ip", ["netns", "exec", this.namespace(place), command, ...args], options);
  }

  /** The same on a node. */
  nodeExec(
    node: NodeName,
    command: string,
    args: readonly string[],
    options?: RunOptions,
  ): Promise<RunResult> {
    return this.exec(node, command, args, options);
  }

  /** A `Run` whose commands all run on that node: to give to code that takes one. */
  runOn(node: NodeName): Run {
    return (command, args, options) => this.exec(node, command, args, options);
  }

  probe(
    from: Place,
    to: DestinationName | Destination,
    protocol: Protocol = "tcp",
    family: Family = 4,
    deadlineMs?: number,
  ): Promise<Outcome> {
    return ask(this.#client(from), { to, protocol, family }, deadlineMs);
  }

  /** All at once; the outcomes in the order of the probes. */
  probeAll(probes: readonly Probe[], deadlineMs?: number): Promise<Outcome[]> {
    return Promise.all(probes.map((probe) => ask(this.#client(probe.from), probe, deadlineMs)));
  }

  /** Every protocol and family from each place to each destination, a line of text each. */
  async view(from: readonly Place[], to: readonly (DestinationName | Destination)[]): Promise<string[]> {
    const probes = matrix(from, to);
    const outcomes = await this.probeAll(probes);
    return probes.flatMap((probe, at) => {
      const outcome = outcomes[at];
      return outcome === undefined ? [] : [shown(probe, outcome)];
    });
  }

  /** A stream of datagrams; 1 000 a second by default. */
  sender(from: Place, options: SenderOptions = {}): Sender {
    return startSender(this.#client(from), options);
  }

  /** A TCP connection that lives until it is stopped. */
  connection(from: Place, options: ConnectionOptions = {}): Connection {
    return openConnection(this.#client(from), options);
  }

  /** tcpdump's lines. Resolves when it listens. */
  capture(place: Place, device: string, filter: string): Promise<Capture<string[]>> {
    return capture(this.namespace(place), device, filter);
  }

  /** The frames themselves, from the Ethernet header on. */
  captureFrames(place: Place, device: string, filter: string): Promise<Capture<Uint8Array[]>> {
    return captureFrames(this.namespace(place), device, filter);
  }

  /** Looks for pod addresses on both networks outside; `stop()` gives the offending lines. */
  watchLeaks(): Promise<Capture<string[]>> {
    return watchLeaks((place) => this.namespace(place));
  }

  /** What the pod starts from now on leaves through that node's management port, as OVN's reroute does it. */
  steer(pod: PodName, node: NodeName, only: readonly Family[] = families): Promise<void> {
    return steer(this.namespace("fabric"), pod, node, only);
  }

  /** Back to the pod's own node. */
  unsteer(pod: PodName, only: readonly Family[] = families): Promise<void> {
    return unsteer(this.namespace("fabric"), pod, only);
  }

  /** Everything of a node that an agent may touch, as text to compare. */
  dump(node: NodeName): Promise<string> {
    return dump(this.runOn(node));
  }

  #client(place: Place): Client {
    const present = this.#clients.get(place);
    if (present !== undefined) return present;
    const client = startClient(this.namespace(place));
    this.#clients.set(place, client);
    return client;
  }
}

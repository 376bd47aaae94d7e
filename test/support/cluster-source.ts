// The agent's input over a real API server, behind a proxy that can make it a bad one: what a restart of an agent is, without the host.
// In: the two. Out: objects as rounds are made of them, and the last good state that outlives each input.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { type LastGoodFile, lastGoodIn } from "../../agent/inputs/kubernetes/last-good.ts";
import { type KubernetesInput, openKubernetes } from "../../agent/inputs/kubernetes.ts";
import { createBuild, type Objects } from "../../agent/model/build.ts";
import { entriesOf } from "../../agent/model/shards.ts";
import { openCluster } from "../../lib/kubernetes/index.ts";
import { bareHost, settings } from "../agent/make.ts";
import type { ApiServer } from "../cluster-lab/api-server.ts";
import { type KubeObject, readKustomization, readManifests } from "../cluster-lab/objects.ts";
import { until } from "./until.ts";

const packaged = join(import.meta.dirname, "../../packaging/kubernetes");

export const [egressIPDefinition] = readManifests(join(packaged, "crd-egressip.yaml")) as [KubeObject];

/** A kubeconfig with what the packaged account may do, and no more, for the server or proxy at `url`. */
export async function agentKubeconfig(api: ApiServer, url?: string): Promise<string> {
  await api.objects.apply(...readKustomization(packaged).filter(({ kind }) => kind !== "DaemonSet"));
  const token = await api.token({ namespace: "egressip-agent", name: "egressip-agent" });
  return api.kubeconfig({ token }, url);
}

export const object = {
  node: (name: string, address: string): KubeObject => ({
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      annotations: { "k8s.ovn.org/node-primary-ifaddr": JSON.stringify({ ipv4: `${address}/24` }) },
    },
    status: { addresses: [{ type: "InternalIP", address }] },
  }),
  namespace: (name: string, labels: Readonly<Record<string, string>> = {}): KubeObject => ({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name, labels },
  }),
  pod: (
    name: string,
    address: string,
    { node = "node1", labels = { app: "web" } as Readonly<Record<string, string>> } = {},
  ): KubeObject => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "shop", labels },
    spec: { nodeName: node, containers: [{ name: "c", image: "none" }] },
    status: { phase: "Running", podIP: address, podIPs: [{ ip: address }] },
  }),
  /** Address to node, "" for none: the address is asked for and not given. */
  egressIP: (name: string, at: Readonly<Record<string, string>>): KubeObject => ({
    apiVersion: "k8s.ovn.org/v1",
    kind: "EgressIP",
    metadata: { name },
    spec: {
      egressIPs: Object.keys(at),
      namespaceSelector: { matchLabels: { tier: "web" } },
      podSelector: { matchLabels: { app: "web" } },
    },
    status: {
      items: Object.entries(at).flatMap(([egressIP, node]) => (node === "" ? [] : [{ node, egressIP }])),
    },
  }),
};

/** An agent's input as a process has it: begun again it has nothing but its last good state. */
export class ClusterSource implements AsyncDisposable {
  readonly #kubeconfig: string;
  readonly #stateDirectory: string;
  readonly #build = createBuild();
  #input: KubernetesInput | undefined;
  #file: LastGoodFile | undefined;

  private constructor(kubeconfig: string, stateDirectory: string) {
    this.#kubeconfig = kubeconfig;
    this.#stateDirectory = stateDirectory;
  }

  /** Through the server or proxy at `url`. */
  static async of(api: ApiServer, url: string): Promise<ClusterSource> {
    const kubeconfig = await agentKubeconfig(api, url);
    return new ClusterSource(kubeconfig, await mkdtemp(join(tmpdir(), "egressip-source-")));
  }

  /** As a process that starts. */
  async begin({ firstWaitMs = 10_000, confirmMs = 500 } = {}): Promise<void> {
    this.#file = lastGoodIn({
      stateDirectory: this.#stateDirectory,
      node: "node1",
      now: () => new Date(),
      after,
      firstMs: 0,
      everyMs: 0,
      onFailure: (error) => {
        throw error;
      },
    });
    this.#input = openKubernetes({
      cluster: await openCluster(
        { kubeconfig: this.#kubeconfig },
        { backoff: { least: 20, most: 200 }, absentMs: 100 },
      ),
      node: "node1",
      lastGood: await this.#file.read(),
      onChange: () => {},
      clock: () => performance.now(),
      now: () => new Date(),
      after,
      firstWaitMs,
      confirmMs,
    });
  }

  /** As one that ends, after it has written down what it knew. */
  async end(): Promise<void> {
    await this.#file?.flush();
    await this.#input?.close();
    this.#input = undefined;
  }

  get input(): KubernetesInput {
    if (this.#input === undefined) throw new Error("nothing was begun");
    return this.#input;
  }

  /** As a round does: what was confirmed is kept. */
  async read(): Promise<Objects> {
    const objects = await this.input.read();
    const versions = this.input.versions();
    const { served } = this.#build(settings, objects, bareHost);
    if (versions !== undefined) this.#file?.offer({ objects, selected: served.selected, versions });
    return objects;
  }

  /** Addresses that an egress IP speaks for here, each with the pod that has it. */
  async claims(): Promise<readonly string[]> {
    const { served } = this.#build(settings, await this.read(), bareHost);
    return [...entriesOf(served.claims)]
      .flatMap(([address, of]) => of.map(({ pod }) => `${address} ${pod.name}`))
      .sort();
  }

  /** Until the claims are these; the error says what they were. */
  async claim(...expected: readonly string[]): Promise<void> {
    await this.when(
      async () => (await this.claims()).join() === expected.join(),
      `claims ${expected.join()}`,
    );
    expect(await this.claims()).toEqual(expected);
  }

  /** Until it can be read, and is so. */
  async when(isSo: (objects: Objects) => unknown, what: string): Promise<Objects> {
    let last: unknown;
    const found = until(
      async () => {
        try {
          const objects = await this.read();
          last = await this.claims();
          return (await isSo(objects)) ? objects : undefined;
        } catch (error) {
          last = error;
          return undefined;
        }
      },
      what,
      20_000,
    );
    return found.catch((cause: Error) => {
      throw new Error(`${cause.message}; last: ${String(last)}; ${JSON.stringify(this.#input?.told())}`, {
        cause,
      });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
    await rm(this.#stateDirectory, { recursive: true, force: true });
  }
}

function after(ms: number, act: () => void): () => void {
  const timer = setTimeout(act, ms);
  return () => clearTimeout(timer);
}

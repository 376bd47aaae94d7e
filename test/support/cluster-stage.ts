// Three nodes of real OVN whose agents read a real API server, each as the packaged account over its node's own network: what the test
// of the whole path holds. In: the lab's options. Out: objects that tests apply, agents, what the server was told by them.
import { join } from "node:path";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { FaultProxy } from "../cluster-lab/fault-proxy.ts";
import { type KubeObject, readManifests } from "../cluster-lab/objects.ts";
import { outside } from "../lab/topology.ts";
import type { OvnUpOptions } from "../ovn-lab/lab.ts";
import type { OvnNode } from "../ovn-lab/topology.ts";
import { type EgressIPOptions, egressIP } from "./agent-manifests.ts";
import { allEnded } from "./all-ended.ts";
import { agentKubeconfig, egressIPDefinition } from "./cluster-source.ts";
import { OvnStage } from "./ovn-stage.ts";

/** Outside, where every node reaches it; the lab's own server has the usual port. */
const API_PORT = 6443;

interface Table {
  readonly columnDefinitions: readonly { readonly name: string }[];
  readonly rows: readonly { readonly cells: readonly unknown[] }[];
}

export class ClusterStage {
  readonly ovn: OvnStage;
  readonly api: ApiServer;
  readonly #proxy: FaultProxy;
  readonly #flags: Readonly<Record<string, string>>;

  private constructor(ovn: OvnStage, api: ApiServer, proxy: FaultProxy, flags: Record<string, string>) {
    this.ovn = ovn;
    this.api = api;
    this.#proxy = proxy;
    this.#flags = flags;
  }

  /** With the lab's nodes and namespaces as objects; no pods yet, no egress IPs, no agents. */
  static async up(options: OvnUpOptions): Promise<ClusterStage> {
    const ovn = await OvnStage.up(options);
    let api: ApiServer | undefined;
    let proxy: FaultProxy | undefined;
    try {
      api = await ApiServer.up();
      proxy = await FaultProxy.open(api);
      const namespace = ovn.lab.namespace("ext");
      const url = await proxy.listenIn(namespace, outside.ext.server[4], API_PORT);
      await api.objects.apply(
        egressIPDefinition,
        ...objectsOf(ovn, "namespaces"),
        ...objectsOf(ovn, "nodes"),
      );
      const kubeconfig = await agentKubeconfig(api);
      const flags = { source: "kubernetes", kubeconfig, "kubernetes-server": url };
      return new ClusterStage(ovn, api, proxy, flags);
    } catch (error) {
      await allEnded([Promise.resolve(proxy?.close()), Promise.resolve(api?.close())]).finally(() =>
        ovn.down(),
      );
      throw error;
    }
  }

  get agents(): OvnStage["agents"] {
    return this.ovn.agents;
  }

  /** Starts the agent of each node. */
  async start(): Promise<void> {
    await this.ovn.start(this.#flags);
  }

  /** The pods of these names appear, running. */
  async pods(...names: readonly string[]): Promise<void> {
    await this.api.objects.apply(
      ...objectsOf(this.ovn, "pods").filter(({ metadata }) => names.includes(metadata.name)),
    );
  }

  /** The EgressIP is as its manager leaves it, status included. */
  async assign(name: string, options: EgressIPOptions): Promise<void> {
    await this.api.objects.apply(egressIP(name, options) as KubeObject);
  }

  /** As `kubectl get egressips` prints it. */
  async table(): Promise<readonly Readonly<Record<string, string>>[]> {
    const accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const path = "/apis/k8s.ovn.org/v1/egressips";
    const { columnDefinitions, rows } = (await this.api.objects.request("GET", path, { accept })) as Table;
    return rows.map(({ cells }) =>
      Object.fromEntries(cells.map((cell, at) => [columnDefinitions[at]?.name ?? "", String(cell)])),
    );
  }

  /** What the agents said of an EgressIP: `NODE REASON: text`, sorted. */
  async events(name: string): Promise<readonly string[]> {
    const events = await this.api.objects.list("v1", "Event", "default");
    return events
      .filter(({ involvedObject }) => (involvedObject as { readonly name: string }).name === name)
      .map(({ source, reason, message }) => `${(source as { host: string }).host} ${reason}: ${message}`)
      .sort();
  }

  /** What the Node says of its egress IPs on secondary links. */
  async annotation(node: OvnNode): Promise<string | undefined> {
    const object = { apiVersion: "v1", kind: "Node", metadata: { name: node } };
    const { annotations } = (await this.api.objects.get(object)).metadata;
    return (annotations as Partial<Record<string, string>>)["k8s.ovn.org/secondary-host-egress-ips"];
  }

  async down(): Promise<void> {
    await allEnded([
      ...[...this.ovn.agents.values()].map((agent) => agent.stop()),
      this.#proxy.close(),
      this.api.close(),
    ]);
    await this.ovn.down();
  }
}

function objectsOf(ovn: OvnStage, kind: "namespaces" | "nodes" | "pods"): readonly KubeObject[] {
  return readManifests(join(ovn.manifests, `${kind}.yaml`));
}

// An OVN lab with an agent on each node: what the tests and the demo of real packets hold. In: the lab's options. Out: agents
// that read one folder of manifests, which tests change.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { OvnLab, type OvnUpOptions } from "../ovn-lab/lab.ts";
import { type OvnNode, zonesOf } from "../ovn-lab/topology.ts";
import { type Agent, Home } from "./agent.ts";
import { type EgressIPOptions, egressIP, writeFolder } from "./agent-manifests.ts";

/** As far as tests change it. */
interface NodeManifest {
  readonly metadata: {
    readonly name: string;
    readonly labels: Record<string, string>;
    readonly annotations: Record<string, string>;
  };
}

export class OvnStage {
  readonly lab: OvnLab;
  readonly manifests: string;
  readonly homes: ReadonlyMap<OvnNode, Home>;
  readonly agents = new Map<OvnNode, Agent>();

  private constructor(lab: OvnLab, manifests: string, homes: ReadonlyMap<OvnNode, Home>) {
    this.lab = lab;
    this.manifests = manifests;
    this.homes = homes;
  }

  static async up(options: OvnUpOptions): Promise<OvnStage> {
    const lab = await OvnLab.up(options);
    const manifests = await mkdtemp(join(tmpdir(), "egressip-manifests-"));
    await lab.writeManifests(manifests);
    const homes = new Map<OvnNode, Home>();
    for (const node of lab.nodes) homes.set(node, await Home.of(lab, node));
    return new OvnStage(lab, manifests, homes);
  }

  /** Starts the agent of each node. */
  async start(flags: Readonly<Record<string, string>> = {}): Promise<void> {
    await Promise.all(
      [...this.homes].map(async ([node, home]) => {
        this.agents.set(node, await home.start(this.manifests, { ...this.flagsOf(node), ...flags }));
      }),
    );
    await this.settled();
  }

  flagsOf(node: OvnNode): Readonly<Record<string, string>> {
    const { gateway, disableSnatMultipleGws } = this.lab.cluster;
    return {
      "gateway-mode": gateway,
      "ovn-nb": `unix:${this.lab.nbSocket(node)}`,
      "disable-snat-multiple-gws": String(disableSnatMultipleGws),
    };
  }

  /** What `uninstall` has to be told. */
  leaveFlags(node: OvnNode): readonly string[] {
    const { "gateway-mode": _, ...flags } = this.flagsOf(node);
    return Object.entries({ node, ...flags }).flatMap(([flag, value]) => [`--${flag}`, value]);
  }

  /** Replaces all EgressIPs, and waits until every agent has read them and every node's flows follow. */
  async assign(egressIPs: Readonly<Record<string, EgressIPOptions>>): Promise<void> {
    const objects = Object.entries(egressIPs).map(([name, of]) => egressIP(name, of));
    await writeFolder(this.manifests, "egressips.yaml", objects);
    // Rounds are also made for what other agents write, so one more says nothing of what it has read.
    await Promise.all([...this.agents.values()].map((agent) => agent.lookAgain()));
    await this.settled();
  }

  /** Changes a Node object, of which every agent learns as it does. */
  async changeNode(node: OvnNode, change: (object: NodeManifest) => void): Promise<void> {
    const documents = parseAllDocuments(await readFile(join(this.manifests, "nodes.yaml"), "utf8"));
    const objects = documents.map((document) => document.toJS() as NodeManifest);
    for (const object of objects) if (object.metadata.name === node) change(object);
    await writeFolder(this.manifests, "nodes.yaml", objects);
  }

  /** No round fails, and what is in the databases is in the flows. */
  async settled(): Promise<void> {
    for (const agent of this.agents.values()) await agent.ready();
    await this.lab.syncHv();
  }

  agent(node: OvnNode): Agent {
    const agent = this.agents.get(node);
    if (agent === undefined) throw new Error(`no agent runs on ${node}`);
    return agent;
  }

  home(node: OvnNode): Home {
    const home = this.homes.get(node);
    if (home === undefined) throw new Error(`there is no ${node}`);
    return home;
  }

  /** The first node of each zone: whose database it is. */
  get zones(): readonly OvnNode[] {
    return zonesOf(this.lab.cluster).flatMap(({ nodes }) => nodes.slice(0, 1));
  }

  async down(): Promise<void> {
    for (const home of this.homes.values()) await home.remove();
    await this.lab.down();
    await rm(this.manifests, { recursive: true, force: true });
  }
}

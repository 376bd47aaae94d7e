// Random but seeded histories of a small cluster, for tests of what does not depend on them: EgressIPs and where they are, pods
// that come, move, lose their address and end, labels of namespaces, nodes that go. Out: objects and settings after each event.
import { printNorthbound } from "../../agent/inputs/northbound-text.ts";
import type { HostFacts } from "../../agent/model/facts.ts";
import type { KubernetesObject, Pod } from "../../agent/model/objects.ts";
import type { Settings } from "../../agent/model/settings.ts";
import { egressIP, namespace, objects, pod } from "../agent/make.ts";
import type { OvnNode } from "../ovn-lab/topology.ts";
import { labNode, nodeNames } from "./northbound-scene.ts";

/** mulberry32: the same numbers for the same seed, everywhere. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

interface World {
  readonly egressIPs: Map<string, Readonly<Record<string, string>>>;
  readonly pods: Map<string, Pod>;
  readonly teams: Map<string, string>;
  readonly nodes: Set<OvnNode>;
}

const teamIs = (team: string) => ({
  namespaceSelector: [{ key: "team", operator: "In", values: [team] }] as const,
});
/** Older to younger, with what they select and the addresses they may have. */
const kinds = {
  prod: { created: "2026-01-01T00:00:00Z", ...teamIs("a") },
  more: { created: "2026-01-02T00:00:00Z", ...teamIs("b") },
  late: {
    created: "2026-01-03T00:00:00Z",
    podSelector: [{ key: "app", operator: "NotIn", values: ["batch"] }] as const,
  },
};
const addresses = [
  ["172.18.0.50", "172.18.0.51", "fd00:172:18::50"],
  ["10.10.10.60", "172.18.0.61", "fd00:10:10::60"],
  ["172.18.0.70", "172.18.0.11", "fd00:172:18::70"],
] as const;
const podNames = ["shop/web", "shop/job", "play/web", "play/one", "shop/far", "play/far"];

export class History {
  readonly world: World = {
    egressIPs: new Map(),
    pods: new Map(),
    teams: new Map(),
    nodes: new Set(nodeNames),
  };
  settings: Partial<Settings> = {};
  readonly #random: () => number;
  readonly #zone: string | undefined;

  constructor(seed: number, zone?: string) {
    this.#random = randomFrom(seed);
    this.#zone = zone;
    this.world.teams.set("shop", "a").set("play", "b");
  }

  number(below: number): number {
    return Math.floor(this.#random() * below);
  }
  chance(of: number): boolean {
    return this.#random() < of;
  }
  pick<T>(from: readonly T[]): T {
    return from[this.number(from.length)] as T;
  }

  /** One thing happens in the cluster. */
  event(): void {
    const { egressIPs, pods, teams, nodes } = this.world;
    const at = this.number(3);
    const name = this.pick(podNames);
    const before = pods.get(name);
    switch (this.number(9)) {
      case 0:
      case 1: {
        // Its status as a cluster manager writes it: an address or two, on different nodes.
        const [first, second] = nodeNames
          .map((node) => [this.#random(), node] as const)
          .sort(([a], [b]) => a - b);
        const [one, two, six] = addresses[at] ?? [];
        egressIPs.set(Object.keys(kinds)[at] as string, {
          ...(this.chance(0.8) && one !== undefined ? { [one]: String(first?.[1]) } : {}),
          ...(this.chance(0.4) && two !== undefined ? { [two]: String(second?.[1]) } : {}),
          ...(this.chance(0.5) && six !== undefined ? { [six]: String(first?.[1]) } : {}),
        });
        break;
      }
      case 2:
        egressIPs.delete(this.pick(Object.keys(kinds)));
        break;
      case 3:
      case 4: {
        // Made, or made anew with another address, or with one that another pod had.
        const node = name.endsWith("far") ? "node2" : "node1";
        const host = 20 + this.number(5);
        const own = node === "node1" ? 1 : 2;
        const both = [`10.244.${own}.${host}`, `fd00:10:244:${own}::${host}`];
        pods.set(
          name,
          pod(name, this.chance(0.7) ? both : both.slice(0, 1), {
            node,
            uid: `${name} ${this.#random()}`,
            labels: { app: this.pick(["web", "batch"]) },
            hostNetwork: this.chance(0.05),
          }),
        );
        break;
      }
      case 5:
        if (before !== undefined) pods.set(name, { ...before, addresses: [] });
        break;
      case 6:
        if (before !== undefined && this.chance(0.5))
          pods.set(name, { ...before, finished: true, running: false });
        else pods.delete(name);
        break;
      case 7:
        teams.set(this.pick(["shop", "play"]), this.pick(["a", "b", "c"]));
        break;
      default: {
        const other = this.pick(["node2", "node3"] as const);
        if (!nodes.delete(other)) nodes.add(other);
      }
    }
  }

  /** Other settings, as a new process has them. */
  resettle(): void {
    this.settings = {
      adopt: this.chance(0.5),
      whenUnready: this.pick(["drop", "node-ip"] as const),
      gatewayMode: this.pick(["shared", "shared", "local"] as const),
    };
  }

  /** Nothing is unknown: what an address was is not a function of what is. */
  resolve(): void {
    for (const [name, of] of this.world.pods) if (of.addresses.length === 0) this.world.pods.delete(name);
  }

  objects() {
    const { egressIPs, pods, teams, nodes } = this.world;
    const of = this.#zone === undefined ? {} : { zone: this.#zone, transit: [] };
    const all: readonly KubernetesObject[] = [
      ...[...nodes].map((name) => labNode(name, of)),
      ...[...teams].map(([name, team]) => namespace(name, { team })),
      ...[...egressIPs].map(([name, at]) => egressIP(name, { ...kinds[name as keyof typeof kinds], at })),
      ...pods.values(),
    ];
    return objects(...all);
  }
}

/** Facts without uuids, in an order: what a prediction can say. */
export function comparable({ northbound }: HostFacts): unknown {
  const { pods, shared, nodeSnats, ...written } = printNorthbound(northbound);
  const rows = (list: readonly object[]) =>
    list.map((row) => JSON.stringify({ ...row, uuid: "" }, (_, part) => inOrder(part))).sort();
  return {
    ...written,
    writers: inOrder(written.writers),
    pods: Object.fromEntries(Object.entries(pods).map(([address, own]) => [address, rows(own)])),
    shared: rows(shared),
    nodeSnats: Object.keys(nodeSnats),
  };
}

function inOrder(part: unknown): unknown {
  if (typeof part !== "object" || part === null || Array.isArray(part)) return part;
  return Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)));
}

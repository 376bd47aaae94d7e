// Whatever happened before, the rows are a function of what is now: random histories of EgressIPs, pods, namespaces, nodes and
// settings, with restarts and damage in between, end in the rows that a first start writes into a new database, and nobody
// else's row was touched (invariants 2 to 4). Seeded: a failing history says its number, and NORTHBOUND_HISTORY=N plays it alone.
import { describe, expect, test } from "vitest";
import { printNorthbound } from "../../agent/inputs/northbound-text.ts";
import type { HostFacts } from "../../agent/model/facts.ts";
import type { KubernetesObject, Pod } from "../../agent/model/objects.ts";
import type { Settings } from "../../agent/model/settings.ts";
import { egressIP, namespace, objects, pod } from "../agent/make.ts";
import type { OvnNode } from "../ovn-lab/topology.ts";
import { type NorthboundAgent, openNorthboundAgent } from "../support/northbound-agent.ts";
import { anyDamage } from "../support/northbound-damage.ts";
import { hostOf, labNode, nodeNames } from "../support/northbound-scene.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { printForeign, printRows, rowsOfOwner } from "../support/northbound-tables.ts";

const OURS = "egressip-agent";
const REFERENCE = "default-network-controller";
const HISTORIES = 200;
const CENTRAL_HISTORIES = 40;

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

class History {
  readonly world: World = { egressIPs: new Map(), pods: new Map(), teams: new Map(), nodes: new Set(nodeNames) };
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
        const [first, second] = nodeNames.map((node) => [this.#random(), node] as const).sort(([a], [b]) => a - b);
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
        if (before !== undefined && this.chance(0.5)) pods.set(name, { ...before, finished: true, running: false });
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
function comparable({ northbound }: HostFacts): unknown {
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

async function damage(server: NorthboundServer, history: History): Promise<void> {
  const rows = await rowsOfOwner(server, OURS);
  // One row once: two changes of one may be none that a server takes.
  const hit = rows.filter(() => history.chance(0.15));
  const operations = hit.flatMap((row) => anyDamage(row, history.number(1_000) / 1_000));
  const reply = await server.client("transact", JSON.stringify(["OVN_Northbound", ...operations]));
  expect(reply).not.toContain("error");
}

/** Rows as the reference leaves them: without our key, and routes that nobody tells from its others taken away. */
async function leaveReferenceRows(server: NorthboundServer, history: History): Promise<void> {
  const settings = { northboundOwner: REFERENCE, node: "node1" };
  await using agent = openNorthboundAgent(server.endpoint, settings, hostOf("node1"));
  await agent.round(history.objects());
  const rows = await rowsOfOwner(server, REFERENCE);
  const operations = rows.map(({ table, uuid }) =>
    table === "Logical_Router_Static_Route"
      ? {
          op: "mutate",
          table: "Logical_Router",
          where: [["name", "==", "ovn_cluster_router"]],
          mutations: [["static_routes", "delete", ["set", [["uuid", uuid]]]]],
        }
      : {
          op: "mutate",
          table,
          where: [["_uuid", "==", ["uuid", uuid]]],
          mutations: [["external_ids", "delete", ["set", ["egressip-agent/node"]]]],
        },
  );
  await server.client("transact", JSON.stringify(["OVN_Northbound", ...operations]));
}

const only = process.env["NORTHBOUND_HISTORY"];
const seeds = (count: number) =>
  only === undefined ? Array.from({ length: count }, (_, at) => at + 1) : [Number(only)];

describe("histories", () => {
  test(`${HISTORIES} on a node with a database of its own`, async () => {
    await using server = await NorthboundServer.open();
    await using empty = await NorthboundServer.open();
    const pristine = printRows(await rowsOfOwner(empty, OURS));
    for (const seed of seeds(HISTORIES)) {
      const history = new History(seed);
      for (let events = 0; events < 12; events++) history.event();
      if (history.chance(0.3)) await leaveReferenceRows(server, history);
      const others = await printForeign(server, OURS, REFERENCE);
      const theirs = printRows(await rowsOfOwner(server, REFERENCE));
      let adopted = false;
      history.resettle();
      let agent = openNorthboundAgent(server.endpoint, history.settings, hostOf("node1"));
      const round = async (what: string) => {
        adopted ||= history.settings.adopt === true;
        const text = await agent.round(history.objects());
        // What a round says it has brought about is what is there.
        const predicted = comparable(agent.last?.outcome.facts as HostFacts);
        expect(predicted, `history ${seed}, ${what}`).toEqual(comparable(await agent.read()));
        return text;
      };
      const steps = 2 + history.number(4);
      for (let step = 0; step < steps; step++) {
        for (let events = history.number(4); events > 0; events--) history.event();
        if (history.chance(0.3)) await damage(server, history);
        if (history.chance(0.3)) {
          await agent.close();
          history.resettle();
          agent = openNorthboundAgent(server.endpoint, history.settings, hostOf("node1"));
        }
        await round(`step ${step}`);
      }
      history.resolve();
      await round("the end");
      const before = agent.transactions;
      expect(await round("once more"), `history ${seed}`).toBe("");
      expect(agent.transactions, `history ${seed}`).toBe(before);
      await agent.close();

      await using fresh = openNorthboundAgent(empty.endpoint, history.settings, hostOf("node1"));
      await fresh.round(history.objects());
      const expected = printRows(await rowsOfOwner(empty, OURS));
      expect(printRows(await rowsOfOwner(server, OURS)), `history ${seed}`).toBe(expected);
      expect(await printForeign(server, OURS, REFERENCE), `history ${seed}`).toBe(others);
      if (!adopted) expect(printRows(await rowsOfOwner(server, REFERENCE)), `history ${seed}`).toBe(theirs);
      else if (history.settings.adopt) expect(await rowsOfOwner(server, REFERENCE), `history ${seed}`).toEqual([]);
      await fresh.leave();
      expect(printRows(await rowsOfOwner(empty, OURS)), `history ${seed}`).toBe(pristine);
    }
  }, 240_000);

  test(`${CENTRAL_HISTORIES} of two agents on one database, each as late as it likes`, async () => {
    const cluster = { cluster: { interconnect: false } } as const;
    await using server = await NorthboundServer.open(cluster);
    await using empty = await NorthboundServer.open(cluster);
    const open = (endpoint: string, history: History, node: OvnNode) =>
      openNorthboundAgent(
        endpoint,
        { ...history.settings, adopt: false, gatewayMode: "shared", node },
        hostOf(node),
      );
    const settle = async (agents: readonly NorthboundAgent[], history: History) => {
      for (let pass = 0; pass < 4; pass++) {
        let written = "";
        for (const agent of agents) written += await agent.round(history.objects());
        if (written === "") return true;
      }
      return false;
    };
    for (const seed of seeds(CENTRAL_HISTORIES)) {
      const history = new History(seed, "global");
      for (let events = 0; events < 12; events++) history.event();
      history.resettle();
      const others = await printForeign(server, OURS);
      const agents = [open(server.endpoint, history, "node1"), open(server.endpoint, history, "node2")];
      for (let step = 0; step < 6; step++) {
        for (let events = history.number(4); events > 0; events--) history.event();
        // A node that is gone writes nothing until it is back; its rows are another test's.
        history.world.nodes.add("node2");
        if (history.chance(0.3)) await damage(server, history);
        const at = history.number(2);
        if (history.chance(0.3)) {
          await agents[at]?.close();
          agents[at] = open(server.endpoint, history, nodeNames[at] as OvnNode);
        }
        await agents[at]?.round(history.objects());
      }
      history.resolve();
      expect(await settle(agents, history), `history ${seed}`).toBe(true);
      const rows = printRows(await rowsOfOwner(server, OURS));
      expect(await printForeign(server, OURS), `history ${seed}`).toBe(others);
      for (const agent of agents) await agent.close();

      const fresh = [open(empty.endpoint, history, "node1"), open(empty.endpoint, history, "node2")];
      expect(await settle(fresh, history), `history ${seed}`).toBe(true);
      expect(rows, `history ${seed}`).toBe(printRows(await rowsOfOwner(empty, OURS)));
      for (const agent of fresh) {
        await agent.leave();
        await agent.close();
      }
      expect(await rowsOfOwner(empty, OURS), `history ${seed}`).toEqual([]);
    }
  }, 240_000);
});

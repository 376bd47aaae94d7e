// What the northbound database costs: many rows from nothing, one pod more, and a start on rows that are right. In: sizes.
// Out: figures, each beside what a client needs that only sends or only receives, on the same server over the same socket.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { northboundTables } from "../../agent/inputs/northbound.ts";
import { monitorParams, monitorRequests } from "../../lib/ovsdb-client/monitor.ts";
import { parseSchema } from "../../lib/ovsdb-client/pure.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { ovnPrograms } from "../support/ovn-programs.ts";
import { type BareClient, openBareClient, request } from "../support/ovsdb-bare.ts";
import { openBenchAgent, type RoundCost, settings } from "./northbound-agent.ts";
import { cluster, withPod } from "./northbound-scale.ts";
import { median } from "./statistics.ts";

const DATABASE = "OVN_Northbound";
const ZERO = "00000000-0000-0000-0000-000000000000";

export interface Filling {
  readonly rows: number;
  /** Milliseconds of the bare client: the same operations as prepared text. */
  readonly floor: number;
  /** The same by one that also has the server tell of the rows, and parses that: what it takes to know what is there. */
  readonly followed: number;
  readonly agent: Parts;
  readonly ratio: number;
  /** Milliseconds for each row where a program is started for it, from a sample. */
  readonly perRow: number;
  readonly sample: number;
}

type Parts = Pick<RoundCost, "ms" | "read" | "plan" | "diff" | "commit" | "after" | "cpu">;

export async function measureFilling(pods: number, turns: number): Promise<Filling> {
  const floors: number[] = [];
  const followed: number[] = [];
  const costs: RoundCost[] = [];
  const [empty, full] = [cluster(0), cluster(pods)];
  for (let turn = 0; turn < turns; turn++) {
    {
      await using server = await NorthboundServer.open();
      const agent = await openBenchAgent(server.endpoint);
      await agent.round(empty);
      costs.push(await agent.round(full));
      await agent.close();
    }
    for (const follows of [false, true]) {
      // Another database has other uuids: the text is made for the one that it is sent to, before the clock runs.
      await using server = await NorthboundServer.open();
      const agent = await openBenchAgent(server.endpoint);
      await agent.round(empty);
      const text = await agent.textFor(full);
      await agent.close();
      (follows ? followed : floors).push(await sendBare(server.endpoint, text, follows));
    }
  }
  const sample = 100;
  const perRow = await fillWithTool(sample);
  return {
    rows: costs[0]?.changes ?? 0,
    floor: median(floors),
    followed: median(followed),
    agent: mediansOf(costs),
    ratio: median(costs.map(({ ms }, turn) => ms / (floors[turn] as number))),
    perRow,
    sample,
  };
}

async function sendBare(endpoint: string, text: string, follows: boolean): Promise<number> {
  const bare = await openBareClient(endpoint);
  if (follows) await bare.ask(await monitorRequest(bare));
  const start = performance.now();
  const { result } = await bare.ask(text);
  const took = performance.now() - start;
  bare.close();
  const failed = (result as ({ readonly error?: string } | null)[]).find((of) => of?.error !== undefined);
  if (failed !== undefined) throw new Error(JSON.stringify(failed));
  return took;
}

/** Milliseconds for each row, as people script it. */
async function fillWithTool(sample: number): Promise<number> {
  await using server = await NorthboundServer.open();
  const { bin } = await ovnPrograms();
  const nbctl = (...words: readonly string[]) =>
    execFileSync(join(bin, "ovn-nbctl"), [`--db=${server.endpoint}`, ...words]);
  const start = performance.now();
  for (let index = 0; index < sample / 2; index++) {
    const address = `10.244.${2 + Math.floor(index / 250)}.${2 + (index % 250)}`;
    nbctl("lr-policy-add", "ovn_cluster_router", "100", `ip4.src == ${address}`, "reroute", "100.64.0.2");
    nbctl("lr-nat-add", "GR_node1", "snat", "172.18.0.50", address);
  }
  return (performance.now() - start) / sample;
}

export interface OneMore {
  readonly present: number;
  readonly ms: number;
  readonly cpu: number;
  readonly floor: number;
  readonly ratio: number;
  readonly transactions: number;
  readonly operations: number;
}

/** One pod more, `times` times, with so many there; the bare client adds every other one. */
export async function measureOneMore(present: number, times: number): Promise<OneMore> {
  await using server = await NorthboundServer.open();
  const agent = await openBenchAgent(server.endpoint);
  let objects = cluster(present);
  await agent.round(objects);
  const costs: RoundCost[] = [];
  const floors: number[] = [];
  const bare = await openBareClient(server.endpoint);
  let index = present;
  for (let turn = 0; turn < times; turn++) {
    objects = withPod(objects, index++);
    costs.push(await agent.round(objects));
    objects = withPod(objects, index++);
    const text = await agent.textFor(objects);
    const start = performance.now();
    await bare.ask(text);
    floors.push(performance.now() - start);
    await agent.caughtUp();
    const { transactions } = await agent.round(objects);
    if (transactions > 0) throw new Error("the bare client wrote something else than the agent would have");
  }
  bare.close();
  await agent.close();
  const most = (key: "transactions" | "operations") => Math.max(...costs.map((cost) => cost[key]));
  return {
    present,
    ms: median(costs.map(({ ms }) => ms)),
    cpu: median(costs.map(({ cpu }) => cpu)),
    floor: median(floors),
    ratio: median(costs.map(({ ms }, turn) => ms / (floors[turn] as number))),
    transactions: most("transactions"),
    operations: most("operations"),
  };
}

export interface Starting {
  readonly bytes: number;
  readonly floor: number;
  /** Connected to nothing left to do: nothing was written. */
  readonly agent: Parts;
  readonly ratio: number;
  /** Connected to contents in the replica, and which rows stand where. */
  readonly replica: number;
  readonly replicaRatio: number;
}

export async function measureStarting(pods: number, turns: number): Promise<Starting> {
  await using server = await NorthboundServer.open();
  const full = cluster(pods);
  const first = await openBenchAgent(server.endpoint);
  await first.round(full);
  await first.close();
  const floors: number[] = [];
  const costs: RoundCost[] = [];
  let bytes = 0;
  for (let turn = 0; turn < turns; turn++) {
    const floor = await receiveBare(server.endpoint);
    floors.push(floor.ms);
    bytes = floor.bytes;
    await servedOthers(server.endpoint);
    const agent = await openBenchAgent(server.endpoint);
    const cost = await agent.round(full);
    if (cost.transactions > 0) throw new Error("something was written on rows that were right");
    costs.push(cost);
    await agent.close();
  }
  const replica = costs.map(({ read }) => read);
  return {
    bytes,
    floor: median(floors),
    agent: mediansOf(costs),
    ratio: median(costs.map(({ ms }, turn) => ms / (floors[turn] as number))),
    replica: median(replica),
    replicaRatio: median(replica.map((ms, turn) => ms / (floors[turn] as number))),
  };
}

/** Connecting, asking for the same tables, columns and rows, and parsing the reply. */
async function receiveBare(endpoint: string): Promise<{ readonly ms: number; readonly bytes: number }> {
  const asking = await openBareClient(endpoint);
  const monitoring = await monitorRequest(asking);
  asking.close();
  const start = performance.now();
  const bare = await openBareClient(endpoint);
  const reply = await bare.ask(monitoring);
  const ms = performance.now() - start;
  bare.close();
  return { ms, bytes: JSON.stringify(reply).length };
}

/** The server has done with clients that left: giving back what it kept for one that followed everything takes it a while. */
async function servedOthers(endpoint: string): Promise<void> {
  const bare = await openBareClient(endpoint);
  await bare.ask(request("list_dbs", []));
  bare.close();
}

/** What the agent's session asks for. */
async function monitorRequest(by: BareClient): Promise<string> {
  const { result } = await by.ask(request("get_schema", [DATABASE]));
  const tables = monitorRequests(
    "monitor_cond_since",
    northboundTables(settings),
    parseSchema(result as never),
  );
  return request("monitor_cond_since", monitorParams("monitor_cond_since", DATABASE, "bare", tables, ZERO));
}

function mediansOf(costs: readonly RoundCost[]): Parts {
  const of = (key: keyof Parts) => median(costs.map((cost) => cost[key]));
  return {
    ms: of("ms"),
    read: of("read"),
    plan: of("plan"),
    diff: of("diff"),
    commit: of("commit"),
    after: of("after"),
    cpu: of("cpu"),
  };
}

// What tests of a troubled northbound database share: the objects of a small shop, what its rows are on a server that nobody
// troubles, rows of strangers, and waiting until an agent is where it would be without the trouble.
import type { Objects } from "../../agent/model/build.ts";
import { byCodeUnit } from "../../agent/model/names.ts";
import { egressIP, namespace, node1, objects, pod } from "../agent/make.ts";
import { northbound } from "../ovn-lab/northbound.ts";
import { firstPods, zonesOf } from "../ovn-lab/topology.ts";
import { Transaction } from "../ovn-lab/transaction.ts";
import type { FollowingAgent } from "./following-agent.ts";
import { openNorthboundAgent } from "./northbound-agent.ts";
import { type Held, rowsIn } from "./northbound-rows.ts";
import { NorthboundServer } from "./northbound-server.ts";
import { until } from "./until.ts";

/** Pods of node1 that leave with an egress IP of its primary network; `also` with one that its kernel gives. */
export function shop(pods: number, also = 0): Objects {
  const named = (space: string, count: number, from: number) =>
    Array.from({ length: count }, (_, at) => pod(`${space}/web-${at}`, [`10.244.1.${from + at}`]));
  return objects(
    { ...node1, zone: "node1" },
    namespace("shop", { team: "shop" }),
    namespace("back", { team: "back" }),
    ...named("shop", pods, 10),
    ...named("back", also, 200),
    egressIP("prod", { at: { "172.18.0.50": "node1" }, ...teamOf("shop") }),
    egressIP("more", { at: { "10.10.10.60": "node1" }, ...teamOf("back") }),
  );
}

const teamOf = (team: string) => ({
  namespaceSelector: [{ key: "team", operator: "In", values: [team] }] as const,
});

/** What OVN-Kubernetes fills a database with that lost everything, as NorthboundServer does at first. */
export function clusterRows(): Transaction {
  const nodes = ["node1", "node2", "node3"] as const;
  const cluster = {
    nodes,
    interconnect: true,
    gateway: "shared",
    families: [4, 6],
    disableSnatMultipleGws: false,
  } as const;
  const [zone] = zonesOf(cluster);
  if (zone === undefined) throw new Error("no zone");
  return northbound(cluster, zone, firstPods(nodes));
}

/** Rows of ours where nothing goes wrong. */
export async function calmRows(wanted: Objects): Promise<readonly string[]> {
  await using server = await NorthboundServer.open();
  await using agent = openNorthboundAgent(server.endpoint);
  await agent.round(wanted);
  return (await rowsIn(server)).ours.toSorted(byCodeUnit);
}

/** Rows that are nobody's business: another owner's, one without any, and a user-defined network's. */
export async function addStrangers(server: NorthboundServer): Promise<void> {
  const rows = new Transaction();
  const policy = (priority: number, match: string, ids: Readonly<Record<string, string>>) =>
    rows.insert("Logical_Router_Policy", { priority, match, action: "allow", external_ids: ids });
  rows.change("Logical_Router", "ovn_cluster_router", "policies", "insert", [
    policy(101, "ip4.src == 10.244.1.10", {}),
    policy(100, "ip4.src == 10.244.9.9", {
      "k8s.ovn.org/owner-type": "EgressIP",
      "k8s.ovn.org/owner-controller": "somebody",
    }),
    policy(102, "pkt.mark == 42", {
      "k8s.ovn.org/owner-type": "EgressIP",
      "k8s.ovn.org/owner-controller": "red-network-controller",
    }),
  ]);
  rows.change("Logical_Router", "GR_node1", "nat", "insert", [
    rows.insert("NAT", { type: "dnat_and_snat", external_ip: "172.18.0.77", logical_ip: "10.244.1.10" }),
  ]);
  await server.transact(rows);
}

/** A row's version is another after each start of the server. */
function withoutVersions(rows: string): string {
  return rows.replaceAll(/"_version":"[^"]*",?/g, "");
}

/** Waits until the agent is ready and the server has exactly these rows of ours. */
export async function settled(
  server: Pick<NorthboundServer, "client">,
  agent: FollowingAgent,
  ours: readonly string[],
  deadlineMs = 15_000,
): Promise<Held> {
  let held: Held = { ours: [], others: "" };
  const so = async () => {
    if (!agent.ready) return false;
    const { ours: found, others } = await rowsIn(server);
    // What others note on our rows stays there.
    held = {
      ours: found.map((row) => row.replace('"a-stranger":"was-here",', "")).sort(byCodeUnit),
      others: withoutVersions(others),
    };
    return held.ours.join("\n") === ours.join("\n");
  };
  await until(so, "the database is as it would be without trouble", deadlineMs).catch((cause: Error) => {
    const extra = held.ours.filter((row, at) => !ours.includes(row) || held.ours.indexOf(row) !== at);
    const missing = ours.filter((row) => !held.ours.includes(row));
    const lines = [
      ...extra.slice(0, 5).map((row) => `too much: ${row}`),
      ...missing.slice(0, 5).map((row) => `missing:  ${row}`),
      JSON.stringify(agent.told()),
      ...(agent.last?.outcome.failures.map(({ error }) => String(error)) ?? []),
      ...agent.journal,
    ];
    const more = lines.join("\n");
    throw new Error(`${cause.message}\n${more}`, { cause });
  });
  return held;
}

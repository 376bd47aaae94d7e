// Rows of the two routers that a pod's packet passes and that are somebody else's: nobody follows them, so they are read when they are
// asked about. In: the session, a pod address. Out: policies, NAT rows and sets; undefined where the database does not answer.
import type { Session } from "../../../lib/ovsdb-client/index.ts";
import { type Row, select } from "../../../lib/ovsdb-client/pure.ts";
import { type Address, contains, familyOf, formatPrefix } from "../../model/ip.ts";
import {
  CLUSTER_ROUTER,
  cidrsOf,
  gatewayRouter,
  type NorthboundFacts,
  type OthersRows,
  type RouterRow,
} from "../../model/northbound.ts";
import { egressServiceSet } from "../../model/northbound-ids.ts";
import { REROUTE_PRIORITY } from "../../model/northbound-pod.ts";
import type { Settings } from "../../model/settings.ts";
import { getFrom } from "../../model/shards.ts";

type Told = Pick<Settings, "node" | "clusterNetworks">;

const POLICY = ["_uuid", "priority", "match", "action", "nexthops", "options", "external_ids"] as const;
const NAT = ["_uuid", "type", "external_ip", "logical_ip", "external_ids"] as const;

export async function readOthers(
  session: Pick<Session, "transact" | "state">,
  settings: Told,
  { topology, pods, shared }: Pick<NorthboundFacts, "topology" | "pods" | "shared">,
  address: Address,
): Promise<OthersRows | undefined> {
  if (session.state !== "current") return undefined;
  const routers = [CLUSTER_ROUTER, gatewayRouter(settings.node)];
  // A NAT row is of one address, or of a network that pods are in.
  const networks = [...settings.clusterNetworks, ...cidrsOf(topology.podNetworks)]
    .filter((network) => contains(network, address))
    .map(formatPrefix);
  const translated = [...new Set([address, ...networks])];
  const family = familyOf(address);
  const set = egressServiceSet(family).name;
  const ofPod = `ip${family}.src == ${address}`;
  const asked = [
    ...routers.map((name) => select("Logical_Router", [["name", "==", name]], ["name", "policies", "nat"])),
    select("Logical_Router_Policy", [["priority", "!=", REROUTE_PRIORITY]], POLICY),
    select("Logical_Router_Policy", [["match", "==", ofPod]], POLICY),
    ...translated.map((logical) => select("NAT", [["logical_ip", "==", logical]], NAT)),
    select("Address_Set", [["name", "==", set]], ["name", "addresses"]),
  ];
  const answers = await session.transact(asked).catch(() => undefined);
  if (answers === undefined) return undefined;
  const rows = answers.map((answer) => (answer as { readonly rows: readonly Row[] }).rows);
  const followed = new Set([...(getFrom(pods, address) ?? []), ...shared].map(({ uuid }) => uuid));
  const parents = new Map<unknown, string>();
  for (const row of rows.slice(0, 2).flat())
    for (const uuid of [...listOf(row["policies"]), ...listOf(row["nat"])])
      parents.set(uuid, String(row["name"]));
  const others = (found: readonly Row[]) =>
    found.flatMap((row): readonly RouterRow[] => {
      const { _uuid: uuid, external_ids: _, ...columns } = row;
      const on = parents.get(uuid);
      return on === undefined || followed.has(String(uuid)) ? [] : [{ on: [on], columns: columns as never }];
    });
  return {
    policies: others(rows.slice(2, 4).flat()),
    nats: others(rows.slice(4, 4 + translated.length).flat()),
    sets: new Map(
      (rows.at(-1) ?? []).map((row) => [String(row["name"]), listOf(row["addresses"]) as string[]]),
    ),
  };
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

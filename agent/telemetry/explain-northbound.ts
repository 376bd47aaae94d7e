// The part of a packet's way that OVN decides, by the rows that are in the northbound database. In: a Round's facts and a pod
// address. Out: steps, and where it ends, if that is not this host's kernel. Pure.
import { type Address, familyOf } from "../model/ip.ts";
import { type FoundRow, gatewayRouter } from "../model/northbound.ts";
import type { Node, Pod } from "../model/objects.ts";
import { getFrom } from "../model/shards.ts";
import type { Snapshot } from "../model/snapshot.ts";

export interface Way {
  readonly steps: readonly string[];
  /** Undefined: it goes on in this host's kernel. */
  readonly result: string | undefined;
}

const INTO_KERNEL: Way = { steps: [], result: undefined };

/** Without a northbound database the way begins in the kernel: what brings it there nobody here knows. */
export function northboundWay({ host, settings, nodes }: Snapshot, pod: Pod, address: Address): Way {
  const { northbound } = host;
  if (northbound.state === "off") return INTO_KERNEL;
  const rows = getFrom(northbound.pods, address) ?? [];
  const policy = rows.find(({ table }) => table === "Logical_Router_Policy");
  const nat = rows.find(({ table, on }) => table === "NAT" && on.includes(gatewayRouter(settings.node)));
  const { node } = settings;
  const translated = nat === undefined ? [] : [`${gatewayRouter(node)}: ${printNat(nat)}`];
  const leaves =
    nat === undefined ? undefined : `leaves ${gatewayRouter(node)} with source ${nat.columns["external_ip"]}`;
  if (policy === undefined) {
    if (pod.node !== node)
      return {
        steps: translated,
        result:
          leaves ??
          `nothing here leads it on; if ${pod.node || "its node"} sends it here, it leaves as this node or not at all`,
      };
    if (settings.gatewayMode === "local") return INTO_KERNEL;
    return {
      steps: [],
      result: "no policy reroutes it, so it leaves its own gateway router with the node's address",
    };
  }
  const steps = [`${policy.on.join()}: ${printPolicy(policy)}`];
  if (policy.columns["action"] === "drop")
    return { steps, result: "dropped: an EgressIP selects it, and no node has an address for it yet" };
  const family = familyOf(address);
  const hops = policy.columns["nexthops"] as readonly string[];
  const own = northbound.topology;
  if (hops.includes(own.management[family] ?? ""))
    return { steps, result: hops.length > 1 ? elsewhereToo(hops) : undefined };
  if (hops.includes(own.gateways.get(node)?.[family] ?? ""))
    return {
      steps: [...steps, ...translated],
      result:
        hops.length > 1
          ? elsewhereToo(hops)
          : (leaves ?? "its gateway router has no NAT row for it: it leaves with the node's address"),
    };
  const others = hops.map((hop) => nodeWith(nodes, northbound.topology, hop) ?? hop);
  return { steps, result: `goes to ${others.join(" or ")}; ask the agent there how it goes on` };
}

function elsewhereToo(hops: readonly string[]): string {
  return `each connection takes one of ${hops.length} next hops: this node or another`;
}

function printPolicy({ columns }: FoundRow): string {
  const hops = (columns["nexthops"] as readonly string[]).join(",");
  return `policy ${columns["priority"]} ${columns["match"]} ${columns["action"]}${hops === "" ? "" : ` ${hops}`}`;
}

function printNat({ columns }: FoundRow): string {
  return `${columns["type"]} ${columns["logical_ip"]} to ${columns["external_ip"]}`;
}

function nodeWith(
  nodes: ReadonlyMap<string, Node>,
  topology: Snapshot["host"]["northbound"]["topology"],
  hop: string,
): string | undefined {
  for (const { name, transit } of nodes.values()) {
    const joined = Object.values(topology.gateways.get(name) ?? {});
    if (joined.includes(hop) || transit.some(({ address }) => address === hop)) return name;
  }
  return undefined;
}

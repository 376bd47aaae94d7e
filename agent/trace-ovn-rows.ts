// Which rows of the northbound database a packet meets: policies and ACLs by priority, NAT rows by how narrow they are, our own and
// others'. In: a Walk, a router. Out: rows in the order in which OVN looks at them, the first that matches, and a row in words. Pure.
import { type Address, type Family, familyOf, parseCidr } from "./model/ip.ts";
import { type NorthboundFacts, type OthersRows, outsideSwitch, type RouterRow } from "./model/northbound.ts";
import { addressSet, podSet } from "./model/northbound-ids.ts";
import type { Node } from "./model/objects.ts";
import type { Settings } from "./model/settings.ts";
import { entriesOf, getFrom } from "./model/shards.ts";
import { type Matched, meets } from "./trace-match.ts";
import type { Step, StepName } from "./trace-step.ts";

export interface OvnPacket {
  readonly source: Address;
  readonly destination: Address;
  readonly protocol: string;
  readonly port: number | undefined;
  /** The node of the pod; "" where that is not known. */
  readonly node: string;
}

export interface OvnHost {
  readonly settings: Settings;
  readonly northbound: NorthboundFacts;
  readonly nodes: ReadonlyMap<string, Node>;
  /** Undefined where they could not be read. */
  readonly others: OthersRows | undefined;
  /** This host's own addresses. */
  readonly own: ReadonlySet<Address>;
}

/** A packet on its way: what it has met so far, and the mark that it has. */
export interface Walk extends OvnHost {
  readonly packet: OvnPacket;
  readonly family: Family;
  readonly steps: Step[];
  mark: number;
  unjudged: number;
}

export function policiesOf({ northbound, others, packet }: Walk, router: string): readonly RouterRow[] {
  const rows: readonly RouterRow[] = [
    ...(getFrom(northbound.pods, packet.source) ?? []).filter(
      ({ table }) => table === "Logical_Router_Policy",
    ),
    ...northbound.shared.filter(({ table }) => table === "Logical_Router_Policy"),
    ...(others?.policies ?? []),
  ];
  return byPriority(rows.filter(({ on }) => on.includes(router)));
}

export function aclsOf({ northbound, settings }: Walk): readonly RouterRow[] {
  const on = outsideSwitch(settings.node);
  return byPriority(northbound.shared.filter((row) => row.table === "ACL" && row.on.includes(on)));
}

/** The narrowest first: it is the one that counts. */
export function natsOf({ northbound, others, packet }: Walk, router: string): readonly RouterRow[] {
  const rows: readonly RouterRow[] = [
    ...(getFrom(northbound.pods, packet.source) ?? []).filter(({ table }) => table === "NAT"),
    ...(others?.nats ?? []),
  ];
  const length = ({ columns }: RouterRow) => parseCidr(String(columns["logical_ip"]))?.length ?? 128;
  return rows.filter(({ on }) => on.includes(router)).sort((a, b) => length(b) - length(a));
}

function byPriority(rows: readonly RouterRow[]): readonly RouterRow[] {
  return rows.toSorted((a, b) => Number(b.columns["priority"]) - Number(a.columns["priority"]));
}

export function firstMet(
  walk: Walk,
  rows: readonly RouterRow[],
  inport: string,
  source = walk.packet.source,
): RouterRow | undefined {
  const { packet, family, mark } = walk;
  const { destination, protocol, port } = packet;
  const inSet = (set: string, address: Address) => isMember(walk, set, address);
  const matched: Matched = { family, source, destination, protocol, port, inport, mark, inSet };
  for (const row of rows) {
    const truth = meets(String(row.columns["match"]), matched);
    if (truth === true) return row;
    if (truth === false) continue;
    walk.unjudged++;
    say(walk, "unjudged", row, "not understood, passed over");
  }
  return undefined;
}

/** Which port of the cluster router it comes in by. */
export function inportOf({ packet, nodes, settings, northbound }: Walk): string {
  const zone = nodes.get(settings.node)?.zone;
  const isOfZone = packet.node === settings.node || nodes.get(packet.node)?.zone === zone;
  return isOfZone ? `rtos-${packet.node}` : northbound.topology.transitPort;
}

/** Sets that our own rows name. Of others' nobody here knows the members. */
function isMember(
  { northbound, settings, others }: Walk,
  set: string,
  address: Address,
): boolean | undefined {
  const family = familyOf(address);
  const { node, northboundOwner: owner } = settings;
  if (set === addressSet(owner, "egressip-served-pods", family).name)
    return getFrom(northbound.served[family], address) ?? false;
  if (set === podSet({ owner, node }, "egressip-arriving-pods", family).name)
    return getFrom(northbound.arriving[family], address) ?? false;
  const row = northbound.shared.find(
    ({ table, columns }) => table === "Address_Set" && columns["name"] === set,
  );
  const members = row?.columns["addresses"] ?? others?.sets.get(set);
  return Array.isArray(members) ? members.includes(address) : undefined;
}

export function markOf({ columns }: RouterRow, before: number): number {
  const options = columns["options"] as Readonly<Record<string, string>> | undefined;
  const mark = options?.["pkt_mark"];
  return mark === undefined ? before : Number(mark);
}

export function say({ steps }: Walk, step: StepName, row: RouterRow, verdict: string): void {
  steps.push({ step, object: row.on.join(), found: shown(row), verdict });
}

export function shown({ columns }: RouterRow): string {
  if (columns["type"] !== undefined)
    return `${columns["type"]} ${columns["logical_ip"]} to ${columns["external_ip"]}`;
  const hops = ((columns["nexthops"] ?? []) as readonly string[]).join(",");
  const kind = columns["direction"] === undefined ? "policy" : "ACL";
  const match = String(columns["match"]).replace(/\s*\/\*.*?\*\//g, "");
  return `${kind} ${columns["priority"]} ${match} ${columns["action"]}${hops === "" ? "" : ` ${hops}`}`;
}

/** How many NAT rows give this address, by router. In our own rows alone. */
export function natRowsOf({ pods }: NorthboundFacts, address: Address): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const [, rows] of entriesOf(pods))
    for (const { table, on, columns } of rows)
      if (table === "NAT" && columns["external_ip"] === address)
        counts.set(on.join(), (counts.get(on.join()) ?? 0) + 1);
  return counts;
}

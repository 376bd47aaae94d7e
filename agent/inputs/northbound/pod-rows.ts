// Policies and NAT rows, each looked at once when it changes and kept by the pod address that it is about.
// In: changes of the two tables. Out: rows by address, of which those that nothing happened to stay the objects they were.
import type { RowChange, RowOf } from "../../../lib/ovsdb-client/pure.ts";
import { byCodeUnit } from "../../model/names.ts";
import { CLUSTER_ROUTER, type FoundRow, gatewayRouter, routerOf } from "../../model/northbound.ts";
import { NODE_KEY, OWNER_KEY, TYPE_KEY } from "../../model/northbound-ids.ts";
import { podAddressOf } from "../../model/northbound-pod.ts";
import type { Nat, Policy } from "../../model/northbound-schema.ts";
import { type Shards, withEntries } from "../../model/shards.ts";
import { isOfOtherNetwork, type Whose } from "./whose.ts";

export type PolicyRow = RowOf<typeof Policy>;
type NatRow = RowOf<typeof Nat>;

export type PodTable = "Logical_Router_Policy" | "NAT";

export function isPodTable(name: string): name is PodTable {
  return name === "Logical_Router_Policy" || name === "NAT";
}

export interface FollowedRows {
  /** Says whether rows are among them that are the whole zone's. */
  take(table: PodTable, changes: readonly RowChange[]): boolean;
  /** The row stands under other parents than it did. Says whether it is the whole zone's. */
  touch(uuid: string): boolean;
  /** `before` with what is different since it was made. */
  pods(before: Shards<readonly FoundRow[]>, standsOn: StandsOn): Shards<readonly FoundRow[]>;
  nodeSnats(before: Shards<readonly string[]>, outside: ReadonlySet<string>): Shards<readonly string[]>;
  /** The addresses of the gateway router are others: each SNAT row has to be looked at again. */
  touchNodeSnats(): void;
  /** The same map while it says the same. */
  writers(): ReadonlyMap<string, number>;
  /** Of rows of others, how many are whose; the same map while it says the same. */
  foreign(): ReadonlyMap<string, number>;
  shared(): Iterable<PolicyRow>;
  /** How many NAT rows of a router give an egress IP, by `ROUTER ADDRESS`; the same map while it says the same. */
  giving(): ReadonlyMap<string, number>;
  /** Uuids of all rows that concern us, with the router that each belongs under. */
  places(): Iterable<readonly [string, string]>;
}

/** Where a row stands, if that is elsewhere than it belongs. */
export type StandsOn = (uuid: string) => readonly string[] | undefined;

type Entry =
  /** As it is where it stands where it belongs, which nearly all do. */
  | { readonly kind: "pod"; readonly address: string; readonly row: FoundRow }
  | { readonly kind: "shared"; readonly row: PolicyRow }
  | { readonly kind: "snat"; readonly row: NatRow }
  | { readonly kind: "foreign"; readonly owner: string; readonly row?: NatRow };

export function followRows(of: Whose, snatPerPod: boolean): FollowedRows {
  const entries = new Map<string, Entry>();
  const byAddress = new Map<string, FoundRow[]>();
  const snats = new Map<string, NatRow[]>();
  const touched = new Set<string>();
  const touchedSnats = new Set<string>();
  const writers = createCount();
  const foreign = createCount();
  const giving = createCount();

  const look = (table: PodTable, row: PolicyRow | NatRow): Entry | undefined => {
    const { external_ids: ids } = row;
    if (of.concerns(ids)) {
      const address = podAddressOf({ table, columns: row as never });
      if (address === undefined) return { kind: "shared", row: row as PolicyRow };
      const found = table === "NAT" ? foundNat(row as NatRow) : foundPolicy(row as PolicyRow);
      return { kind: "pod", address, row: found };
    }
    const owner = of.foreignOwner(ids);
    const snat = table === "NAT" && snatPerPod && isSnatOfOne(row as NatRow) ? (row as NatRow) : undefined;
    if (owner !== undefined) return { kind: "foreign", owner, ...(snat === undefined ? {} : { row: snat }) };
    return snat === undefined ? undefined : { kind: "snat", row: snat };
  };
  const noteSnat = (row: NatRow, more: 1 | -1) => {
    change(snats, row.logical_ip, row, more);
    touchedSnats.add(row.logical_ip);
  };
  const note = (entry: Entry, more: 1 | -1) => {
    switch (entry.kind) {
      case "pod":
        change(byAddress, entry.address, entry.row, more);
        touched.add(entry.address);
        writers.add(entry.row.ids[NODE_KEY] ?? "", more);
        if (entry.row.table === "NAT")
          giving.add(`${entry.row.on[0]} ${entry.row.columns["external_ip"]}`, more);
        break;
      case "snat":
        noteSnat(entry.row, more);
        break;
      case "foreign":
        foreign.add(entry.owner, more);
        if (entry.row !== undefined) noteSnat(entry.row, more);
        break;
      case "shared":
        break;
    }
  };
  return {
    take: (table, changes) => {
      let shared = false;
      for (const { uuid, after } of changes) {
        const before = entries.get(uuid);
        const now = after === undefined ? undefined : look(table, after as unknown as PolicyRow | NatRow);
        if (before !== undefined) note(before, -1);
        if (now !== undefined) {
          entries.set(uuid, now);
          note(now, 1);
        } else if (before !== undefined) entries.delete(uuid);
        shared ||= before?.kind === "shared" || now?.kind === "shared";
      }
      return shared;
    },
    touch: (uuid) => {
      const entry = entries.get(uuid);
      if (entry?.kind === "pod") touched.add(entry.address);
      return entry?.kind === "shared";
    },
    pods: (before, standsOn) => {
      const updates = [...touched].map((address) => {
        const rows = byAddress.get(address)?.toSorted(inOrder);
        return [address, rows?.map((row) => standing(row, standsOn(row.uuid)))] as const;
      });
      touched.clear();
      return withEntries(before, updates);
    },
    nodeSnats: (before, outside) => {
      const updates = [...touchedSnats].map((address) => {
        const rows = snats.get(address);
        const plain = rows?.filter((row) => isPlain(row) && outside.has(row.external_ip));
        return [address, plain?.map(({ _uuid }): string => _uuid).sort(byCodeUnit)] as const;
      });
      touchedSnats.clear();
      return withEntries(before, updates);
    },
    touchNodeSnats: () => {
      for (const address of snats.keys()) touchedSnats.add(address);
    },
    writers: writers.all,
    foreign: foreign.all,
    giving: giving.all,
    *shared() {
      for (const entry of entries.values()) if (entry.kind === "shared") yield entry.row;
    },
    *places() {
      for (const [uuid, entry] of entries) {
        if (entry.kind === "shared") yield [uuid, routerOf(entry.row.external_ids)];
        if (entry.kind === "pod") yield [uuid, entry.row.on[0] as string];
      }
    },
  };
}

function change<V>(map: Map<string, V[]>, key: string, value: V, more: 1 | -1): void {
  const list = map.get(key);
  if (more === 1) {
    if (list === undefined) map.set(key, [value]);
    else list.push(value);
    return;
  }
  list?.splice(list.indexOf(value), 1);
  if (list?.length === 0) map.delete(key);
}

/** The same rows are the same list, whatever order they came in. */
function inOrder(a: FoundRow, b: FoundRow): number {
  if (a.table !== b.table) return a.table === "NAT" ? 1 : -1;
  return a.uuid < b.uuid ? -1 : 1;
}

/** Of a single address of the cluster's own network. */
function isSnatOfOne({ type, external_ids, logical_ip }: NatRow): boolean {
  return type === "snat" && !logical_ip.includes("/") && !isOfOtherNetwork(external_ids);
}

/** As OVN-Kubernetes makes it with a pod's port: a row that says whose it is, is somebody's. */
function isPlain({ external_ids }: NatRow): boolean {
  return external_ids[OWNER_KEY] === undefined && external_ids[TYPE_KEY] === undefined;
}

/** How many there are of each; the same map while they are the same. */
function createCount() {
  const counts = new Map<string, number>();
  let last: ReadonlyMap<string, number> | undefined;
  return {
    add: (key: string, more: 1 | -1) => {
      const next = (counts.get(key) ?? 0) + more;
      if (next === 0) counts.delete(key);
      else counts.set(key, next);
      last = undefined;
    },
    all: (): ReadonlyMap<string, number> => {
      last ??= new Map(counts);
      return last;
    },
  };
}

function standing(row: FoundRow, on: readonly string[] | undefined): FoundRow {
  return on === undefined ? row : { ...row, on };
}

function foundPolicy(row: PolicyRow): FoundRow {
  const { _uuid: uuid, external_ids: ids } = row;
  return { table: "Logical_Router_Policy", uuid, on: ON_CLUSTER_ROUTER, ids, columns: policyColumns(row) };
}

function foundNat(row: NatRow): FoundRow {
  const { _uuid: uuid, external_ids: ids } = row;
  return { table: "NAT", uuid, on: gatewayOf(row.logical_port ?? ""), ids, columns: natColumns(row) };
}

export function policyColumns({
  priority,
  match,
  action,
  nexthops,
  options,
}: PolicyRow): FoundRow["columns"] {
  return { priority, match, action, nexthops, options };
}

function natColumns(row: NatRow): FoundRow["columns"] {
  const { type, external_ip, logical_ip, logical_port, options, match } = row;
  return { type, external_ip, logical_ip, logical_port: logical_port ?? "", options, match };
}

const ON_CLUSTER_ROUTER: readonly string[] = Object.freeze([CLUSTER_ROUTER]);
const gateways = new Map<string, readonly string[]>();

/** The router of the node whose management port a NAT row names; one list for all rows of a router. */
function gatewayOf(port: string): readonly string[] {
  const known = gateways.get(port);
  if (known !== undefined) return known;
  const on = Object.freeze([gatewayRouter(port.replace(/^k8s-/, ""))]);
  gateways.set(port, on);
  return on;
}

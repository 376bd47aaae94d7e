// OVN's northbound database as facts. In: a session whose replica is kept current by the server. Out: NorthboundFacts, in which
// everything that did not change is the object it was. What one row more costs is that row.
import type { Changes, Session } from "../../lib/ovsdb-client/index.ts";
import { type RowOf, select, type TableDefinition } from "../../lib/ovsdb-client/pure.ts";
import { type Address, parseCidr } from "../model/ip.ts";
import {
  CLUSTER_ROUTER,
  type ColumnValue,
  type FoundRow,
  gatewayRouter,
  NORTHBOUND_OFF,
  type NorthboundFacts,
  type PerFamily,
  type RowTable,
  type Topology,
} from "../model/northbound.ts";
import {
  addressSet,
  NAME_KEY,
  NODE_KEY,
  OWNER_KEY,
  OWNER_TYPE,
  REFERENCE_OWNER,
  TYPE_KEY,
} from "../model/northbound-ids.ts";
import type { Locks } from "../model/northbound-locks.ts";
import { podAddressOf } from "../model/northbound-pod.ts";
import {
  AddressSet,
  LogicalRouter,
  LogicalRouterPort,
  LogicalSwitch,
  managementPortTable,
  Nat,
  NatOfAll,
  Policy,
  Qos,
  StaticRoute,
} from "../model/northbound-schema.ts";
import type { Settings } from "../model/settings.ts";
import { type Shards, withEntries } from "../model/shards.ts";

type Told = Pick<Settings, "node" | "northboundOwner" | "adopt" | "snatPerPod">;

/** Tables that a session has to follow for this. */
export function northboundTables({ node, snatPerPod }: Told): readonly TableDefinition[] {
  return [
    LogicalRouter,
    LogicalSwitch,
    LogicalRouterPort,
    managementPortTable(node),
    Policy,
    snatPerPod ? NatOfAll : Nat,
    Qos,
    StaticRoute,
    AddressSet,
  ];
}

export interface NorthboundInput {
  /** Facts now. `anew`: parents of rows are asked for again, which no update tells of. Never throws: a lost connection is a state. */
  read(anew: boolean): Promise<NorthboundFacts>;
  /** Facts as they were last read. */
  known(): NorthboundFacts;
  close(): void;
}

/** How long the first reading waits for the database: the rest of the host is not to wait for it for ever. */
const FIRST_READ_MS = 3_000;

export function openNorthbound(
  session: Session,
  settings: Told,
  {
    locks,
    writes,
    onChange,
  }: { readonly locks: Locks; readonly writes: boolean; readonly onChange: () => void },
): NorthboundInput {
  const { replica } = session;
  const policies = replica.table(Policy);
  const nats = replica.table(Nat);
  /** Who writes nothing has no locks, and works out what one that has them would write. */
  const holds = (lock: string) => !writes || session.locks.get(lock) === "held";
  const policiesOf = policies.lookup((row) =>
    isOfPod(row, "Logical_Router_Policy") ? podOf(row, "Logical_Router_Policy") : undefined,
  );
  const natsOf = nats.lookup((row) => (isOfPod(row, "NAT") ? podOf(row, "NAT") : undefined));
  const plainSnats = nats.lookup((row) => (isPlainSnat(row) ? row.logical_ip : undefined));
  const writerOf = (row: PolicyRow | NatRow) =>
    isConcern(row.external_ids) ? (row.external_ids[NODE_KEY] ?? "") : undefined;
  const writers = [policies.lookup(writerOf), nats.lookup(writerOf)] as const;

  const touchedPods = new Set<string>();
  const touchedSnats = new Set<string>();
  let touchedShared = true;
  let touchedTopology = true;
  /** Rows that stand elsewhere than their content says. */
  let strays: ReadonlyMap<string, readonly string[]> = new Map();
  let parentsDue = true;
  let facts: NorthboundFacts = { ...NORTHBOUND_OFF, state: "stale" };
  let members: readonly (readonly string[])[] = [[], []];

  const take = (changes: Changes) => {
    for (const [name, rows] of changes.tables) {
      if (name === "NAT" || name === "Logical_Router_Policy") {
        for (const { before, after } of rows as readonly {
          readonly before: unknown;
          readonly after: unknown;
        }[])
          for (const row of [before, after]) if (row !== undefined) touch(row as NatRow, name);
      } else if (SHARED.has(name)) touchedShared = true;
      if (TOPOLOGY.has(name)) touchedTopology = true;
    }
    onChange();
  };
  const touch = (row: NatRow, table: RowTable) => {
    if (isOfPod(row, table)) touchedPods.add(podOf(row, table));
    else if (table === "Logical_Router_Policy") touchedShared = true;
    if (table === "NAT" && isPlainSnat(row)) touchedSnats.add(row.logical_ip);
  };
  const stop = [
    session.onChange(take),
    session.onState(() => {
      if (session.state === "current") parentsDue = true;
      onChange();
    }),
    session.onLock(onChange),
  ];

  function isConcern(ids: Ids): boolean {
    if (ids[TYPE_KEY] !== OWNER_TYPE) return false;
    const owner = ids[OWNER_KEY];
    if (owner === settings.northboundOwner) return true;
    return settings.adopt && owner === REFERENCE_OWNER && (ids["network"] ?? "default") === "default";
  }
  function isOfPod(row: { readonly external_ids: Ids }, table: RowTable): boolean {
    return isConcern(row.external_ids) && podAddressOf({ table, columns: row as never }) !== undefined;
  }
  function podOf(row: object, table: RowTable): string {
    return podAddressOf({ table, columns: row as never }) ?? "";
  }
  function isPlainSnat({ type, external_ids, logical_ip }: NatRow): boolean {
    return (
      settings.snatPerPod &&
      type === "snat" &&
      external_ids[TYPE_KEY] !== OWNER_TYPE &&
      !logical_ip.includes("/")
    );
  }

  const found = (table: RowTable, row: AnyRow, on: readonly string[]): FoundRow => {
    const { _uuid: uuid, external_ids, ...columns } = row;
    return {
      table,
      uuid,
      on: strays.get(uuid) ?? on,
      ids: external_ids,
      columns: Object.fromEntries(
        Object.entries(columns).map(([name, value]) => [name, asColumn(name, value)]),
      ),
    };
  };
  const podRows = (address: string): readonly FoundRow[] => [
    ...[...policiesOf.get(address).values()].map((row) =>
      found("Logical_Router_Policy", row, [CLUSTER_ROUTER]),
    ),
    ...[...natsOf.get(address).values()].map((row) => found("NAT", row, [expectedRouter(row)])),
  ];
  const expectedRouter = ({ logical_port }: NatRow) =>
    gatewayRouter((logical_port ?? "").replace(/^k8s-/, ""));
  const listed = <T>(list: readonly T[]) => (list.length === 0 ? undefined : list);

  const readPods = (): Shards<readonly FoundRow[]> => {
    const updates = [...touchedPods].map((address) => [address, listed(podRows(address))] as const);
    touchedPods.clear();
    return withEntries(facts.pods, updates);
  };
  const readNodeSnats = (topology: Topology): Shards<readonly string[]> => {
    const outside = new Set(Object.values(topology.outside.get(settings.node) ?? {}));
    const updates = [...touchedSnats].map((address) => {
      const rows = [...plainSnats.get(address).values()].filter(({ external_ip }) =>
        outside.has(external_ip),
      );
      return [address, listed(rows.map(({ _uuid }) => _uuid as string).sort())] as const;
    });
    touchedSnats.clear();
    return withEntries(facts.nodeSnats, updates);
  };
  const readMembers = (): Shards<true> => {
    const now = ([4, 6] as const).map((family) => servedSetMembers(family));
    const changes: (readonly [string, true | undefined])[] = [];
    for (const [at, list] of now.entries()) {
      const before = members[at] ?? [];
      if (before === list) continue;
      const still = new Set(list);
      for (const address of before) if (!still.has(address)) changes.push([address, undefined]);
      for (const address of list) changes.push([address, true]);
    }
    members = now;
    return withEntries(facts.served, changes);
  };
  const servedSetMembers = (family: 4 | 6): readonly string[] => {
    const own = addressSet(settings.northboundOwner, "egressip-served-pods", family).name;
    const adopted = addressSet(REFERENCE_OWNER, "egressip-served-pods", family).name;
    const rows = [...replica.table(AddressSet).rows.values()];
    const row =
      rows.find(({ name }) => name === own) ??
      (settings.adopt ? rows.find(({ name }) => name === adopted) : undefined);
    return row?.addresses ?? NO_MEMBERS;
  };
  const readShared = (): readonly FoundRow[] => {
    const switches = [...replica.table(LogicalSwitch).rows.values()];
    const concern = ({ external_ids }: { external_ids: Ids }) => isConcern(external_ids);
    const rows = [
      ...[...policies.rows.values()]
        .filter((row) => concern(row) && !isOfPod(row, "Logical_Router_Policy"))
        .map((row) => found("Logical_Router_Policy", row, [CLUSTER_ROUTER])),
      ...[...replica.table(Qos).rows.values()].filter(concern).map((row) =>
        found(
          "QoS",
          row,
          switches
            .filter(({ qos_rules }) => qos_rules.includes(row._uuid))
            .map(({ name }) => name)
            .sort(),
        ),
      ),
      ...[...replica.table(StaticRoute).rows.values()]
        .filter(concern)
        .map((row) => found("Logical_Router_Static_Route", row, [CLUSTER_ROUTER])),
      ...[...replica.table(AddressSet).rows.values()]
        .filter((row) => concern(row) || row.external_ids[TYPE_KEY] === "EgressService")
        .map((row) => withoutServed(found("Address_Set", row, []))),
    ];
    return keepEqual(facts.shared, rows);
  };
  const readTopology = (): Topology =>
    keepEqual(facts.topology, topologyOf(session, settings), describeTopology);
  const readForeign = () => {
    if (settings.adopt || settings.northboundOwner === REFERENCE_OWNER) return 0;
    return [policies, nats, replica.table(Qos)].reduce(
      (count, { rows }) =>
        count +
        [...(rows as ReadonlyMap<string, { external_ids: Ids }>).values()].filter(
          ({ external_ids }) => external_ids[OWNER_KEY] === REFERENCE_OWNER,
        ).length,
      0,
    );
  };
  const readWriters = (): ReadonlyMap<string, number> => {
    const counts = new Map<string, number>();
    for (const lookup of writers)
      for (const node of lookup.keys()) counts.set(node, (counts.get(node) ?? 0) + lookup.get(node).size);
    return keepEqual(facts.writers, counts, (map) => JSON.stringify([...map]));
  };
  /** Which router a row stands under is in the router, in a column of one entry a row: asked for once, not followed. */
  const readParents = async (): Promise<void> => {
    const [{ rows }] = await session.transact([select("Logical_Router", [], ["name", "policies", "nat"])]);
    const places = new Map<string, string[]>();
    for (const { name, policies: ofPolicies, nat } of rows)
      for (const uuid of [...(ofPolicies as readonly string[]), ...(nat as readonly string[])]) {
        const known = places.get(uuid);
        if (known === undefined) places.set(uuid, [name as string]);
        else known.push(name as string);
      }
    const stray = new Map<string, readonly string[]>();
    const look = (uuid: string, expected: string) => {
      const on = places.get(uuid) ?? [];
      if (on.length !== 1 || on[0] !== expected) stray.set(uuid, on.sort());
    };
    for (const row of policies.rows.values())
      if (isConcern(row.external_ids)) look(row._uuid, CLUSTER_ROUTER);
    for (const row of nats.rows.values())
      if (isConcern(row.external_ids)) look(row._uuid, expectedRouter(row));
    const differing = [...stray, ...strays].filter(
      ([uuid]) => stray.get(uuid)?.join() !== strays.get(uuid)?.join(),
    );
    strays = stray;
    for (const [uuid] of differing) {
      const policy = policies.rows.get(uuid as never);
      const nat = nats.rows.get(uuid as never);
      if (policy !== undefined) touch(policy as never, "Logical_Router_Policy");
      if (nat !== undefined) touch(nat, "NAT");
    }
  };
  const stateNow = (): NorthboundFacts["state"] => {
    if (session.state !== "current") return "stale";
    return holds(locks.node) ? "current" : "waiting";
  };

  let waited = false;
  return {
    known: () => facts,
    read: async (anew) => {
      if (!waited) await session.whenCurrent(FIRST_READ_MS).catch(() => undefined);
      waited = true;
      if (session.state === "current" && (anew || parentsDue)) {
        parentsDue = false;
        // Lost between two lines: the state says so below, and the parents are asked for again after it.
        await readParents().catch(() => {
          parentsDue = true;
        });
      }
      const state = parentsDue ? "stale" : stateNow();
      const topology = touchedTopology ? readTopology() : facts.topology;
      if (topology !== facts.topology && settings.snatPerPod)
        for (const address of plainSnats.keys()) touchedSnats.add(address);
      const next: NorthboundFacts = {
        state,
        leads: holds(locks.zone),
        topology,
        pods: readPods(),
        served: touchedShared ? readMembers() : facts.served,
        shared: touchedShared ? readShared() : facts.shared,
        writers: readWriters(),
        foreign: touchedShared || facts.foreign > 0 ? readForeign() : facts.foreign,
        nodeSnats: readNodeSnats(topology),
      };
      touchedShared = false;
      touchedTopology = false;
      if ((Object.keys(next) as (keyof NorthboundFacts)[]).some((key) => next[key] !== facts[key]))
        facts = Object.freeze(next);
      return facts;
    },
    close: () => {
      for (const end of stop) end();
    },
  };
}

type Ids = Readonly<Record<string, string>>;
type PolicyRow = RowOf<typeof Policy>;
type NatRow = RowOf<typeof Nat>;
type AnyRow = { readonly _uuid: string; readonly external_ids: Ids };

const NO_MEMBERS: readonly string[] = Object.freeze([]);
const SHARED: ReadonlySet<string> = new Set([
  "QoS",
  "Logical_Router_Static_Route",
  "Address_Set",
  "Logical_Switch",
]);
const TOPOLOGY: ReadonlySet<string> = new Set([
  "Logical_Router",
  "Logical_Switch",
  "Logical_Router_Port",
  "Logical_Switch_Port",
  "Logical_Router_Static_Route",
]);

/** As rows are planned: an optional column is a list of none or one where only that tells them apart. */
function asColumn(name: string, value: unknown): ColumnValue {
  if (name === "policy") return value === undefined ? [] : [String(value)];
  if (name === "action" && typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, String(entry)]));
  return (value ?? "") as ColumnValue;
}

/** Members of the sets that all nodes write to are facts of their own. */
function withoutServed(row: FoundRow): FoundRow {
  if (row.ids[NAME_KEY] === "node-ips") return row;
  const { addresses: _, ...columns } = row.columns;
  return { ...row, columns };
}

function keepEqual<T>(
  before: T,
  now: T,
  describe: (value: T) => string = (value) => JSON.stringify(value),
): T {
  return describe(before) === describe(now) ? before : now;
}

function describeTopology(topology: Topology): string {
  return JSON.stringify(Object.values(topology).map((part) => (part instanceof Map ? [...part] : part)));
}

function topologyOf({ replica }: Session, { node, northboundOwner }: Told): Topology {
  const routers = new Map<string, string>();
  for (const { name, _uuid } of replica.table(LogicalRouter).rows.values()) routers.set(name, _uuid);
  const switches = new Map<string, string>();
  for (const { name, _uuid } of replica.table(LogicalSwitch).rows.values()) switches.set(name, _uuid);
  const gateways = new Map<string, PerFamily<Address>>();
  const outside = new Map<string, PerFamily<Address>>();
  let join: PerFamily<string> = {};
  for (const { name, networks } of replica.table(LogicalRouterPort).rows.values()) {
    const [, port, of] = /^(rtoj|rtoe)-GR_(.+)$/.exec(name) ?? [];
    if (of !== undefined)
      (port === "rtoj" ? gateways : outside).set(
        of,
        perFamily(networks, ({ address }) => address),
      );
    else if (name === `rtoj-${CLUSTER_ROUTER}`)
      join = perFamily(networks, ({ network, length }) => `${network}/${length}`);
  }
  const management = [...replica.table(managementPortTable(node)).rows.values()].flatMap(({ addresses }) =>
    addresses.flatMap((text) => text.split(" ").slice(1)),
  );
  const sourceRoutes = new Map<string, string>();
  for (const { ip_prefix, nexthop, external_ids } of replica.table(StaticRoute).rows.values())
    if (external_ids[OWNER_KEY] !== northboundOwner) sourceRoutes.set(ip_prefix, nexthop);
  return {
    routers: sorted(routers),
    switches: sorted(switches),
    gateways: sorted(gateways),
    outside: sorted(outside),
    management: perFamily(management, ({ address }) => address),
    join,
    sourceRoutes: sorted(sourceRoutes),
  };
}

/** The first of each family that is no link-local one; an address without a length is a whole one. */
function perFamily(
  texts: readonly string[],
  of: (cidr: NonNullable<ReturnType<typeof parseCidr>>) => string,
): PerFamily<string> {
  const found: { 4?: string; 6?: string } = {};
  for (const text of texts) {
    const cidr = parseCidr(text.includes("/") ? text : `${text}/${text.includes(":") ? 128 : 32}`);
    if (cidr !== undefined && !text.startsWith("fe80:")) found[cidr.family] ??= of(cidr);
  }
  return found;
}

function sorted<V>(map: ReadonlyMap<string, V>): ReadonlyMap<string, V> {
  return new Map([...map].sort(([a], [b]) => (a < b ? -1 : 1)));
}

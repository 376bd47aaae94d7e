// OVN's northbound database as facts. In: a session whose replica is kept current by the server. Out: NorthboundFacts, in which
// everything that did not change is the object it was. What one row more costs is that row.
import type { Changes, Session } from "../../lib/ovsdb-client/index.ts";
import type { RowChange, TableDefinition } from "../../lib/ovsdb-client/pure.ts";
import { byCodeUnit } from "../model/names.ts";
import { type FoundRow, gatewayRouter, NORTHBOUND_OFF, type NorthboundFacts } from "../model/northbound.ts";
import { ARRIVING_PODS } from "../model/northbound-ids.ts";
import type { Locks } from "../model/northbound-locks.ts";
import {
  Acl,
  AddressSet,
  addressSetTable,
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
import { createParents } from "./northbound/parents.ts";
import { followRows, isPodTable } from "./northbound/pod-rows.ts";
import { createMembers, sharedRows, theirNodeIps, touchesShared } from "./northbound/shared.ts";
import { describeTopology, topologyOf, touchesTopology } from "./northbound/topology.ts";
import { whose } from "./northbound/whose.ts";

type Told = Pick<Settings, "node" | "northboundOwner" | "adopt" | "snatPerPod">;

/** Tables that a session has to follow for this. */
export function northboundTables({ node, snatPerPod, northboundOwner }: Told): readonly TableDefinition[] {
  return [
    LogicalRouter,
    LogicalSwitch,
    LogicalRouterPort,
    managementPortTable(node),
    Policy,
    snatPerPod ? NatOfAll : Nat,
    Qos,
    Acl,
    StaticRoute,
    addressSetTable(northboundOwner, node),
  ];
}

type State = Exclude<NorthboundFacts["state"], "off">;

export interface NorthboundInput {
  /** Facts now. `anew`: parents of rows are asked for again, which no update tells of. Never throws: a lost connection is a state. */
  read(anew: boolean): Promise<NorthboundFacts>;
  /** Facts as they were last read. */
  known(): NorthboundFacts;
  /** Who gives which egress IP at this moment, as FollowedRows says it. */
  giving(): ReadonlyMap<string, number>;
  /** The replica's when it was last read. */
  readonly version: number;
  /** As it is at this moment, which the facts may not say yet. */
  readonly state: State;
  close(): void;
}

export interface NorthboundInputOptions {
  readonly locks: Locks;
  readonly writes: boolean;
  /** Facts may be others now. */
  readonly onChange: () => void;
  /** Rows are known that the server does not have: contents have to be read anew. */
  readonly behind: () => void;
  /** Milliseconds that a reading waits for the database: the rest of the host is not to wait for it for ever. */
  readonly waitMs: number;
}

export function openNorthbound(
  session: Session,
  settings: Told,
  { locks, writes, onChange, behind, waitMs }: NorthboundInputOptions,
): NorthboundInput {
  const { replica } = session;
  const of = whose(settings);
  const rows = followRows(of, settings.snatPerPod);
  const readServed = createMembers(replica, settings, "egressip-served-pods");
  const readArriving = createMembers(replica, settings, ARRIVING_PODS);
  /** Who writes nothing has no locks, and works out what one that has them would write. */
  const holds = (lock: string) => !writes || session.locks.get(lock) === "held";

  let touchedShared = true;
  let touchedMembers = true;
  let touchedTopology = true;
  let foreignQos: readonly string[] = [];
  let facts: NorthboundFacts = { ...NORTHBOUND_OFF, state: "stale" };

  const parents = createParents(session, rows.places, gatewayRouter(settings.node), {
    moved: (uuids) => {
      for (const uuid of uuids) touchedShared = rows.touch(uuid) || touchedShared;
    },
    behind,
  });
  const stateNow = (): State => {
    if (session.state !== "current" || !parents.known) return "stale";
    return holds(locks.node) ? "current" : "waiting";
  };
  const take = (changes: Changes) => {
    parents.take(changes);
    // The server looks for them while the rows are made here.
    if (!parents.known && session.state === "current") void parents.ask(false);
    for (const [table, of] of changes.tables)
      if (isPodTable(table)) touchedShared = rows.take(table, of as readonly RowChange[]) || touchedShared;
    touchedShared ||= touchesShared(changes);
    touchedMembers ||= changes.tables.has(AddressSet.name);
    touchedTopology ||= touchesTopology(changes);
    onChange();
  };
  /** A session that tries one endpoint after the other says much that is nothing new here. */
  let told = "";
  const look = () => {
    const now = `${session.state === "current"} ${holds(locks.node)} ${holds(locks.zone)}`;
    if (now !== told) onChange();
    told = now;
  };
  const stop = [
    session.onChange(take),
    session.onState(() => {
      // The schema may be another after it.
      if (session.state === "current") touchedTopology = true;
      else parents.forget();
      look();
    }),
    session.onLock(look),
  ];

  const readShared = (): readonly FoundRow[] => {
    foreignQos = [...replica.table(Qos).rows.values()]
      .map(({ external_ids }) => of.foreignOwner(external_ids))
      .filter((owner) => owner !== undefined);
    return keepEqual(facts.shared, sharedRows(replica, of, rows.shared(), parents.standsOn), JSON.stringify);
  };
  /** Until there is an answer, or for so long; what comes later wakes the next reading. */
  const askParents = async (whole: boolean) => {
    let late = false;
    const { promise: passed, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      late = true;
      resolve();
    }, waitMs);
    const answered = parents.ask(whole).then(() => {
      if (late) onChange();
    });
    await Promise.race([answered, passed]);
    clearTimeout(timer);
  };

  /** An agent that has just ended gives its lock back a moment later than its place. */
  const begin = async () => {
    const deadline = performance.now() + waitMs;
    await session.whenCurrent(waitMs).catch(() => undefined);
    if (session.state !== "current" || holds(locks.node)) return;
    const { promise: settled, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, deadline - performance.now());
    const forget = session.onLock(() => {
      if (holds(locks.node)) resolve();
    });
    await settled;
    clearTimeout(timer);
    forget();
  };

  let begun: Promise<void> | undefined;
  let version = 0;
  const readNow = async (anew: boolean): Promise<NorthboundFacts> => {
    begun ??= begin();
    await begun;
    // While the server looks for the parents, rows are made as if all stood where they belong.
    const asking =
      session.state === "current" && (anew || !parents.known) ? askParents(parents.known) : undefined;
    const early = rows.pods(facts.pods, parents.standsOn);
    await asking;
    ({ version } = replica);
    const topology = touchedTopology
      ? keepEqual(facts.topology, topologyOf(session, settings), describeTopology)
      : facts.topology;
    if (topology !== facts.topology) rows.touchNodeSnats();
    const outside = new Set(Object.values(topology.outside.get(settings.node) ?? {}));
    // First: what it finds of others' is counted below.
    const shared = touchedShared ? readShared() : facts.shared;
    const foreign = new Map(rows.foreign());
    for (const owner of foreignQos) foreign.set(owner, (foreign.get(owner) ?? 0) + 1);
    const next: NorthboundFacts = {
      state: stateNow(),
      leads: holds(locks.zone),
      topology,
      pods: rows.pods(early, parents.standsOn),
      served: touchedMembers ? readServed(facts.served) : facts.served,
      arriving: touchedMembers ? readArriving(facts.arriving) : facts.arriving,
      shared,
      writers: rows.writers(),
      foreign: keepEqual(facts.foreign, foreign, describeCounts),
      theirNodeIps: touchedShared
        ? keepEqual(facts.theirNodeIps, theirNodeIps(replica, settings), String)
        : facts.theirNodeIps,
      nodeSnats: rows.nodeSnats(facts.nodeSnats, outside),
    };
    touchedShared = false;
    touchedMembers = false;
    touchedTopology = false;
    if ((Object.keys(next) as (keyof NorthboundFacts)[]).some((key) => next[key] !== facts[key]))
      facts = Object.freeze(next);
    return facts;
  };

  let last: Promise<NorthboundFacts> = Promise.resolve(facts);
  return {
    known: () => facts,
    giving: rows.giving,
    get version() {
      return version;
    },
    get state() {
      return stateNow();
    },
    // One after the other: what one takes as touched, another would not see.
    read: (anew) => {
      last = last.then(() => readNow(anew));
      return last;
    },
    close: () => {
      for (const end of stop) end();
    },
  };
}

function describeCounts(counts: ReadonlyMap<string, number>): string {
  return JSON.stringify([...counts].sort(([a], [b]) => byCodeUnit(a, b)));
}

function keepEqual<T>(before: T, now: T, describe: (value: T) => string): T {
  return describe(before) === describe(now) ? before : now;
}

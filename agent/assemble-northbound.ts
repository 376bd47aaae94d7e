// OVN's northbound database, connected: facts to read and transactions to commit. In: Config. Out: the two, and how it is.
import { setTimeout } from "node:timers/promises";
import {
  ConnectionError,
  connectOvsdb,
  type Operation,
  type Session,
  type SessionOptions,
} from "../lib/ovsdb-client/index.ts";
import type { Config } from "./config.ts";
import { readOthers } from "./inputs/northbound/others.ts";
import { type NorthboundInput, northboundTables, openNorthbound } from "./inputs/northbound.ts";
import type { Address } from "./model/ip.ts";
import { gatewayRouter, NORTHBOUND_OFF, type NorthboundFacts, type OthersRows } from "./model/northbound.ts";
import { OWNER_TYPE, TYPE_KEY } from "./model/northbound-ids.ts";
import { locksOf } from "./model/northbound-locks.ts";
import { entriesOf } from "./model/shards.ts";
import { begins, endsOne, othersEnded } from "./sync/northbound/answering.ts";
import {
  countChange,
  figures,
  flowsFollow,
  leadsToOthers,
  leavesHere,
  turnsHere,
} from "./sync/northbound/flows.ts";
import { createGoneNodes } from "./sync/northbound/gone-nodes.ts";
import { operationsFor } from "./sync/northbound/operations.ts";
import type { Tools } from "./sync/tools.ts";

export interface Northbound {
  read(anew: boolean): Promise<NorthboundFacts>;
  readonly tools: Tools["northbound"];
  /** Undefined where no database was given. */
  readonly session: Pick<Session, "state" | "failure" | "endpoint"> | undefined;
  /** Waits a moment for OVN's flows to follow what is written. To whether they have, and so where no database was given. Never rejects. */
  followed(): Promise<boolean>;
  /** Rows of others that a pod of this address meets, read now; undefined where they cannot be read. Never rejects. */
  others(facts: NorthboundFacts, address: Address): Promise<OthersRows | undefined>;
  /** How it is at this moment; undefined where no database was given. */
  told(): NorthboundTold | undefined;
  close(): Promise<void>;
}

/** What `status` and the journal say of the database. */
export interface NorthboundTold {
  /** As in NorthboundFacts. */
  readonly state: "current" | "waiting" | "stale";
  /** The server that is or was last connected to; else those that are tried. */
  readonly endpoint: string;
  /** When the state began. */
  readonly since: string;
  /** Rows there that are ours, or that we adopt. */
  readonly rows: number;
  readonly leads: boolean;
  /** Why it is not current, in words. */
  readonly failure: string | undefined;
}

export interface NorthboundOptions {
  /** False: asks for no locks. */
  readonly writes: boolean;
  readonly onChange: () => void;
  /** Milliseconds, where they are not to be the usual ones. */
  readonly deadlines?: Deadlines;
}

type Deadlines = Partial<
  Pick<SessionOptions, "probeMs" | "timeoutMs" | "syncTimeoutMs" | "backoff"> & {
    /** How long a reading waits for the database. */
    readonly waitMs: number;
    /** How long it is waited for another node's gateway router to give up an egress IP. */
    readonly releaseMs: number;
    /** How long OVN's flows are waited for. */
    readonly flowsMs: number;
    /** How long Open vSwitch's datapath may go by the old ones when they have followed. */
    readonly datapathMs: number;
  }
>;

/**
 * The first contents may be large and the line slow: whether anything still arrives is watched beside it, and a transfer that
 * is cut off at its half begins anew.
 */
const SYNC_MS = 600_000;
const WAIT_MS = 3_000;
/** Longer would be an outage of its own (sync/gaining.ts). */
const RELEASE_MS = 1_000;
const FLOWS_MS = 1_000;
/** ovs-vswitchd.conf.db(5), max-revalidator. */
const DATAPATH_MS = 500;

const OFF: Northbound = {
  read: async () => NORTHBOUND_OFF,
  tools: {
    commit: () => Promise.reject(new Error("no northbound database was given (--ovn-nb)")),
    gone: () => [],
  },
  session: undefined,
  told: () => undefined,
  others: async () => undefined,
  followed: async () => true,
  close: async () => {},
};

/**
 * Connects in the background. `writes` false asks for no locks: what would be written is worked out as if they were held, beside
 * an agent that holds them.
 */
export function connectNorthbound(
  { northbound, settings }: Pick<Config, "northbound" | "settings">,
  {
    writes,
    onChange,
    deadlines: {
      waitMs = WAIT_MS,
      releaseMs = RELEASE_MS,
      flowsMs = FLOWS_MS,
      datapathMs = DATAPATH_MS,
      ...deadlines
    } = {},
  }: NorthboundOptions,
): Northbound {
  if (northbound === undefined) return OFF;
  const { endpoints, tls } = northbound;
  const locks = locksOf(settings.northboundOwner, settings.node);
  const session = connectOvsdb({
    endpoints,
    database: "OVN_Northbound",
    tables: northboundTables(settings),
    locks: writes ? [locks.node, locks.zone] : [],
    syncTimeoutMs: SYNC_MS,
    ...deadlines,
    ...(tls === undefined ? {} : { tls: { keyFile: tls.key, certFile: tls.certificate, caFile: tls.ca } }),
  });
  const behind = () => session.reconnect(new ConnectionError("the server does not tell of all changes"));
  const input = openNorthbound(session, settings, {
    locks,
    writes,
    behind,
    waitMs,
    onChange: () => {
      look();
      onChange();
    },
  });
  /**
   * What is written is told of before it is answered: rows of which nothing was told would be written once more, and once more. That
   * somebody else has taken one away by then is no reason to doubt that.
   */
  const transact = async (operations: readonly Operation[]) => {
    const seen = new Set<string>();
    const stop = session.onChange(({ tables }) => {
      for (const rows of tables.values()) for (const { uuid } of rows) seen.add(uuid);
    });
    try {
      const results = await session.transact(operations);
      const isTold = results.every((result) => !("uuid" in result) || seen.has(String(result.uuid)));
      if (session.replica.version === input.version || !isTold) behind();
      return results;
    } finally {
      stop();
    }
  };
  const { told, look } = tellOf(session, input, endpoints);
  return {
    read: input.read,
    session,
    told,
    others: (facts, address) => readOthers(session, settings, facts, address),
    followed: () =>
      session.transact(countChange).then(
        (counted) => flowsFollow(session, counted, flowsMs),
        () => false,
      ),
    tools: {
      commit: async (changes) => {
        const { topology } = input.known();
        const operations = operationsFor(changes, topology, locks, settings.node);
        const router = gatewayRouter(settings.node);
        const isShared = topology.gateways.size > 1;
        const gained = isShared ? begins(changes, router, input.giving()) : [];
        if (gained.length > 0) {
          await othersEnded(gained, router, { ...input, onChange: session.onChange }, releaseMs);
          await flowsFollow(session, await session.transact(figures), flowsMs);
          // By what its Open vSwitch remembers the other one answers a little longer; when its rows went nobody here has seen.
          await setTimeout(datapathMs);
        }
        if (leadsToOthers(changes, topology.gateways, settings.node))
          await flowsFollow(session, await session.transact(countChange), flowsMs);
        const hops = [topology.management, topology.gateways.get(settings.node) ?? {}];
        const leaves = leavesHere(changes, hops);
        // Another node that gains it waits for the flows of this.
        const isAwaited = isShared && endsOne(changes, router, input.giving());
        if (!leaves && !isAwaited) {
          await transact(operations);
          return;
        }
        const results = await transact([...operations, ...countChange]);
        // What gives them the egress IP here is taken down next.
        if (leaves) await flowsFollow(session, results, flowsMs);
        if (turnsHere(changes, hops)) await setTimeout(datapathMs);
      },
      read: () => input.read(false),
      gone: createGoneNodes(() => performance.now()),
    },
    close: async () => {
      input.close();
      await session.close();
    },
  };
}

interface Told {
  readonly told: () => NorthboundTold;
  /** The state may be another. */
  look(): void;
}

function tellOf(session: Session, input: Pick<NorthboundInput, "state" | "known">, endpoints: string): Told {
  let state: NorthboundTold["state"] = "stale";
  let since = new Date();
  let endpoint = endpoints;
  const look = () => {
    if (input.state !== state) since = new Date();
    state = input.state;
    endpoint = session.endpoint ?? endpoint;
  };
  return {
    look,
    told: () => {
      look();
      const { pods, shared, leads } = input.known();
      let rows = shared.filter(({ ids }) => ids[TYPE_KEY] === OWNER_TYPE).length;
      for (const [, of] of entriesOf(pods)) rows += of.length;
      const failure = session.failure?.message;
      return { state, endpoint, since: since.toISOString(), rows, leads, failure };
    },
  };
}

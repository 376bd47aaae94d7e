// OVN's northbound database, connected: facts to read and transactions to commit. In: Config. Out: the two, and how it is.
import { connectOvsdb, type Session } from "../lib/ovsdb-client/index.ts";
import type { Config } from "./config.ts";
import { northboundTables, openNorthbound } from "./inputs/northbound.ts";
import { NORTHBOUND_OFF, type NorthboundFacts } from "./model/northbound.ts";
import { locksOf } from "./model/northbound-locks.ts";
import { createGoneNodes } from "./sync/northbound/gone-nodes.ts";
import { operationsFor } from "./sync/northbound/operations.ts";
import type { Tools } from "./sync/tools.ts";

export interface Northbound {
  read(anew: boolean): Promise<NorthboundFacts>;
  readonly tools: Tools["northbound"];
  /** Undefined where no database was given. */
  readonly session: Pick<Session, "state" | "failure" | "endpoint"> | undefined;
  close(): Promise<void>;
}

const OFF: Northbound = {
  read: async () => NORTHBOUND_OFF,
  tools: {
    commit: () => Promise.reject(new Error("no northbound database was given (--ovn-nb)")),
    isGone: () => false,
  },
  session: undefined,
  close: async () => {},
};

/**
 * Connects in the background. `writes` false asks for no locks: what would be written is worked out as if they were held, beside
 * an agent that holds them.
 */
export function connectNorthbound(
  { northbound, settings }: Pick<Config, "northbound" | "settings">,
  options: { readonly writes: boolean; readonly onChange: () => void },
): Northbound {
  if (northbound === undefined) return OFF;
  const { endpoints, tls } = northbound;
  const locks = locksOf(settings.northboundOwner, settings.node);
  const session = connectOvsdb({
    endpoints,
    database: "OVN_Northbound",
    tables: northboundTables(settings),
    locks: options.writes ? [locks.node, locks.zone] : [],
    ...(tls === undefined ? {} : { tls: { keyFile: tls.key, certFile: tls.certificate, caFile: tls.ca } }),
  });
  const input = openNorthbound(session, settings, { ...options, locks });
  return {
    read: input.read,
    session,
    tools: {
      commit: async (changes) => {
        const { topology } = input.known();
        await session.transact(operationsFor(changes, topology, locks, settings.node));
      },
      isGone: createGoneNodes(() => performance.now()),
    },
    close: async () => {
      input.close();
      await session.close();
    },
  };
}

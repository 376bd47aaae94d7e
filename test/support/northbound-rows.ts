// Rows in a northbound database as text: the agent's, one line each without uuids, and all of everybody else's.
import type { NorthboundServer } from "./northbound-server.ts";
import { printForeign, printRows, rowsOfOwner } from "./northbound-tables.ts";

export interface Held {
  readonly ours: readonly string[];
  readonly others: string;
}

export async function rowsIn(
  server: Pick<NorthboundServer, "client">,
  owner = "egressip-agent",
): Promise<Held> {
  const ours = printRows(await rowsOfOwner(server, owner));
  return { ours: ours === "" ? [] : ours.split("\n"), others: await printForeign(server, owner) };
}

// Which pod address a row is about: what a policy matches, what a NAT row translates. Pure.
import { parseAddress } from "./ip.ts";
import type { Row } from "./northbound.ts";

/** Of policies that reroute single pods. */
export const REROUTE_PRIORITY = 100;

/** Whether a row is about a single pod address, and not the whole zone's. */
export function isOfPod({ table, columns }: Pick<Row, "table" | "columns">): boolean {
  return table === "NAT" || (table === "Logical_Router_Policy" && columns["priority"] === REROUTE_PRIORITY);
}

/** Canonical; "" for a row of single pods that names none we can read; undefined for a row that is the whole zone's. */
export function podAddressOf({ table, columns }: Pick<Row, "table" | "columns">): string | undefined {
  if (!isOfPod({ table, columns })) return undefined;
  if (table === "NAT") return parseAddress(String(columns["logical_ip"])) ?? "";
  const match = String(columns["match"]);
  if (!match.startsWith("ip4.src == ") && !match.startsWith("ip6.src == ")) return "";
  return parseAddress(match.slice("ip4.src == ".length)) ?? "";
}

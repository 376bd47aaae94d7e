// Which pod address a row is about: what a policy matches, what a NAT row translates. Pure.
import { parseAddress } from "./ip.ts";
import type { Row } from "./northbound.ts";

/** Of policies that reroute single pods. */
export const REROUTE_PRIORITY = 100;

/** Canonical; "" for a row of single pods that names none we can read; undefined for a row that is the whole zone's. */
export function podAddressOf({ table, columns }: Pick<Row, "table" | "columns">): string | undefined {
  if (table === "NAT") return parseAddress(String(columns["logical_ip"])) ?? "";
  if (table !== "Logical_Router_Policy" || columns["priority"] !== REROUTE_PRIORITY) return undefined;
  const match = String(columns["match"]);
  if (!match.startsWith("ip4.src == ") && !match.startsWith("ip6.src == ")) return "";
  return parseAddress(match.slice("ip4.src == ".length)) ?? "";
}

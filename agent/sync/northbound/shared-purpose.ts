// Which shared row a found one is, whoever wrote it and whatever is wrong with it. Pure.
import type { Row } from "../../model/northbound.ts";
import { NAME_KEY } from "../../model/northbound-ids.ts";

const PER_NETWORK = /^EIP-No-Reroute-Pod-To-(Pod|Join)$/;

/** The match is part of it where there is one row for each pair of networks (reference J.3); a route has nothing but its prefix. */
export function sharedPurpose({ table, columns, ids }: Row): string {
  if (table === "Logical_Router_Static_Route") return String(columns["ip_prefix"]);
  const perNetwork = PER_NETWORK.test(String(ids[NAME_KEY]));
  return [ids[NAME_KEY], ids["ip-family"], perNetwork ? columns["match"] : ""].join(" ");
}

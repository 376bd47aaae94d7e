// Whose a row of the northbound database is, by its external_ids. Pure.
import {
  NAME_KEY,
  NODE_IPS,
  OWNER_KEY,
  OWNER_TYPE,
  REFERENCE_OWNER,
  setsByName,
  TYPE_KEY,
} from "../../model/northbound-ids.ts";
import type { Settings } from "../../model/settings.ts";

export type RowIds = Readonly<Record<string, string>>;

export interface Whose {
  /** For egress IPs, and ours, or the reference's where we adopt. */
  concerns(ids: RowIds): boolean;
  /** A set that is called as only one of ours can be, or as the other feature's that exemptions name. */
  isOurSet(name: string): boolean;
  /** Whose a row for egress IPs is that is neither ours nor to be adopted; "" where it does not say. */
  foreignOwner(ids: RowIds): string | undefined;
}

export function whose({
  node,
  northboundOwner,
  adopt,
}: Pick<Settings, "node" | "northboundOwner" | "adopt">): Whose {
  const sets = setsByName(northboundOwner, node);
  const isOurs = (owner: string | undefined) =>
    owner === northboundOwner || (adopt && owner === REFERENCE_OWNER);
  return {
    isOurSet: (name) => sets.has(name),
    concerns: (ids) => {
      const owner = ids[OWNER_KEY];
      if (!isForEgressIPs(ids) || !isOurs(owner)) return false;
      // Rows of all networks name the reference's set of nodes' addresses: ours is made beside it (reference B.2).
      return owner === northboundOwner || ids[NAME_KEY] !== NODE_IPS;
    },
    foreignOwner: (ids) => {
      const owner = ids[OWNER_KEY];
      return isForEgressIPs(ids) && !isOurs(owner) ? (owner ?? "") : undefined;
    },
  };
}

/** Rows of user-defined networks say so, and under the reference's name: they are never ours (reference B.1). */
export function isOfOtherNetwork(ids: RowIds): boolean {
  return (ids["network"] ?? "default") !== "default";
}

function isForEgressIPs(ids: RowIds): boolean {
  return ids[TYPE_KEY] === OWNER_TYPE && !isOfOtherNetwork(ids);
}

// Whose a row of the northbound database is, by its external_ids. Pure.
import { OWNER_KEY, OWNER_TYPE, REFERENCE_OWNER, setsByName, TYPE_KEY } from "../../model/northbound-ids.ts";
import type { Settings } from "../../model/settings.ts";

export type RowIds = Readonly<Record<string, string>>;

export interface Whose {
  /** For egress IPs, and ours, or the reference's where we adopt. */
  concerns(ids: RowIds): boolean;
  /** A set that is called as only one of ours can be, or as the other feature's that exemptions name. */
  isOurSet(name: string): boolean;
  /** For egress IPs, and the reference's, where we leave those alone. */
  isForeign(ids: RowIds): boolean;
}

export function whose({ northboundOwner, adopt }: Pick<Settings, "northboundOwner" | "adopt">): Whose {
  const bothOurs = adopt || northboundOwner === REFERENCE_OWNER;
  const sets = setsByName(northboundOwner);
  return {
    isOurSet: (name) => sets.has(name),
    concerns: (ids) => {
      if (ids[TYPE_KEY] !== OWNER_TYPE) return false;
      const owner = ids[OWNER_KEY];
      if (owner === northboundOwner) return true;
      return adopt && owner === REFERENCE_OWNER && (ids["network"] ?? "default") === "default";
    },
    isForeign: (ids) => !bothOurs && ids[TYPE_KEY] === OWNER_TYPE && ids[OWNER_KEY] === REFERENCE_OWNER,
  };
}

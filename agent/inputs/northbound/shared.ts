// Rows that all nodes of a zone share, and the members of the sets that all of them write to. In: the replica. Out: facts.
import type { Changes, Replica } from "../../../lib/ovsdb-client/index.ts";
import type { RowChange, RowOf } from "../../../lib/ovsdb-client/pure.ts";
import type { Family } from "../../model/ip.ts";
import { byCodeUnit } from "../../model/names.ts";
import {
  CLUSTER_ROUTER,
  type ColumnValue,
  type FoundRow,
  type Members,
  type RowTable,
  routerOf,
  switchOf,
} from "../../model/northbound.ts";
import {
  addressSet,
  NAME_KEY,
  NODE_IPS,
  type PodSet,
  podSet,
  REFERENCE_OWNER,
} from "../../model/northbound-ids.ts";
import { Acl, AddressSet, LogicalSwitch, Qos, StaticRoute } from "../../model/northbound-schema.ts";
import type { Settings } from "../../model/settings.ts";
import { type Shards, withEntries } from "../../model/shards.ts";
import { type PolicyRow, policyColumns } from "./pod-rows.ts";
import type { RowIds, Whose } from "./whose.ts";

const SHARED: readonly string[] = ["QoS", "ACL", "Logical_Router_Static_Route", "Logical_Switch"];

/** Whether a row that is not a policy and that all share is another. Members come and go with every pod: they are not part of it. */
export function touchesShared({ tables }: Changes): boolean {
  if (SHARED.some((table) => tables.has(table))) return true;
  const sets = (tables.get("Address_Set") ?? []) as readonly RowChange<RowOf<typeof AddressSet>>[];
  return sets.some(
    ({ before, after }) =>
      before === undefined ||
      after === undefined ||
      before.external_ids !== after.external_ids ||
      before.name !== after.name ||
      !hasMembersApart(after.external_ids),
  );
}

export function sharedRows(
  replica: Replica,
  of: Whose,
  policies: Iterable<PolicyRow>,
  standsOn: (uuid: string) => readonly string[] | undefined,
): readonly FoundRow[] {
  const concern = ({ external_ids }: { readonly external_ids: RowIds }) => of.concerns(external_ids);
  const switches = [...replica.table(LogicalSwitch).rows.values()];
  const switchesOf = (uuid: string) =>
    switches
      .filter(({ qos_rules }) => qos_rules.some((rule) => rule === uuid))
      .map(({ name }) => name)
      .sort(byCodeUnit);
  const rows: FoundRow[] = [];
  const add = (
    table: RowTable,
    { _uuid: uuid, external_ids: ids }: { readonly _uuid: string; readonly external_ids: RowIds },
    on: readonly string[],
    columns: Readonly<Record<string, ColumnValue>>,
  ) => rows.push({ table, uuid, on, ids, columns });
  for (const row of policies)
    add(
      "Logical_Router_Policy",
      row,
      standsOn(row._uuid) ?? [routerOf(row.external_ids)],
      policyColumns(row),
    );
  for (const row of [...replica.table(Qos).rows.values()].filter(concern)) {
    const { priority, direction, match, action } = row;
    const texts = Object.fromEntries(Object.entries(action).map(([key, entry]) => [key, String(entry)]));
    add("QoS", row, switchesOf(row._uuid), { priority, direction, match, action: texts });
  }
  for (const row of [...replica.table(Acl).rows.values()].filter(concern)) {
    const { priority, direction, match, action } = row;
    add("ACL", row, [switchOf(row.external_ids)], { priority, direction, match, action });
  }
  for (const row of [...replica.table(StaticRoute).rows.values()].filter(concern)) {
    const { ip_prefix, policy, nexthop } = row;
    const optional = policy === undefined ? [] : [policy];
    add("Logical_Router_Static_Route", row, [CLUSTER_ROUTER], { ip_prefix, policy: optional, nexthop });
  }
  for (const row of replica.table(AddressSet).rows.values()) {
    const { external_ids, name, addresses } = row;
    if (!concern(row) && !of.isOurSet(name)) continue;
    add("Address_Set", row, [], hasMembersApart(external_ids) ? { name } : { name, addresses });
  }
  // Policies come in the order in which they were last changed, which means nothing.
  return rows.sort((a, b) => (a.table === b.table ? (a.uuid < b.uuid ? -1 : 1) : a.table < b.table ? -1 : 1));
}

/** Told by name, which is what no two sets can have. */
export function theirNodeIps(
  replica: Replica,
  { northboundOwner }: Pick<Settings, "northboundOwner">,
): readonly Family[] {
  if (northboundOwner === REFERENCE_OWNER) return [];
  const names = new Set([...replica.table(AddressSet).rows.values()].map(({ name }) => name));
  return ([4, 6] as const).filter((family) => names.has(addressSet(REFERENCE_OWNER, NODE_IPS, family).name));
}

/** Members of the sets that all nodes write to are facts of their own. */
function hasMembersApart(ids: RowIds): boolean {
  return ids[NAME_KEY] !== NODE_IPS;
}

/** Members of our sets of this kind, or of the reference's where we adopt and have none yet: whatever is in them. */
export function createMembers(
  replica: Replica,
  { node, northboundOwner, adopt }: Pick<Settings, "node" | "northboundOwner" | "adopt">,
  set: PodSet,
): (before: Members) => Members {
  const names = ([4, 6] as const).map((family) => ({
    family,
    own: podSet({ owner: northboundOwner, node }, set, family).name,
    adopted: podSet({ owner: REFERENCE_OWNER, node }, set, family).name,
  }));
  const last: (readonly string[])[] = names.map(() => NO_MEMBERS);
  const { rows } = replica.table(AddressSet);
  const membersOf = ({ own, adopted }: (typeof names)[number]): readonly string[] => {
    let found: readonly string[] | undefined;
    for (const { name, addresses } of rows.values()) {
      if (name === own) return addresses;
      if (adopt && name === adopted) found = addresses;
    }
    return found ?? NO_MEMBERS;
  };
  return (before) => {
    const [four, six] = names.map((of, at) => {
      const now = membersOf(of);
      const next = withEntries(before[of.family], differences(last[at] as readonly string[], now));
      last[at] = now;
      return next;
    }) as [Shards<true>, Shards<true>];
    return four === before[4] && six === before[6] ? before : { 4: four, 6: six };
  };
}

const NO_MEMBERS: readonly string[] = Object.freeze([]);

/** Both are sorted, as all sets of a replica are: one walk, and nothing is made of what is in both. */
function* differences(
  before: readonly string[],
  now: readonly string[],
): Generator<readonly [string, true | undefined]> {
  if (before === now) return;
  let [a, b] = [0, 0];
  while (a < before.length || b < now.length) {
    const [old, fresh] = [before[a], now[b]];
    if (old === fresh) {
      a++;
      b++;
    } else if (fresh === undefined || (old !== undefined && old < fresh)) {
      yield [old as string, undefined];
      a++;
    } else {
      yield [fresh, true];
      b++;
    }
  }
}

// What can go wrong with rows of a northbound database, as operations (RFC 7047, 5.2) on rows that were read from it.
import type { DatabaseRow } from "./northbound-tables.ts";

export type Operation = Readonly<Record<string, unknown>>;

export const whereUuid = ({ uuid }: DatabaseRow) => [["_uuid", "==", ["uuid", uuid]]];
export const update = (row: DatabaseRow, columns: Operation): Operation => ({
  op: "update",
  table: row.table,
  where: whereUuid(row),
  row: columns,
});
export const set = (...values: readonly unknown[]) => ["set", values];
const parentOf: Readonly<Record<string, readonly [string, string]>> = {
  Logical_Router_Policy: ["Logical_Router", "policies"],
  NAT: ["Logical_Router", "nat"],
  QoS: ["Logical_Switch", "qos_rules"],
  ACL: ["Logical_Switch", "acls"],
  Logical_Router_Static_Route: ["Logical_Router", "static_routes"],
};
export const refer = (table: string, parent: string, how: string, reference: unknown): Operation => ({
  op: "mutate",
  table: parentOf[table]?.[0],
  where: [["name", "==", parent]],
  mutations: [[parentOf[table]?.[1], how, set(reference)]],
});
export const idsOf = ({ columns }: DatabaseRow) => ["map", Object.entries(columns["external_ids"] ?? {})];

const written: Readonly<Record<string, readonly string[]>> = {
  Logical_Router_Policy: ["priority", "match", "action", "nexthops"],
  NAT: ["type", "external_ip", "logical_ip", "logical_port"],
  QoS: ["priority", "match", "direction"],
  ACL: ["priority", "match", "direction", "action"],
  Logical_Router_Static_Route: ["ip_prefix", "policy", "nexthop"],
};

let copies = 0;
/** The same row once more, under this parent, with other columns. */
export function copyOf(
  row: DatabaseRow,
  parent = row.on[0] ?? "",
  more: Operation = {},
): readonly Operation[] {
  const columns = (written[row.table] ?? []).map((name) => {
    const value = row.columns[name];
    return [name, Array.isArray(value) ? set(...value) : value];
  });
  const action = row.table === "QoS" ? { action: ["map", [["mark", 42]]] } : {};
  const name = `copy${copies++}`;
  const content = { ...Object.fromEntries(columns), ...action, external_ids: idsOf(row), ...more };
  return [
    { op: "insert", table: row.table, row: content, "uuid-name": name },
    refer(row.table, parent, "insert", ["named-uuid", name]),
  ];
}

/** Something is wrong with this row from now on: what, says a number from 0 to 1. */
export function anyDamage(row: DatabaseRow, which: number): readonly Operation[] {
  const [parent = ""] = row.on;
  if (row.table === "Address_Set")
    return [update(row, { addresses: set("10.244.1.99", "fd00:10:244:1::99") })];
  const columns: Readonly<Record<string, Operation>> = {
    Logical_Router_Policy: { nexthops: set("100.64.0.77", "100.64.0.2"), action: "reroute" },
    NAT: { external_ip: "172.18.0.98", logical_port: "k8s-node3" },
    QoS: { match: "ip4" },
    ACL: { match: "ip4", action: "allow" },
    Logical_Router_Static_Route: { nexthop: "100.64.0.77" },
  };
  const wrong = columns[row.table] ?? {};
  const kinds: readonly (() => readonly Operation[])[] = [
    () => [update(row, wrong)],
    () => copyOf(row),
    () => [...copyOf(row, parent, wrong), ...copyOf(row, parent, wrong)],
    () => [refer(row.table, parent, "delete", ["uuid", row.uuid])],
    () =>
      ["QoS", "ACL", "Logical_Router_Static_Route"].includes(row.table)
        ? []
        : [
            refer(row.table, parent, "delete", ["uuid", row.uuid]),
            refer(row.table, "GR_node1", "insert", ["uuid", row.uuid]),
          ],
    () => (row.table === "QoS" ? [refer("QoS", "join", "insert", ["uuid", row.uuid])] : []),
    () =>
      "match" in row.columns && row.table !== "QoS" ? [update(row, { match: "ip4.src == nobody" })] : [],
  ];
  return kinds[Math.floor(which * kinds.length)]?.() ?? [];
}

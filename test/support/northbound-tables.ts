// What is in a northbound database, as values to compare: rows with the names of their parents instead of references.
// In: a server. Out: rows of the tables that the agent writes to, and everything that is not the agent's as text.
import type { NorthboundServer } from "./northbound-server.ts";

type Client = Pick<NorthboundServer, "client">;
type Value = string | number | boolean | readonly Value[] | { readonly [key: string]: Value };

export interface DatabaseRow {
  readonly table: string;
  readonly uuid: string;
  /** Names of the routers or switches that refer to it, sorted. */
  readonly on: readonly string[];
  /** All columns; sets sorted, a set of one as its member, an empty one or map left out. */
  readonly columns: Readonly<Record<string, Value>>;
}

const WRITTEN = ["Logical_Router_Policy", "NAT", "QoS", "ACL", "Logical_Router_Static_Route", "Address_Set"];
const REFERENCES: Readonly<Record<string, readonly string[]>> = {
  Logical_Router: ["policies", "nat", "static_routes"],
  Logical_Switch: ["qos_rules", "acls"],
};

/** Rows of these tables, of all tables where none is named. */
export async function readTables(
  server: Client,
  tables?: readonly string[],
): Promise<readonly DatabaseRow[]> {
  const listed = tables ?? (await server.client("list-tables", "OVN_Northbound")).match(/^[A-Z]\w+$/gm) ?? [];
  const names = listed.filter((name) => name !== "Table");
  const reply: readonly { readonly rows: readonly Readonly<Record<string, unknown>>[] }[] = JSON.parse(
    await server.client(
      "transact",
      JSON.stringify(["OVN_Northbound", ...names.map((table) => ({ op: "select", table, where: [] }))]),
    ),
  );
  const rows = names.flatMap((table, at) =>
    (reply[at]?.rows ?? []).map((row) => {
      const { _uuid, ...columns } = row;
      const plain = Object.entries(columns).map(([name, value]) => [name, plainValue(value)] as const);
      return {
        table,
        uuid: String(plainValue(_uuid)),
        on: [] as readonly string[],
        columns: Object.fromEntries(plain.filter(([, value]) => !isEmpty(value))),
      };
    }),
  );
  const parents = new Map<string, string[]>();
  for (const { table, columns } of rows)
    for (const column of REFERENCES[table] ?? [])
      for (const uuid of [columns[column] ?? []].flat())
        parents.set(String(uuid), [...(parents.get(String(uuid)) ?? []), String(columns["name"])]);
  return rows.map((row) => ({ ...row, on: (parents.get(row.uuid) ?? []).sort() }));
}

/** Rows for egress IPs of this owner. */
export async function rowsOfOwner(server: Client, owner: string): Promise<readonly DatabaseRow[]> {
  const rows = await readTables(server, [...WRITTEN, ...Object.keys(REFERENCES)]);
  return rows.filter((row) => isOf(row, owner));
}

/** The same rows, whatever their uuids and versions. */
export function printRows(rows: readonly DatabaseRow[]): string {
  return rows
    .map(({ table, on, columns: { _version, ...columns } }) => `${table} ${on.join()} ${sortedJson(columns)}`)
    .sort()
    .join("\n");
}

/** Everything in the database that is not these owners', with uuid and version; of parents all but references to what is. */
export async function printForeign(server: Client, ...owners: readonly string[]): Promise<string> {
  const rows = await readTables(server);
  const own = new Set(rows.filter((row) => owners.some((owner) => isOf(row, owner))).map(({ uuid }) => uuid));
  return (
    rows
      // A figure that whoever waits for OVN's programs counts up.
      .filter(
        ({ table, uuid, columns }) => table !== "NB_Global" && !own.has(uuid) && !isMadeToExist(columns),
      )
      .map(({ table, uuid, columns }) => {
        const kept = Object.entries(columns).flatMap(([name, value]) => {
          if (!(table in REFERENCES)) return [[name, value] as const];
          if (name === "_version") return [];
          const others = [value].flat().filter((one) => !own.has(String(one)));
          return REFERENCES[table]?.includes(name) ? [[name, others] as const] : [[name, value] as const];
        });
        return `${table} ${uuid} ${sortedJson(Object.fromEntries(kept.filter(([, value]) => !isEmpty(value))))}`;
      })
      .sort()
      .join("\n")
  );
}

function isOf({ columns }: DatabaseRow, owner: string): boolean {
  const ids = columns["external_ids"] as Readonly<Record<string, string>> | undefined;
  return ids?.["k8s.ovn.org/owner-controller"] === owner && ids["k8s.ovn.org/owner-type"] === "EgressIP";
}

/** Sets that exemptions name and that are another feature's. */
function isMadeToExist(columns: DatabaseRow["columns"]): boolean {
  const ids = columns["external_ids"] as Readonly<Record<string, string>> | undefined;
  return ids?.["k8s.ovn.org/owner-type"] === "EgressService";
}

/** RFC 7047, 5.1: `["set", […]]`, `["map", […]]`, `["uuid", "…"]`. */
function plainValue(value: unknown): Value {
  if (!Array.isArray(value)) return value as Value;
  const [kind, content] = value as [string, unknown];
  if (kind === "uuid") return content as string;
  const parts = content as readonly unknown[];
  if (kind === "map")
    return Object.fromEntries(
      parts.map((pair) => (pair as [unknown, unknown]).map(plainValue) as [string, Value]),
    );
  return parts.map(plainValue).sort();
}

function isEmpty(value: Value): boolean {
  return typeof value === "object" && Object.keys(value).length === 0;
}

function sortedJson(value: Value): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

/**
 * Rows of single pods, and the served set, one a line and without what all rows have in common:
 * `policy 10.244.1.3 100.64.0.2`, `policy 10.244.1.3 10.244.1.2 pkt_mark=1009`, `nat GR_node1 10.244.1.3 172.18.0.50`, `snat GR_node1 10.244.1.3 172.18.0.11`, `served 10.244.1.3`.
 */
export async function shortRows(server: Client, owner = "egressip-agent"): Promise<readonly string[]> {
  const rows = await readTables(server, ["Logical_Router_Policy", "NAT", "Address_Set", "Logical_Router"]);
  return rows.flatMap((row) => shortRow(row, owner)).sort();
}

function shortRow(row: DatabaseRow, owner: string): readonly string[] {
  const { table, on, columns } = row;
  if (table === "NAT" && !isOf(row, owner))
    return String(columns["logical_ip"]).includes("/")
      ? []
      : [`snat ${on.join()} ${columns["logical_ip"]} ${columns["external_ip"]}`];
  if (!isOf(row, owner)) return [];
  if (table === "NAT") return [`nat ${on.join()} ${columns["logical_ip"]} ${columns["external_ip"]}`];
  if (table === "Logical_Router_Policy" && columns["priority"] === 100) {
    const hops = [columns["nexthops"] ?? []].flat().join();
    const options = Object.entries(columns["options"] ?? {}).map(([key, value]) => ` ${key}=${value}`);
    return [
      `policy ${String(columns["match"]).replace(/.* /, "")} ${columns["action"] === "drop" ? "drop" : hops}${options.join("")}`,
    ];
  }
  const ids = columns["external_ids"] as Readonly<Record<string, string>>;
  if (table !== "Address_Set" || ids["k8s.ovn.org/name"] !== "egressip-served-pods") return [];
  return [columns["addresses"] ?? []].flat().map((address) => `served ${String(address)}`);
}

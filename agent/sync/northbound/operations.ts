// Changes of rows as the operations of one transaction (RFC 7047, 5.2). Pure.
// Rows are found by uuid, single members of what others write to are added and taken, and nothing is sent unless this agent
// has the locks for it.
import {
  assertLock,
  byUuid,
  comment,
  type Mutation,
  named,
  type Operation,
  type TableDefinition,
  type Uuid,
  type WrittenValue,
  wait,
} from "../../../lib/ovsdb-client/pure.ts";
import type { ColumnValue, Row, RowTable, Topology } from "../../model/northbound.ts";
import { NODE_KEY } from "../../model/northbound-ids.ts";
import type { Locks } from "../../model/northbound-locks.ts";
import { isOfPod } from "../../model/northbound-pod.ts";
import { AddressSet, LogicalRouter, LogicalSwitch } from "../../model/northbound-schema.ts";
import { changedColumns, changedIds, type RowChange } from "./changes.ts";

/** The column of the parent that refers to rows of a table. */
const REFERENCES: Readonly<Record<Exclude<RowTable, "Address_Set">, readonly [TableDefinition, string]>> = {
  Logical_Router_Policy: [LogicalRouter, "policies"],
  NAT: [LogicalRouter, "nat"],
  Logical_Router_Static_Route: [LogicalRouter, "static_routes"],
  QoS: [LogicalSwitch, "qos_rules"],
  ACL: [LogicalSwitch, "acls"],
};

export function operationsFor(
  changes: readonly RowChange[],
  topology: Topology,
  locks: Locks,
  node: string,
): readonly Operation[] {
  const rows: Operation[] = [];
  const parents = parentChanges(topology);
  const initial = new Map<string, readonly string[]>();
  for (const change of changes)
    if (change.op === "members" && change.uuid === undefined) initial.set(change.set, change.add);
  let names = 0;
  for (const change of changes) {
    switch (change.op) {
      case "insert": {
        const name = `row${names++}`;
        rows.push(insertion(change.row, name, initial));
        for (const parent of change.row.on) parents.add(change.row.table, parent, named(name));
        break;
      }
      case "update":
        rows.push(...updating(change));
        for (const parent of change.row.on)
          if (!change.found.on.includes(parent))
            parents.add(change.row.table, parent, change.found.uuid as Uuid);
        for (const parent of change.found.on)
          if (!change.row.on.includes(parent))
            parents.remove(change.row.table, parent, change.found.uuid as Uuid);
        break;
      case "delete": {
        const { table, on, uuid } = change.found;
        if (table === "Address_Set") rows.push({ op: "delete", table, where: byUuid(uuid as Uuid) });
        for (const parent of on) parents.remove(table, parent, uuid as Uuid);
        break;
      }
      case "members":
        if (change.uuid !== undefined) rows.push(membership(change.uuid as Uuid, change.add, change.remove));
        break;
      case "take-node-snat":
        for (const uuid of change.uuids) parents.remove("NAT", change.router, uuid as Uuid);
        break;
      case "give-node-snat": {
        const name = `row${names++}`;
        rows.push(nodeSnat(change.pod, change.node, name));
        parents.add("NAT", change.router, named(name));
        break;
      }
    }
  }
  const zone = changes.some(isOfZone);
  return [
    assertLock(locks.node),
    ...(zone ? [assertLock(locks.zone)] : []),
    ...parents.guards(),
    ...rows,
    ...parents.operations(),
    comment(`egressip-agent ${node}: ${changes.length} changes`),
  ];
}

/** What all nodes of the zone share (it is no node's own), and what is taken away of nodes that are gone. */
function isOfZone(change: RowChange): boolean {
  if (change.op === "delete" && change.why === "gone-node") return true;
  if (change.op !== "insert" && change.op !== "update" && change.op !== "delete") return false;
  const row = change.op === "delete" ? change.found : change.row;
  return !isOfPod(row) && row.ids[NODE_KEY] === undefined;
}

function insertion(
  { table, columns, ids }: Row,
  name: string,
  initial: ReadonlyMap<string, readonly string[]>,
): Operation {
  const written: Record<string, WrittenValue> = { external_ids: ids };
  for (const column in columns) {
    const value = columns[column] as ColumnValue;
    // What is empty is what a row begins with; and an older schema may not have the column (NAT.match before OVN 24.03).
    if (!isEmpty(value)) written[column] = writtenValue(column, value);
  }
  const members = table === AddressSet.name ? initial.get(String(columns["name"])) : undefined;
  if (members !== undefined) written["addresses"] = members;
  return { op: "insert", table, row: written, name };
}

function isEmpty(value: ColumnValue): boolean {
  if (typeof value !== "object") return value === "";
  for (const _ in value) return false;
  return true;
}

/** The one map of numbers is what a QoS row does. */
function writtenValue(column: string, value: ColumnValue): WrittenValue {
  if (column === "action" && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, Number(entry)]));
  if (column === "policy" && Array.isArray(value)) return value[0];
  return value;
}

function updating({ row, found }: Extract<RowChange, { op: "update" }>): readonly Operation[] {
  const where = byUuid(found.uuid as Uuid);
  const columns = changedColumns(row, found);
  const ids = changedIds(row, found);
  const operations: Operation[] = [];
  if (columns.length > 0) {
    const written = columns.map((column) => [
      column,
      writtenValue(column, row.columns[column] as ColumnValue),
    ]);
    operations.push({ op: "update", table: row.table, where, row: Object.fromEntries(written) });
  }
  if (ids.length > 0) {
    const written = Object.fromEntries(ids.flatMap((key) => (key in row.ids ? [[key, row.ids[key]]] : [])));
    operations.push({
      op: "mutate",
      table: row.table,
      where,
      // An insertion into a map leaves keys that are there as they are.
      mutations: [
        ["external_ids", "delete", ids],
        ["external_ids", "insert", written as Readonly<Record<string, string>>],
      ],
    });
  }
  return operations;
}

function membership(uuid: Uuid, add: readonly string[], remove: readonly string[]): Operation {
  const mutations: Mutation[] = [];
  if (remove.length > 0) mutations.push(["addresses", "delete", remove]);
  if (add.length > 0) mutations.push(["addresses", "insert", add]);
  return { op: "mutate", table: AddressSet.name, where: byUuid(uuid), mutations };
}

/** As OVN-Kubernetes makes it with a pod's port. */
function nodeSnat(pod: string, node: string, name: string): Operation {
  const row = { type: "snat", external_ip: node, logical_ip: pod, options: { stateless: "false" } };
  return { op: "insert", table: "NAT", row, name };
}

type Reference = Uuid | ReturnType<typeof named>;

/** One mutation of each parent's column, however many rows: references to add and to take. */
function parentChanges(topology: Topology) {
  const byParent = new Map<
    string,
    {
      readonly table: TableDefinition;
      readonly name: string;
      readonly column: string;
      readonly uuid: Uuid;
      add: Reference[];
      remove: Reference[];
    }
  >();
  const of = (row: RowTable, name: string) => {
    const [table, column] = REFERENCES[row as keyof typeof REFERENCES];
    const uuid = (table === LogicalRouter ? topology.routers : topology.switches).get(name);
    if (uuid === undefined) return undefined; // gone, and the row with it
    const key = `${table.name} ${name} ${column}`;
    const known = byParent.get(key);
    if (known !== undefined) return known;
    const first = { table, name, column, uuid: uuid as Uuid, add: [], remove: [] };
    byParent.set(key, first);
    return first;
  };
  return {
    add: (row: RowTable, name: string, reference: Reference) => of(row, name)?.add.push(reference),
    remove: (row: RowTable, name: string, reference: Reference) => of(row, name)?.remove.push(reference),
    /** A parent that went meanwhile would take its new rows with it, and nobody would tell. */
    guards: (): readonly Operation[] =>
      [...new Map([...byParent.values()].map((parent) => [parent.uuid, parent])).values()].map(
        ({ table, name, uuid }) => wait(table, byUuid(uuid), "==", [{ name }]),
      ),
    operations: (): readonly Operation[] =>
      [...byParent.values()].map(({ table, column, uuid, add, remove }) => {
        const mutations: Mutation[] = [];
        if (remove.length > 0) mutations.push([column, "delete", remove]);
        if (add.length > 0) mutations.push([column, "insert", add]);
        return { op: "mutate", table: table.name, where: byUuid(uuid), mutations };
      }),
  };
}

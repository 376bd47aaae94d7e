// One OVSDB transaction in the making (RFC 7047 section 4.1.3): rows in plain values in, the JSON that `ovsdb-client transact`
// takes out. Far faster than a command for each row, and every column is said. Pure.

/** A row that the same transaction inserts. */
export interface Ref {
  readonly ref: string;
}

type Atom = string | number | boolean | Ref;
/** An array is a set, an object that is no Ref a map. */
export type Value = Atom | readonly Atom[] | Readonly<Record<string, string>>;
export type Row = Readonly<Record<string, Value>>;

function isRef(value: object): value is Ref {
  return "ref" in value && Object.keys(value).length === 1;
}

function atom(value: Atom): unknown {
  return typeof value === "object" ? ["named-uuid", value.ref] : value;
}

function written(value: Value): unknown {
  if (typeof value !== "object") return value;
  if (Array.isArray(value)) return ["set", (value as readonly Atom[]).map(atom)];
  return isRef(value) ? atom(value) : ["map", Object.entries(value)];
}

const writtenRow = (row: Row) =>
  Object.fromEntries(Object.entries(row).map(([column, value]) => [column, written(value)]));

export class Transaction {
  readonly #operations: unknown[] = [];
  #inserted = 0;

  insert(table: string, row: Row): Ref {
    const ref = `row${++this.#inserted}`;
    this.#operations.push({ op: "insert", table, row: writtenRow(row), "uuid-name": ref });
    return { ref };
  }

  /** Adds to, or takes from, a set of the rows whose `name` this is. */
  change(table: string, name: string, column: string, how: "insert" | "delete", value: Value): void {
    const where = [["name", "==", name]];
    this.#operations.push({ op: "mutate", table, where, mutations: [[column, how, written(value)]] });
  }

  /** Deletes the rows in which the column has exactly this value. */
  delete(table: string, column: string, value: Value): void {
    this.#operations.push({ op: "delete", table, where: [[column, "==", written(value)]] });
  }

  text(database: string): string {
    return JSON.stringify([database, ...this.#operations]);
  }
}

/** What a reply complains of; undefined when everything was done. */
export function complaint(reply: string): string | undefined {
  const results = JSON.parse(reply) as ({ error?: string; details?: string } | null)[];
  const failed = results.filter((result) => result?.error !== undefined);
  if (failed.length === 0) return undefined;
  return failed.map((result) => `${result?.error}: ${result?.details ?? ""}`).join("; ");
}

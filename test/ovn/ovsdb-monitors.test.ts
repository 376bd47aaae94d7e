// Replicas of real servers: by each of the three ways to monitor, with conditions, of the schemas of OVN and Open vSwitch, over a
// conversion of the schema; and what a server says to requests that are none.
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createConnection } from "../../lib/ovsdb-client/connection.ts";
import { parseEndpoints } from "../../lib/ovsdb-client/endpoints.ts";
import {
  type Changes,
  column,
  compareAtoms,
  connectOvsdb,
  defineTable,
  dial,
  insert,
  type Json,
  mutate,
  named,
  RemoteError,
  type Row,
  remove,
  type Session,
  select,
  systemClock,
  type Uuid,
  update,
} from "../../lib/ovsdb-client/index.ts";
import { tap } from "../lib/ovsdb-client/older-server.ts";
import {
  type Folder,
  openFolder,
  openSession,
  type RealServer,
  rejection,
  schemaFile,
} from "../lib/ovsdb-client/real-server.ts";
import { Animal, Cage, Keeper, ZOO_SCHEMA } from "../lib/ovsdb-client/zoo.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { until } from "../support/until.ts";

const missing = noOvn();

/** Numbers that look drawn and are the same every time. */
function drawn(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

describe.skipIf(missing !== undefined)(`replicas${missing === undefined ? "" : `: ${missing}`}`, () => {
  let folder: Folder;
  let server: RealServer;

  beforeAll(async () => {
    folder = await openFolder();
    server = await folder.server("zoo");
  });
  afterAll(async () => {
    await folder[Symbol.asyncDispose]();
  });

  /** Each table as the server selects it, held against the replica. */
  async function expectSame(session: Session, tables: readonly string[]): Promise<void> {
    await session.caughtUp();
    const results = await session.transact(tables.map((table) => select(table, [])));
    for (const [at, table] of tables.entries()) {
      const rows = (results[at]?.rows ?? []).map(({ _version, ...row }) => [row["_uuid"], row]);
      expect(new Map(session.replica.table(table).rows)).toEqual(new Map(rows as [Uuid, Row][]));
    }
  }

  it("follow a writer by every way to monitor, change by change, and look-ups with them", async () => {
    const ways = [
      ["monitor_cond_since", tap()],
      ["monitor_cond", tap(["monitor_cond_since"])],
      ["monitor", tap(["monitor_cond_since", "monitor_cond"])],
    ] as const;
    const writer = openSession(server, { tables: [] });
    const sessions = ways.map(([, { dial: by }]) =>
      openSession(server, { tables: [Cage, Animal, Keeper], dial: by }),
    );
    await Promise.all([writer, ...sessions].map((session) => session.whenCurrent(20_000)));
    for (const [at, [method, { sent }]] of ways.entries())
      expect(sent.filter((text) => text.includes(`"method":"${method}"`)).length, `${at}`).toBeGreaterThan(0);
    const lookups = sessions.map(({ replica }) => replica.table(Cage).lookup("tags"));
    const mirrors = sessions.map((session) => {
      const mirror = new Map<Uuid, Row>();
      session.onChange((changes) => {
        for (const { uuid, before, after } of changes.of(Cage)) {
          expect(mirror.get(uuid)).toBe(before);
          if (after === undefined) mirror.delete(uuid);
          else mirror.set(uuid, after);
        }
      });
      return mirror;
    });

    const draw = drawn(7);
    const tags = () => Array.from({ length: draw(4) }, () => "pqrs"[draw(4)] as string);
    const labels = () => Object.fromEntries(tags().map((tag) => [tag, `${draw(3)}`]));
    for (let step = 0; step < 150; step++) {
      const at = [["size", "==", draw(8)]] as const;
      const animal = insert(Animal, { name: `a${step}`, legs: draw(5) }, { name: "new" });
      const operations = [
        [
          insert(Cage, {
            name: `c${step}`,
            size: draw(8),
            tags: tags(),
            labels: labels(),
            animals: [named("new")],
          }),
          animal,
        ],
        [
          update(Cage, at, {
            tags: tags(),
            labels: labels(),
            counts: { [draw(3)]: draw(3) },
            weights: [draw(5), draw(5)],
          }),
        ],
        [
          update(Cage, at, {
            note: draw(2) === 0 ? undefined : `n${draw(2)}`,
            open: draw(2) === 0,
            heat: draw(3) / 2,
          }),
        ],
        [
          mutate(Cage, at, [
            ["animals", "insert", [named("new")]],
            ["labels", "delete", tags()],
          ]),
          animal,
        ],
        [update(Cage, at, { animals: [], single: labels()["p"] === undefined ? {} : { p: "x" } })],
        [draw(3) === 0 ? remove(Cage, at) : mutate(Cage, at, [["tags", "delete", tags()]])],
      ][draw(6)];
      await writer.transact(operations ?? []);
    }
    for (const [at, session] of sessions.entries()) {
      await expectSame(session, ["Cage", "Animal", "Keeper"]);
      const rows = session.replica.table(Cage).rows;
      expect(mirrors[at]).toEqual(new Map(rows));
      expect(rows.size).toBeGreaterThan(5);
      for (const tag of "pqrs")
        expect(new Set(lookups[at]?.get(tag).values())).toEqual(
          new Set([...rows.values()].filter((row) => row.tags.includes(tag))),
        );
      await session.close();
    }
    await writer.transact([remove(Cage, []), remove(Keeper, [])]);
    await writer.close();
  });

  it("are told once for each transaction, of real differences alone", async () => {
    const session = openSession(server, { tables: [Cage, Animal] });
    await session.whenCurrent(20_000);
    const told: Changes[] = [];
    session.onChange((changes) => told.push(changes));
    await session.transact([
      insert(Cage, { name: "a", animals: [named("x")] }),
      insert(Animal, { name: "x" }, { name: "x" }),
      insert(Cage, { name: "b" }),
    ]);
    expect(
      told.map(({ tables }) =>
        [...tables].map(([name, { length }]) => `${name} ${length}`).toSorted(compareAtoms),
      ),
    ).toEqual([["Animal 1", "Cage 2"]]);
    const b = [...session.replica.table(Cage).rows.values()].find(({ name }) => name === "b");
    await session.transact([update(Cage, [["name", "==", "b"]], { name: "b", tags: [] })]);
    await session.transact([update(Cage, [], { size: 3 }), update(Cage, [["name", "==", "b"]], { size: 0 })]);
    expect(told.slice(1).map((changes) => changes.of(Cage).map(({ after }) => after?.name))).toEqual([["a"]]);
    expect(session.replica.table(Cage).lookup("name").get("b").values().next().value).toBe(b);
    await session.transact([remove(Cage, [])]);
    await session.close();
  });

  it("hold the rows that match any condition, as they come to and cease to", async () => {
    const some = defineTable(
      "Cage",
      { name: column.string, size: column.integer },
      {
        where: [
          ["size", ">=", 50],
          ["open", "==", true],
        ],
      },
    );
    const writer = openSession(server, { tables: [Cage] });
    const older = tap(["monitor_cond_since"]);
    const sessions = [
      openSession(server, { tables: [some] }),
      openSession(server, { tables: [some], dial: older.dial }),
    ];
    await Promise.all([writer, ...sessions].map((session) => session.whenCurrent(20_000)));
    const expectNames = async (...expected: readonly string[]) => {
      for (const session of sessions) {
        await session.caughtUp();
        expect(
          [...session.replica.table(some).rows.values()].map(({ name }) => name).toSorted(compareAtoms),
        ).toEqual(expected);
      }
    };
    await writer.transact([insert(Cage, { name: "small" }), insert(Cage, { name: "big", size: 60 })]);
    await expectNames("big");
    await writer.transact([update(Cage, [["name", "==", "small"]], { open: true })]);
    await expectNames("big", "small");
    await writer.transact([update(Cage, [["name", "==", "big"]], { size: 10 })]);
    await expectNames("small");
    await writer.transact([update(Cage, [["name", "==", "big"]], { heat: 1 })]);
    await expectNames("small");
    await writer.transact([remove(Cage, [])]);
    await expectNames();
    for (const session of [writer, ...sessions]) await session.close();
  });

  it("show what anybody committed before they were asked to catch up", async () => {
    const [writer, reader] = [openSession(server, { tables: [] }), openSession(server, { tables: [Cage] })];
    await Promise.all([writer.whenCurrent(20_000), reader.whenCurrent(20_000)]);
    for (let n = 0; n < 100; n++) {
      const [{ uuid }] = await writer.transact([insert(Cage, { name: `n${n}` })]);
      await reader.caughtUp();
      expect(reader.replica.table(Cage).rows.has(uuid)).toBe(true);
    }
    await writer.transact([remove(Cage, [])]);
    await Promise.all([writer.close(), reader.close()]);
  });

  it("of 20 000 rows are whole", async () => {
    const writer = openSession(server, { tables: [] });
    await writer.whenCurrent(20_000);
    const names = Array.from({ length: 20_000 }, (_, n) => `cage ${n}`);
    for (let at = 0; at < names.length; at += 1_000)
      await writer.transact(
        names.slice(at, at + 1_000).map((name) => insert(Cage, { name, tags: [name], labels: { name } })),
      );
    const session = openSession(server, { tables: [Cage] });
    const byName = session.replica.table(Cage).lookup("name");
    await session.whenCurrent(20_000);
    expect(session.replica.table(Cage).rows.size).toBe(20_000);
    expect(byName.get("cage 12345").values().next().value?.labels).toEqual({ name: "cage 12345" });
    await writer.transact([remove(Cage, [])]);
    await session.caughtUp();
    expect([session.replica.table(Cage).rows.size, [...byName.keys()].length]).toEqual([0, 0]);
    await Promise.all([writer.close(), session.close()]);
  });

  it("follow a conversion of the schema", async () => {
    const [plain, wide] = await Promise.all(["plain", "wide"].map((name) => folder.server(name)));
    await wide?.kill();
    if (plain === undefined) throw new Error("no server");
    const Wide = defineTable("Keeper", { name: column.string, badge: column.optional(column.integer) });
    const session = openSession(plain, { tables: [Wide] });
    await session.whenCurrent(20_000);
    await session.transact([insert(Keeper, { name: "k" })]);
    expect(await rejection(session.transact([update(Wide, [], { badge: 5 })]))).toMatchObject({
      column: "badge",
    });
    const [k] = session.replica.table(Wide).rows.values();
    const { Keeper: keeper, ...others } = ZOO_SCHEMA.tables;
    const columns = { ...keeper.columns, badge: { type: { key: "integer", min: 0, max: 1 } } };
    const file = await schemaFile(folder.at("wide.ovsschema"), {
      ...ZOO_SCHEMA,
      version: "1.1.0",
      tables: { ...others, Keeper: { ...keeper, columns } },
    });
    await folder.tool("ovsdb-client", "convert", plain.endpoint, file);
    await until(
      () => session.state === "current" && session.schema?.version === "1.1.0",
      "the new schema",
      20_000,
    );
    expect([...session.replica.table(Wide).rows.values()]).toEqual([k]);
    await session.transact([update(Wide, [], { badge: 5 })]);
    expect([...session.replica.table(Wide).rows.values()]).toMatchObject([{ name: "k", badge: 5 }]);
    await session.close();
  });

  describe("of the schema", () => {
    it.each([
      ["OVN_Northbound", "nbSchema", "NB_Global", "Logical_Router"],
      ["OVN_Southbound", "sbSchema", "SB_Global", "Chassis"],
      ["Open_vSwitch", "ovsSchema", "Open_vSwitch", "Bridge"],
    ] as const)("%s hold every table and column", async (database, file, global, other) => {
      const schema = JSON.parse(await readFile(folder.programs[file], "utf8")) as {
        tables: Record<string, Json>;
      };
      const names = Object.keys(schema.tables);
      const real = await folder.server(database, { schema: folder.programs[file] });
      const session = openSession(real, { database, tables: names.map((name) => defineTable(name)) });
      await session.whenCurrent(20_000);
      const root = session.replica.table(global);
      expect(session.schema?.tables.size).toBe(names.length);
      await session.transact([insert(defineTable(global), {})]);
      const row = [...root.rows.values()][0];
      expect(Object.keys(row ?? {}).length).toBe((session.schema?.tables.get(global)?.columns.size ?? 0) + 1);
      if (database === "OVN_Northbound") {
        const NAT = defineTable("NAT", {
          type: column.string,
          external_ip: column.string,
          logical_ip: column.string,
          logical_port: column.optional(column.string),
          external_ids: column.map(column.string, column.string),
          options: column.map(column.string, column.string),
        });
        await session.transact([
          insert(defineTable("Logical_Router"), { name: "r", nat: [named("n")] }),
          insert(
            NAT,
            { type: "snat", external_ip: "172.18.0.50", logical_ip: "10.244.1.3", external_ids: { k: "v" } },
            { name: "n" },
          ),
        ]);
        const nbctl = await folder.tool("ovn-nbctl", `--db=${real.endpoint}`, "lr-nat-list", "r");
        expect(nbctl).toMatch(/snat.*172\.18\.0\.50.*10\.244\.1\.3/);
        await folder.tool("ovn-nbctl", `--db=${real.endpoint}`, "lr-nat-del", "r");
        await session.caughtUp();
        expect(session.replica.table("NAT").rows.size).toBe(0);
      }
      expect(session.replica.table(other).rows.size).toBe(database === "OVN_Northbound" ? 1 : 0);
      await expectSame(session, names);
      await session.close();
      await real.kill();
    });
  });

  describe("to requests that are none", () => {
    const cases: readonly [string, string, readonly Json[], string, string][] = [
      ["a method that it does not know", "dance", [], "unknown method", ""],
      ["a database that it does not have", "get_schema", ["Aviary"], "unknown database", "Aviary"],
      ["a transaction of no database", "transact", [], "syntax error", "<db-name>"],
      ["a transaction of another", "transact", ["Aviary"], "unknown database", "Aviary"],
      [
        "a monitor of a table that there is not",
        "monitor_cond",
        ["Zoo", "m", { Aviary: [{}] }],
        "syntax error",
        "Aviary",
      ],
      [
        "a monitor of a column that there is not",
        "monitor_cond",
        ["Zoo", "m", { Cage: [{ columns: ["wings"] }] }],
        "syntax error",
        "wings",
      ],
      ["an unlock of what was not locked", "unlock", ["l"], "syntax error", "unlock"],
      ["the end of a monitor that there is not", "monitor_cancel", ["m"], "unknown monitor", ""],
    ];

    it.each(cases)("a server says so: %s", async (_, method, params, error, details) => {
      const [endpoint] = parseEndpoints(server.endpoint);
      if (endpoint === undefined) throw new Error("no endpoint");
      const options = {
        material: undefined,
        timeoutMs: 20_000,
        clock: systemClock,
        signal: new AbortController().signal,
      };
      const connection = createConnection(await dial(endpoint, options), {
        clock: systemClock,
        probeMs: 20_000,
        limitBytes: 2 ** 20,
        notified: () => {},
        ended: () => {},
      });
      const found = await rejection(connection.request(method, params, 20_000, (result) => result));
      expect(found).toBeInstanceOf(RemoteError);
      expect(found).toMatchObject({ method, error, details: expect.stringContaining(details) });
      const names = await connection.request("list_dbs", [], 20_000, (result) => result);
      expect(new Set(names as readonly Json[])).toEqual(new Set(["Zoo", "_Server"]));
      connection.end(new Error("done"));
    });
  });

  it("can be of _Server itself", async () => {
    const Database = defineTable("Database", ["name", "model", "leader"]);
    const session = connectOvsdb({ endpoints: server.endpoint, database: "_Server", tables: [Database] });
    await session.whenCurrent(20_000);
    expect(
      [...session.replica.table(Database).rows.values()]
        .map((row) => `${row["name"]} ${row["model"]}`)
        .toSorted(compareAtoms),
    ).toEqual(["Zoo standalone", "_Server standalone"]);
    await session.close();
  });
});

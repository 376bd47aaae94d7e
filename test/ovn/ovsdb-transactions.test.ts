// Transactions on a real ovsdb-server: every operation, every condition, every mutator, and every way to fail, as a table.
// What is read back comes from the replica, which has to show it when `transact` resolves.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  abort,
  assertLock,
  type Condition,
  column,
  comment,
  commit,
  compareAtoms,
  defineTable,
  insert,
  type Mutation,
  mutate,
  named,
  type Operation,
  OperationError,
  type Row,
  remove,
  type Session,
  select,
  type Uuid,
  update,
  type Value,
  type WrittenRow,
  wait,
} from "../../lib/ovsdb-client/index.ts";
import {
  type Folder,
  openFolder,
  openSession,
  type RealServer,
  rejection,
} from "../lib/ovsdb-client/real-server.ts";
import { Animal, Cage, idOf, Keeper } from "../lib/ovsdb-client/zoo.ts";
import { noOvn } from "../support/ovn-programs.ts";

const missing = noOvn();

describe.skipIf(missing !== undefined)(`transactions${missing === undefined ? "" : `: ${missing}`}`, () => {
  let folder: Folder;
  let server: RealServer;
  let session: Session;

  beforeAll(async () => {
    folder = await openFolder();
    server = await folder.server("zoo");
    session = openSession(server, { tables: [Cage, Animal, Keeper] });
    await session.whenCurrent(20_000);
  });
  afterAll(async () => {
    await session.close();
    await folder[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    await session.transact([remove(Cage, []), remove(Keeper, [])]);
    expect(session.replica.table(Animal).rows.size).toBe(0);
  });

  const cages = () => [...session.replica.table(Cage).rows.values()];
  const names = () =>
    cages()
      .map(({ name }) => name)
      .sort(compareAtoms);
  const only = () => {
    const [row, ...more] = cages();
    if (row === undefined || more.length > 0) throw new Error(`${cages().length} cages, not one`);
    return row;
  };
  /** The row as the server selects it and as the replica has it: the same. */
  const checked = async (): Promise<Row> => {
    const [{ rows }] = await session.transact([select(Cage, [])]);
    const { _version, ...selected } = rows[0] as Row;
    expect(selected).toEqual(only());
    return selected as Row;
  };

  describe("conditions", () => {
    const rows: readonly WrittenRow[] = [
      { name: "a", size: 1, heat: -1.5, open: false, tags: [], weights: [], labels: {} },
      {
        name: "b",
        size: 5,
        heat: 0,
        open: true,
        note: "x",
        number: 5,
        tags: ["p"],
        weights: [1, 2],
        labels: { k: "v" },
      },
      {
        name: "c",
        size: 9,
        heat: 2.5,
        open: true,
        note: "y",
        number: 9,
        tags: ["p", "q"],
        weights: [2, 3],
        labels: { k: "w", l: "v" },
      },
    ];
    const cases: readonly [Condition, string][] = [
      [["size", "==", 5], "b"],
      [["size", "!=", 5], "ac"],
      [["size", "<", 5], "a"],
      [["size", "<=", 5], "ab"],
      [["size", ">", 5], "c"],
      [["size", ">=", 5], "bc"],
      [["size", "includes", 5], "b"],
      [["size", "excludes", 5], "ac"],
      [["heat", "==", 2.5], "c"],
      [["heat", "!=", 2.5], "ab"],
      [["heat", "<", 0], "a"],
      [["heat", "<=", 0], "ab"],
      [["heat", ">", 0], "c"],
      [["heat", ">=", 0], "bc"],
      [["heat", "includes", 0], "b"],
      [["heat", "excludes", 0], "ac"],
      [["open", "==", true], "bc"],
      [["open", "!=", true], "a"],
      [["open", "includes", false], "a"],
      [["open", "excludes", false], "bc"],
      [["name", "==", "b"], "b"],
      [["name", "!=", "b"], "ac"],
      [["name", "includes", "b"], "b"],
      [["name", "excludes", "b"], "ac"],
      [["note", "==", undefined], "a"],
      [["note", "!=", undefined], "bc"],
      [["note", "==", "x"], "b"],
      [["note", "includes", "x"], "b"],
      [["note", "includes", undefined], "abc"],
      [["note", "excludes", "x"], "ac"],
      [["note", "excludes", undefined], "abc"],
      [["number", "<", 9], "b"],
      [["number", "<=", 9], "bc"],
      [["number", ">", 5], "c"],
      [["number", ">=", 5], "bc"],
      [["tags", "==", []], "a"],
      [["tags", "==", ["q", "p"]], "c"],
      [["tags", "!=", ["p"]], "ac"],
      [["tags", "includes", []], "abc"],
      [["tags", "includes", ["p"]], "bc"],
      [["tags", "includes", ["p", "q"]], "c"],
      [["tags", "excludes", ["q", "z"]], "ab"],
      [["weights", "includes", [2]], "bc"],
      [["weights", "excludes", [3]], "ab"],
      [["labels", "==", { k: "v" }], "b"],
      [["labels", "!=", {}], "bc"],
      [["labels", "includes", { l: "v" }], "c"],
      [["labels", "includes", {}], "abc"],
      [["labels", "excludes", { k: "v" }], "ac"],
      [true, "abc"],
      [false, ""],
    ];

    it.each(cases)("%j is met by %j", async (condition, expected) => {
      await session.transact(rows.map((row): Operation => ({ op: "insert", table: "Cage", row })));
      const [{ rows: found }] = await session.transact([select(Cage, [condition], ["name"])]);
      expect(found.map((row) => String(row["name"])).toSorted(compareAtoms)).toEqual([...expected]);
      // The same rows are those that are deleted.
      expect(await session.transact([remove(Cage, [condition])])).toEqual([{ count: expected.length }]);
      expect(names()).toEqual([..."abc"].filter((name) => !expected.includes(name)));
    });

    it("all have to be met, and a row is known by its uuid", async () => {
      const [one] = await session.transact(
        rows.map((row): Operation => ({ op: "insert", table: "Cage", row })),
      );
      const { uuid } = one as { readonly uuid: Uuid };
      const counted = async (...where: readonly Condition[]) =>
        (await session.transact([select(Cage, where)]))[0].rows.length;
      expect(await counted(["open", "==", true], ["size", "<", 9])).toBe(1);
      expect(await counted(["_uuid", "==", uuid])).toBe(1);
      expect(await counted(["_uuid", "!=", uuid])).toBe(2);
      expect(await counted(["_uuid", "==", idOf(1) as Uuid])).toBe(0);
    });
  });

  describe("values", () => {
    const cases: readonly [string, WrittenRow][] = [
      ["nothing given", {}],
      ["numbers", { size: 100, heat: -2.25, number: -9_007_199_254_740_991 }],
      ["odd text", { name: 'a "b" \\ \t\n / {}[] \u0001 é 日本 🦈', note: "" }],
      ["sets", { tags: ["b", "", "a"], weights: [0, -1, 10, 9] }],
      [
        "maps",
        {
          labels: { b: "2", a: "", "": "x", __proto: "y" },
          counts: { "-5": 1, "10": 2 },
          single: { a: "b" },
        },
      ],
      ["keys that objects have anyway", { labels: { constructor: "c", toString: "t", ["__proto__"]: "p" } }],
      ["a set of one, a map of none", { tags: ["a"], labels: {} }],
      [
        "characters that sort otherwise by bytes",
        { tags: ["\uffee", "🦈"], labels: { "\uffee": "1", "🦈": "2" } },
      ],
    ];

    it.each(cases)("come back as they went: %s", async (_, row) => {
      const [{ uuid }] = await session.transact([insert(defineTable("Cage"), row)]);
      const found = await checked();
      expect(found._uuid).toBe(uuid);
      for (const [name, value] of Object.entries(row)) {
        const [was, is] = [value, found[name]];
        if (Array.isArray(was))
          expect(new Set(is as readonly Value[])).toEqual(new Set(was as readonly Value[]));
        else expect(is).toEqual(was);
      }
    });

    it("are changed in every direction, and the replica follows", async () => {
      await session.transact([insert(Cage, { name: "a" })]);
      for (const [, row] of [...cases, ...cases.toReversed()]) {
        await session.transact([update(defineTable("Cage"), [], row)]);
        await checked();
      }
      const empty = {
        note: undefined,
        number: undefined,
        tags: [],
        weights: [],
        labels: {},
        counts: {},
        single: {},
      };
      await session.transact([update(Cage, [], empty)]);
      expect(await checked()).toMatchObject(empty);
    });

    it("of a map of one pair are replaced as a whole", async () => {
      await session.transact([insert(Cage, { single: { a: "1" } })]);
      await session.transact([update(Cage, [], { single: { b: "1" } })]);
      expect((await checked())["single"]).toEqual({ b: "1" });
      await session.transact([update(Cage, [], { single: { b: "2" } })]);
      expect((await checked())["single"]).toEqual({ b: "2" });
    });
  });

  describe("mutations", () => {
    const cases: readonly [Mutation, WrittenRow, WrittenRow][] = [
      [["size", "+=", 2], { size: 5 }, { size: 7 }],
      [["size", "-=", 2], { size: 5 }, { size: 3 }],
      [["size", "*=", 2], { size: 5 }, { size: 10 }],
      [["size", "/=", 2], { size: 5 }, { size: 2 }],
      [["size", "%=", 3], { size: 5 }, { size: 2 }],
      [["heat", "+=", 0.5], { heat: 1 }, { heat: 1.5 }],
      [["heat", "-=", 0.5], { heat: 1 }, { heat: 0.5 }],
      [["heat", "*=", 0.5], { heat: 1 }, { heat: 0.5 }],
      [["heat", "/=", 4], { heat: 1 }, { heat: 0.25 }],
      [["weights", "+=", 1], { weights: [1, 2] }, { weights: [2, 3] }],
      [["weights", "*=", -1], { weights: [1, 2] }, { weights: [-2, -1] }],
      [["number", "+=", 1], { number: 5 }, { number: 6 }],
      [["number", "+=", 1], {}, { number: undefined }],
      [["weights", "insert", [2, 3]], { weights: [1, 2] }, { weights: [1, 2, 3] }],
      [["weights", "insert", 3], { weights: [1] }, { weights: [1, 3] }],
      [["weights", "delete", [2, 9]], { weights: [1, 2] }, { weights: [1] }],
      [["tags", "insert", []], { tags: ["a"] }, { tags: ["a"] }],
      [["note", "insert", "x"], {}, { note: "x" }],
      [["note", "delete", "x"], { note: "x" }, { note: undefined }],
      // A key that is there keeps its value.
      [["labels", "insert", { a: "9", b: "2" }], { labels: { a: "1" } }, { labels: { a: "1", b: "2" } }],
      [["labels", "delete", ["a", "z"]], { labels: { a: "1", b: "2" } }, { labels: { b: "2" } }],
      [["labels", "delete", { a: "1", b: "9" }], { labels: { a: "1", b: "2" } }, { labels: { b: "2" } }],
      [["counts", "delete", [5]], { counts: { "5": 1, "6": 2 } }, { counts: { "6": 2 } }],
    ];

    it.each(cases)("%j of %j is %j", async (mutation, before, after) => {
      const table = defineTable("Cage");
      await session.transact([insert(table, before)]);
      expect(await session.transact([mutate(table, [], [mutation])])).toEqual([{ count: 1 }]);
      expect(await checked()).toMatchObject(after);
    });

    it("are done one after the other", async () => {
      const table = defineTable("Cage");
      await session.transact([insert(table, { size: 1 })]);
      await session.transact([
        mutate(
          table,
          [],
          [
            ["size", "+=", 2],
            ["size", "*=", 10],
            ["tags", "insert", "a"],
            ["tags", "delete", "a"],
          ],
        ),
      ]);
      expect(await checked()).toMatchObject({ size: 30, tags: [] });
    });
  });

  describe("references", () => {
    it("to rows that the same transaction makes, in sets, options and maps, in any order", async () => {
      const [cage, cat] = await session.transact([
        insert(Cage, {
          animals: [named("cat"), named("dog")],
          favourite: named("dog"),
          byName: { c: named("cat") },
        }),
        insert(Animal, { name: "cat" }, { name: "cat" }),
        insert(Animal, { name: "dog" }, { name: "dog" }),
      ]);
      const row = await checked();
      expect(row._uuid).toBe(cage.uuid);
      expect(row["animals"]).toHaveLength(2);
      expect(row["byName"]).toEqual({ c: cat.uuid });
      const dog = session.replica.table(Animal).rows.get(row["favourite"] as Uuid);
      expect(dog?.name).toBe("dog");
    });

    it("keep rows of a table that is no root, and nothing else does", async () => {
      const [{ uuid }] = await session.transact([insert(Animal, { name: "stray" })]);
      expect(session.replica.table(Animal).rows.has(uuid)).toBe(false);
      await session.transact([insert(Cage, { animals: [named("a")] }), insert(Animal, {}, { name: "a" })]);
      expect(session.replica.table(Animal).rows.size).toBe(1);
      await session.transact([update(Cage, [], { animals: [] })]);
      expect(session.replica.table(Animal).rows.size).toBe(0);
    });

    it("that are weak are emptied when the row goes, and keep none", async () => {
      await session.transact([
        insert(Cage, { name: "strong", animals: [named("a")] }),
        insert(Cage, { name: "weak", favourite: named("a") }),
        insert(Animal, {}, { name: "a" }),
      ]);
      const weak = () => cages().find(({ name }) => name === "weak");
      expect(weak()?.favourite).toBe([...session.replica.table(Animal).rows.keys()][0]);
      await session.transact([update(Cage, [["name", "==", "strong"]], { animals: [] })]);
      expect([weak()?.favourite, session.replica.table(Animal).rows.size]).toEqual([undefined, 0]);
    });
  });

  it("wait, commit, comment and assert answer with nothing, in their place", async () => {
    await session.lock("zoo");
    const results = await session.transact([
      insert(Cage, { name: "a", size: 5 }),
      wait(Cage, [["name", "==", "a"]], "==", [{ size: 5 }]),
      wait(Cage, [["name", "==", "b"]], "==", [], { columns: ["name"] }),
      wait(Cage, [], "!=", [{ size: 6 }]),
      comment("why it was done"),
      assertLock("zoo"),
      commit(true),
      select(Cage, [], ["size"]),
    ]);
    expect(results.slice(1)).toEqual([{}, {}, {}, {}, {}, {}, { rows: [{ size: 5 }] }]);
    await session.unlock("zoo");
  });

  it("wait for what another client does", async () => {
    const other = openSession(server, { tables: [Cage] });
    await other.whenCurrent(20_000);
    const waited = session.transact([
      wait(Cage, [["name", "==", "late"]], "==", [{ name: "late" }], { timeout: 60_000 }),
      insert(Keeper, { name: "came after" }),
    ]);
    await other.transact([insert(Cage, { name: "late" })]);
    expect(await waited).toMatchObject([{}, { uuid: expect.any(String) }]);
    expect(names()).toEqual(["late"]);
    await other.close();
  });

  it("with a uuid that we drew happen once, however often they are tried", async () => {
    const uuid = idOf(4711) as Uuid;
    const attempt = () => session.transact([insert(Cage, { name: "once" }, { uuid })]);
    expect(await attempt()).toEqual([{ uuid }]);
    expect(await rejection(attempt())).toMatchObject({ error: "duplicate uuid", index: 0 });
    expect(only()._uuid).toBe(uuid);
  });

  describe("that fail leave nothing behind, and say what, where and why", () => {
    const cage = (row: WrittenRow): Operation => ({ op: "insert", table: "Cage", row });
    const change = (row: WrittenRow): Operation => ({ op: "update", table: "Cage", where: [], row });
    const alter = (...mutations: readonly Mutation[]): Operation => ({
      op: "mutate",
      table: "Cage",
      where: [],
      mutations,
    });
    const failing: readonly [string, readonly Operation[], string, number, string][] = [
      ["abort", [cage({ name: "b" }), abort(), comment("x")], "aborted", 1, ""],
      ["assert of a lock that we do not hold", [assertLock("nobodys")], "not owner", 0, ""],
      ["wait for what is not", [wait(Cage, [], "==", [{ size: 99 }])], "timed out", 0, "test failed"],
      ["wait for other than what is", [wait(Cage, [], "!=", [{ size: 5 }])], "timed out", 0, "test failed"],
      ["below the range", [change({ size: -1 })], "constraint violation", 0, "-1"],
      ["above the range", [cage({ size: 101 })], "constraint violation", 0, "101"],
      ["out of the range by arithmetic", [alter(["size", "*=", 50])], "constraint violation", 0, "250"],
      [
        "a value that is not of the enum",
        [change({ climate: "arctic" })],
        "constraint violation",
        0,
        "arctic",
      ],
      ["a column that never changes", [change({ built: 1 })], "constraint violation", 0, "built"],
      [
        "a column that never changes, by arithmetic",
        [alter(["built", "+=", 1])],
        "constraint violation",
        0,
        "built",
      ],
      ["division by zero", [alter(["size", "/=", 0])], "domain error", 0, "zero"],
      ["remainder of zero", [alter(["size", "%=", 0])], "domain error", 0, "zero"],
      [
        "beyond 64 bits",
        [alter(["number", "+=", 2 ** 53 - 1], ["number", "*=", 2 ** 53 - 1])],
        "range error",
        0,
        "",
      ],
      ["members that become equal", [alter(["weights", "*=", 0])], "constraint violation", 0, ""],
      ["two of an index", [cage({ name: "a" })], "constraint violation", 1, "index"],
      ["too many rows", [1, 2, 3].map(() => insert(Keeper, {})), "constraint violation", 3, "Keeper"],
      [
        "a reference to nothing",
        [change({ animals: [idOf(1) as Uuid] })],
        "referential integrity violation",
        1,
        "",
      ],
      ["the end of what is referred to", [remove(Animal, [])], "referential integrity violation", 1, ""],
      [
        "the same name for two rows",
        [insert(Animal, {}, { name: "x" }), insert(Animal, {}, { name: "x" })],
        "duplicate uuid-name",
        1,
        "x",
      ],
    ];

    it.each(failing)("%s", async (_, operations, error, index, details) => {
      const row = { name: "a", size: 5, number: 1, weights: [1, 2], animals: [named("cat")] };
      await session.transact([insert(Cage, row), insert(Animal, { name: "cat" }, { name: "cat" })]);
      const before = [only(), ...session.replica.table(Animal).rows.values()];
      const found = await rejection(session.transact(operations));
      expect(found).toBeInstanceOf(OperationError);
      expect(found).toMatchObject({ error, index, operation: operations[index] });
      expect((found as OperationError).details).toContain(details);
      await session.caughtUp();
      const after = [only(), ...session.replica.table(Animal).rows.values()];
      expect(after.every((one, at) => one === before[at])).toBe(true);
      expect(session.state).toBe("current");
    });

    it("values may change places within an index", async () => {
      await session.transact([insert(Cage, { name: "a", size: 1 }), insert(Cage, { name: "b", size: 2 })]);
      await session.transact([
        update(Cage, [["size", "==", 1]], { name: "b" }),
        update(Cage, [["size", "==", 2]], { name: "a" }),
      ]);
      expect(
        cages()
          .map(({ name, size }) => `${name}${size}`)
          .toSorted(compareAtoms),
      ).toEqual(["a2", "b1"]);
    });
  });

  it("writes no column that the server's schema lacks, whatever was defined", async () => {
    const Wide = defineTable("Cage", { name: column.string, wings: column.integer });
    const wide = openSession(server, { tables: [Wide] });
    await wide.whenCurrent(20_000);
    await session.transact([insert(Cage, { name: "a" })]);
    await wide.caughtUp();
    expect([...wide.replica.table(Wide).rows.values()]).toMatchObject([{ name: "a", wings: 0 }]);
    expect(await rejection(wide.transact([update(Wide, [], { wings: 2 })]))).toMatchObject({
      name: "UnknownColumnError",
      column: "wings",
    });
    await wide.close();
  });

  it("does what one client does to a row once where two say so at the same time", async () => {
    const other = openSession(server, { tables: [Cage] });
    await other.whenCurrent(20_000);
    // The guard: nobody has made it since we looked.
    const once = (by: Session) =>
      by.transact([
        wait(Cage, [["name", "==", "one"]], "==", [], { columns: ["name"] }),
        insert(Cage, { name: "one" }),
      ]);
    for (let round = 0; round < 50; round++) {
      const outcomes = await Promise.allSettled([once(session), once(other)]);
      expect(outcomes.map(({ status }) => status).toSorted(compareAtoms)).toEqual(["fulfilled", "rejected"]);
      expect(names()).toEqual(["one"]);
      await session.transact([remove(Cage, [])]);
      await other.caughtUp();
    }
    await other.close();
  });
});

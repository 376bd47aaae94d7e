// The session against a server that does what the test says: how it becomes current, what it does when things go wrong, and
// what it never does. Time stands still unless a test moves it.
import { describe, expect, it } from "vitest";
import {
  type Changes,
  ClosedError,
  ClusterMismatchError,
  column,
  comment,
  compareAtoms,
  connectOvsdb,
  defineTable,
  insert,
  type Json,
  NotCurrentError,
  OperationError,
  OutcomeUnknownError,
  OversizedError,
  ParseError,
  RemoteError,
  SchemaMismatchError,
  type Session,
  type SessionOptions,
  type SessionState,
  SettingError,
  UnknownColumnError,
  UnresponsiveError,
  UnsuitableServerError,
} from "../../../lib/ovsdb-client/index.ts";
import { until } from "../../support/until.ts";
import { type ManualClock, manualClock } from "./manual-clock.ts";
import {
  Refusal,
  type ScriptedServer,
  scriptedServer,
  unknownMethod,
  WITHHELD,
  ZERO,
} from "./scripted-server.ts";
import { Animal, Cage, idOf, ZOO_SCHEMA } from "./zoo.ts";

interface Following {
  readonly session: Session;
  readonly clock: ManualClock;
  readonly states: SessionState[];
  readonly changes: Changes[];
  readonly locks: string[];
  readonly names: () => readonly string[];
}

function follow(servers: readonly ScriptedServer[], options: Partial<SessionOptions> = {}): Following {
  const clock = manualClock();
  const session = connectOvsdb({
    endpoints: servers.map(({ endpoint }) => endpoint).join(","),
    database: "Zoo",
    tables: [Animal],
    probeMs: 1_000,
    timeoutMs: 5_000,
    syncTimeoutMs: 20_000,
    // Without pauses, but where a test is about them.
    backoff: { first: 0, most: 0 },
    clock,
    random: () => 0,
    ...options,
  });
  const following: Following = {
    session,
    clock,
    states: [session.state],
    changes: [],
    locks: [],
    names: () => [...session.replica.table(Animal).rows.values()].map(({ name }) => name).sort(compareAtoms),
  };
  session.onState((state) => following.states.push(state));
  session.onChange((changes) => following.changes.push(changes));
  session.onLock((name, state) => following.locks.push(`${name} ${state}`));
  return following;
}

const state = (session: Session, wanted: SessionState) =>
  until(() => session.state === wanted, `state ${wanted}`);
const animal = (name: string, kind = "insert"): Json => ({ [kind]: { name } });
const zoo = (rows: Readonly<Record<number, Json>>): Json => ({
  Animal: Object.fromEntries(Object.entries(rows).map(([n, row]) => [idOf(Number(n)), row])),
});
const failureOf = async (promise: Promise<unknown>): Promise<unknown> =>
  await promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("becoming current", () => {
  it("asks for database, schema, locks and contents, in that order", async () => {
    await using server = await scriptedServer({
      monitor_cond_since: () => [false, ZERO, zoo({ 1: animal("cat", "initial") })],
    });
    const { session, states, changes, names } = follow([server], { locks: ["l"], tables: [Animal, Cage] });
    expect([session.state, session.replica.current, session.schema, session.endpoint]).toEqual([
      "connecting",
      false,
      undefined,
      undefined,
    ]);
    await session.whenCurrent();
    expect(server.heard.map(({ method }) => method)).toEqual([
      "list_dbs",
      "get_schema",
      "lock",
      "monitor_cond_since",
    ]);
    expect(server.asked("monitor_cond_since")[0]?.params).toEqual([
      "Zoo",
      "replica",
      { Animal: [{ columns: ["name", "legs"] }], Cage: [{ columns: Cage.columns }] },
      ZERO,
    ]);
    expect(states).toEqual(["connecting", "syncing", "current"]);
    expect([session.replica.current, session.failure, session.endpoint]).toEqual([
      true,
      undefined,
      server.endpoint,
    ]);
    expect(session.schema?.version).toBe("1.0.0");
    expect([names(), changes.length]).toEqual([["cat"], 1]);
    await session.close();
  });

  it("leaves out of what it reads the tables and columns that the schema lacks", async () => {
    await using server = await scriptedServer();
    const Winged = defineTable(
      "Animal",
      { name: column.string, wings: column.integer },
      { where: [["legs", ">", 1]] },
    );
    const { session } = follow([server], { tables: [Winged, defineTable("Aviary", ["name"])] });
    await session.whenCurrent();
    expect(server.asked("monitor_cond_since")[0]?.params[2]).toEqual({
      Animal: [{ columns: ["name"], where: [["legs", ">", 1]] }],
    });
    await session.close();
  });

  it.each([
    ["monitor_cond", 2, "initial", "update2", { insert: { name: "dog" } }],
    ["monitor", 1, "new", "update", { new: { name: "dog", legs: 4 } }],
  ] as const)(
    "by %s, where the server knows nothing newer",
    async (method, form, initial, notification, row) => {
      const known: Json = zoo({ 1: { [initial]: { name: "cat", legs: 4 } } });
      await using server = await scriptedServer({
        monitor_cond_since: unknownMethod,
        ...(form === 1
          ? { monitor_cond: unknownMethod, monitor: () => known }
          : { monitor_cond: () => known }),
      });
      const { session, names } = follow([server]);
      await session.whenCurrent();
      expect(server.heard.at(-1)).toMatchObject({ method, params: ["Zoo", "replica", expect.anything()] });
      server.peers[0]?.notify(notification, "replica", zoo({ 2: row }));
      await until(() => names().length === 2, "the update");
      expect(names()).toEqual(["cat", "dog"]);
      await session.close();
    },
  );

  it("is not asked for in an older way where the newer one is refused for another reason", async () => {
    await using server = await scriptedServer({
      monitor_cond_since: () => new Refusal({ error: "permission error", details: "not you" }),
    });
    const { session } = follow([server]);
    await until(() => session.failure, "a failure");
    expect(session.failure).toMatchObject({ name: "RemoteError", error: "permission error" });
    expect([server.asked("monitor_cond"), server.asked("monitor")]).toEqual([[], []]);
    await session.close();
  });

  it("is refused where rows are to be left out and the server cannot", async () => {
    await using server = await scriptedServer({
      monitor_cond_since: unknownMethod,
      monitor_cond: unknownMethod,
      monitor: () => ({}),
    });
    const { session } = follow([server], {
      tables: [defineTable("Animal", ["name"], { where: [["legs", "==", 4]] })],
    });
    await until(() => session.failure, "a failure");
    expect(session.failure).toBeInstanceOf(UnsuitableServerError);
    expect(server.asked("monitor")).toEqual([]);
    await session.close();
  });

  it("sees what follows the contents in the same piece of the stream", async () => {
    await using server = await scriptedServer({
      monitor_cond_since: (_params, peer, id) => {
        const reply = JSON.stringify({
          id,
          error: null,
          result: [false, ZERO, zoo({ 1: animal("cat", "initial") })],
        });
        const update = (rows: Json) =>
          JSON.stringify({ id: null, method: "update3", params: ["replica", ZERO, rows] });
        peer.write(
          reply + update(zoo({ 1: { modify: { name: "lion" } } })) + update(zoo({ 2: animal("owl") })),
        );
        return WITHHELD;
      },
    });
    const { session, names, changes } = follow([server]);
    await session.whenCurrent();
    await until(() => changes.length === 3, "both updates");
    expect(names()).toEqual(["lion", "owl"]);
    await session.close();
  });

  it.each<[string, Parameters<typeof scriptedServer>[0], abstract new (...all: never) => Error]>([
    ["without the database", { list_dbs: () => ["Aviary"] }, UnsuitableServerError],
    [
      "that refuses the schema",
      { get_schema: () => new Refusal({ error: "no", details: "x" }) },
      RemoteError,
    ],
    ["whose schema is none", { get_schema: () => 5 }, ParseError],
    [
      "with another type",
      { get_schema: () => ({ name: "Zoo", tables: { Animal: { columns: { name: { type: "integer" } } } } }) },
      SchemaMismatchError,
    ],
    [
      "whose contents make no sense",
      { monitor_cond_since: () => [false, ZERO, zoo({ 1: { modify: {} } })] },
      ParseError,
    ],
    ["whose contents are none", { monitor_cond_since: () => ({}) }, ParseError],
  ])("goes on to the next server after one %s", async (_, answers, kind) => {
    await using bad = await scriptedServer(answers);
    await using good = await scriptedServer();
    const { session } = follow([bad, good]);
    const failures: unknown[] = [];
    session.onState((_state, failure) => failures.push(failure));
    await session.whenCurrent();
    expect(failures.find((failure) => failure instanceof kind)).toBeDefined();
    expect([session.endpoint, session.failure]).toEqual([good.endpoint, undefined]);
    await session.close();
  });

  it("waits longer each time when no server can be had, and not at all for the first round", async () => {
    const { session, clock, states } = follow(
      [{ endpoint: "unix:/nowhere/a" }, { endpoint: "unix:/nowhere/b" }] as never,
      { backoff: { first: 100, most: 800 } },
    );
    const failures: string[] = [];
    session.onState((_state, failure) => failures.push(failure?.message.slice(0, 15) ?? ""));
    await until(() => failures.length === 2 && clock.waiting === 1, "a round");
    expect(failures).toEqual(["unix:/nowhere/a", "unix:/nowhere/b"]);
    clock.advance(49);
    expect(clock.waiting).toBe(1);
    clock.advance(1);
    await until(() => failures.length === 3 && clock.waiting === 1, "the next round's first");
    clock.advance(50);
    await until(() => failures.length === 4 && clock.waiting === 1, "the next round's second");
    clock.advance(99);
    expect(clock.waiting).toBe(1);
    expect(new Set(states)).toEqual(new Set(["connecting"]));
    await session.close();
    expect(clock.waiting).toBe(0);
  });
});

describe("a connection that is lost", () => {
  it("leaves the contents as they were, and what is read next is told as differences", async () => {
    let rows = zoo({ 1: animal("cat", "initial"), 2: animal("dog", "initial"), 3: animal("owl", "initial") });
    await using server = await scriptedServer({ monitor_cond_since: () => [false, ZERO, rows] });
    const { session, states, changes, names } = follow([server]);
    await session.whenCurrent();
    const table = session.replica.table(Animal);
    const cat = table.rows.get(idOf(1) as never);
    rows = zoo({ 1: animal("cat", "initial"), 2: animal("wolf", "initial"), 4: animal("fox", "initial") });
    server.answers["list_dbs"] = () => WITHHELD;
    server.peers[0]?.destroy();
    await until(() => server.asked("list_dbs").length === 2, "another connection");
    expect(states).toEqual(["connecting", "syncing", "current", "stale", "syncing"]);
    expect([session.replica.current, names()]).toEqual([false, ["cat", "dog", "owl"]]);
    expect(await failureOf(session.transact([comment("x")]))).toBeInstanceOf(NotCurrentError);
    expect(changes).toHaveLength(1);
    server.answers["list_dbs"] = () => ["Zoo"];
    server.peers.at(-1)?.destroy();
    await state(session, "current");
    expect(names()).toEqual(["cat", "fox", "wolf"]);
    expect(table.rows.get(idOf(1) as never)).toBe(cat);
    expect(
      changes[1]?.of(Animal).map(({ before, after }) => `${before?.name ?? "-"} ${after?.name ?? "-"}`),
    ).toEqual(["owl -", "dog wolf", "- fox"]);
    expect(states.filter((one) => one === "current")).toHaveLength(2);
    expect(states).not.toContain("closed");
    await session.close();
  });

  it("goes on from the last transaction seen, if the server knows it", async () => {
    const last = [idOf(100), idOf(101), idOf(102)];
    await using server = await scriptedServer({
      monitor_cond_since: ([, , , since]) =>
        since === ZERO
          ? [false, last[0] as string, zoo({ 1: animal("cat", "initial"), 2: animal("dog", "initial") })]
          : [true, last[2] as string, zoo({ 1: { delete: null }, 3: animal("fox") })],
    });
    const { session, changes, names } = follow([server]);
    await session.whenCurrent();
    server.peers[0]?.notify(
      "update3",
      "replica",
      last[1] as string,
      zoo({ 2: { modify: { name: "wolf" } } }),
    );
    await until(() => names().includes("wolf"), "the update");
    server.peers[0]?.destroy();
    await until(() => names().includes("fox"), "the delta");
    expect(server.asked("monitor_cond_since").map(({ params }) => params[3])).toEqual([ZERO, last[1]]);
    expect(names()).toEqual(["fox", "wolf"]);
    expect(changes.at(-1)?.of(Animal)).toHaveLength(2);
    expect(session.state).toBe("current");
    server.answers["monitor_cond_since"] = ([, , , since]) =>
      since === last[2]
        ? [false, last[0] as string, zoo({ 9: animal("bat", "initial") })]
        : new Refusal("wrong id");
    server.peers.at(-1)?.destroy();
    await until(() => names().includes("bat"), "everything anew");
    expect(names()).toEqual(["bat"]);
    await session.close();
  });

  it("asks for everything anew when the schema is another, or an update made no sense", async () => {
    let version = "1.0.0";
    await using server = await scriptedServer({
      get_schema: () => ({ ...ZOO_SCHEMA, version }),
      monitor_cond_since: () => [false, idOf(100), zoo({ 1: animal("cat", "initial") })],
    });
    const { session, states, names } = follow([server]);
    await session.whenCurrent();
    version = "2.0.0";
    server.peers[0]?.destroy();
    await until(() => server.peers.length === 2 && session.state === "current", "the second connection");
    server.peers[1]?.notify("update3", "replica", idOf(101), zoo({ 7: { modify: { name: "x" } } }));
    await until(() => server.peers.length === 3 && session.state === "current", "the third connection");
    expect(server.asked("monitor_cond_since").map(({ params }) => params[3])).toEqual([ZERO, ZERO, ZERO]);
    expect(names()).toEqual(["cat"]);
    expect(states).toContain("stale");
    await session.close();
  });

  it.each<[string, string | Uint8Array, abstract new (...all: never) => Error]>([
    ["what is no JSON", "{nonsense}", ParseError],
    ["what is no object", "[]", ParseError],
    ["what is neither request nor reply", '{"id":1}', ParseError],
    ["a reply to nothing", '{"id":99,"result":1,"error":null}', ParseError],
    [
      "an update of a monitor that is not ours",
      '{"id":null,"method":"update2","params":["x",{}]}',
      ParseError,
    ],
    ["more than the limit", `{"id":null,"method":"${"x".repeat(70_000)}"}`, OversizedError],
    ["half of more than the limit", `{"id":null,"method":"${"x".repeat(70_000)}`, OversizedError],
    ["a byte that is not UTF-8", Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d), ParseError],
  ])("is given up, loudly, for %s", async (_, text, kind) => {
    await using server = await scriptedServer();
    const { session } = follow([server], { limitBytes: 65_536 });
    const failures: unknown[] = [];
    session.onState((_state, failure) => failures.push(failure));
    await session.whenCurrent();
    server.peers[0]?.write(text);
    await until(() => server.peers.length === 2, "another connection");
    expect(failures.find((failure) => failure instanceof kind)).toBeDefined();
    await state(session, "current");
    await session.close();
  });

  it("is made anew when the server ends the monitor", async () => {
    await using server = await scriptedServer();
    const { session, states } = follow([server]);
    await session.whenCurrent();
    server.peers[0]?.notify("monitor_canceled", "replica");
    await until(() => server.peers.length === 2 && session.state === "current", "another connection");
    expect(states).toContain("stale");
    await session.close();
  });

  it("is made anew, to the same server and with everything read again, where the caller wants it", async () => {
    await using server = await scriptedServer({
      monitor_cond_since: () => [false, idOf(100), zoo({ 1: animal("cat", "initial") })],
    });
    await using other = await scriptedServer();
    const { session, changes } = follow([server, other]);
    await session.whenCurrent();
    const reason = new RangeError("this cannot be");
    const failures: unknown[] = [];
    session.onState((_state, failure) => failures.push(failure));
    session.reconnect(reason);
    expect([session.state, session.failure]).toEqual(["stale", reason]);
    await session.whenCurrent();
    expect(server.asked("monitor_cond_since").map(({ params }) => params[3])).toEqual([ZERO, ZERO]);
    expect([failures.at(-1), other.peers.length, changes.length]).toEqual([undefined, 0, 1]);
    await session.close();
  });

  it("takes no notice of notifications that it does not know", async () => {
    await using server = await scriptedServer();
    const { session, names } = follow([server]);
    await session.whenCurrent();
    server.peers[0]?.notify("weather", "sunny");
    server.peers[0]?.notify("update2", "replica", zoo({ 1: animal("cat") }));
    await until(() => names().length === 1, "the update");
    expect(server.peers).toHaveLength(1);
    await session.close();
  });
});

describe("echo", () => {
  it.each<Json>(["echo", 7, { a: ["b"] }, [1]])("is answered, whatever the id is: %j", async (id) => {
    await using server = await scriptedServer();
    const { session } = follow([server]);
    await session.whenCurrent();
    server.peers[0]?.write(JSON.stringify({ id, method: "echo", params: ["hello", { x: 1 }] }));
    server.peers[0]?.write(JSON.stringify({ id: "z", method: "dance", params: [] }));
    await until(() => server.heard.filter(({ method }) => method === "").length === 2, "the answers");
    expect(server.heard.find(({ method }) => method === "")).toMatchObject({
      id,
      result: ["hello", { x: 1 }],
    });
    await session.close();
  });

  it("is asked after silence, and its answer is a sign of life", async () => {
    await using server = await scriptedServer();
    const { session, clock } = follow([server]);
    await session.whenCurrent();
    for (let round = 1; round <= 3; round++) {
      clock.advance(1_000);
      await until(() => server.asked("echo").length === round, "an echo request");
      // Its answer has been read when another request's has.
      await session.caughtUp();
    }
    expect([server.peers.length, session.state]).toEqual([1, "current"]);
    await session.close();
  });

  it("without answer is the end of the connection: half-open", async () => {
    await using server = await scriptedServer({
      monitor_cond_since: () => [false, ZERO, zoo({ 1: animal("cat", "initial") })],
    });
    const { session, clock, states, names } = follow([server]);
    const failures: unknown[] = [];
    session.onState((_state, failure) => failures.push(failure));
    await session.whenCurrent();
    server.answers["echo"] = () => WITHHELD;
    server.answers["list_dbs"] = () => WITHHELD;
    clock.advance(999);
    expect(server.asked("echo")).toEqual([]);
    clock.advance(1);
    await until(() => server.asked("echo").length === 1, "an echo request");
    clock.advance(999);
    expect(session.state).toBe("current");
    clock.advance(1);
    expect(session.state).toBe("stale");
    expect(failures.at(-1)).toBeInstanceOf(UnresponsiveError);
    expect([session.replica.current, names()]).toEqual([false, ["cat"]]);
    await until(() => server.peers.length === 2, "another connection");
    expect(states.at(-1)).toBe("syncing");
    await session.close();
  });

  it("is not asked of one that talks", async () => {
    await using server = await scriptedServer();
    const { session, clock, names } = follow([server]);
    await session.whenCurrent();
    for (let n = 1; n <= 5; n++) {
      clock.advance(700);
      server.peers[0]?.notify("update2", "replica", zoo({ [n]: animal(`cat${n}`) }));
      await until(() => names().length === n, "the update");
    }
    expect(server.asked("echo")).toEqual([]);
    await session.close();
  });

  it("ends a connection whose server stops in the middle of getting current", async () => {
    await using server = await scriptedServer({ monitor_cond_since: () => WITHHELD, echo: () => WITHHELD });
    const { session, clock } = follow([server]);
    await until(() => server.asked("monitor_cond_since").length === 1, "the request");
    clock.advance(1_000);
    clock.advance(1_000);
    expect([session.state, session.failure]).toEqual(["connecting", expect.any(UnresponsiveError)]);
    await session.close();
  });

  it("does not keep one alive that answers echo and nothing else", async () => {
    await using server = await scriptedServer({ monitor_cond_since: () => WITHHELD });
    const { session, clock } = follow([server]);
    await until(() => server.asked("monitor_cond_since").length === 1, "the request");
    for (let round = 1; round < 20; round++) {
      clock.advance(1_000);
      await until(() => server.asked("echo", 0).length === round, "an echo request");
      server.peers[0]?.write(JSON.stringify({ id: `ask${round}`, method: "echo", params: [] }));
      await until(() => server.heard.at(-1)?.id === `ask${round}`, "our answer, and with it theirs");
    }
    expect(session.state).toBe("syncing");
    clock.advance(1_000);
    await until(() => server.peers.length === 2, "another connection");
    await session.close();
  });
});

describe("transactions", () => {
  it("are answered in their order, by type", async () => {
    await using server = await scriptedServer({ transact: () => [{ uuid: ["uuid", idOf(5)] }, {}] });
    const { session } = follow([server]);
    await session.whenCurrent();
    const [inserted, said] = await session.transact([insert(Animal, { name: "cat" }), comment("why")]);
    const uuid: string = inserted.uuid;
    expect([uuid, said]).toEqual([idOf(5), {}]);
    expect(server.asked("transact")[0]?.params).toEqual([
      "Zoo",
      { op: "insert", table: "Animal", row: { name: "cat" } },
      { op: "comment", comment: "why" },
    ]);
    await session.close();
  });

  it("are shown by the replica when they resolve, since updates come before the reply", async () => {
    await using server = await scriptedServer({
      transact: (_params, peer) => {
        peer.notify("update3", "replica", idOf(100), zoo({ 5: animal("cat") }));
        return [{ uuid: ["uuid", idOf(5)] }];
      },
    });
    const { session, names } = follow([server]);
    await session.whenCurrent();
    await session.transact([insert(Animal, { name: "cat" })]);
    expect(names()).toEqual(["cat"]);
    await session.close();
  });

  it("are caught up with after the reply to the next request, if a server sends updates late", async () => {
    const late: (() => void)[] = [];
    await using server = await scriptedServer({
      transact: (params, peer) => {
        if (params.length === 1) for (const send of late.splice(0)) send();
        else late.push(() => peer.notify("update3", "replica", idOf(100), zoo({ 5: animal("cat") })));
        return params.slice(1).map(() => ({ uuid: ["uuid", idOf(5)] }));
      },
    });
    const { session, names } = follow([server]);
    await session.whenCurrent();
    await session.transact([insert(Animal, { name: "cat" })]);
    expect(names()).toEqual([]);
    await session.caughtUp();
    expect(names()).toEqual(["cat"]);
    await session.close();
  });

  it("are not sent with a column or a value that cannot be", async () => {
    await using server = await scriptedServer();
    const { session } = follow([server]);
    await session.whenCurrent();
    const wings = { op: "insert", table: "Animal", row: { name: "owl", wings: 2 } } as const;
    expect(await failureOf(session.transact([comment("x"), wings]))).toEqual(
      new UnknownColumnError("Animal", "wings"),
    );
    await session.caughtUp();
    expect(server.asked("transact").map(({ params }) => params)).toEqual([["Zoo"]]);
    await session.close();
  });

  it("that fail say where; the connection stays", async () => {
    await using server = await scriptedServer({
      transact: ([, first]) =>
        (first as { readonly comment: string }).comment === "whole"
          ? new Refusal({ error: "unknown database", details: "no Zoo" })
          : [{}, { error: "aborted", details: "" }],
    });
    const { session } = follow([server]);
    await session.whenCurrent();
    const whole = await failureOf(session.transact([comment("whole")]));
    expect(whole).toBeInstanceOf(RemoteError);
    expect(whole).toMatchObject({ method: "transact", error: "unknown database", details: "no Zoo" });
    const one = await failureOf(session.transact([comment("a"), comment("b")]));
    expect(one).toBeInstanceOf(OperationError);
    expect(one).toMatchObject({ index: 1, error: "aborted", operation: comment("b") });
    expect([session.state, server.peers.length]).toEqual(["current", 1]);
    await session.close();
  });

  it("without reply in time have an unknown outcome, and everything is read again before another is sent", async () => {
    await using server = await scriptedServer({ transact: () => WITHHELD });
    const { session, clock } = follow([server], { probeMs: 60_000 });
    await session.whenCurrent();
    const first = failureOf(session.transact([comment("first")]));
    const beside = failureOf(session.transact([comment("beside")], { timeoutMs: 50_000 }));
    await until(() => server.asked("transact").length === 2, "both");
    clock.advance(5_000);
    // At once, before anything else has run.
    expect(session.state).toBe("stale");
    const between = await failureOf(session.transact([comment("between")]));
    expect(await first).toBeInstanceOf(OutcomeUnknownError);
    expect((await first) as Error).toMatchObject({ cause: expect.any(UnresponsiveError) });
    expect(await beside).toBeInstanceOf(OutcomeUnknownError);
    expect(between).toBeInstanceOf(NotCurrentError);
    server.answers["transact"] = () => [{}];
    await until(() => server.asked("monitor_cond_since", 1).length === 1, "the contents read again");
    await session.whenCurrent();
    await session.transact([comment("after")]);
    const comments = server.asked("transact").map(({ params }) => (params[1] as { comment: string }).comment);
    expect(comments).toEqual(["first", "beside", "after"]);
    await session.close();
  });

  it("on a connection that is lost have an unknown outcome, and are never sent again", async () => {
    await using server = await scriptedServer({
      transact: (params, peer) => {
        if (params.length > 1) peer.destroy();
        return [];
      },
    });
    const { session } = follow([server]);
    await session.whenCurrent();
    const outcome = await failureOf(session.transact([comment("once")]));
    expect(outcome).toBeInstanceOf(OutcomeUnknownError);
    await until(() => server.peers.length === 2 && session.state === "current", "the next connection");
    await session.caughtUp();
    expect(server.asked("transact").filter(({ params }) => params.length > 1)).toHaveLength(1);
    await session.close();
  });

  it("are not sent before the session is current", async () => {
    await using server = await scriptedServer({ monitor_cond_since: () => WITHHELD });
    const { session } = follow([server]);
    await until(() => server.asked("monitor_cond_since").length === 1, "the request");
    expect(await failureOf(session.transact([comment("x")]))).toBeInstanceOf(NotCurrentError);
    expect(await failureOf(session.caughtUp())).toBeInstanceOf(NotCurrentError);
    expect(await failureOf(session.steal("l"))).toBeInstanceOf(NotCurrentError);
    expect(server.asked("transact")).toEqual([]);
    await session.close();
  });
});

describe("a cluster", () => {
  const CID = idOf(70);
  const SERVER_SCHEMA: Json = {
    name: "_Server",
    version: "1.2.0",
    tables: {
      Database: {
        columns: {
          name: { type: "string" },
          model: { type: "string" },
          connected: { type: "boolean" },
          leader: { type: "boolean" },
          cid: { type: { key: "uuid", min: 0, max: 1 } },
          sid: { type: { key: "uuid", min: 0, max: 1 } },
          index: { type: { key: "integer", min: 0, max: 1 } },
        },
      },
    },
  };

  async function member(row: Json, name: string): Promise<ScriptedServer> {
    const answers = {
      list_dbs: () => ["_Server", "Zoo"],
      get_schema: ([database]: readonly Json[]) => (database === "_Server" ? SERVER_SCHEMA : ZOO_SCHEMA),
      monitor_cond_since: ([database]: readonly Json[]): Json =>
        database === "_Server"
          ? [false, ZERO, { Database: { [idOf(50)]: { initial: row } } }]
          : [false, ZERO, zoo({ 1: animal(name, "initial") })],
    };
    return await scriptedServer(answers);
  }
  const row = (but: { readonly [name: string]: Json } = {}): Json => ({
    name: "Zoo",
    model: "clustered",
    connected: true,
    leader: true,
    cid: ["uuid", CID],
    sid: ["uuid", idOf(71)],
    index: 10,
    ...but,
  });
  const tell = (server: ScriptedServer, but: Json): void =>
    server.peers.at(-1)?.notify("update3", "server", ZERO, { Database: { [idOf(50)]: { modify: but } } });

  it("is used at its leader, and followed when another becomes it", async () => {
    await using first = await member(row({ leader: false }), "first");
    await using second = await member(row(), "second");
    const { session, names } = follow([first, second]);
    await session.whenCurrent();
    expect([session.endpoint, names()]).toEqual([second.endpoint, ["second"]]);
    expect(first.asked("monitor_cond_since").map(({ params }) => params[0])).toEqual(["_Server"]);
    expect(second.asked("set_db_change_aware")[0]?.params).toEqual([true]);
    first.answers["monitor_cond_since"] = ([database]) =>
      database === "_Server"
        ? [false, ZERO, { Database: { [idOf(50)]: { initial: row({ index: 11 }) } } }]
        : [false, ZERO, zoo({ 1: animal("again", "initial") })];
    tell(second, { leader: false });
    await until(() => session.endpoint === first.endpoint && session.state === "current", "the other one");
    expect(names()).toEqual(["again"]);
    await session.close();
  });

  it("is used at any member where that is enough", async () => {
    await using follower = await member(row({ leader: false }), "follower");
    const { session, names } = follow([follower], { leaderOnly: false });
    await session.whenCurrent();
    tell(follower, { leader: true });
    await session.caughtUp();
    expect([names(), follower.peers.length]).toEqual([["follower"], 1]);
    const failures: string[] = [];
    session.onState((_state, failure) => failures.push(failure?.message ?? ""));
    tell(follower, { connected: false });
    await until(() => failures.find((text) => text.includes("not connected")), "the loss");
    await session.close();
  });

  it("that loses its leader still answers what was sent, and is sent nothing more", async () => {
    const ids: Json[] = [];
    await using server = await member(row(), "cat");
    server.answers["transact"] = (_params, _peer, id) => {
      ids.push(id);
      return WITHHELD;
    };
    const { session, names } = follow([server]);
    await session.whenCurrent();
    const sent = session.transact([comment("sent")]);
    await until(() => ids.length === 1, "the request");
    tell(server, { leader: false });
    await state(session, "stale");
    expect(await failureOf(session.transact([comment("late")]))).toBeInstanceOf(NotCurrentError);
    expect(server.peers[0]?.destroyed).toBe(false);
    server.peers[0]?.notify("update3", "replica", idOf(100), zoo({ 2: animal("dog") }));
    server.peers[0]?.reply(ids[0] as Json, [{}]);
    expect(await sent).toEqual([{}]);
    expect(names()).toEqual(["cat", "dog"]);
    await until(() => server.peers.length === 2, "another attempt");
    expect(server.asked("transact")).toHaveLength(1);
    await session.close();
  });

  it("that loses its leader and does not answer either is left after the deadline", async () => {
    await using server = await member(row(), "cat");
    server.answers["transact"] = () => WITHHELD;
    const { session, clock } = follow([server], { probeMs: 60_000 });
    await session.whenCurrent();
    const sent = failureOf(session.transact([comment("sent")], { timeoutMs: 100_000 }));
    await until(() => server.asked("transact").length === 1, "the request");
    tell(server, { leader: false });
    await state(session, "stale");
    clock.advance(5_000);
    expect(await sent).toBeInstanceOf(OutcomeUnknownError);
    await session.close();
  });

  it("of another id is refused, whether it was asked for or met before", async () => {
    await using right = await member(row(), "right");
    await using wrong = await member(row({ cid: ["uuid", idOf(72)] }), "wrong");
    const asked = follow([wrong, right], { cluster: CID });
    const failures: unknown[] = [];
    asked.session.onState((_state, failure) => failures.push(failure));
    await asked.session.whenCurrent();
    expect(failures.find((failure) => failure instanceof ClusterMismatchError)).toMatchObject({
      expected: CID,
      found: idOf(72),
    });
    expect(asked.names()).toEqual(["right"]);
    await asked.session.close();

    const met = follow([right, wrong]);
    await met.session.whenCurrent();
    right.answers["list_dbs"] = () => [];
    right.peers.at(-1)?.destroy();
    await until(() => met.session.failure instanceof ClusterMismatchError || undefined, "the refusal");
    expect(met.names()).toEqual(["right"]);
    expect(met.session.replica.current).toBe(false);
    await met.session.close();
  });

  it("is never read at a member that is behind what was seen", async () => {
    await using ahead = await member(row({ index: 20 }), "ahead");
    await using behind = await member(row({ index: 10 }), "behind");
    const { session, names } = follow([ahead, behind]);
    await session.whenCurrent();
    tell(ahead, { index: 21 });
    await session.caughtUp();
    const failures: string[] = [];
    session.onState((_state, failure) => failures.push(failure?.message ?? ""));
    ahead.answers["list_dbs"] = () => WITHHELD;
    ahead.peers.at(-1)?.destroy();
    await until(() => failures.find((text) => text.includes("behind: at 10, and 21")), "the refusal");
    expect(names()).toEqual(["ahead"]);
    await session.close();
  });
});

describe("locks", () => {
  it("are held, waited for, lost and got back as the server says", async () => {
    await using server = await scriptedServer({ lock: ([name]) => ({ locked: name === "mine" }) });
    const { session, locks } = follow([server], { locks: ["mine"] });
    await session.whenCurrent();
    expect(await session.lock("other")).toBe("waiting");
    expect(await session.lock("other")).toBe("waiting");
    expect(Object.fromEntries(session.locks)).toEqual({ mine: "held", other: "waiting" });
    const told = async (method: string, name: string, expected: string) => {
      server.peers[0]?.notify(method, name);
      await until(() => locks.at(-1) === expected, expected);
    };
    await told("locked", "other", "other held");
    await told("stolen", "mine", "mine waiting");
    await told("locked", "mine", "mine held");
    await session.unlock("other");
    server.peers[0]?.notify("locked", "other");
    await session.caughtUp();
    expect(Object.fromEntries(session.locks)).toEqual({ mine: "held" });
    expect(server.asked("lock").map(({ params }) => params[0])).toEqual(["mine", "other"]);
    expect(server.asked("unlock").map(({ params }) => params[0])).toEqual(["other"]);
    await session.close();
  });

  it("are gone with the connection, and asked for on the next before anything is current", async () => {
    await using server = await scriptedServer();
    const { session, locks } = follow([server], { locks: ["a"] });
    await session.whenCurrent();
    await session.lock("b");
    server.answers["lock"] = ([name]) => ({ locked: name === "b" });
    server.peers[0]?.destroy();
    await until(() => server.peers.length === 2 && session.state === "current", "the next connection");
    expect(locks).toEqual(["a held", "b wanted", "b held", "a wanted", "b wanted", "a waiting", "b held"]);
    expect(server.asked("lock", 1).map(({ params }) => params[0])).toEqual(["a", "b"]);
    expect(server.asked("steal")).toEqual([]);
    await session.close();
  });

  it("may be wanted while there is no connection", async () => {
    await using server = await scriptedServer({ list_dbs: () => WITHHELD });
    const { session } = follow([server]);
    expect(await session.lock("early")).toBe("wanted");
    server.answers["list_dbs"] = () => ["Zoo"];
    await until(() => server.peers.length === 1, "the connection");
    server.peers[0]?.destroy();
    await session.whenCurrent();
    expect(session.locks.get("early")).toBe("held");
    await session.close();
  });

  it("are stolen by unlocking first, where we are in the line already", async () => {
    await using server = await scriptedServer({ lock: () => ({ locked: false }) });
    const { session } = follow([server]);
    await session.whenCurrent();
    await session.lock("l");
    expect(await session.steal("l")).toBe("held");
    expect(await session.steal("l")).toBe("held");
    expect(server.heard.slice(-3).map(({ method }) => method)).toEqual(["lock", "unlock", "steal"]);
    await session.close();
  });
});

describe("waiting and closing", () => {
  it("waits until current, at most so long", async () => {
    await using server = await scriptedServer({ list_dbs: () => WITHHELD });
    const { session, clock } = follow([server], { timeoutMs: 60_000, probeMs: 60_000 });
    const waited = failureOf(session.whenCurrent(300));
    clock.advance(300);
    expect(await waited).toBeInstanceOf(NotCurrentError);
    await session.close();
  });

  it("closes at any moment, and rejects what is under way", async () => {
    await using server = await scriptedServer({ transact: () => WITHHELD });
    const { session, clock, states } = follow([server], { backoff: { first: 100, most: 800 } });
    await session.whenCurrent();
    const sent = failureOf(session.transact([comment("x")]));
    await until(() => server.asked("transact").length === 1, "the request");
    await session.close();
    expect(await sent).toMatchObject({ name: "OutcomeUnknownError", cause: expect.any(ClosedError) });
    expect(await failureOf(session.whenCurrent())).toBeInstanceOf(ClosedError);
    expect(await failureOf(session.transact([comment("x")]))).toBeInstanceOf(NotCurrentError);
    expect([session.state, session.replica.current, states.at(-1), clock.waiting]).toEqual([
      "closed",
      false,
      "closed",
      0,
    ]);
    await session.close();
    await until(() => server.peers[0]?.destroyed, "the end of the connection");
    expect(server.peers).toHaveLength(1);
  });

  it("hears nothing more after a listener has closed it, not even what has come already", async () => {
    await using server = await scriptedServer();
    const { session, changes, names, locks } = follow([server]);
    server.answers["lock"] = () => ({ locked: false });
    await session.whenCurrent();
    await session.lock("l");
    const closed = new Promise<void>((resolve) => session.onChange(() => resolve(session.close())));
    const update = (n: number) =>
      JSON.stringify({ id: null, method: "update2", params: ["replica", zoo({ [n]: animal(`cat${n}`) })] });
    const locked = JSON.stringify({ id: null, method: "locked", params: ["l"] });
    server.peers[0]?.write(update(1) + update(2) + locked);
    await closed;
    expect([names(), changes.length]).toEqual([["cat1"], 1]);
    expect(locks).toEqual(["l wanted", "l waiting", "l wanted"]);
  });

  it("closes while connecting, getting current, and pausing", async () => {
    await using silent = await scriptedServer({ get_schema: () => WITHHELD });
    const getting = follow([silent]);
    const waiting = failureOf(getting.session.whenCurrent());
    await until(() => silent.asked("get_schema").length === 1, "the request");
    await getting.session.close();
    expect(await waiting).toBeInstanceOf(ClosedError);
    const pausing = follow([{ endpoint: "unix:/nowhere" }] as never, { backoff: { first: 100, most: 800 } });
    await until(() => pausing.session.failure !== undefined && pausing.clock.waiting === 1, "a pause");
    await pausing.session.close();
    const connecting = follow([silent]);
    await connecting.session.close();
    expect(
      [getting, pausing, connecting].map(({ session, clock }) => [session.state, clock.waiting]),
    ).toEqual([
      ["closed", 0],
      ["closed", 0],
      ["closed", 0],
    ]);
  });

  it("refuses settings that cannot be meant", () => {
    const options = { database: "Zoo", tables: [] };
    expect(() => connectOvsdb({ ...options, endpoints: "http://x" })).toThrow(SettingError);
    expect(() => connectOvsdb({ ...options, endpoints: "unix:/x,ssl:192.0.2.1:6641" })).toThrow(SettingError);
    expect(() => connectOvsdb({ ...options, endpoints: "unix:/x", tables: [Animal, Animal] })).toThrow(
      SettingError,
    );
  });

  it("tells each listener until it is taken back", async () => {
    await using server = await scriptedServer();
    const { session, changes } = follow([server]);
    let told = 0;
    const forget = session.onChange(() => told++);
    await session.whenCurrent();
    server.peers[0]?.notify("update2", "replica", zoo({ 1: animal("cat") }));
    await until(() => changes.length === 1, "the first");
    forget();
    server.peers[0]?.notify("update2", "replica", zoo({ 2: animal("dog") }));
    await until(() => changes.length === 2, "the second");
    expect(told).toBe(1);
    await session.close();
  });
});

// A cluster of three real servers: the leader is found, followed when it moves or dies, and nothing that was seen is unseen.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  byUuid,
  type Changes,
  ClusterMismatchError,
  insert,
  NotCurrentError,
  OperationError,
  OutcomeUnknownError,
  type Session,
  type SessionOptions,
  type Uuid,
  update,
} from "../../lib/ovsdb-client/index.ts";
import { type Tap, tap } from "../lib/ovsdb-client/older-server.ts";
import {
  type Folder,
  openFolder,
  openSession,
  type RealServer,
  schemaFile,
} from "../lib/ovsdb-client/real-server.ts";
import { Cage, idOf, ZOO_SCHEMA } from "../lib/ovsdb-client/zoo.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { until } from "../support/until.ts";

const missing = noOvn();
const late = 60_000;

describe.skipIf(missing !== undefined)(`a cluster${missing === undefined ? "" : `: ${missing}`}`, () => {
  let folder: Folder;
  const members: RealServer[] = [];

  beforeAll(async () => {
    folder = await openFolder();
    const schema = await schemaFile(folder.at("zoo.ovsschema"), ZOO_SCHEMA);
    const raft = [1, 2, 3].map((n) => `unix:${folder.at(`r${n}`)}`) as [string, string, string];
    const databases = [1, 2, 3].map((n) => folder.at(`c${n}.db`));
    const [first, ...others] = databases as [string, ...string[]];
    await folder.tool("ovsdb-tool", "create-cluster", first, schema, raft[0]);
    members.push(await folder.server("c1", { database: first }));
    for (const [at, database] of others.entries()) {
      await folder.tool("ovsdb-tool", "join-cluster", database, "Zoo", raft[at + 1] as string, raft[0]);
      const member = await folder.server(`c${at + 2}`, { database });
      members.push(member);
      await until(async () => (await status(member)).includes("Status: cluster member"), "a member", late);
    }
  });
  afterAll(async () => {
    await folder[Symbol.asyncDispose]();
  });

  const status = (member: RealServer): Promise<string> =>
    member.control("cluster/status", "Zoo").catch(() => "");
  const leads = async (member: RealServer): Promise<boolean> =>
    (await status(member)).includes("Role: leader");
  const leader = () =>
    until(
      async () => {
        for (const member of members) if (await leads(member)) return member;
        return undefined;
      },
      "a leader",
      late,
    );
  const open = (options: Partial<SessionOptions> = {}): Session =>
    openSession(members[0] as RealServer, {
      endpoints: members.map(({ endpoint }) => endpoint).join(","),
      tables: [Cage],
      ...options,
    });
  /** Retried by its author, with the same uuid each time: at most once in the database. */
  const insertOnce = async (session: Session, name: string, uuid: Uuid): Promise<void> => {
    for (;;) {
      await session.whenCurrent(late);
      if (session.replica.table(Cage).rows.has(uuid)) return;
      try {
        await session.transact([insert(Cage, { name }, { uuid })]);
      } catch (error) {
        const known = error instanceof OutcomeUnknownError || error instanceof NotCurrentError;
        if (!known && !(error instanceof OperationError && error.error === "duplicate uuid")) throw error;
      }
    }
  };

  it("is used at its leader, whichever endpoint comes first", async () => {
    const current = await leader();
    for (const first of members) {
      const endpoints = [first, ...members.filter((member) => member !== first)].map(
        ({ endpoint }) => endpoint,
      );
      const session = open({ endpoints: endpoints.join(",") });
      await session.whenCurrent(late);
      expect(session.endpoint).toBe(current.endpoint);
      await session.close();
    }
  });

  it("is read and written at a follower too, where the leader is not asked for", async () => {
    const current = await leader();
    const follower = members.find((member) => member !== current) as RealServer;
    const session = open({ endpoints: follower.endpoint, leaderOnly: false });
    await session.whenCurrent(late);
    const [{ uuid }] = await session.transact([insert(Cage, { name: "by a follower" })]);
    expect(session.replica.table(Cage).rows.get(uuid)?.name).toBe("by a follower");
    await session.close();
  });

  it("whose leader moves again and again loses no row, shows none twice, and is never empty", async () => {
    const session = open();
    await session.whenCurrent(late);
    const table = session.replica.table(Cage);
    let least = table.rows.size;
    session.onState(() => {
      least = Math.min(least, table.rows.size);
    });
    const before = table.rows.size;
    expect(before).toBeGreaterThan(0);
    for (let round = 0; round < 10; round++) {
      const current = await leader();
      const writing = Promise.all(
        [0, 1, 2].map((n) =>
          insertOnce(session, `round ${round} ${n}`, idOf(1_000 + round * 10 + n) as Uuid),
        ),
      );
      await current.control("cluster/failure-test", "transfer-leadership");
      await until(async () => !(await leads(current)), "the leader's end", late);
      await writing;
      await session.whenCurrent(late);
      const now = await leader();
      await until(
        () => session.endpoint === now.endpoint && session.state === "current",
        "the new leader",
        late,
      );
    }
    expect(table.rows.size).toBe(before + 30);
    expect(least).toBe(before);
    await session.close();
  });

  it("whose leader dies is read at the next one, from where the session was, and told only what is different", async () => {
    const watched: Tap = tap();
    const session = open({ dial: watched.dial });
    const other = open();
    await Promise.all([session.whenCurrent(late), other.whenCurrent(late)]);
    const told: Changes[] = [];
    session.onChange((changes) => told.push(changes));
    const [{ uuid }] = await other.transact([insert(Cage, { name: "last words" })]);
    await until(() => session.replica.table(Cage).rows.has(uuid), "the row", late);
    const rows = [...session.replica.table(Cage).rows.values()];
    const dead = await leader();
    watched.received.length = 0;
    await dead.kill();
    await until(() => session.state !== "current", "the loss", late);
    await insertOnce(other, "since then", idOf(5_000) as Uuid);
    await session.whenCurrent(late);
    await until(() => session.replica.table(Cage).rows.has(idOf(5_000) as Uuid), "the row", late);
    expect(session.endpoint).not.toBe(dead.endpoint);
    expect([...session.replica.table(Cage).rows.values()].slice(0, rows.length)).toEqual(rows);
    expect(told.flatMap((changes) => changes.of(Cage).map(({ after }) => after?.name))).toEqual([
      "last words",
      "since then",
    ]);
    // The server went on from the last transaction: it said "found".
    expect(watched.received.join("")).toMatch(/"result":\[true,"[0-9a-f-]{36}",/);
    for (const row of rows) expect(session.replica.table(Cage).rows.get(row._uuid)).toBe(row);
    await dead.start();
    await until(
      async () => /Role: (follower|leader)/.test(await status(dead)),
      "the dead one's return",
      late,
    );
    await Promise.all([session.close(), other.close()]);
  });

  it("without a majority is not current, and keeps what was read; with one again it goes on", async () => {
    const session = open();
    await session.whenCurrent(late);
    const table = session.replica.table(Cage);
    const size = table.rows.size;
    const current = await leader();
    const others = members.filter((member) => member !== current);
    for (const member of others) await member.kill();
    await until(() => session.state !== "current", "the loss", late);
    expect([session.replica.current, table.rows.size]).toEqual([false, size]);
    for (const member of others) await member.start();
    await session.whenCurrent(late);
    expect(table.rows.size).toBe(size);
    const [row] = table.rows.values();
    if (row === undefined) throw new Error("no row");
    await session.transact([update(Cage, byUuid(row._uuid), { size: 42 })]);
    expect(table.rows.get(row._uuid)?.size).toBe(42);
    await session.close();
  });

  it("of another id is refused", async () => {
    const session = open({ cluster: idOf(1) });
    const states: string[] = [];
    session.onState((state) => states.push(state));
    await until(() => session.failure instanceof ClusterMismatchError, "the refusal", late);
    expect([states.includes("current"), session.replica.table(Cage).rows.size]).toEqual([false, 0]);
    await session.close();
    const cid = /Cluster ID: \w+ \(([0-9a-f-]+)\)/.exec(await status(members[0] as RealServer))?.[1];
    const right = open({ cluster: cid as string });
    await right.whenCurrent(late);
    expect(right.replica.table(Cage).rows.size).toBeGreaterThan(0);
    await right.close();
  });
});

// Real servers that die, stand still and come back, and locks that go from one session to another.
import { once } from "node:events";
import net, { type AddressInfo, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  assertLock,
  type Changes,
  comment,
  compareAtoms,
  insert,
  OutcomeUnknownError,
  parseEndpoints,
  remove,
  type SessionState,
  UnresponsiveError,
  update,
} from "../../lib/ovsdb-client/index.ts";
import {
  type Folder,
  openFolder,
  openSession,
  type RealServer,
  rejection,
} from "../lib/ovsdb-client/real-server.ts";
import { Animal, Cage } from "../lib/ovsdb-client/zoo.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { until } from "../support/until.ts";

const missing = noOvn();

describe.skipIf(missing !== undefined)(`outages${missing === undefined ? "" : `: ${missing}`}`, () => {
  let folder: Folder;
  let servers = 0;

  beforeAll(async () => {
    folder = await openFolder();
  });
  afterAll(async () => {
    await folder[Symbol.asyncDispose]();
  });
  const newServer = (args: readonly string[] = []): Promise<RealServer> =>
    folder.server(`s${servers++}`, { args });

  it("a server that is killed and comes back changed: contents stay, and only the differences are told", async () => {
    const server = await newServer();
    const session = openSession(server, { tables: [Cage, Animal] });
    const states: SessionState[] = [];
    session.onState((state) => states.push(state));
    await session.whenCurrent(20_000);
    await session.transact(["a", "b", "c", "d"].map((name) => insert(Cage, { name })));
    const table = session.replica.table(Cage);
    const rows = [...table.rows.values()];
    const told: Changes[] = [];
    session.onChange((changes) => told.push(changes));
    await server.kill();
    await until(() => session.state !== "current", "the loss", 20_000);
    expect([session.replica.current, [...table.rows.values()]]).toEqual([false, rows]);
    expect(await rejection(session.transact([comment("x")]))).toMatchObject({ name: "NotCurrentError" });
    // While nobody listens, the file itself.
    const changed = [
      "Zoo",
      { op: "delete", table: "Cage", where: [["name", "==", "b"]] },
      { op: "update", table: "Cage", where: [["name", "==", "c"]], row: { size: 7 } },
      { op: "insert", table: "Cage", row: { name: "e" } },
    ];
    await folder.tool("ovsdb-tool", "transact", server.database, JSON.stringify(changed));
    expect(told).toEqual([]);
    await server.start();
    await session.whenCurrent(20_000);
    expect(told).toHaveLength(1);
    const changes = told[0]
      ?.of(Cage)
      .map(({ before, after }) => `${before?.name ?? "-"} ${after?.name ?? "-"}`);
    expect(changes?.toSorted(compareAtoms)).toEqual(["- e", "b -", "c c"]);
    const same = [...table.rows.values()].filter((row) => rows.includes(row));
    expect(same.map(({ name }) => name).toSorted(compareAtoms)).toEqual(["a", "d"]);
    expect(states.filter((state) => state === "stale").length).toBeGreaterThan(0);
    await session.transact([remove(Cage, [])]);
    expect(table.rows.size).toBe(0);
    await session.close();
  });

  it("a server that is killed while it is written to, again and again: each row once, or not at all", async () => {
    const server = await newServer();
    const session = openSession(server, { tables: [Cage] });
    const names = session.replica.table(Cage).lookup("name");
    let done = 0;
    let unknown = 0;
    for (let round = 0; round < 8; round++) {
      await session.whenCurrent(20_000);
      const batch = Array.from({ length: 20 }, (_, n) => `r${round} ${n}`);
      const outcomes = batch.map(async (name) => {
        try {
          await session.transact([insert(Cage, { name })]);
          return "done";
        } catch (error) {
          expect(error).toBeInstanceOf(OutcomeUnknownError);
          return "unknown";
        }
      });
      await outcomes[round * 2];
      await server.kill();
      const settled = await Promise.all(outcomes);
      await server.start();
      await session.whenCurrent(20_000);
      for (const [at, outcome] of settled.entries()) {
        const { size } = names.get(batch[at] as string);
        if (outcome === "done") expect(size).toBe(1);
        else expect(size).toBeLessThan(2);
        if (outcome === "done") done++;
        else unknown++;
      }
    }
    expect(done).toBeGreaterThan(0);
    expect(done + unknown).toBe(160);
    await session.close();
  });

  it("a server that stands still is found out, and what it does later is no surprise", async () => {
    const server = await newServer();
    const session = openSession(server, { tables: [Cage], probeMs: 150, timeoutMs: 5_000 });
    await session.whenCurrent(20_000);
    await session.transact([insert(Cage, { name: "before" })]);
    const failures: unknown[] = [];
    session.onState((_state, failure) => failures.push(failure));
    server.signal("SIGSTOP");
    try {
      const sent = rejection(session.transact([insert(Cage, { name: "during" })]));
      await until(() => session.state !== "current", "the discovery", 20_000);
      expect(await sent).toBeInstanceOf(OutcomeUnknownError);
      expect(failures.find((failure) => failure instanceof UnresponsiveError)).toBeDefined();
      expect([...session.replica.table(Cage).rows.values()].map(({ name }) => name)).toEqual(["before"]);
    } finally {
      server.signal("SIGCONT");
    }
    await session.whenCurrent(20_000);
    // It had come as far as the server's socket, and was carried out there: known now.
    await until(
      () => session.state === "current" && session.replica.table(Cage).rows.size === 2,
      "the row",
      20_000,
    );
    await session.close();
  });

  it("a way that swallows everything, over tcp, is found out", async () => {
    const server = await newServer();
    const [endpoint] = parseEndpoints(server.endpoint);
    const sockets: Socket[] = [];
    const pass = (to: Socket, chunk: Buffer): void => void to.write(chunk);
    let way: typeof pass = pass;
    const between = net.createServer((from) => {
      const to = net.connect({ path: endpoint?.kind === "unix" ? endpoint.path : "" });
      sockets.push(from, to);
      for (const [one, other] of [
        [from, to],
        [to, from],
      ] as const) {
        one.on("error", () => {});
        one.on("data", (chunk: Buffer) => way(other, chunk));
        one.on("close", () => void other.destroy());
      }
    });
    between.listen(0, "127.0.0.1");
    await once(between, "listening");
    const { port } = between.address() as AddressInfo;
    const session = openSession(server, {
      endpoints: `tcp:127.0.0.1:${port}`,
      tables: [Cage],
      probeMs: 150,
      timeoutMs: 2_000,
    });
    await session.whenCurrent(20_000);
    const failures: unknown[] = [];
    session.onState((_state, failure) => failures.push(failure));
    way = () => {};
    await until(() => session.state !== "current", "the discovery", 20_000);
    expect(failures[0]).toBeInstanceOf(UnresponsiveError);
    way = pass;
    await session.whenCurrent(20_000);
    await session.close();
    for (const socket of sockets) socket.destroy();
    between.close();
    await once(between, "close");
  });

  it("over tcp of either family, the next endpoint when one is gone", async () => {
    const servers = [
      await newServer(["--remote=ptcp:0:127.0.0.1"]),
      await newServer(["--remote=ptcp:0:[::1]"]),
    ];
    const ports = await Promise.all(
      servers.map((server) =>
        until(async () => /listening on port (\d+)/.exec(await server.log())?.[1], "a port", 20_000),
      ),
    );
    const endpoints = [`tcp:127.0.0.1:${ports[0]}`, `tcp:[::1]:${ports[1]}`];
    const session = openSession(servers[0] as RealServer, { endpoints: endpoints.join(","), tables: [Cage] });
    await session.whenCurrent(20_000);
    expect(session.endpoint).toBe(endpoints[0]);
    await session.transact([insert(Cage, { name: "of the first" })]);
    await servers[0]?.kill();
    await until(() => session.endpoint === endpoints[1] && session.state === "current", "the other", 20_000);
    expect(session.replica.table(Cage).rows.size).toBe(0);
    await session.close();
  });

  it("a lock is held by one, waited for by the next, stolen, given back, and lost with the connection", async () => {
    const server = await newServer();
    const [one, two] = [{ session: openSession(server) }, { session: openSession(server) }];
    await Promise.all([one.session.whenCurrent(20_000), two.session.whenCurrent(20_000)]);
    const has = (who: typeof one, state: string) =>
      until(() => who.session.locks.get("zoo") === state, `the lock ${state}`, 20_000);
    const write = (who: typeof one) =>
      who.session.transact([assertLock("zoo"), update(Cage, [], { size: 1 })]);

    expect(await one.session.lock("zoo")).toBe("held");
    expect(await two.session.lock("zoo")).toBe("waiting");
    await write(one);
    expect(await rejection(write(two))).toMatchObject({ error: "not owner", index: 0 });

    expect(await two.session.steal("zoo")).toBe("held");
    await has(one, "waiting");
    await write(two);
    expect(await rejection(write(one))).toMatchObject({ error: "not owner" });
    // Whom it was stolen from is in the line, and gets it back.
    await two.session.unlock("zoo");
    await has(one, "held");
    await write(one);

    expect(await two.session.lock("zoo")).toBe("waiting");
    await one.session.unlock("zoo");
    await has(two, "held");
    expect(await one.session.lock("zoo")).toBe("waiting");
    await two.session.close();
    await has(one, "held");

    await server.kill();
    await has(one, "wanted");
    await server.start();
    await one.session.whenCurrent(20_000);
    expect(one.session.locks.get("zoo")).toBe("held");
    await write(one);
    await one.session.close();
  });
});

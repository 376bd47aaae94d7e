// What a session is asked beside what it follows: where rows stand, once on a connection, whatever is told of then.
import { describe, expect, it } from "vitest";
import { northboundTables, openNorthbound } from "../../../agent/inputs/northbound.ts";
import { locksOf } from "../../../agent/model/northbound-locks.ts";
import type { Session } from "../../../lib/ovsdb-client/index.ts";
import { type Changes, createReplica } from "../../../lib/ovsdb-client/pure.ts";
import { settings } from "../make.ts";

/** A session that is current from the start, has its locks, and answers that nothing stands elsewhere. */
function openSession() {
  let tell = (_: Changes): void => {};
  let asked = 0;
  const locks = locksOf(settings.northboundOwner, settings.node);
  const never = () => () => {};
  const session = {
    replica: createReplica(northboundTables(settings)),
    state: "current",
    locks: new Map([locks.node, locks.zone].map((name) => [name, "held"])),
    onChange: (listener: typeof tell) => {
      tell = listener;
      return () => {};
    },
    onState: never,
    onLock: never,
    whenCurrent: async () => {},
    transact: async (operations: readonly unknown[]) => {
      asked++;
      return operations.map(() => ({ rows: [] }));
    },
  } as unknown as Session;
  const input = openNorthbound(session, settings, {
    locks,
    writes: true,
    onChange: () => {},
    behind: () => {},
    waitMs: 1_000,
  });
  return { input, told: () => tell({ tables: new Map() } as unknown as Changes), asked: () => asked };
}

describe("where rows stand", () => {
  it("is asked for as soon as there are any, and not again by what is told then", async () => {
    const { input, told, asked } = openSession();
    told();
    expect(asked()).toBe(1);
    told();
    await input.read(false);
    expect(asked()).toBe(1);
    told();
    await input.read(false);
    expect(asked()).toBe(1);
    input.close();
  });

  it("is asked for anew where that is wanted", async () => {
    const { input, told, asked } = openSession();
    told();
    await input.read(false);
    await input.read(true);
    expect(asked()).toBe(2);
    input.close();
  });
});

// Which egress IPs a gateway router begins and ends to answer for, and how long the next one waits for the last one's rows.
import { describe, expect, it, vi } from "vitest";
import type { FoundRow, Row } from "../../../../agent/model/northbound.ts";
import { begins, endsOne, type Giving, othersEnded } from "../../../../agent/sync/northbound/answering.ts";
import type { RowChange } from "../../../../agent/sync/northbound/changes.ts";

const nat = (external_ip: string): Row => ({
  table: "NAT",
  on: ["GR_node1"],
  columns: { external_ip },
  ids: {},
});
const policy: Row = { table: "Logical_Router_Policy", on: ["GR_node1"], columns: {}, ids: {} };
const found = (row: Row): FoundRow => ({ ...row, uuid: "1" });
const insert = (row: Row): RowChange => ({ op: "insert", row });
const gone = (row: Row): RowChange => ({ op: "delete", found: found(row), why: "unwanted" });
const giving = (of: Readonly<Record<string, number>>): Giving => new Map(Object.entries(of));

describe("begins", () => {
  const two = [insert(policy), insert(nat("172.18.0.50")), insert(nat("172.18.0.50"))];
  it("with the first rows that give it, once, whoever else does", () => {
    expect(begins(two, "GR_node1", giving({ "GR_node2 172.18.0.50": 2 }))).toEqual(["172.18.0.50"]);
  });
  it("with no row more, and with none that stays as it is", () => {
    expect(begins(two, "GR_node1", giving({ "GR_node1 172.18.0.50": 1 }))).toEqual([]);
  });
  it("with rows that gave another one: whoever exchanges his has given that up before", () => {
    const change: RowChange = { op: "update", row: nat("172.18.0.50"), found: found(nat("172.18.0.51")) };
    expect(begins([change], "GR_node1", giving({ "GR_node1 172.18.0.51": 1 }))).toEqual(["172.18.0.50"]);
  });
});

describe("endsOne", () => {
  it("with its last row, and not before", () => {
    const changes = [gone(policy), gone(nat("172.18.0.50")), gone(nat("172.18.0.50"))];
    const other = { "GR_node2 172.18.0.50": 1, "GR_node1 172.18.0.51": 1 };
    expect(endsOne(changes, "GR_node1", giving({ ...other, "GR_node1 172.18.0.50": 3 }))).toBe(false);
    expect(endsOne(changes, "GR_node1", giving({ ...other, "GR_node1 172.18.0.50": 2 }))).toBe(true);
  });
});

describe("othersEnded", () => {
  /** Rows as they are, and a way to make them others. */
  const watched = (of: Readonly<Record<string, number>>) => {
    let now = giving(of);
    const listeners = new Set<() => void>();
    return {
      listeners,
      turn: (next: Readonly<Record<string, number>>) => {
        now = giving(next);
        for (const listener of listeners) listener();
      },
      giving: () => now,
      onChange: (listener: () => void) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    };
  };

  it("at once where nobody else gives it", async () => {
    const rows = watched({ "GR_node1 172.18.0.50": 1, "GR_node2 172.18.0.51": 1 });
    await othersEnded(["172.18.0.50"], "GR_node1", rows, 1e9);
    expect(rows.listeners.size).toBe(0);
  });

  it("when the last row of all others is gone", async () => {
    const rows = watched({ "GR_node2 172.18.0.50": 2, "GR_node3 172.18.0.51": 1 });
    const ended = vi.fn();
    const waiting = othersEnded(["172.18.0.50", "172.18.0.51"], "GR_node1", rows, 1e9).then(ended);
    for (const left of [{ "GR_node2 172.18.0.50": 1 }, { "GR_node3 172.18.0.51": 1 }]) {
      rows.turn(left);
      await Promise.resolve();
      expect(ended).not.toHaveBeenCalled();
    }
    rows.turn({ "GR_node2 172.18.0.52": 1 });
    await waiting;
    expect(rows.listeners.size).toBe(0);
  });

  it("when it has waited long enough: the other agent may not run", async () => {
    vi.useFakeTimers();
    const rows = watched({ "GR_node2 172.18.0.50": 1 });
    const waiting = othersEnded(["172.18.0.50"], "GR_node1", rows, 1_000);
    await vi.advanceTimersByTimeAsync(1_000);
    await waiting;
    vi.useRealTimers();
    expect(rows.listeners.size).toBe(0);
  });
});

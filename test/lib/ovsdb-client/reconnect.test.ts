// Decisions: where servers are, whether one may be used, which is tried next and when.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseEndpoints } from "../../../lib/ovsdb-client/endpoints.ts";
import {
  ClusterMismatchError,
  SettingError,
  UnsuitableServerError,
} from "../../../lib/ovsdb-client/errors.ts";
import {
  nextAttempt,
  objection,
  type ServerDatabase,
  type Wanted,
} from "../../../lib/ovsdb-client/reconnect.ts";
import type { Uuid } from "../../../lib/ovsdb-client/types.ts";
import { idOf } from "./zoo.ts";

describe("endpoints", () => {
  it("are read as Open vSwitch writes them", () => {
    expect(
      parseEndpoints(
        "unix:/run/ovn/nb.sock, tcp:192.0.2.1:6641,ssl:[2001:db8::1]:6641,tcp:nb.example,ssl:[fe80::1%eth0]",
      ),
    ).toMatchObject([
      { kind: "unix", path: "/run/ovn/nb.sock", text: "unix:/run/ovn/nb.sock" },
      { kind: "tcp", host: "192.0.2.1", port: 6641 },
      { kind: "ssl", host: "2001:db8::1", port: 6641 },
      { kind: "tcp", host: "nb.example", port: 6640 },
      { kind: "ssl", host: "fe80::1%eth0", port: 6640 },
    ]);
  });

  it.each([
    "",
    " , ",
    "unix:",
    "tcp:",
    "tcp:1.2.3.4:0",
    "tcp:1.2.3.4:65536",
    "tcp:2001:db8::1:6641",
    "ssl:[::1",
    "ptcp:6641",
    "/run/nb.sock",
    "tcp:a b:1",
  ])("that are none are refused: %j", (text) => {
    expect(() => parseEndpoints(text)).toThrow(SettingError);
  });
});

describe("a server", () => {
  const alone: ServerDatabase = {
    _uuid: idOf(1) as Uuid,
    name: "Zoo",
    model: "standalone",
    connected: true,
    leader: true,
    cid: undefined,
    sid: undefined,
    index: undefined,
  };
  const cid = idOf(7) as Uuid;
  const clustered: ServerDatabase = { ...alone, model: "clustered", cid, sid: idOf(8) as Uuid, index: 50 };
  const wanted: Wanted = { database: "Zoo", leaderOnly: true, cluster: undefined, index: 0 };

  it.each<[string, ServerDatabase | undefined, Partial<Wanted>, string | undefined]>([
    ["alone", alone, {}, undefined],
    ["without the database", undefined, {}, "does not have it"],
    ["the leader", clustered, {}, undefined],
    ["a follower", { ...clustered, leader: false }, {}, "not the leader"],
    ["a follower, where one is enough", { ...clustered, leader: false }, { leaderOnly: false }, undefined],
    [
      "cut off from its cluster",
      { ...clustered, connected: false, leader: false },
      { leaderOnly: false },
      "not connected",
    ],
    ["as far as was seen", clustered, { index: 50, cluster: cid }, undefined],
    ["behind", clustered, { index: 51 }, "behind: at 50, and 51"],
    ["not up yet", { ...clustered, index: undefined }, { index: 1 }, "behind: at 0"],
    ["a relay", { ...alone, model: "relay" }, { leaderOnly: false }, undefined],
    ["a relay, where the leader is wanted", { ...alone, model: "relay" }, {}, "a relay"],
    [
      "a relay that is cut off",
      { ...alone, model: "relay", connected: false },
      { leaderOnly: false },
      "not connected",
    ],
  ])("%s", (_, row, but, why) => {
    const found = objection(row, { ...wanted, ...but });
    if (why === undefined) expect(found).toBeUndefined();
    else {
      expect(found).toBeInstanceOf(UnsuitableServerError);
      expect(found?.message).toContain(why);
    }
  });

  it.each([
    ["of another cluster", clustered],
    ["alone", alone],
  ])("is refused %s, where a cluster is expected", (_, row) => {
    const found = objection(row, { ...wanted, cluster: idOf(9) });
    expect(found).toBeInstanceOf(ClusterMismatchError);
    expect(found).toMatchObject({ expected: idOf(9) });
  });
});

describe("the next attempt", () => {
  const backoff = { first: 100, most: 1_000 };
  const delays = (endpoints: number, random: number, failures: readonly number[]) =>
    failures.map(
      (count) => nextAttempt({ endpoints, at: 0, failures: count, stay: false }, backoff, random).delay,
    );

  it("is at the next endpoint, around", () => {
    const next = (at: number) => nextAttempt({ endpoints: 3, at, failures: 1, stay: false }, backoff, 0).at;
    expect([0, 1, 2].map(next)).toEqual([1, 2, 0]);
  });

  it("waits only after every endpoint was tried, and longer each round", () => {
    expect(delays(3, 0, [0, 1, 2, 3, 4, 5, 6, 9, 12, 3_000])).toEqual([
      0, 0, 0, 50, 50, 50, 100, 200, 400, 500,
    ]);
    expect(delays(1, 0, [0, 1, 2, 3])).toEqual([0, 50, 100, 200]);
  });

  it("is where it was, at once, when it is we who left", () => {
    expect(nextAttempt({ endpoints: 3, at: 1, failures: 9, stay: true }, backoff, 0.5)).toEqual({
      at: 1,
      delay: 0,
    });
  });

  it("never waits longer than the most, and is drawn from the upper half", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.nat(10_000),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (endpoints, failures, random) => {
          const [delay] = delays(endpoints, random, [failures]);
          const [least] = delays(endpoints, 0, [failures]);
          expect(delay).toBeLessThan(backoff.most + 1);
          expect(delay).toBeGreaterThanOrEqual(least as number);
          expect(delay).toBeLessThanOrEqual((least as number) * 2);
        },
      ),
    );
  });
});

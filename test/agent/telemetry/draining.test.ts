// `drain`: carried out when nothing is answered for by what was read after the last write, and not a moment before; in time, or it says
// what is left. Over the real loop with a host that does what it is told, or does not.
import { describe, expect, it } from "vitest";
import { createLoop } from "../../../agent/loop.ts";
import type { HostFacts } from "../../../agent/model/facts.ts";
import { NORTHBOUND_OFF } from "../../../agent/model/northbound.ts";
import { entriesOf, shardsFrom } from "../../../agent/model/shards.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { createBackends } from "../../../agent/sync/backends.ts";
import { createContention } from "../../../agent/sync/contention.ts";
import { createDraining } from "../../../agent/telemetry/draining.ts";
import { factsOf, withNats } from "../../support/northbound-scene.ts";
import { bareHost, egressIP, namespace, node1, node2, objects, pod, settings } from "../make.ts";
import { recordingTools } from "../tools.ts";

const all = objects(
  egressIP("web", { at: { "10.10.10.50": "node1", "172.18.0.50": "node1" } }),
  namespace("shop"),
  node1,
  node2,
  pod("shop/a", ["10.244.1.3"]),
);

/** A minute: what is awaited ends by rounds, or by the clock that the test turns. */
const LONG = 60_000;

function agent(start: HostFacts = bareHost, gatewayMode: "local" | "shared" = "local") {
  const tools = recordingTools();
  const followed = { answer: true, asked: 0 };
  let [now, ordered, facts, readable] = [0, 0, start, true];
  const draining = createDraining({
    node: "node1",
    onOrder: () => {
      ordered++;
    },
    followed: async () => {
      followed.asked++;
      return followed.answer;
    },
    clock: () => now,
  });
  const loop = createLoop({
    settings: { ...settings, gatewayMode },
    isDraining: draining.isOrdered,
    mode: createMode(gatewayMode),
    backends: createBackends(tools),
    readHost: async () => facts,
    assumeHost: (assumed) => {
      facts = assumed;
    },
    readObjects: async () => {
      if (!readable) throw new Error("cannot read the folder");
      return all;
    },
    contention: createContention(() => 0),
  });
  return {
    tools,
    draining,
    followed,
    ordered: () => ordered,
    pass: (ms: number) => {
      now += ms;
    },
    meddle: (to: (facts: HostFacts) => HostFacts) => {
      facts = to(facts);
    },
    unreadable: () => {
      readable = false;
    },
    round: async () => {
      const round = await loop.round(new Set(), { write: true, allObjects: true });
      draining.took(round);
      return round;
    },
  };
}

/** Whether it has come to its end by now, as far as promises go that wait for nothing else. */
async function outcome<T>(promise: Promise<T>): Promise<T | "waits"> {
  const turn = new Promise<"waits">((resolve) => setImmediate(() => resolve("waits")));
  return await Promise.race([promise, turn]);
}

describe("an order to drain", () => {
  it("holds for the rounds that begin after it, and is carried out when a reading shows it", async () => {
    const { draining, round, ordered } = agent();
    expect((await round()).snapshot.held).toHaveLength(2);
    const answer = draining.order(LONG);
    expect(draining.isOrdered()).toBe(true);
    const drained = await round();
    expect(drained.snapshot.held).toEqual([]);
    expect(drained.outcome.steps[0]?.phase).toBe("withdraw");
    // It has been written, and not been read back.
    expect(await outcome(answer)).toBe("waits");
    await round();
    expect(await outcome(answer)).toEqual({ node: "node1", answered: [], failures: [] });
    // Once is enough: it holds until the process ends.
    expect(await outcome(draining.order(LONG))).toEqual({ node: "node1", answered: [], failures: [] });
    expect(ordered()).toBe(1);
    expect((await round()).snapshot.held).toEqual([]);
  });

  it("takes nothing for done of a round that was under way when it came", async () => {
    const { draining, round } = agent();
    const early = await round();
    const answer = draining.order(LONG);
    draining.took(early);
    expect(await outcome(answer)).toBe("waits");
    draining.close();
    expect((await answer).answered).toEqual(["no round has been made since the order"]);
  });

  it("says what is left and why when its time is over, and goes on", async () => {
    const { draining, round, tools, pass, meddle } = agent();
    await round();
    const before = draining.order(LONG);
    tools.fail({ ip: "RTNETLINK answers: Operation not permitted" });
    await round();
    pass(LONG);
    await round();
    const late = await outcome(before);
    expect(late).toEqual({
      node: "node1",
      answered: ["10.10.10.50 on eth1", "172.18.0.50 on eth0"],
      failures: ["addresses: RTNETLINK answers: Operation not permitted"],
    });
    tools.fail({});
    const again = draining.order(LONG);
    await round();
    // Somebody puts it back.
    meddle((facts) => ({
      ...facts,
      network: {
        ...facts.network,
        addresses: [
          ...facts.network.addresses,
          {
            link: "eth1",
            family: 4,
            address: "10.10.10.50",
            length: 32,
            scope: "global",
            label: "",
            flags: [],
          },
        ],
      },
    }));
    await round();
    expect(await outcome(again)).toBe("waits");
    await round();
    expect(await outcome(again)).toMatchObject({ answered: [] });
  });

  it("of which no round can begin says so", async () => {
    const { draining, pass } = agent();
    const answer = draining.order(LONG);
    pass(LONG);
    draining.failed(new Error("ip: no answer within 30000 ms"));
    expect(await outcome(answer)).toEqual({
      node: "node1",
      answered: ["no round has been made since the order"],
      failures: ["ip: no answer within 30000 ms"],
    });
  });

  it("is carried out although the objects cannot be read any more", async () => {
    const { draining, round, unreadable } = agent();
    await round();
    unreadable();
    await expect(round()).rejects.toThrow("cannot read the folder");
    const answer = draining.order(LONG);
    await round();
    await round();
    expect(await outcome(answer)).toEqual({ node: "node1", answered: [], failures: [] });
  });

  it("is told to who waits when the process ends", async () => {
    const { draining, round } = agent();
    await round();
    const answer = draining.order(LONG);
    await round();
    draining.close();
    expect((await answer).answered).toEqual(["10.10.10.50 on eth1", "172.18.0.50 on eth0"]);
  });
});

describe("with a northbound database, shared gateway mode", () => {
  const nat = (facts: HostFacts): HostFacts => {
    const found = withNats(facts, ["10.244.1.3", "10.244.2.3"], ["node1", "node2"]).northbound;
    const given = [...entriesOf(found.pods)].map(([address, rows]) => {
      const of = rows.map((row) => ({ ...row, columns: { ...row.columns, external_ip: "172.18.0.50" } }));
      return [address, of] as const;
    });
    return { ...facts, northbound: { ...found, pods: shardsFrom(given) } };
  };

  it("what the own gateway router has is answered for, what another has is not this node's", async () => {
    const { draining, round, meddle } = agent(nat(factsOf("node1", "central")), "shared");
    const answer = draining.order(LONG);
    // As long as the rows are found: the tools here change nothing in a database.
    meddle(nat);
    await round();
    expect(await outcome(answer)).toBe("waits");
    draining.close();
    expect((await answer).answered).toEqual(["172.18.0.50 by GR_node1"]);
  });

  it("waits until flows have followed", async () => {
    const { draining, round, followed, pass } = agent({ ...bareHost, northbound: NORTHBOUND_OFF }, "shared");
    followed.answer = false;
    const answer = draining.order(LONG);
    await round();
    await round();
    expect(await outcome(answer)).toBe("waits");
    // Asked after a round and not in a loop of its own.
    expect(followed.asked).toBeLessThan(5);
    followed.answer = true;
    await round();
    expect(await outcome(answer)).toMatchObject({ answered: [] });
    followed.answer = false;
    const never = draining.order(LONG);
    expect(await outcome(never)).toBe("waits");
    pass(LONG);
    await round();
    expect((await never).answered).toEqual(["flows of OVN have not followed its rows"]);
  });

  it("takes a database that cannot be read for no proof, where egress IPs may stand in it", async () => {
    const away = (mode: "local" | "shared") =>
      agent({ ...bareHost, northbound: { ...NORTHBOUND_OFF, state: "stale" } }, mode);
    const shared = away("shared");
    const answer = shared.draining.order(LONG);
    await shared.round();
    await shared.round();
    expect(await outcome(answer)).toBe("waits");
    shared.draining.close();
    expect(await answer).toMatchObject({
      answered: ["what GR_node1 has, since the northbound database cannot be read"],
      failures: [expect.stringContaining("northbound: ")],
    });
    const local = away("local");
    const done = local.draining.order(LONG);
    await local.round();
    await local.round();
    expect(await outcome(done)).toMatchObject({ answered: [] });
  });
});

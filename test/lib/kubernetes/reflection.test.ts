// A reflection over real connections, against a server that does all that servers do when they are ill: the copy is right in the
// end, never smaller than the truth in between, and nothing is left open.
import { describe, expect, it } from "vitest";
import {
  type Cluster,
  type ClusterParts,
  type Reflection,
  StatusError,
  UnreachableError,
} from "../../../lib/kubernetes/index.ts";
import { until } from "../../support/until.ts";
import { manualClock } from "../ovsdb-client/manual-clock.ts";
import { clusterOf } from "./configured.ts";
import { type Fault, type OneKind, oneKind, status } from "./one-kind.ts";
import { type ScriptedServer, scriptedServer } from "./scripted-server.ts";

const resource = { group: "", version: "v1", plural: "pods" };

interface Seen {
  readonly name: string;
  readonly value: unknown;
}

interface Watched {
  readonly kind: OneKind;
  readonly server: ScriptedServer;
  readonly cluster: Cluster;
  readonly pods: Reflection<Seen>;
  /** The fewest objects there were at any change since it was synced. */
  fewest(): number;
  /** What was wrong, ever. */
  readonly failures: readonly Error[];
  /** How many objects there were at each of them. */
  readonly sizes: readonly number[];
  /** Resolves when the copy is what the server has. */
  right(): Promise<unknown>;
}

const reflectPods = (cluster: Cluster, onChange = () => {}): Reflection<Seen> =>
  cluster.reflect({
    resource,
    project: (raw) => ({ name: (raw["metadata"] as { name: string }).name, value: raw["value"] }),
    onChange,
  });

async function watching(
  use: (parts: Watched) => Promise<void>,
  {
    prepare = () => {},
    parts = {},
    timeoutMs = 20_000,
  }: { prepare?: (kind: OneKind) => void; parts?: ClusterParts; timeoutMs?: number } = {},
): Promise<void> {
  const kind = oneKind();
  prepare(kind);
  await using server = await scriptedServer(kind.handler);
  await using cluster = await clusterOf(server, parts, { timeoutMs });
  let fewest = Number.POSITIVE_INFINITY;
  const failures: Error[] = [];
  const sizes: number[] = [];
  const pods = reflectPods(cluster, () => {
    if (pods.state.synced) fewest = Math.min(fewest, pods.objects.size);
    const { failure } = pods.state;
    if (failure === undefined || failure === failures.at(-1)) return;
    failures.push(failure);
    sizes.push(pods.objects.size);
  });
  const isRight = () =>
    pods.state.synced &&
    pods.state.failure === undefined &&
    JSON.stringify(copied(pods)) === JSON.stringify(truth(kind)) &&
    kind.watches === 1;
  const right = () =>
    until(isRight, "the copy is right", 15_000).catch((cause: unknown) => {
      const found = { state: pods.state, watches: kind.watches, copy: copied(pods), truth: truth(kind) };
      throw new Error(`${String(cause)}: ${JSON.stringify(found).slice(0, 2_000)}`, { cause });
    });
  await use({ kind, server, cluster, pods, fewest: () => fewest, failures, sizes, right });
}

const inOrder = (lines: readonly string[]) => lines.toSorted((a, b) => (a < b ? -1 : 1));
const copied = ({ objects }: Reflection<Seen>) =>
  inOrder([...objects].map(([key, { value }]) => `${key} ${String(value)}`));
const truth = ({ objects }: OneKind) =>
  inOrder([...objects].map(([name, { value }]) => `shop/${name} ${value}`));

const three = (kind: OneKind): void => {
  for (const name of ["a", "b", "c"]) kind.put(name);
};
const questionsOf = ({ questions }: ScriptedServer) =>
  questions.map(({ query }) => {
    if (query["watch"] !== "true") return `list ${query["limit"] ?? "whole"}`;
    return query["sendInitialEvents"] === "true" ? "watchList" : `watch ${query["resourceVersion"] ?? "?"}`;
  });

describe("a list as a watch", () => {
  it("is complete at its bookmark, not before, and goes on as a watch", async () => {
    const seen: Parameters<Fault>[1][] = [];
    const pod = (name: string) => ({
      metadata: { name, namespace: "shop", uid: name, resourceVersion: "5" },
    });
    const bookmark = {
      type: "BOOKMARK",
      object: { metadata: { resourceVersion: "7", annotations: { "k8s.io/initial-events-end": "true" } } },
    };
    await using server = await scriptedServer((_, reply) => {
      seen.push(reply);
      reply.write(...["a", "b"].map((name) => ({ type: "ADDED", object: pod(name) })));
    });
    await using cluster = await clusterOf(server);
    const pods = reflectPods(cluster);
    await until(() => pods.state.counts.events === 2, "two events");
    expect([pods.state.synced, pods.objects.size, pods.takeChanged()]).toEqual([false, 0, []]);
    seen[0]?.write({ type: "DELETED", object: pod("b") }, bookmark, { type: "ADDED", object: pod("c") });
    await until(() => pods.objects.size === 2, "two objects");
    expect([pods.state.synced, pods.takeChanged(), questionsOf(server)]).toEqual([
      true,
      ["shop/a", "shop/c"],
      ["watchList"],
    ]);
    expect(server.questions[0]?.query).toMatchObject({
      allowWatchBookmarks: "true",
      resourceVersionMatch: "NotOlderThan",
      sendInitialEvents: "true",
    });
  });

  it("is followed by a list in pages where it was cut, and by that only", async () => {
    const cut: Fault = (_, reply) => {
      reply.write({ type: "ADDED", object: { metadata: { name: "x", resourceVersion: "1" } } });
      setImmediate(() => reply.reset());
    };
    await watching(
      async ({ kind, server, pods, right }) => {
        await right();
        expect(questionsOf(server)).toEqual(["watchList", "list 500", "list 1", `watch ${kind.revision}`]);
        expect(pods.objects.has("x")).toBe(false);
        kind.compact();
        kind.end("end");
        await right();
        expect(questionsOf(server).at(-1)).toBe("watchList");
      },
      {
        prepare: (kind) => {
          three(kind);
          kind.watchList = true;
          kind.faults.push(cut);
        },
      },
    );
  });

  it("is not asked for again in a cluster that does not know it", async () => {
    await watching(
      async ({ server, cluster, right }) => {
        await right();
        const again = reflectPods(cluster);
        await until(() => again.state.synced, "synced");
        expect(questionsOf(server).filter((question) => question === "watchList")).toHaveLength(1);
        expect(again.state.counts.gaps).toBe(0);
      },
      { prepare: three },
    );
  });
});

describe("a list in pages", () => {
  const many = (kind: OneKind): void => {
    for (let at = 0; at < 1_234; at++) kind.put(`p${at}`, "ä€😀".repeat(at % 7));
  };

  it("is complete with its last page", async () => {
    await watching(
      async ({ kind, server, pods, right }) => {
        await right();
        expect(questionsOf(server)).toEqual([
          "watchList",
          "list 500",
          "list 500",
          "list 500",
          "list 1",
          `watch ${kind.revision}`,
        ]);
        expect(pods.takeChanged()).toHaveLength(1_234);
      },
      { prepare: many },
    );
  });

  it("that grows too old on the way is begun anew, in one piece", async () => {
    await watching(
      async ({ server, pods, right }) => {
        await right();
        expect(questionsOf(server).slice(0, 4)).toEqual(["watchList", "list 500", "list 500", "list whole"]);
        expect(pods.state.counts).toMatchObject({ gaps: 1 });
      },
      {
        prepare: (kind) => {
          many(kind);
          kind.faults.push(
            () => true,
            () => true,
            () => {
              kind.compact();
              return true;
            },
          );
        },
      },
    );
  });

  it("lets others have their turn", async () => {
    const list = JSON.stringify({
      kind: "PodList",
      metadata: { resourceVersion: "9" },
      items: Array.from({ length: 20_000 }, (_, at) => ({
        metadata: { name: `p${at}`, uid: `${at}`, resourceVersion: `${at}` },
        value: { text: "x".repeat(500), deep: Array.from({ length: 20 }, () => ({ a: 1 })) },
      })),
    });
    await using server = await scriptedServer(({ query }, reply) => {
      if (query["watch"] === undefined) reply.send(200, list);
      else if (query["sendInitialEvents"] === "true") reply.send(422, status(422, "Invalid"));
      else reply.write();
    });
    await using cluster = await clusterOf(server);
    let turns = 0;
    let slices = 0;
    const pods = reflectPods(cluster, () => slices++);
    const turn = (): void => {
      turns++;
      if (!pods.state.synced) setImmediate(turn);
    };
    await until(() => pods.state.lastContact !== undefined, "a byte");
    turn();
    await until(() => pods.state.synced, "synced", 30_000);
    expect(turns).toBeGreaterThan(20);
    expect([pods.objects.size, slices]).toEqual([20_000, 1]);
  });
});

const half =
  '{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"x","uid":"x","resourceVersion":"9"}},';

const badLists: Readonly<Record<string, Fault>> = {
  "500": (_, reply) => reply.send(500, status(500, "InternalError")),
  "403": (_, reply) => reply.send(403, status(403, "Forbidden")),
  "429": (_, reply) => reply.send(429, status(429, "TooManyRequests"), { "retry-after": "0" }),
  "503 of a proxy": (_, reply) => reply.send(503, "<html>"),
  "a page of a portal": (_, reply) => reply.send(200, "<html>"),
  "{}": (_, reply) => reply.send(200, {}),
  "a Status that says success": (_, reply) =>
    reply.send(200, { kind: "Status", metadata: {}, status: "Success" }),
  "a list without version": (_, reply) => reply.send(200, { kind: "PodList", metadata: {}, items: [] }),
  "a list without items": (_, reply) =>
    reply.send(200, { kind: "PodList", metadata: { resourceVersion: "9" } }),
  "half a list that ends well": (_, reply) => {
    reply.writeBytes(half);
    reply.end();
  },
  "half a list that is reset": (_, reply) => {
    reply.writeBytes(half);
    setImmediate(() => reply.reset());
  },
  "an item that is none": (_, reply) =>
    reply.send(200, { kind: "PodList", metadata: { resourceVersion: "9" }, items: [{}] }),
  "pages of different lists": ({ query }, reply) => {
    const metadata = { resourceVersion: "8", continue: "more" };
    const other = { resourceVersion: "9" };
    reply.send(200, { kind: "PodList", metadata: query["continue"] ? other : metadata, items: [] });
  },
  "no answer": (_, reply) => reply.reset(),
};

describe.each(Object.entries(badLists))("a list that is answered with %s", (_, fault) => {
  it("is no list: nothing is synced, nothing is lost, and it is asked for again", async () => {
    await watching(
      async ({ kind, pods, right, fewest, failures }) => {
        await right();
        expect(failures.length).toBeGreaterThan(0);
        expect(pods.takeChanged()).toEqual(["shop/a", "shop/b", "shop/c"]);
        const [first] = pods.objects.values();
        const before = failures.length;
        kind.listFaults.push(fault, fault);
        kind.compact();
        kind.end("end");
        await until(() => kind.listFaults.length === 0, "all faults met");
        await right();
        expect(failures.length).toBeGreaterThan(before);
        expect([fewest(), pods.objects.values().next().value === first]).toEqual([3, true]);
      },
      {
        prepare: (kind) => {
          three(kind);
          kind.listFaults.push(fault, fault);
        },
      },
    );
  });
});

const badWatches: Readonly<Record<string, Fault>> = {
  "500": (_, reply) => reply.send(500, status(500, "InternalError")),
  "403": (_, reply) => reply.send(403, status(403, "Forbidden")),
  "401": (_, reply) => reply.send(401, status(401, "Unauthorized")),
  "429": (_, reply) => reply.send(429, status(429, "TooManyRequests"), { "retry-after": "0" }),
  "400": (_, reply) => reply.send(400, status(400, "BadRequest")),
  "410": (_, reply) => reply.send(410, status(410, "Expired")),
  "404 once": (_, reply) => reply.send(404, "404 page not found"),
  "no answer": (_, reply) => reply.reset(),
  "half an event and a reset": (_, reply) => {
    reply.writeBytes('{"type":"DELETED","object":{"metadata":{"na');
    setImmediate(() => reply.reset());
  },
  "half an event and an end": (_, reply) => {
    reply.writeBytes('{"type":"DELETED","object":{"metadata":{"na');
    reply.end();
  },
  "a line that is no JSON": (_, reply) => reply.write("oops"),
  "an event of no known type": (_, reply) => reply.write({ type: "WAT", object: { metadata: {} } }),
  "an end at once": (_, reply) => {
    reply.write();
    reply.end();
  },
  "an ERROR of 410": (_, reply) => reply.write({ type: "ERROR", object: status(410, "Expired") }),
  "an ERROR of 500": (_, reply) => reply.write({ type: "ERROR", object: status(500, "InternalError") }),
  "an ERROR of 429": (_, reply) => reply.write({ type: "ERROR", object: status(429, "TooManyRequests") }),
};

describe.each(Object.entries(badWatches))("a watch that is answered with %s", (_, fault) => {
  it("is asked for again, and what happened meanwhile is known in the end", async () => {
    await watching(
      async ({ kind, server, right, fewest }) => {
        await right();
        kind.watchFaults.push(fault, fault);
        kind.end("reset");
        const asked = server.questions.length;
        kind.remove("a");
        kind.remove("b");
        kind.put("b", "again");
        kind.put("d");
        await until(() => kind.watchFaults.length === 0, "all faults met");
        await right();
        expect(fewest()).toBeGreaterThanOrEqual(2);
        expect(server.questions.length - asked).toBeLessThan(12);
        expect(server.streams).toBe(1);
      },
      { prepare: three },
    );
  });
});

describe("a line that cannot be read", () => {
  it("however often it comes, is got past by a list", async () => {
    const oops: Fault = (_, reply) => reply.write("oops");
    await watching(
      async ({ kind, pods, right }) => {
        await right();
        kind.watchFaults.push(oops, oops);
        kind.end("end");
        await until(() => kind.watchFaults.length === 0, "both");
        await right();
        expect(pods.state.counts).toMatchObject({ unread: 2, lists: 4, gaps: 0 });
      },
      { prepare: three },
    );
  });
});

describe("a gap", () => {
  it.each(["status", "event"] as const)(
    "told as %s is closed by a list and its difference",
    async (expiry) => {
      await watching(
        async ({ kind, pods, right, fewest }) => {
          await right();
          kind.expiry = expiry;
          const b = pods.objects.get("shop/b");
          pods.takeChanged();
          kind.end("reset");
          kind.remove("a");
          kind.remove("c");
          kind.put("c", "c");
          kind.compact();
          await right();
          expect(pods.state.counts).toMatchObject({ gaps: 1, replaced: 1 });
          expect([pods.takeChanged(), pods.objects.get("shop/b") === b, fewest()]).toEqual([
            ["shop/a", "shop/c"],
            true,
            2,
          ]);
        },
        { prepare: three },
      );
    },
  );

  it("of a server that was restored from a copy is found, though it says nothing", async () => {
    await watching(
      async ({ kind, pods, right }) => {
        await right();
        const copyOf = kind.revision;
        kind.put("d");
        kind.put("a", "later");
        await right();
        kind.restore(copyOf);
        await right();
        expect([pods.objects.size, pods.state.counts.gaps]).toEqual([3, 1]);
      },
      { prepare: three },
    );
  });
});

describe("a server that was restored from a copy, and has come as far again", () => {
  const behind = async (change: (kind: OneKind) => void) => {
    let counts: unknown;
    await watching(
      async ({ kind, pods, right }) => {
        await right();
        const copyOf = kind.revision;
        change(kind);
        await right();
        const before = kind.revision;
        kind.restore(copyOf);
        // Of what was restored nothing is told; what is written now is beyond all that was known.
        kind.revision = before + 1;
        kind.put("z");
        await right();
        const { gaps, behind: times } = pods.state.counts;
        counts = { gaps, behind: times };
      },
      { prepare: three },
    );
    return counts;
  };

  it("is found by an object that is older than it was", async () => {
    expect(await behind((kind) => kind.put("a", "later"))).toEqual({ gaps: 1, behind: 1 });
  });

  it("is listed where all is gone that changed last, which a deletion may have done as well", async () => {
    const change = (kind: OneKind) => {
      for (const name of ["d", "e", "f"]) kind.put(name);
    };
    expect(await behind(change)).toEqual({ gaps: 1, behind: 0 });
  });
});

describe("a watch that goes on where it was", () => {
  it("is asked for after one question, for what changed last", async () => {
    await watching(
      async ({ kind, server, pods, right }) => {
        await right();
        kind.put("b", "later");
        await right();
        kind.end("end");
        await right();
        const asked = server.questions.slice(-2).map(({ path, query }) => [path, query["fieldSelector"]]);
        expect(asked).toEqual([
          ["/api/v1/namespaces/shop/pods", "metadata.name=b"],
          ["/api/v1/pods", undefined],
        ]);
        expect(pods.state.counts).toMatchObject({ gaps: 0, behind: 0 });
      },
      { prepare: three },
    );
  });
});

describe("when the copy was last known to be right", () => {
  /** With another failure than that: it then waits, and nothing is asked. */
  const failsAgain = (pods: Reflection<Seen>, before: Error | undefined) => {
    const isOther = () => (pods.state.failure === before ? undefined : pods.state.failure);
    return until(isOther, "it fails again");
  };

  it("is not told by an answer that is an error", async () => {
    const clock = manualClock();
    await watching(
      async ({ kind, pods, right }) => {
        await right();
        expect(pods.state.lastRight).toBe(0);
        const refuse: Fault = (_, reply) => reply.send(500, status(500, "InternalError"));
        kind.watchFaults.push(refuse, refuse);
        clock.advance(50_000);
        kind.end("reset");
        let failure = await failsAgain(pods, undefined);
        for (const left of [1, 0]) {
          clock.advance(30_000);
          failure = await failsAgain(pods, failure);
          expect(kind.watchFaults).toHaveLength(left);
        }
        expect(pods.state).toMatchObject({ lastContact: 110_000, lastRight: 0 });
        expect(failure).toBeInstanceOf(StatusError);
        clock.advance(30_000);
        await right();
        expect(pods.state.lastRight).toBe(140_000);
      },
      { prepare: three, parts: { clock, random: () => 0.999, backoff: { least: 30_000, most: 30_000 } } },
    );
  });

  it("is not told by a watch that is cut in its next event each time, until that came whole", async () => {
    const clock = manualClock();
    await watching(
      async ({ kind, pods, right }) => {
        await right();
        const halfAnEvent: Fault = (_, reply) => {
          reply.writeBytes('{"type":"MODIFIED","object":{"kind":"Pod","meta');
          setImmediate(() => reply.reset());
        };
        kind.watchFaults.push(halfAnEvent, halfAnEvent, halfAnEvent);
        kind.end("reset");
        kind.put("a", "later");
        const rights: unknown[] = [];
        let failure = await failsAgain(pods, undefined);
        for (const left of [2, 1, 0]) {
          clock.advance(30_000);
          failure = await failsAgain(pods, failure);
          expect(kind.watchFaults).toHaveLength(left);
          rights.push(pods.state.lastRight);
        }
        // Of the first it was not known yet.
        expect(rights).toEqual([30_000, 30_000, 30_000]);
        expect(failure).toBeInstanceOf(UnreachableError);
        clock.advance(30_000);
        await right();
        expect([pods.state.lastRight, pods.state.failure]).toEqual([120_000, undefined]);
      },
      { prepare: three, parts: { clock, random: () => 0.999, backoff: { least: 30_000, most: 30_000 } } },
    );
  });
});

describe("a watch that ends as it should", () => {
  it("goes on from its last event or bookmark, with a time of its own", async () => {
    const clock = manualClock();
    await watching(
      async ({ kind, server, pods, right }) => {
        await right();
        kind.bookmark();
        const last = kind.revision;
        await until(() => pods.state.counts.events === 1, "the bookmark");
        clock.advance(300_000);
        kind.end("end");
        await until(() => kind.watches === 1, "a watch");
        expect(questionsOf(server).slice(-2)).toEqual(["list 1", `watch ${last}`]);
        const seconds = server.questions.flatMap(({ query }) => query["timeoutSeconds"] ?? []);
        expect(seconds.every((text) => Number(text) >= 300 && Number(text) < 600)).toBe(true);
        expect(pods.state).toMatchObject({ failure: undefined, counts: { gaps: 0 } });
      },
      { prepare: three, parts: { clock, random: () => 0.3, idleMs: 1_000_000 } },
    );
  });
});

describe("silence", () => {
  it("of a watch is ended after a time without a byte, and bytes put it off", async () => {
    const clock = manualClock();
    await watching(
      async ({ kind, server, pods, right }) => {
        await right();
        clock.advance(100_000);
        kind.put("a", "new");
        await right();
        clock.advance(100_000);
        kind.put("a", "newer");
        await right();
        expect([pods.state.counts.watches, pods.state.failure]).toEqual([2, undefined]);
        const [before] = server.questions.slice(-1);
        clock.advance(180_000);
        await until(() => pods.state.failure !== undefined, "a failure");
        expect(pods.state.failure).toBeInstanceOf(UnreachableError);
        expect(pods.state.failure?.message).toMatch(/^GET https:\S+pods: nothing heard for 180 s$/);
        await until(() => kind.watches === 0, "the old request to be over");
        clock.advance(10_000);
        await right();
        expect(server.questions.at(-1)).not.toBe(before);
        expect(pods.state.lastContact).toBe(390_000);
      },
      { prepare: three, parts: { clock, idleMs: 180_000, backoff: { least: 800, most: 30_000 } } },
    );
  });

  it("before an answer is ended too", async () => {
    await watching(
      async ({ pods, right, failures }) => {
        await right();
        expect(failures).toEqual([expect.any(UnreachableError)]);
        expect(pods.state.counts.lists).toBe(3);
      },
      { timeoutMs: 200, prepare: (kind) => void kind.faults.push(() => {}) },
    );
  });
});

describe("a question how far the server is", () => {
  it("may go without answer, as any", async () => {
    const clock = manualClock();
    const hang: Fault = (_, reply) => reply.write("{");
    await watching(
      async ({ kind, pods, right }) => {
        await until(() => kind.faults.length === 0 && clock.waiting === 1, "the question");
        clock.advance(180_000);
        await until(() => pods.state.failure !== undefined, "a failure");
        clock.advance(3_000);
        await right();
        expect(pods.state.counts.lists).toBe(2);
      },
      {
        prepare: (kind) => {
          three(kind);
          kind.faults.push(
            () => true,
            () => true,
            hang,
          );
        },
        parts: { clock, idleMs: 180_000, backoff: { least: 800, most: 30_000 } },
      },
    );
  });

  it("is not insisted on where only watching is allowed", async () => {
    await watching(
      async ({ pods, right }) => {
        await right();
        expect(pods.state.counts).toMatchObject({ lists: 2, watches: 2, gaps: 0 });
      },
      {
        prepare: (kind) => {
          three(kind);
          kind.faults.push(
            () => true,
            () => true,
            (_, reply) => reply.send(403, status(403, "Forbidden")),
          );
        },
      },
    );
  });
});

describe("a server that refuses for long", () => {
  it("is asked at a bounded rate, and as late as it says", async () => {
    const clock = manualClock();
    await using server = await scriptedServer((_, reply) => reply.send(500, status(500, "InternalError")));
    await using cluster = await clusterOf(server, {
      clock,
      random: () => 0.5,
      backoff: { least: 800, most: 30_000 },
    });
    const failures = new Set<Error>();
    const pods = reflectPods(cluster, () => {
      if (pods.state.failure !== undefined) failures.add(pods.state.failure);
    });
    const answered = async () => {
      // What is due is asked first.
      await new Promise(setImmediate);
      await until(() => pods.state.counts.lists === failures.size, "an answer");
    };
    for (let second = 0; second < 600; second++) {
      await answered();
      clock.advance(1_000);
    }
    await answered();
    // 0, 1.6, 4, 8.8, … up to every 30 s.
    expect(server.questions.length).toBeGreaterThanOrEqual(20);
    expect(server.questions.length).toBeLessThanOrEqual(28);
    expect([pods.state.synced, pods.state.failure]).toEqual([false, expect.any(StatusError)]);
    server.handler = (_, reply) => reply.send(429, status(429, "TooManyRequests"), { "retry-after": "120" });
    clock.advance(30_000);
    await answered();
    const asked = server.questions.length;
    clock.advance(119_000);
    await answered();
    expect(server.questions.length).toBe(asked);
    clock.advance(2_000);
    await until(() => server.questions.length === asked + 1, "another question");
  });
});

describe("a kind that the server does not know", () => {
  it("is absent, and picked up when it is there", async () => {
    await watching(
      async ({ kind, pods, right }) => {
        await until(() => pods.state.absent, "absent");
        expect(pods.state).toMatchObject({ synced: false, failure: undefined });
        kind.known = true;
        three(kind);
        await right();
        expect(pods.state).toMatchObject({ synced: true, absent: false });
      },
      {
        prepare: (kind) => {
          kind.known = false;
        },
      },
    );
  });

  it("and did know is empty when it says so several times", async () => {
    await watching(
      async ({ kind, server, pods, right, fewest, failures, sizes }) => {
        await right();
        pods.takeChanged();
        kind.known = false;
        kind.end("end");
        const asked = server.questions.length;
        await until(() => pods.state.absent, "absent");
        // Two were doubted, with all objects there; the third was believed.
        expect(failures).toEqual([
          expect.objectContaining({ code: 404 }),
          expect.objectContaining({ code: 404 }),
        ]);
        expect([server.questions.length - asked, fewest()]).toEqual([3, 0]);
        expect(sizes).toEqual([3, 3]);
        expect([pods.objects.size, pods.takeChanged(), pods.state.failure]).toEqual([
          0,
          ["shop/a", "shop/b", "shop/c"],
          undefined,
        ]);
      },
      { prepare: three },
    );
  });
});

describe("an object that cannot be read", () => {
  it("is left out and counted, and the others are there", async () => {
    await using server = await scriptedServer(({ query }, reply) => {
      const items = ["a", "bad", "c"].map((name) => ({
        metadata: { name, uid: name, resourceVersion: "1" },
      }));
      if (query["sendInitialEvents"] === "true") reply.send(422, status(422, "Invalid"));
      else if (query["watch"] === "true") reply.write();
      else reply.send(200, { kind: "PodList", metadata: { resourceVersion: "1" }, items });
    });
    await using cluster = await clusterOf(server);
    const pods = cluster.reflect<string>({
      resource,
      project: (raw) => {
        const { name } = raw["metadata"] as { name: string };
        if (name === "bad") throw new Error("bad");
        return name;
      },
      onChange: () => {},
    });
    await until(() => pods.state.synced, "synced");
    expect([[...pods.objects.keys()], pods.state.counts.unread]).toEqual([["a", "c"], 1]);
  });
});

describe("a thousand reconnections", () => {
  it("leave no socket, no stream and no memory behind", async () => {
    await watching(
      async ({ kind, server, pods, right }) => {
        await right();
        let heap = 0;
        let most = 0;
        for (let at = 0; at < 1_000; at++) {
          const watches = pods.state.counts.watches;
          kind.remove(`churn${at - 1}`);
          kind.put(`churn${at}`, "x".repeat(1_000));
          if (at % 50 === 49) server.cut();
          else kind.end(at % 2 === 0 ? "end" : "reset");
          await until(() => pods.state.counts.watches > watches && kind.watches === 1, `reconnection ${at}`);
          most = Math.max(most, server.open);
          if (at === 200) heap = await heapUsed();
        }
        await right();
        expect(pods.objects.size).toBe(4);
        expect(most).toBeLessThanOrEqual(3);
        expect(server.accepted).toBeLessThan(100);
        expect(server.streams).toBe(1);
        // The server and its record of questions are in this heap too.
        server.questions.length = 0;
        expect((await heapUsed()) - heap).toBeLessThan(3_000_000);
      },
      { prepare: three, parts: { backoff: { least: 0, most: 1 } } },
    );
  });
});

async function heapUsed(): Promise<number> {
  const { setFlagsFromString } = await import("node:v8");
  const { runInNewContext } = await import("node:vm");
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  collect();
  await new Promise(setImmediate);
  collect();
  return process.memoryUsage().heapUsed;
}

describe("closing", () => {
  it("ends what is asked and leaves no timer, whatever it was waiting for", async () => {
    const clock = manualClock();
    await watching(
      async ({ kind, server, cluster, pods, right }) => {
        await right();
        const failing = reflectPods(cluster);
        kind.faults.push((_, reply) => reply.send(500, status(500, "InternalError")));
        await until(() => failing.state.failure !== undefined, "a failure");
        pods.close();
        failing.close();
        await until(() => server.streams === 0 && clock.waiting === 0, "nothing open");
        const asked = server.questions.length;
        clock.advance(1_000_000);
        await cluster.close();
        await until(() => server.open === 0, "no connection");
        expect(server.questions.length).toBe(asked);
        await expect(cluster.request("GET", "/x")).rejects.toThrow(UnreachableError);
      },
      { prepare: three, parts: { clock } },
    );
  });
});

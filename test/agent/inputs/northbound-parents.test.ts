// Under which router rows stand: asked for once on a connection, compared with where they belong, and never guessed from what may be past.
import { describe, expect, it } from "vitest";
import { createParents } from "../../../agent/inputs/northbound/parents.ts";
import { byCodeUnit } from "../../../agent/model/names.ts";
import type { Changes } from "../../../lib/ovsdb-client/pure.ts";
import { until } from "../../support/until.ts";

interface Router {
  readonly name: string;
  readonly policies: readonly string[];
  readonly nat: readonly string[];
}

/** A server that answers when it is told to. */
function asking(places: ReadonlyMap<string, string>) {
  const answers: {
    readonly answer: (...routers: readonly (readonly Partial<Router>[])[]) => void;
    readonly fail: (error: Error) => void;
  }[] = [];
  const moved: string[] = [];
  let behind = 0;
  const parents = createParents(
    {
      transact: (() =>
        new Promise((resolve, reject) => {
          answers.push({ answer: (...rows) => resolve(rows.map((of) => ({ rows: of }))), fail: reject });
        })) as never,
    },
    () => places,
    "GR_node1",
    {
      moved: (uuids) => void moved.push(...uuids),
      behind: () => void behind++,
    },
  );
  return { parents, answers, moved, behind: () => behind };
}

const inserted = (uuid: string) =>
  ({ tables: new Map([["NAT", [{ uuid, before: undefined, after: {} }]]]) }) as unknown as Changes;
const router = (name: string, policies: readonly string[], nat: readonly string[] = []): Router => ({
  name,
  policies,
  nat,
});

describe("parents of rows", () => {
  it("are known when they were answered, and say only what is not as it should be", async () => {
    const { parents, answers, moved, behind } = asking(
      new Map([
        ["p", "cluster"],
        ["q", "cluster"],
        ["n", "GR_node1"],
      ]),
    );
    const asked = parents.ask(true);
    expect(parents.ask(true)).toBe(asked);
    expect(parents.known).toBe(false);
    answers[0]?.answer([
      router("cluster", ["p", "q", "other"]),
      router("GR_node1", ["q"]),
      router("GR_node2", [], ["n"]),
    ]);
    await asked;
    expect(parents.known).toBe(true);
    expect([parents.standsOn("p"), parents.standsOn("q"), parents.standsOn("n")]).toEqual([
      undefined,
      ["GR_node1", "cluster"],
      ["GR_node2"],
    ]);
    expect(moved.sort(byCodeUnit)).toEqual(["n", "q"]);
    expect(behind()).toBe(0);
  });

  it("tell again what has moved since, both ways", async () => {
    const { parents, answers, moved } = asking(new Map([["n", "GR_node1"]]));
    for (const [at, name] of ["GR_node2", "GR_node2", "GR_node1"].entries()) {
      const asked = parents.ask(true);
      answers[at]?.answer([router(name, [], ["n"])]);
      await asked;
    }
    expect(moved).toEqual(["n", "n"]);
    expect(parents.standsOn("n")).toBeUndefined();
  });

  it("do not miss a row that came while they were asked for", async () => {
    const { parents, answers, behind } = asking(new Map([["n", "GR_node1"]]));
    const asked = parents.ask(true);
    parents.take(inserted("n"));
    answers[0]?.answer([router("GR_node1", [])]);
    await asked;
    expect([parents.known, behind(), parents.standsOn("n")]).toEqual([true, 0, undefined]);
  });

  it("are not known where a row has none: then its end was not told of", async () => {
    const { parents, answers, behind } = asking(new Map([["n", "GR_node1"]]));
    parents.take(inserted("n"));
    const asked = parents.ask(true);
    answers[0]?.answer([router("GR_node1", [])]);
    await asked;
    expect([parents.known, behind()]).toEqual([false, 1]);
  });

  it("are forgotten with their connection, an answer that comes too late too", async () => {
    const { parents, answers } = asking(new Map([["n", "GR_node1"]]));
    const asked = parents.ask(true);
    parents.forget();
    answers[0]?.answer([router("GR_node2", [], ["n"])]);
    await asked;
    expect([parents.known, parents.standsOn("n")]).toEqual([false, undefined]);
    const again = parents.ask(true);
    answers[1]?.fail(new Error("gone"));
    await again;
    expect(parents.known).toBe(false);
  });

  it("are first asked for where they do not belong, and as a whole only where something is there", async () => {
    const { parents, answers, moved, behind } = asking(
      new Map([
        ["p", "ovn_cluster_router"],
        ["n", "GR_node1"],
        ["m", "GR_node2"],
      ]),
    );
    const asked = parents.ask(false);
    answers[0]?.answer([{ name: "GR_node1", policies: ["other"] }], [{ name: "GR_node2", nat: ["m"] }]);
    await asked;
    expect([parents.known, answers.length, moved, behind()]).toEqual([true, 1, [], 0]);
    parents.forget();
    const again = parents.ask(false);
    answers[1]?.answer([{ name: "GR_node1", policies: ["p"] }], [{ name: "GR_node2", nat: ["m"] }]);
    await until(() => answers[2], "it asks for the whole");
    answers[2]?.answer([
      router("ovn_cluster_router", ["p"]),
      router("GR_node1", ["p"], ["n"]),
      router("GR_node2", [], ["m"]),
    ]);
    await again;
    expect([parents.known, parents.standsOn("p"), moved]).toEqual([
      true,
      ["GR_node1", "ovn_cluster_router"],
      ["p"],
    ]);
  });

  it("of a row of another node that nobody has told of are asked for as a whole: it may be under the own router", async () => {
    const { parents, answers } = asking(new Map([["m", "GR_node2"]]));
    const asked = parents.ask(false);
    answers[0]?.answer([], [{ name: "GR_node2", nat: [] }]);
    await until(() => answers[1], "it asks for the whole");
    answers[1]?.answer([router("GR_node1", [], ["m"])]);
    await asked;
    expect(parents.standsOn("m")).toEqual(["GR_node1"]);
  });
});

// A round over backends that do as they are told: order, failure, holding back, remembering. And over the real ones with tools
// that fail: what one backend cannot do stops nobody from establishing, and everybody from retiring.
import { describe, expect, it } from "vitest";
import { createBuild, type Objects } from "../../../agent/model/build.ts";
import type { Domain, HostFacts } from "../../../agent/model/facts.ts";
import { emptyShards, getFrom } from "../../../agent/model/shards.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { nothing, type Plan } from "../../../agent/plan/plan.ts";
import type { AnyBackend, Diff } from "../../../agent/sync/backend.ts";
import { createBackends } from "../../../agent/sync/backends.ts";
import { carryOut, printSteps, type Step } from "../../../agent/sync/round.ts";
import { adoptServed } from "../../../agent/sync/sets.ts";
import { routeWords } from "../../../lib/netlink/pure.ts";
import { bareHost, egressIP, namespace, node1, node2, objects, pod, settings } from "../make.ts";
import { recordingTools } from "../tools.ts";

const free = { write: true, held: () => false } as const;

/** A backend that always has one change a phase, and notes what it is asked. */
function scripted(
  name: string,
  log: string[],
  of: Partial<Diff<string>> & { readonly fails?: string } = {},
): AnyBackend {
  const { establish = [`+${name}`], retire = [`-${name}`], fails } = of;
  return {
    name,
    reads: { plan: ["routes"], facts: ["nft"] },
    verifies: undefined,
    diff: () => {
      log.push(`diff ${name}`);
      return { establish, retire };
    },
    print: (changes) => changes as readonly string[],
    predict: (facts, changes) => ({ ...facts, nft: `${facts.nft}${changes.join("")}` }),
    apply: async (changes) => {
      log.push(...(changes as readonly string[]));
      if (changes.some((change) => change === fails)) throw new Error(`${name} said no`);
    },
  };
}

const writes = (log: readonly string[]) => log.filter((line) => !line.startsWith("diff"));

describe("carryOut", () => {
  it("establishes first to last, then retires last to first", async () => {
    const log: string[] = [];
    const backends = ["a", "b", "c"].map((name) => scripted(name, log));
    const { steps, failures, facts } = await carryOut(backends, nothing, bareHost, free);
    expect(writes(log)).toEqual(["+a", "+b", "+c", "-c", "-b", "-a"]);
    expect(printSteps(steps.slice(0, 2))).toBe("== establish a\n+a\n\n== establish b\n+b\n");
    expect(failures).toEqual([]);
    expect(facts.nft).toBe("+a+b+c-c-b-a");
  });

  it("works out what to establish from what stood before, whoever has written since", async () => {
    const log: string[] = [];
    const seen: string[] = [];
    const looking = (name: string): AnyBackend => {
      const backend = scripted(name, log, { retire: [] });
      return {
        ...backend,
        diff: (plan, facts) => {
          seen.push(`${name} sees ${JSON.stringify(facts.nft)}`);
          return backend.diff(plan, facts);
        },
      };
    };
    await carryOut([looking("a"), looking("b"), looking("c")], nothing, bareHost, free);
    expect(seen.slice(0, 3)).toEqual(['a sees ""', 'b sees ""', 'c sees ""']);
    expect(writes(log)).toEqual(["+a", "+b", "+c"]);
  });

  it("leaves the event loop to others between pieces that take long: worked out, printed, predicted", async () => {
    const log: string[] = [];
    const long = () => {
      for (const began = performance.now(); performance.now() - began < 20; );
    };
    const slow = (name: string): AnyBackend => {
      const quick = scripted(name, log, { retire: [] });
      return {
        ...quick,
        diff: (...of) => {
          long();
          return quick.diff(...of);
        },
        print: (changes) => {
          long();
          return quick.print(changes);
        },
        predict: (...of) => {
          long();
          return quick.predict(...of);
        },
      };
    };
    let turns = 0;
    let isOver = false;
    const others = () => {
      if (isOver) return;
      turns++;
      setImmediate(others);
    };
    const round = carryOut(["a", "b"].map(slow), nothing, bareHost, free);
    setImmediate(others);
    const { facts, failures } = await round;
    isOver = true;
    // Three for each of the two.
    expect(turns).toBeGreaterThanOrEqual(6);
    expect(failures).toEqual([]);
    expect([writes(log), facts.nft]).toEqual([["+a", "+b"], "+a+b"]);
  });

  it("begins what takes time before any other work", async () => {
    const log: string[] = [];
    const prepare = async () => void log.push("prepare c");
    const backends = [scripted("a", log), scripted("b", log), { ...scripted("c", log), prepare }];
    await carryOut(backends, nothing, bareHost, free);
    expect(log.slice(0, 3)).toEqual(["diff c", "prepare c", "diff a"]);
  });

  describe("reading back", () => {
    /** Each writes one domain; says in the log what is begun, and what that reading is to find. */
    const reading = async (
      domains: readonly (readonly [string, Domain, Partial<Diff<string>> & { fails?: string }])[],
      { write = true }: { write?: boolean } = {},
    ) => {
      const log: string[] = [];
      const backends = domains.map(
        ([name, domain, of]): AnyBackend => ({ ...scripted(name, log, of), verifies: domain }),
      );
      const ahead = {
        begin: (begun: readonly Domain[], { nft }: HostFacts) => log.push(`begin ${begun.join(" ")} ${nft}`),
        doubt: (doubted: Iterable<Domain>) => log.push(`doubt ${[...doubted].join(" ")}`),
      };
      await carryOut(backends, nothing, bareHost, { ...free, write, ahead });
      return writes(log);
    };
    const only = { retire: [] };

    it("begins when nobody is to write a domain any more, beside those that write others", async () => {
      expect(
        await reading([
          ["a", "network", only],
          ["b", "iptables", only],
          ["c", "network", only],
          ["d", "sets", { establish: [], retire: [] }],
        ]),
      ).toEqual(["+a", "+b", "begin iptables +a+b", "+c", "begin network +a+b+c"]);
    });

    it("does not begin with what nft lists while iptables-nft still commits, nor the other way round", async () => {
      expect(
        await reading([
          ["a", "nft", only],
          ["b", "network", only],
          ["c", "iptables", only],
          ["d", "sysctls", only],
        ]),
      ).toEqual([
        "+a",
        "+b",
        "begin network +a+b",
        "+c",
        "begin nft iptables +a+b+c",
        "+d",
        "begin sysctls +a+b+c+d",
      ]);
      expect(
        await reading([
          ["a", "iptables", only],
          ["b", "nft", only],
        ]),
      ).toEqual(["+a", "+b", "begin iptables nft +a+b"]);
    });

    it("is not to be relied on when something is taken away after it has begun", async () => {
      const one = { retire: ["-a"] };
      expect(await reading([["a", "network", one]])).toEqual([
        "+a",
        "begin network +a",
        "doubt network",
        "-a",
      ]);
    });

    it("begins nothing once something failed, and where nothing is written", async () => {
      const failing = { retire: [], fails: "+a" };
      expect(
        await reading([
          ["a", "network", failing],
          ["b", "nft", only],
        ]),
      ).toEqual(["+a", "+b"]);
      expect(await reading([["a", "network", only]], { write: false })).toEqual([]);
    });

    it("begins again for one that is worked out late", async () => {
      const log: string[] = [];
      const many = Array.from({ length: 300 }, (_, n) => `+${n}`);
      const backends: AnyBackend[] = [
        { ...scripted("a", [], { establish: many, retire: [] }), verifiesLarge: "sets" },
        { ...scripted("b", [], only), late: true, verifiesLarge: "sets" },
      ];
      const ahead = { begin: (begun: readonly Domain[]) => log.push(begun.join(" ")), doubt: () => {} };
      await carryOut(backends, nothing, bareHost, { ...free, ahead });
      expect(log).toEqual(["sets", "sets"]);
    });
  });

  it("goes on establishing when one fails, and then retires nothing", async () => {
    const log: string[] = [];
    const backends = [scripted("a", log), scripted("b", log, { fails: "+b" }), scripted("c", log)];
    const { failures, facts, wrote } = await carryOut(backends, nothing, bareHost, free);
    expect(writes(log)).toEqual(["+a", "+b", "+c"]);
    expect(failures.map(({ backend, phase, error }) => `${phase} ${backend}: ${error.message}`)).toEqual([
      "establish b: b said no",
    ]);
    expect(facts.nft).toBe("+a+c");
    expect([...wrote.keys()].map(({ name }) => name)).toEqual(["a", "b", "c"]);
  });

  it("stops retiring at the first that cannot: what comes after is what it still needs", async () => {
    const log: string[] = [];
    const backends = [scripted("a", log), scripted("b", log, { fails: "-b" }), scripted("c", log)];
    const { failures } = await carryOut(backends, nothing, bareHost, free);
    expect(writes(log)).toEqual(["+a", "+b", "+c", "-c", "-b"]);
    expect(failures.map(({ phase, backend }) => `${phase} ${backend}`)).toEqual(["retire b"]);
  });

  it("takes whatever is thrown for a failure", async () => {
    const log: string[] = [];
    const odd: AnyBackend = { ...scripted("a", log), apply: () => Promise.reject("text") };
    const { failures } = await carryOut([odd], nothing, bareHost, free);
    expect(failures.map(({ error }) => error.message)).toEqual(["text"]);
  });

  it("leaves out a backend that is held, and retires nothing of it and of what stands before it", async () => {
    const log: string[] = [];
    const backends = ["a", "b", "c"].map((name) => scripted(name, log));
    await carryOut(backends, nothing, bareHost, { ...free, held: ({ name }) => name === "b" });
    expect(writes(log)).toEqual(["+a", "+c", "-c"]);
  });

  it("leaves out single lines where a backend can, and retires nothing that stands before it meanwhile", async () => {
    const run = async (...lines: readonly string[]) => {
      const log: string[] = [];
      const without = ({ establish, retire }: Diff<unknown>, held: ReadonlySet<string>) => ({
        establish: establish.filter((line) => !held.has(String(line))),
        retire: retire.filter((line) => !held.has(String(line))),
      });
      const two = { ...scripted("b", log, { establish: ["+b1", "+b2"], retire: ["-b1", "-b2"] }), without };
      const backends = [scripted("a", log), two, scripted("c", log)];
      await carryOut(backends, nothing, bareHost, { ...free, heldLines: () => new Set(lines) });
      return writes(log).join(" ");
    };
    expect(await run("+b1")).toBe("+a +b2 +c -c -b1 -b2");
    expect(await run("-b2")).toBe("+a +b1 +b2 +c -c -b1");
    // Who cannot say what it does without a line does everything, as does one of whom none is held.
    expect(await run("+a", "+c")).toBe("+a +b1 +b2 +c -c -b1 -b2 -a");
  });

  it("takes a diff that throws for that backend's failure, and goes on establishing", async () => {
    const log: string[] = [];
    const broken: AnyBackend = {
      ...scripted("b", log),
      diff: () => {
        throw new Error("cannot say");
      },
    };
    const { failures } = await carryOut(
      [scripted("a", log), broken, scripted("c", log)],
      nothing,
      bareHost,
      free,
    );
    expect(writes(log)).toEqual(["+a", "+c"]);
    expect(failures.map(({ backend, error }) => `${backend}: ${error.message}`)).toEqual(["b: cannot say"]);
  });

  it("establishes nothing of a backend that needs one which failed", async () => {
    const log: string[] = [];
    const backends = [scripted("a", log, { fails: "+a" }), { ...scripted("b", log), needs: ["a"] }];
    await carryOut(backends, nothing, bareHost, free);
    expect(writes(log)).toEqual(["+a"]);
  });

  it("says what it would do, and does nothing, when it is not to write", async () => {
    const log: string[] = [];
    const { steps, facts } = await carryOut([scripted("a", log)], nothing, bareHost, {
      write: false,
      held: () => false,
    });
    expect(writes(log)).toEqual([]);
    expect(steps.flatMap(({ lines }) => lines)).toEqual(["+a", "-a"]);
    expect(facts.nft).toBe("+a-a");
  });

  it("has no step for nothing to do", async () => {
    const log: string[] = [];
    const idle = scripted("a", log, { establish: [], retire: [] });
    const { steps, wrote, facts } = await carryOut([idle], nothing, bareHost, free);
    expect([steps, wrote.size]).toEqual([[], 0]);
    expect(facts).toBe(bareHost);
  });

  it("asks again only a backend that reads something that changed", async () => {
    const log: string[] = [];
    const idle = scripted("a", log, { establish: [], retire: [] });
    await carryOut([idle], nothing, bareHost, free);
    await carryOut([idle], { ...nothing }, { ...bareHost, sysctls: { x: "1" } }, free);
    expect(log).toEqual(["diff a"]);
    await carryOut([idle], nothing, { ...bareHost, nft: "changed" }, free);
    await carryOut([idle], { ...nothing, routes: [] }, { ...bareHost, nft: "changed" }, free);
    expect(log).toEqual(["diff a", "diff a", "diff a"]);
  });
});

const shop = namespace("shop");
const pods = [pod("shop/a", ["10.244.1.3", "fd00:10:244:1::3"]), pod("shop/b", ["10.244.1.4"])];
const two = objects(
  egressIP("web", { at: { "172.18.0.50": "node1", "fd00:172:18::50": "node1" } }),
  egressIP("db", { at: { "10.10.10.60": "node1" }, created: "2026-02-01T00:00:00Z" }),
  shop,
  node1,
  node2,
  ...pods,
);
const moved = objects(egressIP("web", { at: { "172.18.0.50": "node2" } }), shop, node1, node2, ...pods);

/** Rounds as the loop makes them, over facts that are what was predicted: as if the host did what it was told. */
function host(start: HostFacts = bareHost) {
  const tools = recordingTools();
  const backends = createBackends(tools);
  const build = createBuild();
  const mode = createMode("local");
  let facts = start;
  const round = async (wanted: Objects | Plan, held: (name: string) => boolean = () => false) => {
    tools.clear();
    const plan = "pods" in wanted ? mode.plan(build(settings, wanted, facts)) : wanted;
    const outcome = await carryOut(backends, plan, adoptServed(plan, facts), {
      write: true,
      held: ({ name }) => held(name),
    });
    facts = adoptServed(plan, outcome.facts);
    return outcome;
  };
  return { tools, round, facts: () => facts };
}

const phases = (steps: readonly Step[]) => steps.map(({ phase, backend }) => `${phase} ${backend}`);

describe("the real backends", () => {
  it("establish in the order that is the safety argument, and come to rest", async () => {
    const { round, tools } = host();
    const standInOrder = (order: readonly string[], ...names: readonly string[]) => {
      const places = names.map((name) => order.indexOf(`establish ${name}`));
      expect(places).not.toContain(-1);
      expect(places).toEqual([...places].sort((a, b) => a - b));
    };
    // Pods are selected and nothing can be given yet: they are held back.
    const waiting = await round(
      objects(egressIP("web", { requested: ["172.18.0.50"] }), shop, node1, node2, ...pods),
    );
    standInOrder(phases(waiting.steps), "sets", "leak-guard", "iptables");
    // Then their way out is made, and only at its end are they steered to it.
    const { steps } = await round(two);
    standInOrder(
      phases(steps),
      "record",
      "routing",
      "leak-guard",
      "iptables",
      "addresses",
      "announce",
      "steering",
    );
    await round(two);
    expect((await round(two)).steps).toEqual([]);
    expect(tools.writes).toEqual([]);
  });

  it("come to rest after uninstall as well, and leave nothing of ours in the facts", async () => {
    const { round, facts } = host();
    await round(two);
    await round(two);
    await round(nothing);
    expect((await round(nothing)).steps).toEqual([]);
    const { iptables, sets, nft, record, announced, network } = facts();
    const ours = [...iptables[4], ...iptables[6]].flatMap(([, chains]) =>
      [...chains.keys()].filter((name) => /^EGRESSIP/.test(name)),
    );
    expect([ours, sets.size, nft, record.addresses, announced.size]).toEqual([[], 0, "", [], 0]);
    expect(network.routes.filter(({ protocol }) => protocol === "233")).toEqual([]);
    expect(network.rules.filter(({ protocol }) => protocol === "233")).toEqual([]);
    expect(network.addresses).toEqual(bareHost.network.addresses);
  });

  it("keep a pod on its old way out while the new one cannot be made", async () => {
    const { round, tools, facts } = host();
    await round(two);
    await round(two);
    const entryOf = () => getFrom(facts().sets.get("egressip4")?.members ?? emptyShards(), "10.244.1.3");
    const before = entryOf();
    expect(before).toMatch(/^skbmark /);
    tools.fail({ iptables4: "no" });
    const moved = egressIP("web", { at: { "172.18.0.77": "node1" } });
    const { failures } = await round(objects(moved, shop, node1, node2, ...pods));
    expect(failures.map(({ backend }) => backend)).toEqual(["iptables"]);
    expect(entryOf()).toBe(before);
    tools.fail({});
    await round(objects(moved, shop, node1, node2, ...pods));
    expect(entryOf()).not.toBe(before);
  });

  it("leave a mark with its rule while its flows cannot be ended", async () => {
    const { round, tools, facts } = host();
    await round(two);
    await round(two);
    const snat = () => facts().iptables[4].get("nat")?.get("EGRESSIP-SNAT")?.rules;
    const before = snat();
    tools.fail({ conntrack: "no" });
    expect((await round(nothing)).failures.map(({ backend }) => backend)).toEqual(["flows"]);
    expect(snat()).toEqual(before);
  });

  it.each(["record", "sysctl", "ipset", "ip", "nft", "iptables4", "iptables6"])(
    "when %s fails at the start, the others establish, nothing retires, and the next round makes up for it",
    async (tool) => {
      const reference = host();
      await reference.round(two);
      await reference.round(two);

      const { tools, round, facts } = host();
      tools.fail({ [tool]: "no" });
      const { failures, steps } = await round(two);
      const attempted = new Set(phases(steps));
      for (const name of ["sets", "leak-guard", "iptables", "addresses", "routing"])
        expect(attempted).toContain(`establish ${name}`);
      expect(failures.map(({ phase }) => phase)).not.toContain("retire");
      expect(phases(steps).filter((line) => line.startsWith("retire"))).toEqual([]);
      if (tool !== "sysctl") expect(failures).not.toEqual([]);

      tools.fail({});
      await round(two);
      await round(two);
      expect((await round(two)).steps).toEqual([]);
      // Which mark stands for which egress IP may differ: pods may have been given one that nothing translated.
      const settled = ({ iptables, network, record, announced, sysctls }: HostFacts) => {
        const rules = [...iptables[4], ...iptables[6]].flatMap(([table, chains]) =>
          [...chains].flatMap(([name, { rules: of }]) => of.map((rule) => `${table} ${name} ${rule}`)),
        );
        const routes = network.routes.map(routeWords);
        const addresses = network.addresses.map((entry) => `${entry.address} ${entry.link}`);
        const text = [
          ...rules,
          ...routes,
          ...addresses,
          JSON.stringify(record),
          ...announced,
          JSON.stringify(sysctls),
        ];
        return new Set(text.map((line) => line.replaceAll(/0x[0-9a-f]+\/0x7[0f]+/g, "MARK")));
      };
      expect(settled(facts())).toEqual(settled(reference.facts()));
    },
  );

  it.each(["record", "ipset", "ip", "nft", "iptables4"])(
    "when %s fails while an egress IP moves away, its pods are not left with half of a way out",
    async (tool) => {
      const { tools, round } = host();
      await round(two);
      await round(two);
      tools.fail({ [tool]: "no" });
      const { steps, failures } = await round(moved);
      if (failures.some(({ phase }) => phase === "establish"))
        expect(phases(steps).filter((line) => line.startsWith("retire"))).toEqual([]);
      tools.fail({});
      await round(moved);
      await round(moved);
      expect((await round(moved)).steps).toEqual([]);
    },
  );

  it("establish what others need although one is held back, and retire it and what it needs only when it is released", async () => {
    const { round } = host();
    await round(two);
    await round(two);
    const during = await round(moved, (name) => name === "routing");
    for (const name of ["routing", "sets", "sysctls", "record"])
      expect(phases(during.steps)).not.toContain(`retire ${name}`);
    const after = await round(moved);
    expect(phases(after.steps).some((line) => line.startsWith("retire"))).toBe(true);
  });
});

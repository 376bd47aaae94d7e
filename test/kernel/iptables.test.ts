// iptables and ipset as they are: what they print is what the parsers know, what is printed for them does what was meant.
// Both backends, both families; native nft rules in iptables' tables, legacy tables beside nft, and a lock that somebody holds.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createBuild } from "../../agent/model/build.ts";
import { isOurChain } from "../../agent/model/owner.ts";
import { createMode } from "../../agent/plan/modes.ts";
import { setLine } from "../../agent/sync/set-lines.ts";
import { type Run, run, ToolError } from "../../lib/exec/index.ts";
import { createIpset, createIptables, detectBackend } from "../../lib/node-iptables/index.ts";
import {
  applyToRuleset,
  diffRuleset,
  printRestore,
  type RulesetChange,
} from "../../lib/node-iptables/pure.ts";
import { bareHost, egressIP, namespace, node1, objects, settings } from "../agent/make.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { holdLock } from "../support/xtables-lock.ts";

const prefix = `ea${process.pid}`;
const inside =
  (name: string): Run =>
  (command, args, options) =>
    run("ip", ["netns", "exec", name, command, ...args], options);
const FAMILIES = [4, 6] as const;
const word = (family: 4 | 6) => (family === 4 ? "iptables" : "ip6tables");

async function inNamespace(name: string, act: (run: Run) => Promise<void>): Promise<void> {
  await run("ip", ["netns", "add", name]);
  try {
    await act(inside(name));
  } finally {
    await run("ip", ["netns", "del", name]);
  }
}

/** What the agent plans for a node with so many egress IPs of each family on each of two links. */
function planned(each: number) {
  const numbers = Array.from({ length: each }, (_, n) => 50 + n);
  const networks = ["172.18.0.", "10.10.10.", "fd00:172:18::", "fd00:10:10::"];
  const of = egressIP("web", {
    at: Object.fromEntries(
      networks.flatMap((network) => numbers.map((n) => [`${network}${n}`, "node1"] as const)),
    ),
  });
  return createMode("local").plan(createBuild()(settings, objects(of, namespace("shop"), node1), bareHost));
}

const plan = planned(1);
const createSets = plan.sets.sets
  .map((of) => `${setLine({ op: "create", set: of.name, planned: of })}\n`)
  .join("");

for (const backend of ["nft", "legacy"] as const) {
  const why = canRunKernelTests(backend);
  describe.skipIf(why !== undefined)(
    `iptables-${backend}${why === undefined ? "" : ` (skipped: ${why})`}`,
    () => {
      const name = `${prefix}-${backend}`;
      const within = inside(name);
      const iptables = createIptables(within, backend);
      const tool = (family: 4 | 6, ...args: readonly string[]) => within(`${word(family)}-${backend}`, args);
      const saved = async (family: 4 | 6) =>
        (await within(`${word(family)}-${backend}-save`, [])).stdout.replace(/^#.*\n/gm, "");
      const save = (family: 4 | 6) => iptables.save(family, isOurChain);

      beforeAll(async () => {
        await run("ip", ["netns", "add", name]);
        await within("ipset", ["restore"], { input: createSets });
      });
      afterAll(async () => {
        await run("ip", ["netns", "del", name]);
      });

      describe.each(FAMILIES)("for IPv%i", (family) => {
        const any = family === 4 ? "10.0.0.1" : "fd00::1";

        it("prints what was given to it, and the parser reads that", async () => {
          const rules = [
            ["nat", "POSTROUTING", '-m comment --comment "a \\"b\\" c" -j OTHER'],
            ["nat", "POSTROUTING", '-m comment --comment "two\nlines" -j OTHER'],
            ["nat", "POSTROUTING", "-j OTHER"],
            ["nat", "OTHER", `-s ${any}/${family === 4 ? 32 : 128} -j MASQUERADE`],
            [
              "mangle",
              "PREROUTING",
              "-m connmark ! --mark 0x0/0x7ff00000 -j CONNMARK --restore-mark --nfmask 0x7ff00000 --ctmask 0x7ff00000",
            ],
            ["filter", "FORWARD", "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"],
            [
              "filter",
              "FORWARD",
              '-p tcp -m multiport --dports 1,2 -m limit --limit 5/min -j LOG --log-prefix "x: "',
            ],
          ] as const;
          await tool(family, "-t", "nat", "-N", "OTHER");
          await tool(family, "-P", "FORWARD", "DROP");
          for (const [table, chain, text] of rules) {
            const words = text.match(/"(?:[^"\\]|\\.)*"|\S+/gs) ?? [];
            await tool(
              family,
              "-t",
              table,
              "-A",
              chain,
              ...words.map((part) => part.replace(/^"|"$/g, "").replace(/\\(.)/g, "$1")),
            );
          }
          const read = await save(family);
          for (const table of ["nat", "mangle", "filter"]) {
            for (const [chain, { rules: found }] of read.get(table) ?? [])
              expect(found).toEqual(
                rules.filter(([of, own]) => of === table && own === chain).map(([, , text]) => text),
              );
          }
          expect(read.get("nat")?.get("OTHER")?.policy).toBe("-");
          expect(read.get("filter")?.get("FORWARD")?.policy).toBe("DROP");
          const counted = (await within(`${word(family)}-${backend}-save`, ["-c"])).stdout;
          expect(counted).toMatch(/^\[\d+:\d+\] -A/m);
        });

        it.each([
          ["what the agent plans,", plan],
          ["the same for many egress IPs, in chains below chains,", planned(40)],
        ])("takes %s prints it letter for letter, and strangers stay as they were", async (_, plan) => {
          const before = await saved(family);
          const { establish } = diffRuleset(await save(family), plan.iptables[family], isOurChain);
          await iptables.restore(family, printRestore(establish));
          const read = await save(family);
          for (const { table, chain, rules } of plan.iptables[family].chains)
            expect(read.get(table)?.get(chain)?.rules).toEqual(rules);
          for (const { table, chain, rule } of plan.iptables[family].jumps)
            expect(read.get(table)?.get(chain)?.rules.indexOf(rule)).toBe(0);
          expect(diffRuleset(read, plan.iptables[family], isOurChain)).toEqual({ establish: [], retire: [] });

          const { retire } = diffRuleset(read, { chains: [], jumps: [] }, isOurChain);
          await iptables.restore(family, printRestore(retire));
          expect(await saved(family)).toBe(before);
        });

        it("applies all of a text or nothing, and names the line", async () => {
          const before = await saved(family);
          const text =
            "*nat\n:EGRESSIP-SNAT - [0:0]\n-A EGRESSIP-SNAT -j RETURN\n-A EGRESSIP-SNAT -j NO-SUCH-CHAIN\nCOMMIT\n";
          const error: unknown = await iptables.restore(family, text).catch((reason: unknown) => reason);
          expect(error).toBeInstanceOf(ToolError);
          expect((error as ToolError).message).toMatch(/line \d|NO-SUCH-CHAIN/);
          expect(await saved(family)).toBe(before);
        });

        it("does with a change what applyToRuleset says it does", async () => {
          const rule = fc.nat({ max: 7 }).map((n) => `-m mark --mark 0x${n + 1}00000/0x7ff00000 -j RETURN`);
          const rules = fc.array(rule, { maxLength: 6 });
          const jump = "-j EGRESSIP-SNAT";
          const strangers = fc.array(fc.constantFrom("-j OTHER", jump, `-o eth0 ${jump}`), { maxLength: 4 });
          const chains = fc.record({
            snat: rules,
            guard: fc.option(rules, { nil: undefined }),
            parent: strangers,
          });
          await fc.assert(
            fc.asyncProperty(chains, fc.option(rules, { nil: undefined }), async (there, wanted) => {
              // Once in the way that is under test, to have something there; what is read back is what counts.
              const start: readonly RulesetChange[] = [
                { op: "rewrite", table: "nat", chain: "EGRESSIP-SNAT", rules: there.snat },
                ...(there.guard === undefined
                  ? []
                  : [{ op: "rewrite", table: "nat", chain: "EGRESSIP-GUARD", rules: there.guard } as const]),
                ...there.parent.map(
                  (of) => ({ op: "insert", table: "nat", chain: "POSTROUTING", at: 1, rule: of }) as const,
                ),
              ];
              await iptables.restore(family, printRestore(start));
              let observed = await save(family);
              const all =
                wanted === undefined
                  ? { chains: [], jumps: [] }
                  : {
                      chains: [{ table: "nat", chain: "EGRESSIP-SNAT", rules: wanted }],
                      jumps: [{ table: "nat", chain: "POSTROUTING", rule: jump }],
                    };
              for (const phase of ["establish", "retire"] as const) {
                const changes = diffRuleset(observed, all, isOurChain)[phase];
                const expected = applyToRuleset(observed, changes);
                if (changes.length > 0) await iptables.restore(family, printRestore(changes));
                observed = await save(family);
                expect(observed.get("nat")).toEqual(expected.get("nat"));
              }
              expect(diffRuleset(observed, all, isOurChain)).toEqual({ establish: [], retire: [] });
            }),
            { numRuns: 8 },
          );
          const { retire } = diffRuleset(await save(family), { chains: [], jumps: [] }, isOurChain);
          await iptables.restore(family, printRestore(retire));
        });
      });
    },
  );
}

const why = canRunKernelTests();
const whyLegacy = canRunKernelTests("legacy");

describe.skipIf(why !== undefined)(
  `a native rule in a table of iptables-nft${why === undefined ? "" : ` (skipped: ${why})`}`,
  () => {
    const wanted = {
      chains: [{ table: "nat", chain: "EGRESSIP-SNAT", rules: ["-m mark --mark 0x4000/0x4000 -j RETURN"] }],
      jumps: [{ table: "nat", chain: "POSTROUTING", rule: "-j EGRESSIP-SNAT" }],
    };
    const bring = async (
      within: Run,
      family: 4 | 6,
      to: typeof wanted | { readonly chains: []; readonly jumps: [] } = wanted,
    ) => {
      const iptables = createIptables(within, "nft");
      const written: string[] = [];
      for (const phase of ["establish", "retire"] as const) {
        const text = printRestore(
          diffRuleset(await iptables.save(family, isOurChain), to, isOurChain)[phase],
        );
        if (text !== "") await iptables.restore(family, text);
        written.push(text);
      }
      return written.join("");
    };
    const parent = async (within: Run, family: 4 | 6) =>
      (await createIptables(within, "nft").save(family, isOurChain))
        .get("nat")
        ?.get("POSTROUTING")
        ?.rules.map((rule) => rule.replace(/\d+$/, "N"));

    it.each(FAMILIES)("hides the table from iptables-save, not from us: IPv%i (BL-62)", async (family) => {
      const ip = family === 4 ? "ip" : "ip6";
      await inNamespace(`${prefix}-native`, async (within) => {
        await bring(within, family);
        await within("nft", ["add", "rule", ip, "nat", "POSTROUTING", "meta", "mark", "set", "ct", "mark"]);
        expect((await within(`${word(family)}-nft-save`, [])).stdout).toContain(
          "Table `nat' is incompatible",
        );
        expect(await bring(within, family)).toBe("");
        expect(await parent(within, family)).toEqual(["-j EGRESSIP-SNAT", "# nft rule N"]);

        // A new rule is still one line.
        const more = {
          ...wanted,
          chains: [
            {
              ...wanted.chains[0],
              table: "nat",
              chain: "EGRESSIP-SNAT",
              rules: [...(wanted.chains[0]?.rules ?? []), "-j RETURN"],
            },
          ],
        };
        expect(await bring(within, family, more)).toBe("*nat\n-I EGRESSIP-SNAT 2 -j RETURN\nCOMMIT\n");
        expect(await bring(within, family, more)).toBe("");
        expect(await bring(within, family)).toBe("*nat\n-D EGRESSIP-SNAT -j RETURN\nCOMMIT\n");

        // Put above our jump: ours goes first again, once, and that is the end of it.
        await within("nft", [
          "insert",
          "rule",
          ip,
          "nat",
          "POSTROUTING",
          "meta",
          "mark",
          "set",
          "ct",
          "mark",
        ]);
        await bring(within, family);
        expect((await parent(within, family))?.[0]).toBe("-j EGRESSIP-SNAT");
        expect(await bring(within, family)).toBe("");

        // In our own chain: the chain is rewritten.
        await within("nft", ["add", "rule", ip, "nat", "EGRESSIP-SNAT", "meta", "mark", "set", "ct", "mark"]);
        expect(await bring(within, family)).toBe(
          "*nat\n:EGRESSIP-SNAT - [0:0]\n-A EGRESSIP-SNAT -m mark --mark 0x4000/0x4000 -j RETURN\nCOMMIT\n",
        );
        expect(await bring(within, family)).toBe("");
      });
    });

    it("is survived by uninstalling, as long as our jump stands above it", async () => {
      await inNamespace(`${prefix}-native`, async (within) => {
        await bring(within, 4);
        await within("nft", ["add", "rule", "ip", "nat", "POSTROUTING", "meta", "mark", "set", "ct", "mark"]);
        await bring(within, 4, { chains: [], jumps: [] });
        expect(await parent(within, 4)).toEqual(["# nft rule N"]);
      });
    });

    it("is never taken for what iptables makes of it (K-5)", async () => {
      await inNamespace(`${prefix}-native`, async (within) => {
        await bring(within, 4);
        await within("nft", [
          "add",
          "rule",
          "ip",
          "nat",
          "POSTROUTING",
          "ip",
          "saddr",
          "vmap",
          "{ 10.1.1.1 : accept }",
        ]);
        await within("nft", [
          "add",
          "rule",
          "ip",
          "nat",
          "POSTROUTING",
          "tcp",
          "dport",
          "{ 1, 2 }",
          "accept",
        ]);
        await within("nft", ["add", "rule", "ip", "filter", "INPUT", "ct", "mark", "1", "accept"], {
          okExitCodes: [0, 1],
        });
        expect(await bring(within, 4)).toBe("");
        const listed = (await within("nft", ["list", "chain", "ip", "nat", "POSTROUTING"])).stdout;
        await bring(within, 4, { chains: [], jumps: [] });
        const left = (await within("nft", ["list", "chain", "ip", "nat", "POSTROUTING"])).stdout;
        expect(left).toBe(listed.replace(/^.*jump EGRESSIP-SNAT\n/m, ""));
      });
    });
  },
);

describe.skipIf(whyLegacy !== undefined)(
  `both backends at once${whyLegacy === undefined ? "" : ` (skipped: ${whyLegacy})`}`,
  () => {
    it("takes the warning about legacy tables for a warning (BL-61)", async () => {
      await inNamespace(`${prefix}-both`, async (within) => {
        await within("iptables-legacy", ["-t", "nat", "-N", "EMPTY"]);
        const { stderr, exitCode } = await within("iptables-nft-save", []);
        expect([stderr, exitCode]).toEqual([expect.stringContaining("legacy tables present"), 0]);
        const iptables = createIptables(within, "nft");
        await iptables.restore(4, "*nat\n:EGRESSIP-SNAT - [0:0]\nCOMMIT\n");
        expect((await iptables.save(4, isOurChain)).get("nat")?.has("EGRESSIP-SNAT")).toBe(true);
      });
    });

    it("finds the one that others use, and says when that is both (BL-60)", async () => {
      await inNamespace(`${prefix}-both`, async (within) => {
        expect(await detectBackend(within, (chain) => chain.startsWith("EGRESSIP-"))).toEqual({
          backend: "nft",
          mixed: false,
        });
        await within("iptables-legacy", ["-t", "nat", "-N", "KUBE-SERVICES"]);
        expect(await detectBackend(within, (chain) => chain.startsWith("EGRESSIP-"))).toEqual({
          backend: "legacy",
          mixed: false,
        });
        await within("iptables-nft", ["-t", "nat", "-N", "EGRESSIP-SNAT"]);
        expect(await detectBackend(within, (chain) => chain.startsWith("EGRESSIP-"))).toEqual({
          backend: "legacy",
          mixed: false,
        });
        await within("iptables-nft", ["-t", "nat", "-N", "KUBE-SERVICES"]);
        expect(await detectBackend(within, (chain) => chain.startsWith("EGRESSIP-"))).toEqual({
          backend: "nft",
          mixed: true,
        });
      });
    });

    it("waits a bounded time for the lock, fails with its status, and works when it is free (BL-58)", async () => {
      await inNamespace(`${prefix}-both`, async () => {
        await using lock = await holdLock();
        const within: Run = (command, args, options) =>
          run("ip", ["netns", "exec", `${prefix}-both`, ...lock.enter, command, ...args], options);
        const iptables = createIptables(within, "legacy");
        const text = "*nat\n:EGRESSIP-SNAT - [0:0]\nCOMMIT\n";
        const error: unknown = await iptables.restore(4, text).catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(ToolError);
        expect([(error as ToolError).exitCode, (error as ToolError).message]).toEqual([
          4,
          expect.stringContaining("xtables lock"),
        ]);
        // Reading needs no lock.
        expect((await iptables.save(4, isOurChain)).get("nat")?.has("EGRESSIP-SNAT") ?? false).toBe(false);
        await lock.release();
        await iptables.restore(4, text);
        expect((await iptables.save(4, isOurChain)).get("nat")?.has("EGRESSIP-SNAT")).toBe(true);
      });
    });
  },
);

describe.skipIf(why !== undefined)(`ipset${why === undefined ? "" : ` (skipped: ${why})`}`, () => {
  it("makes the sets the agent plans, and prints them so that nothing differs", async () => {
    await inNamespace(`${prefix}-sets`, async (within) => {
      const ipset = createIpset(within);
      await ipset.restore(createSets);
      const read = await ipset.save(() => true);
      expect([...read.values()].map(({ name, type, options }) => ({ name, type, options }))).toEqual(
        plan.sets.sets.map(({ name, type, options }) => ({ name, type, options })),
      );
      await ipset.restore(plan.sets.exempt[4].map((member) => `add egressip-exempt4 ${member}\n`).join(""));
      await ipset.restore(plan.sets.exempt[6].map((member) => `add egressip-exempt6 ${member}\n`).join(""));
      const filled = await ipset.save(() => true);
      for (const family of FAMILIES) {
        const members = [...(filled.get(`egressip-exempt${family}`)?.members ?? [])].map(
          ([member]) => member,
        );
        expect(new Set(members)).toEqual(new Set(plan.sets.exempt[family]));
      }
    });
  });

  it("changes the mark of an entry that is there, takes what is gone for gone, and never empties a set on the way", async () => {
    await inNamespace(`${prefix}-sets`, async (within) => {
      const ipset = createIpset(within);
      await ipset.restore(createSets);
      await ipset.restore(
        "add egressip4 10.244.1.3 skbmark 0x10000000/0x7ff00000\nadd egressip4 10.244.1.4\n",
      );
      await ipset.restore(
        "add egressip4 10.244.1.3 skbmark 0x20000000/0x7ff00000\nadd egressip4 10.244.1.4 skbmark 0x10100000/0x7ff00000\ndel egressip4 10.244.1.9\n",
      );
      const members = async () => new Map((await ipset.save(() => true)).get("egressip4")?.members ?? []);
      expect(await members()).toEqual(
        new Map([
          ["10.244.1.3", "skbmark 0x20000000/0x7ff00000"],
          ["10.244.1.4", "skbmark 0x10100000/0x7ff00000"],
        ]),
      );
      await ipset.restore("add egressip4 10.244.1.3\n");
      expect((await members()).get("10.244.1.3")).toBe("");
    });
  });

  it("says which line it does not take", async () => {
    await inNamespace(`${prefix}-sets`, async (within) => {
      const ipset = createIpset(within);
      await ipset.restore(createSets);
      await expect(ipset.restore("add egressip4 10.244.1.3\nadd egressip4 fd00::1\n")).rejects.toThrow(
        /line 2/,
      );
    });
  });

  it("restores and lists random members as they were given", async () => {
    const member = fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 255 })).map(([a, b]) => `10.244.${a}.${b}`);
    const extension = fc.option(fc.integer({ min: 1, max: 0x7ff }), { nil: undefined });
    await inNamespace(`${prefix}-sets`, async (within) => {
      const ipset = createIpset(within);
      await ipset.restore(createSets);
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.tuple(member, extension), { minLength: 1, maxLength: 40 }),
          async (entries) => {
            const texts = entries.map(
              ([of, mark]) =>
                [of, mark === undefined ? "" : `skbmark 0x${mark.toString(16)}00000/0x7ff00000`] as const,
            );
            await ipset.restore(
              ["flush egressip4", ...texts.map(([of, text]) => `add egressip4 ${of} ${text}`.trimEnd())]
                .join("\n")
                .concat("\n"),
            );
            const read = (await ipset.save(() => true)).get("egressip4");
            expect(new Map(read?.members ?? [])).toEqual(new Map(texts));
          },
        ),
        { numRuns: 20 },
      );
    });
  });
});

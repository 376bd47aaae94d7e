// What another node answers for now is taken away before all other work and whatever fails (BL-38, BL-40); what is gained is asked
// for meanwhile. Over scripted backends, then over the real ones with tools that note and fail.
import { describe, expect, it } from "vitest";
import { createBuild, type Objects } from "../../../agent/model/build.ts";
import type { HostFacts } from "../../../agent/model/facts.ts";
import type { Node } from "../../../agent/model/objects.ts";
import type { GatewayMode } from "../../../agent/model/settings.ts";
import { emptyShards, entriesOf } from "../../../agent/model/shards.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { nothing, type Plan } from "../../../agent/plan/plan.ts";
import type { AnyBackend, Diff } from "../../../agent/sync/backend.ts";
import { createBackends } from "../../../agent/sync/backends.ts";
import { carryOut, printSteps, type RoundOptions } from "../../../agent/sync/round.ts";
import { adoptServed } from "../../../agent/sync/sets.ts";
import { address, bareHost, egressIP, namespace, node1, node2, objects, pod, settings } from "../make.ts";
import { recordingTools } from "../tools.ts";

const free = { write: true, held: () => false } as const;

describe("carryOut", () => {
  /** Notes what it does; facts are a text to which each change is added. */
  function scripted(name: string, log: string[], of: Partial<AnyBackend> & { readonly fails?: string } = {}) {
    const { fails, ...more } = of;
    const backend: AnyBackend = {
      name,
      reads: { plan: ["routes"], facts: ["nft"] },
      verifies: undefined,
      diff: (_plan, { nft }) => ({ establish: [`+${name}(${nft})`], retire: [`-${name}`] }),
      withdraw: () => [`!${name}`],
      print: (changes) => changes as readonly string[],
      predict: (facts, changes) => ({ ...facts, nft: `${facts.nft}${changes.join("")}` }),
      apply: async (changes) => {
        log.push(...(changes as readonly string[]));
        if (changes.some((change) => change === fails)) throw new Error(`${name} said no`);
      },
      ...more,
    };
    return backend;
  }

  it("withdraws last to first, then works out from there what to establish", async () => {
    const log: string[] = [];
    const { steps } = await carryOut([scripted("a", log), scripted("b", log)], nothing, bareHost, free);
    expect(log).toEqual(["!b", "!a", "+a(!b!a)", "+b(!b!a)", "-b", "-a"]);
    expect(printSteps(steps.slice(0, 3))).toBe(
      "== withdraw b\n!b\n\n== withdraw a\n!a\n\n== establish a\n+a(!b!a)\n",
    );
  });

  it("goes on withdrawing and establishing when one fails to withdraw, and then retires nothing", async () => {
    const log: string[] = [];
    const backends = [scripted("a", log), scripted("b", log, { fails: "!b" })];
    const { failures } = await carryOut(backends, nothing, bareHost, free);
    expect(log).toEqual(["!b", "!a", "+a(!a)", "+b(!a)"]);
    expect(failures.map(({ backend, phase }) => `${phase} ${backend}`)).toEqual(["withdraw b"]);
  });

  it("goes on when what to withdraw cannot be worked out", async () => {
    const log: string[] = [];
    const broken = scripted("b", log, {
      withdraw: () => {
        throw new Error("cannot say");
      },
    });
    const { failures } = await carryOut([scripted("a", log), broken], nothing, bareHost, free);
    expect(log).toEqual(["!a", "+a(!a)", "+b(!a)"]);
    expect(failures.map(({ backend, error }) => `${backend}: ${error.message}`)).toEqual(["b: cannot say"]);
  });

  it("releases after a failure what a backend says, if it has not failed itself and is not held", async () => {
    const run = async (fails: string, options: Partial<RoundOptions> = {}) => {
      const log: string[] = [];
      const release = (_plan: Plan, facts: HostFacts, retire: readonly unknown[]) => [
        `${retire.join()}(${facts.nft})`,
      ];
      const quiet = { withdraw: () => [] };
      const backends = [
        scripted("a", log, { fails, ...quiet }),
        scripted("b", log, { fails, release, ...quiet }),
        scripted("c", log, { fails, ...quiet }),
      ];
      await carryOut(backends, nothing, bareHost, { ...free, ...options });
      return log.join(" ");
    };
    expect(await run("+a()")).toBe("+a() +b() +c() -b(+b()+c())");
    expect(await run("+c()")).toBe("+a() +b() +c() -b(+a()+b())");
    expect(await run("+b()")).toBe("+a() +b() +c()");
    expect(await run("+a()", { held: ({ name }) => name === "b" })).toBe("+a() +c()");
    expect(await run("none")).toBe("+a() +b() +c() -c -b -a");
    // What nobody confirms is no reason to let go, but for whose egress IPs they are.
    const doubt = (assignments: boolean) => ({ unconfirmed: { since: "", why: "", assignments } });
    expect(await run("none", doubt(false))).toBe("+a() +b() +c()");
    expect(await run("none", doubt(true))).toBe("+a() +b() +c() -b(+a()+b()+c())");
  });

  it("withdraws nothing over which somebody fights: of a backend that is held, or of single lines", async () => {
    const run = async (options: Partial<RoundOptions>) => {
      const log: string[] = [];
      const without = ({ establish, retire }: Diff<unknown>, lines: ReadonlySet<string>) => ({
        establish,
        retire: retire.filter((line) => !lines.has(String(line))),
      });
      const two = scripted("b", log, {
        diff: () => ({ establish: [], retire: ["!b1", "!b2", "-b"] }),
        withdraw: (_plan, _facts, { retire }) => retire.filter((line) => String(line).startsWith("!")),
        without,
      });
      await carryOut([scripted("a", log), two], nothing, bareHost, { ...free, ...options });
      const begun = log.findIndex((line) => line.startsWith("+a"));
      return log.slice(0, begun).join(" ");
    };
    expect(await run({})).toBe("!b1 !b2 !a");
    expect(await run({ held: ({ name }) => name === "b" })).toBe("!a");
    expect(await run({ heldLines: () => new Set(["!b1"]) })).toBe("!b2 !a");
    expect(await run({ heldLines: () => new Set(["!a"]) })).toBe("!b1 !b2 !a");
  });

  it("begins to prepare when all is withdrawn and before anything is established, which waits only for its own", async () => {
    const log: string[] = [];
    let prepared = () => {};
    const slow = scripted("b", log, {
      prepare: (changes) => {
        log.push(`prepare ${changes.join()}`);
        return new Promise((resolve) => {
          prepared = resolve;
        });
      },
    });
    const c = scripted("c", log, { beside: true });
    const round = carryOut([scripted("a", log), slow, c], nothing, bareHost, free);
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    await turn();
    const begun = ["!c", "!b", "!a", "prepare +b(!c!b!a)", "+a(!c!b!a)", "+c(!c!b!a)"];
    expect(log).toEqual(begun);
    prepared();
    await round;
    expect(log.slice(begun.length)).toEqual(["+b(!c!b!a)", "-c", "-b", "-a"]);
  });

  it("prepares nothing for nothing, for what is held, or when it is not to write", async () => {
    const run = async (options: Partial<RoundOptions>, of: Partial<AnyBackend> = {}) => {
      let times = 0;
      const prepare = async () => {
        times++;
      };
      await carryOut([scripted("a", [], { prepare, ...of })], nothing, bareHost, { ...free, ...options });
      return times;
    };
    expect(await run({})).toBe(1);
    expect(await run({ write: false })).toBe(0);
    expect(await run({ held: () => true })).toBe(0);
    expect(await run({}, { diff: () => ({ establish: [], retire: ["-a"] }) })).toBe(0);
  });
});

const shop = namespace("shop");
const pods = [pod("shop/a", ["10.244.1.3", "fd00:10:244:1::3"]), pod("shop/b", ["10.244.1.4"])];
const web = (node: string | undefined) =>
  objects(
    egressIP("web", node === undefined ? {} : { at: { "10.10.10.50": node, "fd00:10:10::50": node } }),
    egressIP("db", { at: { "10.10.10.60": "node1" }, created: "2026-02-01T00:00:00Z" }),
    shop,
    node1,
    node2,
    ...pods,
  );
const here = web("node1");
/** Assigned here as before; this is what Node objects say. */
const told = (signs: Readonly<Record<string, Partial<Node>>>): Objects => {
  const nodes = new Map([...here.nodes].map(([name, node]) => [name, { ...node, ...signs[name] }]));
  return { ...here, nodes };
};
const leaving = told({ node1: { leaving: "taint t" } });

/** Rounds over facts that are what was predicted, as if the host did what it was told. */
function host(start: HostFacts = bareHost) {
  const tools = recordingTools();
  const backends = createBackends(tools);
  const build = createBuild();
  let facts = start;
  const round = async (
    wanted: Objects | Plan,
    options: Partial<RoundOptions> = {},
    gatewayMode: GatewayMode = "local",
  ) => {
    tools.clear();
    const plan =
      "pods" in wanted
        ? createMode(gatewayMode).plan(build({ ...settings, gatewayMode }, wanted, facts))
        : wanted;
    const outcome = await carryOut(backends, plan, adoptServed(plan, facts), { ...free, ...options });
    facts = adoptServed(plan, outcome.facts);
    return outcome;
  };
  const change = (to: HostFacts) => {
    facts = to;
  };
  const settled = async (wanted: Objects, gatewayMode?: GatewayMode) => {
    await round(wanted, {}, gatewayMode);
    expect((await round(wanted, {}, gatewayMode)).steps).toEqual([]);
  };
  return { tools, round, settled, facts: () => facts, change };
}

const mac = "02:00:00:00:00:04";
const withdrawal = [
  "hush: 10.10.10.50 eth1, fd00:10:10::50 eth1",
  "hush: 10.10.10.50 eth1, fd00:10:10::50 eth1",
  "ip: address del 10.10.10.50/32 dev eth1\naddress del fd00:10:10::50/128 dev eth1",
];
const phases = (steps: Awaited<ReturnType<typeof carryOut>>["steps"]) =>
  steps.map(({ phase, backend }) => `${phase} ${backend}`);

describe("an egress IP that leaves", () => {
  it.each([
    ["assigned to another node", web("node2")],
    ["assigned to nobody", web(undefined)],
    ["deleted", objects(egressIP("db", { at: { "10.10.10.60": "node1" } }), shop, node1, node2, ...pods)],
  ])("%s: nothing is written before it is withdrawn, and the others are left alone", async (_, gone) => {
    const { tools, round, settled } = host();
    await settled(here);
    const { steps } = await round(gone);
    expect(tools.writes.slice(0, 3)).toEqual(withdrawal);
    expect(printSteps(steps.slice(0, 2))).toBe(
      [
        "== withdraw announce\nstop 10.10.10.50 on eth1\nstop fd00:10:10::50 on eth1\n",
        "== withdraw addresses\nip address del 10.10.10.50/32 dev eth1\nip address del fd00:10:10::50/128 dev eth1\n",
      ].join("\n"),
    );
    expect(phases(steps).slice(2).join()).not.toMatch(/withdraw|addresses|announce/);
    expect(tools.writes.slice(3).join("\n")).not.toMatch(/address (replace|del)|hush|ask/);
    expect((await round(gone)).steps).toEqual([]);
  });

  it.each(["record", "ipset", "nft", "iptables4", "iptables6", "conntrack", "northbound"])(
    "is withdrawn first although %s fails",
    async (tool) => {
      const { tools, round, settled } = host();
      await settled(here);
      tools.fail({ [tool]: "no" });
      await round(web("node2"));
      expect(tools.writes.slice(0, 3)).toEqual(withdrawal);
      tools.fail({});
      await round(web("node2"));
      expect((await round(web("node2"))).steps).toEqual([]);
    },
  );

  it("is withdrawn although a backend cannot be worked out, and then nothing is retired", async () => {
    const { tools, settled, facts } = host();
    await settled(here);
    tools.clear();
    const backends = createBackends(tools).map((backend): AnyBackend => {
      if (backend.name !== "northbound") return backend;
      const diff = () => {
        throw new Error("the database is away");
      };
      return { ...backend, diff };
    });
    const plan = createMode("local").plan(createBuild()(settings, web("node2"), facts()));
    const { failures, steps } = await carryOut(backends, plan, facts(), free);
    expect(failures.map(({ backend }) => backend)).toEqual(["northbound"]);
    expect(tools.writes.slice(0, 3)).toEqual(withdrawal);
    expect(phases(steps).filter((step) => step.startsWith("retire"))).toEqual([]);
  });

  it("that could not be withdrawn is tried again, and meanwhile nothing is retired", async () => {
    const { tools, round, settled } = host();
    await settled(here);
    tools.fail({ ip: "no" });
    const { failures, steps } = await round(web("node2"));
    expect(failures.map(({ backend, phase }) => `${phase} ${backend}`)).toContain("withdraw addresses");
    expect(phases(steps).filter((step) => step.startsWith("retire"))).toEqual([]);
    tools.fail({});
    await round(web("node2"));
    expect(tools.writes.slice(0, 2)).toEqual(withdrawal.slice(1));
  });

  it("left on a link by an earlier life, or put there by somebody, goes before anything else of a start", async () => {
    const left = {
      ...bareHost.network,
      addresses: [...bareHost.network.addresses, address("eth1", "10.10.10.50/32")],
    };
    for (const record of [
      bareHost.record,
      { addresses: [{ link: "eth1", address: "10.10.10.50" }], sysctls: {} },
    ]) {
      const { tools, round } = host({ ...bareHost, network: left, record });
      await round(web("node2"));
      expect(tools.writes.slice(0, 2)).toEqual([
        "hush: 10.10.10.50 eth1",
        "ip: address del 10.10.10.50/32 dev eth1",
      ]);
      expect(tools.writes.length).toBeGreaterThan(2);
    }
  });

  it("for another link of this node goes from the old one before it is asked for and added on the new one", async () => {
    const { tools, round, settled, facts, change } = host();
    await settled(here);
    // eth1's network moves to eth0, as when a bond is made of it.
    const { network } = facts();
    const addresses = network.addresses.map((entry) =>
      entry.link === "eth1" && entry.length < 32 && entry.family === 4 ? { ...entry, link: "eth0" } : entry,
    );
    change({ ...facts(), network: { ...network, addresses } });
    const { steps } = await round(here);
    expect(tools.writes.slice(0, 4)).toEqual([
      "hush: 10.10.10.50 eth1, 10.10.10.60 eth1",
      "hush: 10.10.10.50 eth1, 10.10.10.60 eth1",
      "ip: address del 10.10.10.50/32 dev eth1\naddress del 10.10.10.60/32 dev eth1",
      "ask: 10.10.10.50, 10.10.10.60",
    ]);
    expect(
      printSteps(steps.filter(({ phase, backend }) => phase === "establish" && backend === "addresses")),
    ).toBe(
      "== establish addresses\nip address replace 10.10.10.50/32 dev eth0\nip address replace 10.10.10.60/32 dev eth0\n",
    );
  });

  it("is withdrawn while somebody fights over another address, which alone is held", async () => {
    const { tools, round, settled, facts, change } = host();
    await settled(here);
    const { network } = facts();
    change({
      ...facts(),
      network: {
        ...network,
        addresses: network.addresses.filter((entry) => entry.address !== "10.10.10.60"),
      },
    });
    const heldLines = () => new Set(["ip address replace 10.10.10.60/32 dev eth1"]);
    await round(web("node2"), { heldLines });
    expect(tools.writes.slice(0, 3)).toEqual(withdrawal);
    expect(tools.writes.join("\n")).not.toContain("10.10.10.60/32");
  });
});

describe("a node that gives nothing any more (BL-38, BL-40)", () => {
  const all = "10.10.10.50 eth1, 10.10.10.60 eth1, fd00:10:10::50 eth1";
  const del = ["10.10.10.50/32", "10.10.10.60/32", "fd00:10:10::50/128"];
  const everything = [
    `hush: ${all}`,
    `hush: ${all}`,
    `ip: ${del.map((one) => `address del ${one} dev eth1`).join("\n")}`,
  ];

  it.each([
    ["it is leaving", leaving],
    ["another has the label and it has not", told({ node2: { assignable: true } })],
  ])(
    "%s: all of it is withdrawn before anything else, although status still says that it is this node's",
    async (_, signed) => {
      const { tools, round, settled, facts } = host();
      await settled(here);
      const { steps } = await round(signed);
      expect(tools.writes.slice(0, 3)).toEqual(everything);
      expect(phases(steps).slice(0, 2)).toEqual(["withdraw announce", "withdraw addresses"]);
      // Its pods stay selected: held back, and never the node's address.
      expect([...entriesOf(facts().sets.get("egressip4")?.members ?? emptyShards())].sort()).toEqual([
        ["10.244.1.3", ""],
        ["10.244.1.4", ""],
      ]);
      expect(facts().iptables[4].get("nat")?.get("EGRESSIP-SNAT")?.rules.join()).not.toContain("--to-source");
      expect((await round(signed)).steps).toEqual([]);
      await settled(here);
    },
  );

  it.each(["record", "ipset", "nft", "iptables4", "iptables6", "conntrack", "northbound"])(
    "is withdrawn first although %s fails",
    async (tool) => {
      const { tools, round, settled } = host();
      await settled(here);
      tools.fail({ [tool]: "no" });
      await round(leaving);
      expect(tools.writes.slice(0, 3)).toEqual(everything);
      tools.fail({});
      await round(leaving);
      expect((await round(leaving)).steps).toEqual([]);
    },
  );

  it("a start on what an agent left that was killed: addresses go first, nothing is announced or asked for", async () => {
    const { settled, facts } = host();
    await settled(here);
    const again = host(facts());
    await again.round(leaving);
    expect(again.tools.writes.slice(0, 3)).toEqual(everything);
    expect(again.tools.writes.slice(3).join("\n")).not.toMatch(/announce|ask|address replace/);
  });

  it("a start on what only the record knows, since the egress IP is nobody's any more: it goes first", async () => {
    const { settled, facts } = host();
    await settled(here);
    const again = host(facts());
    await again.round(objects(shop, node1, node2, ...pods));
    expect(again.tools.writes.slice(0, 3)).toEqual(everything);
  });
});

describe("what is not withdrawn first", () => {
  it("a start on a host that is right: nothing is withdrawn, asked for or announced", async () => {
    const { settled, facts } = host();
    await settled(here);
    const again = host(facts());
    expect((await again.round(here)).steps).toEqual([]);
    expect(again.tools.writes).toEqual([]);
  });

  it("uninstall: addresses go in their turn, after what leads pods here", async () => {
    const { round, settled } = host();
    await settled(here);
    const order = phases((await round(nothing)).steps);
    expect(order.filter((step) => step.startsWith("withdraw"))).toEqual([]);
    expect(order.indexOf("retire addresses")).toBeGreaterThan(order.indexOf("retire steering"));
  });

  it("what OVN gives on this node from now on: its address goes in its turn", async () => {
    const primary = objects(egressIP("web", { at: { "172.18.0.50": "node1" } }), shop, node1, node2, ...pods);
    const { round, settled } = host();
    await settled(primary, "local");
    const order = phases((await round(primary, {}, "shared")).steps);
    expect(order).toContain("retire addresses");
    expect(order.filter((step) => step.startsWith("withdraw"))).toEqual([]);
    // The same egress IP moving on from there: nothing of it is on a link.
    await settled(primary, "local");
    const moved = objects(egressIP("web", { at: { "172.18.0.50": "node2" } }), shop, node1, node2, ...pods);
    expect(phases((await round(moved, {}, "shared")).steps).slice(0, 2)).toEqual([
      "withdraw announce",
      "withdraw addresses",
    ]);
  });
});

describe("an egress IP that is gained", () => {
  it("is asked for before the first write, once for all of them, and again only when it was lost", async () => {
    const { tools, round, settled, facts, change } = host();
    await round(here);
    expect(tools.writes[0]).toBe("ask: 10.10.10.50, 10.10.10.60, fd00:10:10::50");
    expect(tools.writes.filter((write) => write.startsWith("ask"))).toHaveLength(1);
    await settled(here);
    const { network } = facts();
    change({
      ...facts(),
      network: {
        ...network,
        addresses: network.addresses.filter((entry) => entry.address !== "10.10.10.60"),
      },
    });
    await round(here);
    expect(tools.writes[0]).toBe("ask: 10.10.10.60");
  });

  it("is not asked for in a cloud, whose network answers for every address", async () => {
    const cloud = { ...node1, cloud: true };
    const { tools, round } = host();
    await round(objects(egressIP("web", { at: { "172.18.0.50": "node1" } }), shop, cloud, node2, ...pods));
    expect(tools.writes.join("\n")).toContain("address replace 172.18.0.50/32 dev eth0");
    expect(tools.writes.filter((write) => write.startsWith("ask"))).toEqual([]);
  });

  it("is not asked for on a link that has no Ethernet", async () => {
    const links = bareHost.network.links.map((link) => (link.name === "eth1" ? { ...link, mac: "" } : link));
    const { tools, round } = host({ ...bareHost, network: { ...bareHost.network, links } });
    await round(here);
    expect(tools.writes.join("\n")).toContain("address replace 10.10.10.50/32 dev eth1");
    expect(tools.writes.filter((write) => write.startsWith("ask"))).toEqual([]);
  });

  it("and found on its link without a record of ours is announced, when the assignment says that it is ours (BL-35)", async () => {
    const found = {
      ...bareHost.network,
      addresses: [...bareHost.network.addresses, address("eth1", "10.10.10.50/32")],
    };
    const { tools, round } = host({ ...bareHost, network: found });
    await round(here);
    expect(tools.writes.find((write) => write.startsWith("announce"))).toContain(`10.10.10.50 eth1 ${mac}`);
    expect(tools.writes[0]).toBe("ask: 10.10.10.60, fd00:10:10::50");
  });
});

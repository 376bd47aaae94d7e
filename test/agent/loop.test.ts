// The loop: inputs that fail write nothing, what was written is read back, and repairs of what others undo are counted.
import { describe, expect, it } from "vitest";
import { createLoop, type LoopParts } from "../../agent/loop.ts";
import type { Objects } from "../../agent/model/build.ts";
import type { Domain, HostFacts } from "../../agent/model/facts.ts";
import { createMode } from "../../agent/plan/modes.ts";
import { createBackends } from "../../agent/sync/backends.ts";
import { createContention } from "../../agent/sync/contention.ts";
import { bareHost, egressIP, namespace, node1, objects, pod, settings } from "./make.ts";
import { recordingTools } from "./tools.ts";

const web = egressIP("web", { at: { "172.18.0.50": "node1" } });
const all = objects(web, namespace("shop"), node1, pod("shop/a", ["10.244.1.3"]));
const writing = { write: true, allObjects: true } as const;
const none: ReadonlySet<Domain> = new Set();

/** A loop over a host that does what it is told; a test may change facts behind its back. */
function looping(of: Partial<LoopParts> = {}) {
  const tools = recordingTools();
  let now = 1_000_000;
  let facts: HostFacts = bareHost;
  let wanted: Objects = all;
  const contention = createContention(() => now);
  const loop = createLoop({
    settings,
    mode: createMode("local"),
    backends: createBackends(tools),
    readHost: async () => facts,
    assumeHost: (assumed) => {
      facts = assumed;
    },
    readObjects: async () => wanted,
    contention,
    ...of,
  });
  return {
    loop,
    tools,
    contention,
    pass: (ms: number) => {
      now += ms;
    },
    want: (objects_: Objects) => {
      wanted = objects_;
    },
    meddle: (with_: (facts: HostFacts) => HostFacts) => {
      facts = with_(facts);
    },
    round: async (options = writing) => {
      tools.clear();
      return await loop.round(none, options);
    },
  };
}

const noNat = (facts: HostFacts): HostFacts => {
  const chains = new Map(facts.iptables[4].get("nat"));
  chains.delete("EGRESSIP-SNAT");
  chains.set("POSTROUTING", { policy: "ACCEPT", rules: [] });
  return { ...facts, iptables: { ...facts.iptables, 4: new Map(facts.iptables[4]).set("nat", chains) } };
};

describe("a round", () => {
  it.each<[string, Partial<LoopParts>]>([
    ["host", { readHost: () => Promise.reject(new Error("ip: no answer within 30000 ms")) }],
    ["objects", { readObjects: () => Promise.reject(new Error("cannot read the folder")) }],
  ])("writes nothing when the %s cannot be read (BL-91)", async (_, failing) => {
    const { loop, tools } = looping(failing);
    await expect(loop.round(none, writing)).rejects.toThrow(/no answer|cannot read/);
    expect(tools.writes).toEqual([]);
  });

  it("does not rely on what it began to read back when something failed: that is asked again later", async () => {
    const begun = new Set<Domain>();
    const ahead = {
      begin: (domains: readonly Domain[]) => domains.forEach((domain) => void begun.add(domain)),
      doubt: (domains: Iterable<Domain>) => [...domains].forEach((domain) => void begun.delete(domain)),
    };
    const tools = recordingTools();
    const batch = async (lines: readonly string[]) => {
      if (lines.some((line) => line.startsWith("address "))) throw new Error("Permission denied");
    };
    const failing = createBackends({ ...tools, netlink: { batch } });
    const { loop } = looping({ backends: failing, ahead });
    expect((await loop.round(none, writing)).outcome.failures).not.toEqual([]);
    expect([...begun]).toEqual([]);
    const { loop: working } = looping({ ahead });
    await working.round(none, writing);
    expect([...begun].sort()).toEqual(["iptables", "network", "nft"]);
    for (const domain of begun) expect(working.unverified()).toContain(domain);
    // Nor where everything is asked for anew: it was begun before that.
    await working.round(new Set(begun), { ...writing, write: false, allObjects: false });
    expect([...begun].sort()).toEqual(["iptables", "network", "nft"]);
    await working.round(new Set(["network", "nft"]), { ...writing, write: false, allObjects: true });
    expect([...begun]).toEqual(["iptables"]);
  });

  it("announces what is held anew when the objects could not be read for a while, and goes on stopping what leaves (BL-35)", async () => {
    let fails = false;
    let wanted = all;
    const { round, tools } = looping({
      readObjects: async () => {
        if (fails) throw new Error("cannot read the folder");
        return wanted;
      },
    });
    const announced = () => tools.writes.filter((write) => /^(announce|hush)/.test(write)).join("; ");
    const mac = "02:00:00:00:00:03";
    await round();
    expect(announced()).toBe(`announce: 172.18.0.50 eth0 ${mac}`);
    await round();
    expect(announced()).toBe("");
    const outage = async () => {
      fails = true;
      await expect(round()).rejects.toThrow("cannot read");
      await expect(round()).rejects.toThrow("cannot read");
      fails = false;
    };
    await outage();
    await round();
    expect(tools.writes).toEqual([`announce: 172.18.0.50 eth0 ${mac}`]);
    await round();
    expect(tools.writes).toEqual([]);

    await outage();
    wanted = objects(egressIP("web", { at: { "172.18.0.50": "node2" } }), namespace("shop"), node1);
    await round();
    expect(announced()).toBe("hush: 172.18.0.50 eth0; hush: 172.18.0.50 eth0");
  });

  it("writes nothing when the plan cannot be made", async () => {
    const broken = {
      name: "local",
      plan: () => {
        throw new Error("a defect");
      },
    } as const;
    const { loop, tools } = looping({ mode: broken });
    await expect(loop.round(none, writing)).rejects.toThrow("a defect");
    expect(tools.writes).toEqual([]);
  });

  it("is quiet the second time, and counts rounds", async () => {
    const { round, tools } = looping();
    expect((await round()).number).toBe(1);
    expect(tools.writes).not.toEqual([]);
    await round();
    const third = await round();
    expect([third.number, third.outcome.steps, tools.writes]).toEqual([3, [], []]);
  });

  it("assumes nothing and asks for nothing to be read back when it does not write", async () => {
    const assumed: HostFacts[] = [];
    const { loop, tools } = looping({ assumeHost: (facts) => assumed.push(facts) });
    const { outcome } = await loop.round(none, { write: false, allObjects: true });
    expect(outcome.steps).not.toEqual([]);
    expect([tools.writes, assumed, loop.unverified().size]).toEqual([[], [], 0]);
  });

  it("asks for what it wrote to be read back, and for everything a failed backend reads", async () => {
    const { loop, round, tools } = looping();
    await round();
    expect(loop.unverified()).toEqual(new Set(["iptables", "network", "nft"]));
    await round();
    await round();
    expect([...loop.unverified()]).toEqual([]);
    const failing = looping();
    failing.tools.fail({ ipset: "no" });
    await failing.round();
    expect(loop.unverified()).not.toContain("sets");
    expect(failing.loop.unverified()).toContain("sets");
    expect(tools.writes).toEqual([]);
  });
});

describe("repairs", () => {
  it("are made at once, eight times, and then held back and said", async () => {
    const { round, meddle, contention, tools, pass } = looping();
    await round();
    await round();
    for (let repair = 1; repair <= 8; repair++) {
      expect(contention.heldFor("iptables")).toBe(0);
      meddle(noNat);
      expect((await round()).outcome.steps.map(({ backend }) => backend)).toContain("iptables");
    }
    expect(contention.heldFor("iptables")).toBe(5_000);
    expect(contention.list()[0]?.line).toMatch(/EGRESSIP-SNAT/);
    meddle(noNat);
    await round();
    expect(tools.writes.filter((line) => line.startsWith("iptables"))).toEqual([]);
    pass(5_000);
    await round();
    expect(tools.writes.filter((line) => line.startsWith("iptables"))).toHaveLength(1);
  });

  it("do not count while objects of any kind change: then it was asked for", async () => {
    const { round, meddle, contention, want } = looping();
    await round();
    for (let time = 0; time < 20; time++) {
      want({ ...all, namespaces: new Map(all.namespaces) });
      meddle(noNat);
      await round();
    }
    expect(contention.list()).toEqual([]);
  });

  it("do not count when they fail: nobody undid what was never done (BL-58)", async () => {
    const { round, contention, tools } = looping();
    await round();
    await round();
    tools.fail({
      ip: "Operation not permitted",
      iptables4: "Another app is currently holding the xtables lock",
      ipset: "no",
      nft: "no",
      record: "no",
    });
    const other = looping({ contention });
    other.tools.fail({ iptables4: "Another app is currently holding the xtables lock" });
    for (let time = 0; time < 20; time++) {
      const { outcome } = await other.round();
      expect(outcome.failures.map(({ backend }) => backend)).toContain("iptables");
    }
    expect(contention.list().map(({ backend }) => backend)).toEqual([]);
  });
});

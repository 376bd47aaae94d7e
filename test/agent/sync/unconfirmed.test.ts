// Objects that nobody confirms (BL-39, BL-91): what is there stays, what is missing of it is put back, and nothing goes out by which
// others would think that an egress IP is this node's. Over the real backends, with tools that note.
import { describe, expect, it } from "vitest";
import { createLoop } from "../../../agent/loop.ts";
import type { Objects } from "../../../agent/model/build.ts";
import type { HostFacts } from "../../../agent/model/facts.ts";
import type { Unconfirmed } from "../../../agent/model/objects.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { createBackends } from "../../../agent/sync/backends.ts";
import { createContention } from "../../../agent/sync/contention.ts";
import { givesAnew } from "../../../agent/sync/northbound/changes.ts";
import { bareHost, egressIP, namespace, node1, node2, objects, pod, settings } from "../make.ts";
import { recordingTools } from "../tools.ts";

const web = (node: string) => egressIP("web", { at: { "172.18.0.50": node } });
const rest = [namespace("shop"), node1, node2] as const;
const here = objects(web("node1"), ...rest, pod("shop/a", ["10.244.1.3"]), pod("shop/b", ["10.244.1.4"]));
const away = objects(web("node2"), ...rest, pod("shop/a", ["10.244.1.3"]), pod("shop/b", ["10.244.1.4"]));
const nothingHere = objects(...rest);

const unconfirmed = (of: Objects, assignments = false): Objects => {
  const why: Unconfirmed = { since: "2026-01-01T00:00:00Z", why: "nobody answers", assignments };
  return { ...of, unconfirmed: why };
};

/** Loops one after the other over one host that does what it is told, each a process. */
function host(start: HostFacts = bareHost) {
  const tools = recordingTools();
  let facts = start;
  const begin = () => {
    let wanted: Objects = here;
    const loop = createLoop({
      settings,
      mode: createMode("local"),
      backends: createBackends(tools),
      readHost: async () => facts,
      assumeHost: (assumed) => {
        facts = assumed;
      },
      readObjects: async () => wanted,
      contention: createContention(() => 0),
    });
    return async (objects_: Objects) => {
      wanted = objects_;
      tools.clear();
      const { outcome } = await loop.round(new Set(), { write: true, allObjects: true });
      expect(outcome.failures).toEqual([]);
      return tools.writes;
    };
  };
  return {
    begin,
    facts: () => facts,
    meddle: (change: (facts: HostFacts) => HostFacts) => {
      facts = change(facts);
    },
  };
}

async function served() {
  const made = host();
  const round = made.begin();
  await round(here);
  await round(here);
  return { ...made, round };
}

const toOthers = (writes: readonly string[]) =>
  writes.filter((write) => /^(announce|hush|ask)|address (replace|del)/.test(write));

describe("a start while nobody confirms the objects", () => {
  it("writes nothing on a host that is right, nor when they are confirmed as they were", async () => {
    const { begin } = await served();
    const round = begin();
    expect(await round(unconfirmed(here))).toEqual([]);
    expect(await round(here)).toEqual([]);
  });

  it("retires nothing of what the objects do not ask for, until they are confirmed", async () => {
    const { begin, facts } = await served();
    const before = facts();
    const round = begin();
    expect(await round(unconfirmed(nothingHere))).toEqual([]);
    expect(await round(unconfirmed(away))).toEqual([]);
    expect(facts()).toEqual(before);
    expect((await round(nothingHere)).join("\n")).toContain("address del 172.18.0.50/32 dev eth0");
    expect(facts().sets.size).toBe(0);
  });

  it("gains no address, asks nobody and announces nothing, on a host with nothing on it", async () => {
    const { begin, facts } = host();
    const round = begin();
    const writes = await round(unconfirmed(here));
    expect(toOthers(writes)).toEqual([]);
    // The way out is made, and pods are held back or led to it: what is missing is only what others would see.
    expect(writes.map((write) => write.split(":")[0])).toEqual(
      expect.arrayContaining(["ipset", "iptables4"]),
    );
    expect(facts().network.addresses.some(({ address }) => address === "172.18.0.50")).toBe(false);
    expect(await round(unconfirmed(here))).toEqual([]);
    expect(toOthers(await round(here)).map((write) => write.split(":")[0])).toEqual([
      "ask",
      "ip",
      "announce",
    ]);
  });

  it("puts back sets and rules that somebody took away", async () => {
    const { begin, facts, meddle } = await served();
    const right = facts();
    meddle((now) => ({ ...now, sets: new Map(), nft: "" }));
    meddle((now) => ({ ...now, iptables: { ...now.iptables, 4: new Map() } }));
    const round = begin();
    const writes = await round(unconfirmed(here));
    expect(writes.map((write) => write.split(":")[0])).toEqual(
      expect.arrayContaining(["ipset", "iptables4"]),
    );
    expect(facts().sets.get("egressip4")?.members).toEqual(right.sets.get("egressip4")?.members);
  });

  it("does not take an entry away where the chain that marks is gone", async () => {
    const { begin, meddle } = await served();
    meddle((now) => ({ ...now, iptables: { ...now.iptables, 4: new Map() } }));
    const one = objects(web("node1"), ...rest, pod("shop/a", ["10.244.1.3"]));
    expect((await begin()(unconfirmed(one))).join("\n")).not.toContain("del egressip4");
  });

  it("withdraws first when it turns out to be another node's", async () => {
    const { begin } = await served();
    const round = begin();
    await round(unconfirmed(here));
    const [first, second] = await round(away);
    expect(first).toContain("hush: 172.18.0.50 eth0");
    expect(`${first} ${second}`).not.toContain("announce:");
  });
});

describe("objects that are confirmed in part", () => {
  it("withdraw what is another node's for sure, and retire nothing else", async () => {
    const { begin, facts } = await served();
    const round = begin();
    const writes = await round(unconfirmed(away, true));
    expect(writes.join("\n")).toContain("address del 172.18.0.50/32 dev eth0");
    expect(facts().sets.has("egressip4")).toBe(true);
    expect(facts().iptables[4].get("nat")?.has("EGRESSIP-SNAT")).toBe(true);
  });
});

describe("an agent whose objects are in doubt for a while", () => {
  it("announces what it holds anew when they are confirmed, once (BL-35)", async () => {
    const { round } = await served();
    expect(await round(unconfirmed(here))).toEqual([]);
    expect(await round(unconfirmed(here))).toEqual([]);
    expect(await round(here)).toEqual(["announce: 172.18.0.50 eth0 02:00:00:00:00:03"]);
    expect(await round(here)).toEqual([]);
  });
});

describe("rows", () => {
  const row = (table: "NAT" | "Logical_Router_Policy", columns: Readonly<Record<string, string>>) => ({
    table,
    on: [],
    columns,
    ids: {},
  });
  const found = (columns: Readonly<Record<string, string>>) => ({
    ...row("NAT", columns),
    uuid: "u",
    parents: [],
  });

  it.each([
    ["a new NAT row", true, { op: "insert", row: row("NAT", { external_ip: "172.18.0.50" }) }],
    [
      "a NAT row with another egress IP",
      true,
      {
        op: "update",
        row: row("NAT", { external_ip: "172.18.0.51" }),
        found: found({ external_ip: "172.18.0.50" }),
      },
    ],
    [
      "a NAT row that is put right otherwise",
      false,
      {
        op: "update",
        row: row("NAT", { external_ip: "172.18.0.50", logical_ip: "10.244.1.3" }),
        found: found({ external_ip: "172.18.0.50", logical_ip: "10.244.1.4" }),
      },
    ],
    ["a new policy", false, { op: "insert", row: row("Logical_Router_Policy", { match: "" }) }],
    [
      "a pod's own row that is taken",
      true,
      { op: "take-node-snat", router: "r", pod: "10.244.1.3", uuids: ["u"] },
    ],
  ])("%s gives anew: %s", (_, expected, change) => {
    expect(givesAnew(change as unknown as Parameters<typeof givesAnew>[0])).toBe(expected);
  });
});

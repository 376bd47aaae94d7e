// Somebody deletes a row again and again: that row is given way to, and everything else goes on (known-faults BL-33).
// And rows of an owner that was ours once are not doubled without a word.
import { describe, expect, test } from "vitest";
import { connectNorthbound } from "../../agent/assemble-northbound.ts";
import { createLoop } from "../../agent/loop.ts";
import type { HostFacts } from "../../agent/model/facts.ts";
import { createMode } from "../../agent/plan/modes.ts";
import { createBackends } from "../../agent/sync/backends.ts";
import { createContention } from "../../agent/sync/contention.ts";
import { bareHost, egressIP, namespace, objects, settings as plain, pod } from "../agent/make.ts";
import { recordingTools } from "../agent/tools.ts";
import { openNorthboundAgent } from "../support/northbound-agent.ts";
import { hostOf, labNodes } from "../support/northbound-scene.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { shortRows } from "../support/northbound-tables.ts";

const settings = { ...plain, gatewayMode: "shared" } as const;
const web = pod("shop/web", ["10.244.1.3"]);
const old = pod("shop/old", ["10.244.1.4"]);
const late = pod("shop/late", ["10.244.1.9"]);
const all = (...pods: readonly ReturnType<typeof pod>[]) =>
  objects(...labNodes(), namespace("shop"), egressIP("prod", { at: { "172.18.0.50": "node1" } }), ...pods);
const rowsOf = (address: string, policy = true) => [
  `nat GR_node1 ${address} 172.18.0.50`,
  ...(policy ? [`policy ${address} 100.64.0.2`] : []),
  `served ${address}`,
];

describe("a row that somebody keeps deleting", () => {
  test("is left to him for a while; pods that come and go meanwhile get their rows, and lose them", async () => {
    await using server = await NorthboundServer.open();
    let now = 1_000;
    const northbound = connectNorthbound(
      { settings, northbound: { endpoints: server.endpoint, tls: undefined } },
      { writes: true, onChange: () => {} },
    );
    let facts: HostFacts = { ...bareHost, ...hostOf("node1") };
    let wanted = all(web, old);
    const contention = createContention(() => now);
    const loop = createLoop({
      settings,
      mode: createMode("shared"),
      backends: createBackends({ ...recordingTools(), northbound: northbound.tools }),
      readHost: async () => ({ ...facts, northbound: await northbound.read(true) }),
      assumeHost: (assumed) => {
        facts = assumed;
      },
      readObjects: async () => wanted,
      contention,
    });
    const round = async () => {
      const { outcome } = await loop.round(new Set(), { write: true, allObjects: true });
      expect(outcome.failures).toEqual([]);
    };
    try {
      await round();
      for (let fight = 0; fight < 8; fight++) {
        await server.nbctl("lr-policy-del", "ovn_cluster_router", "100", "ip4.src == 10.244.1.3");
        await round();
      }
      expect(contention.list()).toEqual([
        { backend: "northbound", line: expect.stringContaining("ip4.src == 10.244.1.3"), times: 8 },
      ]);
      await server.nbctl("lr-policy-del", "ovn_cluster_router", "100", "ip4.src == 10.244.1.3");
      wanted = all(web, late);
      await round();
      expect(await shortRows(server)).toEqual(
        [...rowsOf("10.244.1.3", false), ...rowsOf("10.244.1.9")].sort(),
      );
      now += contention.heldFor("northbound");
      await round();
      expect(await shortRows(server)).toEqual([...rowsOf("10.244.1.3"), ...rowsOf("10.244.1.9")].sort());
    } finally {
      await northbound.close();
    }
  });
});

describe("another --ovn-owner", () => {
  test("names the rows of the one before, and what to do", async () => {
    await using server = await NorthboundServer.open();
    {
      await using before = openNorthboundAgent(
        server.endpoint,
        { northboundOwner: "before" },
        hostOf("node1"),
      );
      await before.round(all(web));
    }
    await using agent = openNorthboundAgent(server.endpoint, {}, hostOf("node1"));
    const problems = () => agent.last?.snapshot.problems.map(({ text }) => text).join("\n");
    await agent.round(all(web));
    expect(problems()).toMatch(/^\d+ rows of egress IPs are before's and steer the same pods/);
    expect(problems()).toContain("uninstall --ovn-owner before");
    await using once = openNorthboundAgent(server.endpoint, { northboundOwner: "before" }, hostOf("node1"));
    await once.leave();
    await agent.round();
    expect(problems()).toBe("");
    expect(await shortRows(server)).toEqual(rowsOf("10.244.1.3"));
  });
});

describe("rows of a user-defined network", () => {
  test("are nobody's here, not even where the owner is the reference's", async () => {
    await using server = await NorthboundServer.open();
    const owner = "default-network-controller";
    const ids = {
      "k8s.ovn.org/owner-controller": owner,
      "k8s.ovn.org/owner-type": "EgressIP",
      "k8s.ovn.org/name": "prod_shop/web",
      network: "red",
    };
    const row = (priority: number, match: string) => ({
      op: "insert",
      table: "Logical_Router_Policy",
      "uuid-name": `row${priority}`,
      row: { priority, match, action: "allow", external_ids: ["map", Object.entries(ids)] },
    });
    const reply = await server.client(
      "transact",
      JSON.stringify([
        "OVN_Northbound",
        row(100, "ip4.src == 10.244.1.3"),
        row(102, "ip4.src == 10.244.0.0/16 && ip4.dst == 10.244.0.0/16"),
        {
          op: "insert",
          table: "Logical_Router",
          row: {
            name: "red_ovn_cluster_router",
            policies: [
              "set",
              [
                ["named-uuid", "row100"],
                ["named-uuid", "row102"],
              ],
            ],
          },
        },
      ]),
    );
    expect(reply).not.toContain("error");
    const red = () => server.nbctl("lr-policy-list", "red_ovn_cluster_router");
    const before = await red();
    for (const of of [{ northboundOwner: owner }, { adopt: true }, {}]) {
      await using agent = openNorthboundAgent(server.endpoint, of, hostOf("node1"));
      await agent.round(all(web));
      expect(await agent.round()).toBe("");
      expect(agent.last?.snapshot.problems).toEqual([]);
      await agent.leave();
      expect(await red()).toBe(before);
    }
  });
});

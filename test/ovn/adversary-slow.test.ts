// A large database at the end of a slow line: 200,000 rows at 1 MB a second. The agent says that it is not ready until it knows all
// of them, gives the host what it needs meanwhile, does not begin anew in the middle, and is right in the end.
import { describe, expect, test } from "vitest";
import { followNorthbound } from "../support/following-agent.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { calmRows, shop } from "../support/northbound-trouble.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { openBareClient, request } from "../support/ovsdb-bare.ts";
import { OvsdbProxy } from "../support/ovsdb-proxy.ts";
import { until } from "../support/until.ts";

const ROWS = 200_000;

const missing = noOvn();

describe.skipIf(missing !== undefined)(`northbound${missing === undefined ? "" : `: ${missing}`}`, () => {
  test("200,000 rows at 1 MB/s", { timeout: 240_000 }, async () => {
    const wanted = shop(4, 2);
    const rows = await calmRows(wanted);
    await using server = await NorthboundServer.open();
    const filling = await openBareClient(server.endpoint);
    for (let from = 0; from < ROWS; from += 20_000) {
      const { result } = await filling.ask(request("transact", strangers(from, 20_000)));
      expect(JSON.stringify(result)).not.toContain("error");
    }
    filling.close();
    await using proxy = await OvsdbProxy.open(server.endpoint);
    proxy.bytesPerSecond = 1_000_000;
    await using agent = followNorthbound(proxy.endpoint, shop(0), {
      deadlines: { waitMs: 500 },
    });
    await until(() => proxy.passed > 1_000_000, "the contents are on their way", 60_000);
    expect(agent.ready).toBe(false);
    expect(agent.told()).toMatchObject({ state: "stale", rows: 0 });
    agent.want(wanted);
    await until(
      () => agent.hostWrites.some((write) => write.includes("10.244.1.201")),
      "the host has its part",
    );
    expect(agent.ready).toBe(false);
    expect(proxy.passed).toBeLessThan(20_000_000);
    await until(() => agent.ready, "it knows all of it and has written its own", 180_000);
    expect(await ownRows(server.endpoint)).toEqual(
      ["Logical_Router_Policy", "NAT"].map((table) => countOf(rows, table)),
    );
    expect(proxy.passed).toBeGreaterThan(30_000_000);
    expect(proxy.accepted).toBe(1);
    expect(agent.journal).toEqual(["northboundLost not read yet", "northboundFollowed"]);
  });
});

function countOf(rows: readonly string[], table: string): number {
  return rows.filter((row) => row.startsWith(`${table} `)).length;
}

/** How many policies and NAT rows of ours there are. */
async function ownRows(endpoint: string): Promise<readonly number[]> {
  const own = ["external_ids", "includes", ["map", [["k8s.ovn.org/owner-controller", "egressip-agent"]]]];
  const select = (table: string) => ({ op: "select", table, where: [own], columns: ["_uuid"] });
  const asking = await openBareClient(endpoint);
  const { result } = await asking.ask(
    request("transact", ["OVN_Northbound", select("Logical_Router_Policy"), select("NAT")]),
  );
  asking.close();
  return (result as { readonly rows: readonly unknown[] }[]).map(({ rows }) => rows.length);
}

/** Policies for egress IPs that are somebody else's: every one of them is told of to who follows these rows. */
function strangers(from: number, count: number): readonly unknown[] {
  const operations = Array.from({ length: count }, (_, at) => ({
    op: "insert",
    table: "Logical_Router_Policy",
    row: {
      priority: 7,
      match: `ip4.src == 11.${(from + at) >> 16}.${((from + at) >> 8) & 255}.${(from + at) & 255}`,
      action: "allow",
      external_ids: ["map", [["k8s.ovn.org/owner-type", "EgressIP"]]],
    },
    "uuid-name": `row${at}`,
  }));
  const references = operations.map(({ "uuid-name": name }) => ["named-uuid", name]);
  const mutate = {
    op: "mutate",
    table: "Logical_Router",
    where: [["name", "==", "ovn_cluster_router"]],
    mutations: [["policies", "insert", ["set", references]]],
  };
  return ["OVN_Northbound", ...operations, mutate];
}

// Commands that look at, or change, a northbound database once: what they say and how they end when it cannot be used, or when
// somebody else writes this node's rows. Done is never said of what was not done.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { openWorld, settingsFor, type World } from "../bench/world.ts";
import { openNorthboundAgent } from "../support/northbound-agent.ts";
import { NorthboundServer } from "../support/northbound-server.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { canRunKernelTests } from "../support/privileged.ts";

const program = fileURLToPath(new URL("../../agent/main.ts", import.meta.url));
const missing = noOvn() ?? canRunKernelTests();

describe.skipIf(missing !== undefined)(`commands${missing === undefined ? "" : `: ${missing}`}`, () => {
  let world: World;
  let server: NorthboundServer;
  let settings: Readonly<Record<string, string>>;
  beforeAll(async () => {
    [world, server] = await Promise.all([openWorld(), NorthboundServer.open()]);
    settings = {
      ...settingsFor(world, { pods: 4, egressIPs: 1, dual: false }),
      EGRESSIP_OVN_NB: server.endpoint,
    };
  });
  afterAll(async () => {
    await server.close();
    await world.close();
  });

  const agent = async (words: readonly string[], more: Readonly<Record<string, string>> = {}) => {
    const variables = Object.entries({ ...settings, ...more }).map(([name, value]) => `${name}=${value}`);
    const { stdout, exitCode } = await run(
      "ip",
      ["netns", "exec", world.node, "env", ...variables, process.execPath, program, ...words],
      { okExitCodes: [0, 1, 2], timeoutMs: 60_000 },
    );
    return { stdout, exitCode };
  };
  const kernelRules = () => world.exec(world.node, "ip", ["rule", "show", "pref", "6000"]);

  test("make it right once, and find nothing to do then", async () => {
    expect(await agent(["run", "--once"])).toEqual({ stdout: "", exitCode: 0 });
    expect(await agent(["plan"])).toEqual({ stdout: "nothing to do\n", exitCode: 0 });
    expect(await kernelRules()).toContain("lookup");
  });

  const nowhere = { EGRESSIP_OVN_NB: "unix:/nowhere/nb.sock" };

  test("a plan without the database is no plan", async () => {
    const { stdout, exitCode } = await agent(["plan"], nowhere);
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/^! northbound: .*\n\nnothing else to do\n$/);
    const json = await agent(["plan", "-o", "json"], nowhere);
    expect(json.exitCode).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({ steps: [], failures: [{ backend: "northbound" }] });
  });

  test.each([[["run", "--once"]], [["uninstall"]]])(
    "%s without the database fails, with the reason, and takes nothing away",
    async (words) => {
      const { stdout, exitCode } = await agent(words, nowhere);
      expect(exitCode).toBe(1);
      expect(stdout).toMatch(/northbound/);
      expect(await kernelRules()).toContain("lookup");
    },
  );

  test("nobody writes this node's rows while another agent has their lock", async () => {
    await using other = openNorthboundAgent(server.endpoint);
    await other.session.whenCurrent();
    for (const words of [["run", "--once"], ["uninstall"]]) {
      const { stdout, exitCode } = await agent(words);
      expect(exitCode).toBe(1);
      expect(stdout).toContain("another agent has the lock of this node");
    }
    expect(await kernelRules()).toContain("lookup");
  });

  test("uninstall of another node says whose rows stay", async () => {
    const { stdout, exitCode } = await agent(["uninstall"], { EGRESSIP_NODE: "node9" });
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/northbound: \d+ rows of node node1 stay/);
  });

  test("uninstall takes everything away, here and there", async () => {
    expect((await agent(["run", "--once"])).exitCode).toBe(0);
    const { stdout, exitCode } = await agent(["uninstall"]);
    expect(exitCode).toBe(0);
    expect(stdout).toContain("delete Logical_Router_Policy ovn_cluster_router: priority=100");
    expect(await server.nbctl("lr-policy-list", "ovn_cluster_router")).not.toMatch(/^ +(98|99|100|102) /m);
    expect(await kernelRules()).toBe("");
  });
});

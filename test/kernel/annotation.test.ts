// What k8s.ovn.org/secondary-host-egress-ips has to say, for others to read: in the state file and in `status`, with the addresses
// on the links. In: an egress IP that comes, goes and comes back, files of earlier versions. Out: files, status, what was written.
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { IntentRecord } from "../../agent/model/facts.ts";
import { Lab } from "../lab/lab.ts";
import { Home } from "../support/agent.ts";
import { Manifests } from "../support/agent-manifests.ts";
import { canRunKernelTests } from "../support/privileged.ts";

const reason = canRunKernelTests();
const key = "k8s.ovn.org/secondary-host-egress-ips";
const prod = ["10.10.10.50", "fd00:10:10::50"];

describe.skipIf(reason !== undefined)(
  `annotation${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let home: Home;
    let manifests: Manifests;
    beforeAll(async () => {
      lab = await Lab.up({ prefix: `eip${process.pid}` });
      [home, manifests] = await Promise.all([Home.of(lab), Manifests.ofExamples()]);
    });
    afterAll(async () => {
      await home?.remove();
      await lab?.down();
      await manifests?.remove();
    });

    const file = () => join(home.stateDirectory, "intent.json");
    const recorded = async () => JSON.parse(await readFile(file(), "utf8")) as IntentRecord;
    const says = (text: string) =>
      manifests.edit("nodes.yaml", "node1", ({ metadata }) => {
        metadata["annotations"] = { ...(metadata["annotations"] as object), [key]: text };
      });
    const assign = (node: string) =>
      manifests.edit("egressips.yaml", "prod", ({ status }) => {
        Object.assign(status as object, { items: prod.map((egressIP) => ({ node, egressIP })) });
      });

    it("is true in file and status as egress IPs come and go, and others' entries stay", async () => {
      const agent = await home.start(manifests.directory);
      const told = async () => (await agent.lookAgain()).secondaryHostEgressIPs;
      expect(await told()).toEqual(prod);
      expect((await recorded()).secondaryHostEgressIPs).toEqual(prod);
      await says(JSON.stringify(["10.10.10.77", ...prod]));
      expect(await told()).toEqual(["10.10.10.50", "10.10.10.77", "fd00:10:10::50"]);
      await assign("node2");
      expect(await told()).toEqual(["10.10.10.77"]);
      expect(await recorded()).toMatchObject({
        secondaryHostEgressIPs: ["10.10.10.77"],
        withdrawnEgressIPs: prod,
      });
      await says('["10.10.10.77"]');
      expect(await told()).toEqual(["10.10.10.77"]);
      expect(await recorded()).not.toHaveProperty("withdrawnEgressIPs");
      await says("10.10.10.77");
      const { problems } = await agent.lookAgain();
      expect(problems).toEqual([
        {
          object: "Node/node1",
          path: `metadata.annotations["${key}"]`,
          text: 'must be JSON, not "10.10.10.77"',
        },
      ]);
      expect(await told()).toEqual([]);
      await says(JSON.stringify(prod));
      await assign("node1");
      expect(await told()).toEqual(prod);
      await agent.stop();
    });

    it("a start on its own file writes nothing; on one of an earlier version, what was missing", async () => {
      expect((await home.plan(manifests.directory)).stdout).toBe("nothing to do\n");
      const { addresses, sysctls } = await recorded();
      await writeFile(file(), JSON.stringify({ addresses, sysctls }));
      const { stdout } = await home.plan(manifests.directory);
      expect(stdout).toBe(
        `== establish record\n${JSON.stringify({ addresses, sysctls, secondaryHostEgressIPs: prod })}\n`,
      );
      const agent = await home.start(manifests.directory);
      expect(await agent.changes()).toEqual([stdout]);
      await agent.stop();
      await home.uninstall();
      await expect(readFile(file())).rejects.toThrow("ENOENT");
    });
  },
);

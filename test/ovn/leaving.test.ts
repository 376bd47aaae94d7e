// A node that leaves in shared gateway mode (BL-38), where OVN's gateway router gives egress IPs and answers for them: its NAT rows go
// when nothing is led there any more. Under streams of new connections from pods of either node, in both families; what the
// servers and the networks outside saw, and who answers.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { families } from "../lab/topology.ts";
import type { OvnUpOptions } from "../ovn-lab/lab.ts";
import { ovnNodePlans } from "../ovn-lab/topology.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { OvnStage } from "../support/ovn-stage.ts";
import { canRunKernelTests } from "../support/privileged.ts";

const prod = { 4: "172.18.0.50", 6: "fd00:172:18::50" };
const at = (node: string) => ({ prod: { addresses: [prod[4], prod[6]], app: "web", node } });

const configs: readonly (OvnUpOptions & { readonly name: string })[] = [
  { name: "interconnect", gateway: "shared", interconnect: true },
  { name: "one central database", gateway: "shared", interconnect: false },
];

const reason = canRunKernelTests() ?? noOvn();

describe.skipIf(reason !== undefined)(
  reason === undefined ? "a node that leaves" : `not here: ${reason}`,
  () => {
    describe.each(configs)("$name", ({ name: _, ...options }) => {
      let stage: OvnStage;
      beforeAll(async () => {
        stage = await OvnStage.up({ ...options, prefix: `lve${process.pid}` });
        await stage.start();
      });
      afterAll(() => stage?.down());

      const answering = () => Promise.all(families.map((family) => stage.lab.whoHas(prod[family])));
      const by = (node: "node1" | "node2") => families.map(() => [ovnNodePlans[node].bridgeMac]);
      const natRows = async () =>
        (await stage.lab.northbound("node1")).split("\n").filter((line) => line.includes(prod[4]));
      /** Streams while this is done; nothing but the egress IPs may be seen outside. */
      const underway = async (act: (answered: () => Promise<unknown>) => Promise<void>) => {
        const leaks = await stage.lab.watchLeaks();
        const senders = (["a1", "b1"] as const).flatMap((pod) =>
          families.map((family) => ({
            family,
            stream: stage.lab.sender(pod, { family, fresh: true, rate: 500 }),
          })),
        );
        const answered = () =>
          Promise.all(senders.map(({ stream }) => stream.answers(50, undefined, 10_000)));
        await answered();
        await act(answered);
        for (const { family, stream } of senders) {
          const { bySource } = await stream.stop();
          expect([...bySource.keys()]).toEqual([`ext/${prod[family]}`]);
        }
        expect((await leaks.stop()).filter((line) => !line.includes("ICMP"))).toEqual([]);
      };

      it("by its label: OVN answers no more, no connection leaves with another address; status moves, then it may stay", async () => {
        await stage.assign(at("node1"));
        expect(await answering()).toEqual(by("node1"));
        await underway(async (answered) => {
          await stage.changeNode("node1", ({ metadata: { labels } }) => {
            labels["egressip-agent.io/leaving"] = "";
          });
          await stage.agent("node1").when(({ held }) => held === 0, "it holds nothing");
          await stage.settled();
          expect(await answering()).toEqual([[], []]);
          expect(await natRows()).toEqual([]);
          await stage.assign(at("node2"));
          await answered();
          expect(await answering()).toEqual(by("node2"));
          await stage.changeNode("node1", ({ metadata: { labels } }) => {
            delete labels["egressip-agent.io/leaving"];
          });
          await stage.assign(at("node1"));
          await answered();
          expect(await answering()).toEqual(by("node1"));
        });
      });

      it("drained while something else fails: OVN answers no more all the same", async () => {
        const home = stage.home("node1");
        await stage.agent("node1").stop();
        const tools = join(home.directory, "tools");
        const { stdout } = await run("sh", ["-c", "command -v ipset"]);
        await mkdir(tools);
        const failing = `#!/bin/sh\n[ "$1" != restore ] || [ ! -e ${tools}/fail ] || exit 1\nexec ${stdout.trim()} "$@"\n`;
        await writeFile(join(tools, "ipset"), failing, { mode: 0o755 });
        const PATH = `${tools}:${process.env["PATH"]}`;
        const one = await home.spawn(stage.manifests, stage.flagsOf("node1"), { PATH });
        stage.agents.set("node1", one);
        // Of the second one the kernel has to know that it is given no more.
        const second = { addresses: ["10.10.10.50", "fd00:10:10::50"], app: "server", node: "node1" };
        await stage.assign({ ...at("node1"), second });
        expect(await answering()).toEqual(by("node1"));
        await underway(async () => {
          await writeFile(join(tools, "fail"), "");
          expect((await home.drain()).stdout).toBe("no egress IP is answered for on node1 any more\n");
          expect((await one.status()).failures.map(({ backend }) => backend)).toContain("steering");
          expect(await answering()).toEqual([[], []]);
        });
        await one.stop();
        stage.agents.set("node1", await home.start(stage.manifests, stage.flagsOf("node1")));
      });

      it("drained: it ends when OVN answers no more, no connection leaves with another address", async () => {
        await stage.assign(at("node1"));
        await underway(async (answered) => {
          const { exitCode, stdout } = await stage.home("node1").drain();
          expect([exitCode, stdout]).toEqual([0, "no egress IP is answered for on node1 any more\n"]);
          expect(await answering()).toEqual([[], []]);
          await stage.assign(at("node2"));
          await answered();
          await stage.agent("node1").stop();
          expect(await answering()).toEqual(by("node2"));
          await answered();
        });
      });
    });
  },
);

// The network that a node calls its primary one is told anew while the agent runs, so that an egress IP of shared gateway mode
// changes from OVN's hands into the kernel's and back. Under a stream of new connections in both families, from a pod of the
// node and one of another; what the servers saw, and what was seen on the networks outside.
import { describe, expect, it } from "vitest";
import type { OvnUpOptions } from "../ovn-lab/lab.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { OvnStage } from "../support/ovn-stage.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const prod = { 4: "172.18.0.50", 6: "fd00:172:18::50" };
/** The node's own address is in it, the egress IP is not: its link is the same one, as a secondary one. */
const narrow = { ipv4: "172.18.0.11/27", ipv6: "fd00:172:18::11/123" };
const wide = { ipv4: "172.18.0.11/24", ipv6: "fd00:172:18::11/64" };

const configs: readonly (OvnUpOptions & { readonly name: string })[] = [
  { name: "interconnect", gateway: "shared", interconnect: true },
  { name: "one central database", gateway: "shared", interconnect: false },
];

const reason = canRunKernelTests() ?? noOvn();

describe.skipIf(reason !== undefined)(
  reason === undefined ? "the primary network" : `not here: ${reason}`,
  () => {
    it.each(configs)(
      "changes, $name: no connection leaves with another address",
      async ({ name: _, ...options }) => {
        const stage = await OvnStage.up({ ...options, prefix: `pri${process.pid}` });
        try {
          await stage.start();
          await stage.assign({ prod: { addresses: [prod[4], prod[6]], app: "web", node: "node1" } });
          const leaks = await stage.lab.watchLeaks();
          const senders = (["a1", "b1"] as const).flatMap((pod) =>
            ([4, 6] as const).map((family) => ({
              family,
              stream: stage.lab.sender(pod, { family, fresh: true, rate: 300 }),
            })),
          );
          const answered = () =>
            Promise.all(senders.map(({ family, stream }) => stream.answers(50, prod[family], 10_000)));
          const translated = async () => {
            const counted = await stage.lab.nodeExec("node1", "iptables-nft", ["-t", "nat", "-S"]);
            return counted.stdout.includes(`--to-source ${prod[4]}`);
          };
          await answered();
          expect(await translated()).toBe(false);
          for (let times = 0; times < 3; times++) {
            await sayPrimary(stage, narrow);
            await until(translated, "the kernel gives it", 10_000);
            await answered();
            await sayPrimary(stage, wide);
            await until(async () => !(await translated()), "OVN gives it", 10_000);
            await answered();
          }
          for (const { family, stream } of senders) {
            const { bySource } = await stream.stop();
            expect([...bySource.keys()]).toEqual([`ext/${prod[family]}`]);
          }
          expect((await leaks.stop()).filter((line) => !line.includes("ICMP"))).toEqual([]);
        } finally {
          await stage.down();
        }
      },
    );
  },
);

/** Tells it as the node's annotation, and waits until every agent and node follows. */
async function sayPrimary(stage: OvnStage, primary: typeof wide): Promise<void> {
  await stage.changeNode("node1", ({ metadata }) => {
    metadata.annotations["k8s.ovn.org/node-primary-ifaddr"] = JSON.stringify(primary);
  });
  await Promise.all([...stage.agents.values()].map((agent) => agent.lookAgain()));
  await stage.settled();
}

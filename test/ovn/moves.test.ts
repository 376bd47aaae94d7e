// While an egress IP moves between nodes: connections that begin in that moment leave with it, or not at all. A stream of new
// connections from pods on either node, in both families; what the servers saw, and what was seen on the networks outside.
import { describe, expect, it } from "vitest";
import type { OvnUpOptions } from "../ovn-lab/lab.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { OvnStage } from "../support/ovn-stage.ts";
import { canRunKernelTests } from "../support/privileged.ts";

const prod = { 4: "172.18.0.50", 6: "fd00:172:18::50" };
const at = (node: string) => ({ prod: { addresses: [prod[4], prod[6]], app: "web", node } });
const MOVES = 10;

const configs: readonly (OvnUpOptions & { readonly name: string })[] = [
  { name: "shared gateway, interconnect", gateway: "shared", interconnect: true },
  { name: "shared gateway, one central database", gateway: "shared", interconnect: false },
  { name: "local gateway, interconnect", gateway: "local", interconnect: true },
  { name: "local gateway, one central database", gateway: "local", interconnect: false },
];

const reason = canRunKernelTests() ?? noOvn();

describe.skipIf(reason !== undefined)(reason === undefined ? "a move" : `not here: ${reason}`, () => {
  it.each(configs)("$name: no connection leaves with another address", async ({ name: _, ...options }) => {
    const stage = await OvnStage.up({ ...options, prefix: `mov${process.pid}` });
    try {
      await stage.start();
      await stage.assign(at("node1"));
      const leaks = await stage.lab.watchLeaks();
      const senders = (["a1", "b1"] as const).flatMap((pod) =>
        ([4, 6] as const).map((family) => ({
          family,
          stream: stage.lab.sender(pod, { family, fresh: true, rate: 500 }),
        })),
      );
      const answered = () => Promise.all(senders.map(({ stream }) => stream.answers(50)));
      await answered();
      for (let move = 0; move < MOVES; move++) {
        await stage.assign(at(move % 2 === 0 ? "node2" : "node1"));
        await answered();
      }
      for (const { family, stream } of senders) {
        const { bySource } = await stream.stop();
        expect([...bySource.keys()]).toEqual([`ext/${prod[family]}`]);
      }
      // That its socket is gone is a pod's own answer to an answer that came too late; OVN does not translate it.
      expect((await leaks.stop()).filter((line) => !line.includes("ICMP"))).toEqual([]);
    } finally {
      await stage.down();
    }
  });
});

// What OVN has led to this node's kernel says so by its mark, 1009 (reference I.2). Here nft on the management port gives the
// packets that mark, as OVN's datapath does in a cluster. They go as they would without it, and where nothing of the agent's
// knows their pod any more they do not go at all.
import { afterAll, beforeAll, describe, expect, it, onTestFailed } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { Lab } from "../lab/lab.ts";
import { families, nodes, type PodName, podNetworks, pods } from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { Manifests } from "../support/agent-manifests.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const prefix = `eip${process.pid}`;
const reason = canRunKernelTests();
const { node1, node2 } = nodes;

const prod = { 4: "10.10.10.50", 6: "fd00:10:10::50" };
/** Of namespace shop, app web: one of node1's pods and one of node2's, steered here. */
const selected: readonly PodName[] = ["a1", "b1"];

/** As policies do: not what is for pods and nodes. Replies too, which OVN 23.03 cannot tell. */
function leading(of: readonly PodName[]): string {
  const set = (addresses: readonly string[]) => `{ ${addresses.join(", ")} }`;
  const rules = families.map((family) => {
    const ip = family === 4 ? "ip" : "ip6";
    const inside = [podNetworks, node1.eth0, node1.eth1, node2.eth0, node2.eth1].map((both) => both[family]);
    const from = of.map((pod) => pods[pod][family]);
    return `iifname "ovn-k8s-mp0" ${ip} saddr ${set(from)} ${ip} daddr != ${set(inside)} meta mark set 1009`;
  });
  return `table inet ovn {
    chain led { type filter hook prerouting priority raw; ${of.length === 0 ? "" : `${rules.join("; ")};`} }
    chain marked { type filter hook postrouting priority 400; meta mark & 0x000fffff == 1009 meta mark & 0x7ff00000 != 0 counter; }
    chain replies { type filter hook prerouting priority -140; iifname "eth1" meta mark & 0x000fffff != 0 counter; }
  }\n`;
}

/** What `view` gives when everybody sees the same server and sources by family. */
function lines(from: string, to: string, server: string, sources: { 4: string; 6: string }): string[] {
  return ["tcp", "udp"].flatMap((protocol) =>
    families.map((family) => `${from} ${to} ${protocol} ${family}: ${server} saw ${sources[family]}`),
  );
}

describe.skipIf(reason !== undefined)(
  `led here by OVN${reason === undefined ? "" : ` (not here: ${reason})`}`,
  () => {
    let lab: Lab;
    let home: Home;
    let manifests: Manifests;
    let agent: Agent;
    beforeAll(async () => {
      // Strict: a mark that found its way into a connection would show in how replies are routed.
      lab = await Lab.up({ prefix, rpFilter: 1 });
      await lab.steer("b1", "node1");
      [home, manifests] = await Promise.all([Home.of(lab), Manifests.ofExamples()]);
      agent = await home.start(manifests.directory);
      await lead(selected);
    });
    afterAll(async () => {
      await agent?.stop();
      await lab?.down();
      await Promise.all([home?.remove(), manifests?.remove()]);
    });

    const shell = (script: string) => lab.nodeExec("node1", "sh", ["-ec", script]);
    const lead = async (of: readonly PodName[]) => {
      await lab.nodeExec("node1", "nft", ["-f", "-"], {
        input: `table inet ovn\ndelete table inet ovn\n${leading(of)}`,
      });
    };
    const list = async (table: string) =>
      (await lab.nodeExec("node1", "nft", ["list", "table", "inet", table])).stdout;
    const counted = async (table: string, chain: string) =>
      Number(new RegExp(`chain ${chain} \\{[^}]*packets (\\d+)`, "s").exec(await list(table))?.[1]);

    it("leaves with its egress IP, its mark untouched, and replies carry ours alone", async () => {
      expect(await lab.view(selected, ["internet", "sec"])).toEqual(
        selected.flatMap((from) => ["internet", "sec"].flatMap((to) => lines(from, to, "sec", prod))),
      );
      expect(await counted("ovn", "marked")).toBeGreaterThan(0);
      expect(await counted("ovn", "replies")).toBe(0);
      const { stdout } = await lab.nodeExec("node1", "conntrack", ["-L", "-o", "extended"]);
      const marks = stdout
        .split("\n")
        .filter((line) => selected.some((pod) => line.includes(`src=${pods[pod][4]} dst=198.51.100.80`)))
        .map((line) => Number(/mark=(\d+)/.exec(line)?.[1]));
      expect(marks.length).toBeGreaterThan(0);
      expect(new Set(marks.map((mark) => mark % 0x100000))).toEqual(new Set([0]));
      expect(marks.every((mark) => mark >= 0x100000)).toBe(true);
    });

    it("goes to services, and answers who came in, as without the mark", async () => {
      const inside = async () => [
        ...(await lab.view(selected, ["service", "a4", "b2", "nodePort1", "node1eth1", "node2eth0"])),
        ...(await lab.view(["ext"], ["nodePort1", "clusterPort1", "a4"])),
        ...(await Promise.all(
          selected.flatMap((from) =>
            families.map(
              async (family) => `${from} ${JSON.stringify(await lab.probe(from, "api", "tcp", family))}`,
            ),
          ),
        )),
      ];
      // Somebody outside who knows the way to pods, without anybody's translation.
      await run("ip", ["-n", lab.namespace("ext"), "-batch", "-"], {
        input: families.map((family) => `route add ${pods.a4[family]} via ${node1.eth0[family]}\n`).join(""),
      });
      await lead([]);
      const before = await inside();
      expect(before.filter((line) => / saw |"server"/.test(line))).toHaveLength(before.length);
      await manifests.label("web", "a4");
      await agent.when(({ pods: count }) => count === 4, "a4 is selected too, whom services lead to");
      await lead([...selected, "a4"]);
      expect(await inside()).toEqual(before);
      await manifests.label("server", "a4");
      await agent.when(({ pods: count }) => count === 3, "a4 is not any more");
      await lead(selected);
    });

    it("keeps its source towards exempt networks", async () => {
      await agent.stop();
      agent = await home.start(manifests.directory, {
        "exempt-networks": "198.51.100.0/24,2001:db8:51::/48",
      });
      // The node's own masquerade has it, as it has everybody's.
      expect(await lab.view(selected, ["internet", "sec"])).toEqual(
        selected.flatMap((from) => [
          ...lines(from, "internet", "ext", node1.eth0),
          ...lines(from, "sec", "sec", prod),
        ]),
      );
      await agent.stop();
      agent = await home.start(manifests.directory);
    });

    it.each(families)(
      "keeps the source of a connection that was open before it was led here (IPv%i)",
      async (family) => {
        const open = lab.connection("a3", { family });
        await open.answers(5);
        await lead([...selected, "a3"]);
        await open.answers(20);
        expect(await open.stop()).toMatchObject({ broken: false, sources: [`ext/${node1.eth0[family]}`] });
        // It is nobody's that the agent knows: what it opens now is held back.
        expect(await lab.probe("a3", "internet", "udp", family, 200)).toHaveProperty("failed");
        await lead(selected);
        expect(await lab.probe("a3", "internet", "udp", family)).toMatchObject({
          source: node1.eth0[family],
        });
      },
    );

    it("is not let go by a set that is flushed, of which the kernel tells nobody", async () => {
      const streams = selected.flatMap((pod) =>
        families.map((family) => ({ family, sender: lab.sender(pod, { family, fresh: true }) })),
      );
      onTestFailed(async () => {
        await Promise.all(streams.map(({ sender }) => sender.stop()));
      });
      const answers = () =>
        Promise.all(streams.map(({ sender, family }) => sender.answers(20, prod[family], 10_000)));
      await answers();
      const before = await lab.dump("node1");
      await shell("ipset flush egressip4; ipset flush egressip6");
      await until(async () => (await lab.dump("node1")) === before, "they are back", 10_000);
      await answers();
      for (const { family, sender } of streams)
        expect([...(await sender.stop()).bySource.keys()]).toEqual([`sec/${prod[family]}`]);
    });

    // Last: nobody puts it back.
    it.each([
      ["and the node's own masquerade is left", ""],
      ["and nothing translates any more", "iptables -t nat -F; ip6tables -t nat -F"],
    ])("does not leave when all of ours is flushed but the nft table, %s", async (_, more) => {
      await agent.stop();
      await shell(
        `for tool in iptables ip6tables; do $tool -t mangle -F; $tool -F; done; ipset flush; ip rule del pref 6000 || true; ${more}`,
      );
      const leaks = await lab.watchLeaks();
      const before = await counted("egressip", "leak");
      for (const pod of selected)
        for (const family of families)
          expect(await lab.probe(pod, "internet", "udp", family, 100)).toHaveProperty("failed");
      expect(await counted("egressip", "leak")).toBe(before + 4);
      // The lab itself would let them out.
      const nodeAddresses = await lab.capture(
        "ext",
        "any",
        `udp dst port 8080 and not src net ${podNetworks[4]} and not src net ${podNetworks[6]}`,
      );
      expect(await leaks.stop()).toEqual([]);
      await lead([]);
      const seen = await lab.watchLeaks();
      for (const family of families) await lab.probe("a1", "internet", "udp", family, 100);
      expect([...(await nodeAddresses.stop()), ...(await seen.stop())]).not.toEqual([]);
      await lead(selected);
    });
  },
);

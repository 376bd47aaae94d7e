// What somebody else changes on a node is put right as soon as the kernel tells of it: the slow tick is an hour away here.
// In: one change at a time. Out: the same dump as before it.

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { Lab } from "../lab/lab.ts";
import { families, nodes } from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { unordered } from "../support/agent-dump.ts";
import { egressIP, Manifests } from "../support/agent-manifests.ts";
import { isAsBefore } from "../support/as-before.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const prefix = `eip${process.pid}`;
const reason = canRunKernelTests();
const { node1 } = nodes;

/** What the kernel takes away with a link, and whoever configures the network puts back. */
const linkBack = [
  "link set eth1 up",
  `address replace ${node1.eth1[6]}/64 dev eth1 nodad`,
  "route replace default via 10.10.10.1 dev eth1 metric 500",
  "route replace default via fd00:10:10::1 dev eth1 metric 500",
];

describe.skipIf(reason !== undefined)(`drift${reason === undefined ? "" : ` (not here: ${reason})`}`, () => {
  let lab: Lab;
  let home: Home;
  let manifests: Manifests;
  let agent: Agent;
  let before: string;
  beforeAll(async () => {
    lab = await Lab.up({ prefix });
    [home, manifests] = await Promise.all([Home.of(lab), Manifests.ofExamples()]);
    // One more that is not this node's: its address must not be here.
    const elsewhere = egressIP("elsewhere", { addresses: ["10.10.10.55"], app: "server", node: "node2" });
    await manifests.write("elsewhere.yaml", [elsewhere]);
    agent = await home.start(manifests.directory);
    await agent.lookAgain();
    before = await lab.dump("node1");
  });
  afterAll(async () => {
    await agent?.stop();
    await lab?.down();
    await Promise.all([home?.remove(), manifests?.remove()]);
  });

  const ip = async (...lines: readonly string[]) => {
    await run("ip", ["-n", lab.namespace("node1"), "-batch", "-"], { input: `${lines.join("\n")}\n` });
  };
  const routes = async (family: 4 | 6, table: string) => {
    const words = ["-n", lab.namespace("node1"), `-${family}`, "route", "show", "table", table];
    // 2: there is no such table.
    return (await run("ip", words, { okExitCodes: [0, 2] })).stdout;
  };

  async function heals(): Promise<void> {
    await isAsBefore(lab, "node1", before);
  }

  it.each([
    ["a table flushed", "iptables-nft -t mangle -F"],
    ["a chain of ours flushed", "ip6tables-nft -F EGRESSIP-GUARD"],
    ["a rule of ours deleted", "iptables-nft -t nat -D EGRESSIP-SNAT 2"],
    ["a jump of ours deleted", "ip6tables-nft -t mangle -D PREROUTING -j EGRESSIP-MARK"],
    ["a rule of somebody else in our chain", "iptables-nft -I EGRESSIP-GUARD 1 -j ACCEPT"],
    ["our nft table deleted", "nft delete table inet egressip"],
    ["our nft table changed", "nft add rule inet egressip leak accept"],
    ["a routing rule deleted", "ip rule del pref 6000"],
    ["an IPv6 routing rule deleted", "ip -6 rule del pref 6000"],
    ["a routing table flushed", "ip route flush table 1004"],
    [
      "a route of it replaced",
      "ip route replace default via 10.10.10.100 dev eth1 table 1004 metric 500 proto 233",
    ],
    ["an address removed", "ip address del 10.10.10.50/32 dev eth1"],
    ["an IPv6 address removed", "ip address del fd00:172:18::60/128 dev eth0"],
    ["an egress IP of another node put on a link", "ip address add 10.10.10.55/32 dev eth1"],
  ])("%s", async (_, command) => {
    await lab.nodeExec("node1", "sh", ["-ec", command]);
    await heals();
  });

  it("our jump is not the first any more", async () => {
    await lab.nodeExec("node1", "iptables-nft", [
      "-t",
      "nat",
      "-I",
      "POSTROUTING",
      "1",
      "-j",
      "KUBE-POSTROUTING",
    ]);
    const firstJump = async () =>
      (await lab.nodeExec("node1", "iptables-nft", ["-t", "nat", "-S", "POSTROUTING", "1"])).stdout.trim();
    await until(async () => (await firstJump()) === "-A POSTROUTING -j EGRESSIP-SNAT", "ours is first again");
    // Theirs is theirs: it moved down and stays.
    await lab.nodeExec("node1", "iptables-nft", ["-t", "nat", "-D", "POSTROUTING", "2"]);
    await heals();
  });

  it("a link goes down and comes up again", async () => {
    await ip("link set eth1 down");
    await agent.when(({ problems }) => problems.some(({ text }) => text.includes("eth1")), "eth1 is down");
    await ip(...linkBack);
    await heals();
    expect(await lab.view(["a1"], ["internet"])).toEqual([
      "a1 internet tcp 4: sec saw 10.10.10.50",
      "a1 internet tcp 6: sec saw fd00:10:10::50",
      "a1 internet udp 4: sec saw 10.10.10.50",
      "a1 internet udp 6: sec saw fd00:10:10::50",
    ]);
  });

  it("routes that come and go in main do so in the link's table", async () => {
    const added = { 4: "203.0.113.0/24", 6: "2001:db8:77::/64" } as const;
    await ip(
      `route add ${added[4]} via 10.10.10.100 dev eth1`,
      `route add ${added[6]} via fd00:10:10::100 dev eth1`,
    );
    for (const family of families)
      await until(async () => (await routes(family, "1004")).includes(added[family]), "it is in the table");
    expect(await routes(4, "1003")).not.toContain(added[4]);
    await ip(`route del ${added[4]}`, `route del ${added[6]}`);
    await heals();
  });

  it("the state file is lost", async () => {
    await rm(join(home.stateDirectory, "intent.json"));
    // Nobody tells of it, and nothing depends on it until the next start.
    await agent.stop();
    agent = await home.start(manifests.directory);
    await agent.lookAgain();
    expect(unordered(await lab.dump("node1"))).toBe(unordered(before));
    const { exitCode } = await home.plan(manifests.directory);
    expect(exitCode).toBe(0);
  });

  it("sysctls that somebody sets back are found by the slow tick", async () => {
    await agent.stop();
    agent = await home.start(manifests.directory, { "resync-seconds": "1" });
    const script =
      "echo 0 >/proc/sys/net/ipv4/conf/all/src_valid_mark; echo 1 >/proc/sys/net/ipv4/conf/ovn-k8s-mp0/rp_filter";
    await lab.nodeExec("node1", "sh", ["-c", script]);
    await heals();
  });

  it("promote_secondaries=0: no address of the node goes with an egress IP (known-faults BL-41)", async () => {
    const sysctl = await lab.nodeExec("node1", "cat", ["/proc/sys/net/ipv4/conf/eth1/promote_secondaries"]);
    expect(sysctl.stdout.trim()).toBe("0");
    // The egress IP is there first, then come the node's own addresses, one of them the first of its network.
    await ip("address del 10.10.10.11/24 dev eth1");
    await agent.lookAgain();
    await ip(
      "address add 10.10.10.11/24 dev eth1",
      "address add 10.10.10.12/24 dev eth1",
      "route replace default via 10.10.10.1 dev eth1 metric 500",
    );
    await agent.serves("10.10.10.50", "fd00:10:10::50", "172.18.0.60", "fd00:172:18::60");
    await manifests.edit("egressips.yaml", "prod", ({ status }) => {
      status = Object.assign(status as object, { items: [] });
    });
    await agent.serves("172.18.0.60", "fd00:172:18::60");
    const { stdout } = await run("ip", [
      "-n",
      lab.namespace("node1"),
      "-oneline",
      "-4",
      "address",
      "show",
      "eth1",
    ]);
    expect([...stdout.matchAll(/inet (\S+)/g)].map(([, address]) => address)).toEqual([
      "10.10.10.11/24",
      "10.10.10.12/24",
    ]);
    await manifests.edit("egressips.yaml", "prod", ({ spec, status }) => {
      const { egressIPs } = spec as { egressIPs: string[] };
      Object.assign(status as object, {
        items: egressIPs.map((address) => ({ node: "node1", egressIP: address })),
      });
    });
    await agent.serves("10.10.10.50", "fd00:10:10::50", "172.18.0.60", "fd00:172:18::60");
    await ip("address del 10.10.10.12/24 dev eth1");
    await heals();
  });

  it("a link is made anew with another index", async () => {
    const [node, sec] = [lab.namespace("node1"), lab.namespace("sec")];
    const { stdout } = await run("ip", ["-n", node, "-json", "link", "show", "eth1"]);
    const [{ address }] = JSON.parse(stdout) as [{ address: string }];
    await ip("link del eth1");
    await agent.when(({ held }) => held === 2, "what lived on eth1 is unready");
    expect(await lab.probe("a1", "internet", "udp", 4, 100)).toHaveProperty("failed");
    const [outer, inner] = ["address 02:e1:00:03:01:01", `address ${address} netns ${node}`];
    await run("ip", ["-n", sec, "-batch", "-"], {
      input: `link add node1 ${outer} type veth peer name eth1 ${inner}\nlink set node1 master switch\nlink set node1 up\n`,
    });
    const made = await run("ip", ["-n", node, "-json", "link", "show", "eth1"]);
    const [{ ifindex }] = JSON.parse(made.stdout) as [{ ifindex: number }];
    expect(ifindex).not.toBe(4);
    const table = String(1000 + ifindex);
    await ip("address add 10.10.10.11/24 dev eth1", ...linkBack);
    await agent.serves("10.10.10.50", "fd00:10:10::50", "172.18.0.60", "fd00:172:18::60");
    for (const family of families) {
      await until(async () => (await routes(family, table)).includes("default via"), "it has a table");
      expect(await routes(family, "1004")).toBe("");
      const rules = await run("ip", ["-n", node, `-${family}`, "rule", "show", "pref", "6000"]);
      expect(rules.stdout).toContain(`lookup ${table}`);
      expect(rules.stdout).not.toContain("lookup 1004");
      const reached = async () => "source" in (await lab.probe("a1", "internet", "tcp", family));
      await until(reached, "a1 gets out again");
      expect(await lab.probe("a1", "internet", "udp", family)).toMatchObject({ server: "sec" });
    }
  });
});

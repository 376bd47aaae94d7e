// Strangers' things survive: rules in every table, sets, routes in our table numbers, rules at our priority, nft tables and
// addresses that look like ours are the same to the byte after changes, a switch of modes and uninstall.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { run } from "../../lib/exec/index.ts";
import { Lab } from "../lab/lab.ts";
import type { Backend } from "../lab/topology.ts";
import { Home } from "../support/agent.ts";
import { egressIP, Manifests, pod } from "../support/agent-manifests.ts";
import { canRunKernelTests } from "../support/privileged.ts";

const prefix = `eip${process.pid}`;

/** In all tables and both families; some with names that begin or end like ours. */
function strangersRules(family: 4 | 6): string {
  const [network, host] = family === 4 ? ["192.0.2.0/24", "192.0.2.9"] : ["2001:db8:9::/64", "2001:db8:9::9"];
  return `*raw
-A PREROUTING -s ${host} -j ACCEPT
COMMIT
*mangle
:EGRESSIP-MARK-OF-OTHERS - [0:0]
-A PREROUTING -i eth0 -m mark --mark 0x100000/0x7ff00000 -j MARK --set-xmark 0x0/0xffffffff
-A PREROUTING -j EGRESSIP-MARK-OF-OTHERS
-A EGRESSIP-MARK-OF-OTHERS -s ${network} -m comment --comment "a \\"quoted\\" EGRESSIP-MARK" -j RETURN
COMMIT
*nat
:OTHER-SNAT - [0:0]
-A POSTROUTING -m comment --comment "-j EGRESSIP-SNAT" -j OTHER-SNAT
-A OTHER-SNAT -s ${network} -o eth1 -m mark --mark 0x100000/0x7ff00000 -j SNAT --to-source ${host}
-A OTHER-SNAT -s ${network} -j MASQUERADE
COMMIT
*filter
:OTHER-GUARD - [0:0]
-A FORWARD -s ${network} -g OTHER-GUARD
-A OTHER-GUARD -m limit --limit 3/min -j LOG --log-prefix "EGRESSIP-GUARD "
-A OTHER-GUARD -s ${host} -j DROP
COMMIT
`;
}

const strangersSets = `create egressip-of-others hash:ip family inet maxelem 1024 skbinfo
add egressip-of-others 192.0.2.7 skbmark 0x100000/0x7ff00000
create other6 hash:net family inet6
add other6 2001:db8:9::/64
`;

const strangersTables = `table inet egressip-of-others {
  set pods {
    type ipv4_addr
    elements = { 192.0.2.7, 192.0.2.8 }
  }
  chain leak {
    type filter hook postrouting priority 300
    ip saddr @pods counter drop comment "egressip-leak"
  }
}
table ip egressip {
  chain leak {
    type filter hook postrouting priority 301
    ip saddr 192.0.2.9 drop
  }
}
`;

// Tables 1003 and 1004 are of eth0 and eth1; the reference puts rules for each pod at 6000.
const strangersNetwork = [
  "address add 172.18.0.77/32 dev eth0 label eth0:vip",
  "address add 10.10.10.78/24 dev eth1",
  "address add 10.10.10.79/32 dev eth1",
  "address add 192.0.2.1/32 dev lo",
  "address add 2001:db8:9::1/128 dev lo",
  "address add fd00:10:10::79/128 dev eth1 nodad",
  "route add 192.0.2.0/24 via 10.10.10.1 dev eth1 table 1004",
  "route add default via 10.10.10.1 dev eth1 metric 7 table 1004 proto static",
  "route add unreachable 192.0.2.128/25 table 1003 proto static",
  "route add 2001:db8:9::/64 via fd00:10:10::1 dev eth1 table 1004",
  "rule add from 192.0.2.7 lookup 1004 pref 6000",
  "rule add fwmark 0x100000/0x700000 lookup 1004 pref 6000",
  "rule add from 192.0.2.8 lookup 7777 pref 5999",
];
const strangersRules6 = ["rule add from 2001:db8:9::7 lookup 1004 pref 6000"];

async function addStrangers(lab: Lab, backend: Backend): Promise<void> {
  const node = lab.namespace("node1");
  const batch = (family: string, lines: readonly string[]) =>
    run("ip", ["-n", node, family, "-batch", "-"], { input: `${lines.join("\n")}\n` });
  for (const family of [4, 6] as const) {
    const tool = `${family === 4 ? "iptables" : "ip6tables"}-${backend}-restore`;
    await lab.nodeExec("node1", tool, ["--noflush"], { input: strangersRules(family) });
  }
  await lab.nodeExec("node1", "ipset", ["restore"], { input: strangersSets });
  await lab.nodeExec("node1", "nft", ["-f", "-"], { input: strangersTables });
  await run("ip", ["-n", node, "-batch", "-"], { input: `${strangersNetwork.join("\n")}\n` });
  await batch("-6", strangersRules6);
}

describe.each(["nft", "legacy"] as const)("iptables-%s", (backend) => {
  const reason = canRunKernelTests(backend);
  describe.skipIf(reason !== undefined)(
    `clean${reason === undefined ? "" : ` (not here: ${reason})`}`,
    () => {
      let lab: Lab;
      let home: Home;
      let manifests: Manifests;
      beforeEach(async () => {
        lab = await Lab.up({ prefix, backend, rpFilter: 1 });
        [home, manifests] = await Promise.all([Home.of(lab), Manifests.ofExamples()]);
      });
      afterEach(async () => {
        await lab.down();
        await Promise.all([home.remove(), manifests.remove()]);
      });

      it("five changes, another mode and uninstall leave what was there, strangers' included", async () => {
        await addStrangers(lab, backend);
        const before = await lab.dump("node1");
        const agent = await home.start(manifests.directory);
        const untouched = await lab.view(["a3"], ["internet"]);

        const addresses = ["10.10.10.52", "fd00:10:10::52"];
        await manifests.write("more.yaml", [egressIP("more", { addresses, app: "server" })]);
        await agent.when(({ held }) => held === 6, "one more egress IP");
        await manifests.edit("egressips.yaml", "prod", ({ spec, status }) => {
          (spec as { egressIPs: string[] }).egressIPs = ["10.10.10.53"];
          (status as { items: unknown[] }).items = [{ node: "node1", egressIP: "10.10.10.53" }];
        });
        await agent.when(({ held }) => held === 5, "prod has another address, and no IPv6 one");
        await manifests.label("billing", "a4", "b1");
        await manifests.write("pods-more.yaml", [
          pod({ name: "p1", app: "web", addresses: ["10.244.1.20"] }),
        ]);
        await agent.when(({ pods }) => pods === 4, "pods change sides");
        await manifests.edit("egressips.yaml", "billing", ({ status }) => {
          (status as { items: unknown[] }).items = [{ node: "node2", egressIP: "172.18.0.60" }];
        });
        await agent.when(({ held }) => held === 3, "billing goes to the other node");
        await manifests.delete("more.yaml");
        await agent.when(({ held }) => held === 1, "and more is deleted");
        expect((await agent.status()).problems).toEqual([]);
        expect(await lab.view(["a3"], ["internet"])).toEqual(untouched);
        expect(await agent.stop()).toBe(0);
        expect(await lab.dump("node1")).not.toBe(before);

        const shared = await home.start(manifests.directory, { "gateway-mode": "shared" });
        await shared.lookAgain();
        await shared.stop();
        const { exitCode, stdout } = await home.uninstall();
        expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: expect.stringContaining("== retire") });
        expect(await lab.dump("node1")).toBe(before);
        expect((await home.uninstall()).stdout).toBe("");
      });

      it("a host without strangers is as it was too", async () => {
        const before = await lab.dump("node1");
        await (await home.start(manifests.directory)).stop();
        await home.uninstall();
        expect(await lab.dump("node1")).toBe(before);
      });

      it("uninstall takes down what a killed agent left, also without its state", async () => {
        const before = await lab.dump("node1");
        const agent = await home.start(manifests.directory);
        await agent.kill();
        await home.uninstall();
        expect(await lab.dump("node1")).toBe(before);
      });
    },
  );
});

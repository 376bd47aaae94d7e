// nft in a namespace: a table that comes and goes, counters that count, and hearing about everybody's changes.
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Follower, follow, type Run, run, ToolError } from "../../lib/exec/index.ts";
import { createNft, type NftChange } from "../../lib/nftables/index.ts";
import { normalizeTable, parseCounters } from "../../lib/nftables/pure.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const NAMESPACE = `ea${process.pid}-nftables`;
const TABLE = `table inet ours {
	set pods {
		type ipv4_addr
		flags timeout
		counter
		elements = { 127.0.0.1 timeout 1h, 127.0.0.2 timeout 1h, 127.0.0.3 }
	}

	chain out {
		type filter hook output priority 0; policy accept;
		udp dport 7001 counter comment "to 7001"
		udp dport 7002 counter comment "to 7002"
		ip saddr @pods counter
	}
}
`;

const inside: Run = (command, args, options) =>
  run("ip", ["netns", "exec", NAMESPACE, command, ...args], options);
const followInside: typeof follow = (command, args, on) =>
  follow("ip", ["netns", "exec", NAMESPACE, command, ...args], on);
const nft = createNft(inside);

/**
 * nft does not say when it has subscribed, but the kernel does: NETLINK_NETFILTER is 12, and multicast group 7
 * (NFNLGRP_NFTABLES) is bit 0x40 of the Groups column. The port number is the pid for a tool's first socket.
 */
async function isSubscribed(pid: number | undefined): Promise<boolean> {
  const table = await readFile(`/proc/${pid}/net/netlink`, "utf8");
  return table.split("\n").some((line) => {
    const [, protocol, port, groups = ""] = line.trim().split(/\s+/);
    return protocol === "12" && port === String(pid) && (Number.parseInt(groups, 16) & 0x40) !== 0;
  });
}

const why = canRunKernelTests();

describe.skipIf(why !== undefined)(
  `nft in a namespace${why === undefined ? "" : ` (skipped: ${why})`}`,
  () => {
    beforeAll(async () => {
      await run("ip", ["netns", "add", NAMESPACE]);
      await inside("ip", ["link", "set", "lo", "up"]);
    });

    afterAll(async () => {
      await run("ip", ["netns", "del", NAMESPACE]);
    });

    it("knows a table that is not there from one that is", async () => {
      expect(await nft.listTable("inet", "ours")).toBeUndefined();
      await nft.apply(TABLE);
      expect(await nft.listTable("inet", "ours")).toMatch(/^table inet ours \{\n/);
      expect(await nft.listTable("ip", "ours")).toBeUndefined();
      await nft.apply("delete table inet ours");
      expect(await nft.listTable("inet", "ours")).toBeUndefined();
    });

    it("fails when it may not look, which is not an absent table", async () => {
      const unprivileged: Run = (command, args, options) =>
        inside("setpriv", ["--reuid", "65534", "--clear-groups", command, ...args], options);
      const missing: Run = (command, args, options) => inside(`no-${command}`, args, options);
      await expect(createNft(unprivileged).listTable("inet", "ours")).rejects.toThrow(
        "Operation not permitted",
      );
      await expect(createNft(missing).listTable("inet", "ours")).rejects.toThrow(ToolError);
    });

    it("applies all of a script or nothing, and names the line", async () => {
      const script = "add table inet half\nadd chain inet half c\nadd rule inet half c nonsense\n";
      await expect(nft.apply(script)).rejects.toThrow(/:3:\d+-\d+: Error: syntax error/);
      // The second one is refused by the kernel, not by the parser.
      await expect(nft.apply("add table inet half\ndelete table inet absent\n")).rejects.toThrow(
        "No such file or directory",
      );
      expect(await nft.listTable("inet", "half")).toBeUndefined();
    });

    it("counts packets, in listings that stay equal", async () => {
      await nft.apply(TABLE);
      const before = (await nft.listTable("inet", "ours")) ?? "";
      expect(parseCounters(before)).toEqual([
        { name: "to 7001", packets: 0, bytes: 0 },
        { name: "to 7002", packets: 0, bytes: 0 },
      ]);
      // 20 bytes of IPv4 header, 8 of UDP, a line break.
      await inside("bash", ["-c", "for i in 1 2 3; do echo > /dev/udp/127.0.0.1/7001; done"]);
      const after = (await nft.listTable("inet", "ours")) ?? "";
      expect(parseCounters(after)).toEqual([
        { name: "to 7001", packets: 3, bytes: 87 },
        { name: "to 7002", packets: 0, bytes: 0 },
      ]);
      expect(after).not.toBe(before);
      expect(normalizeTable(after)).toBe(normalizeTable(before));
      const withHandles = (await inside("nft", ["-a", "list", "table", "inet", "ours"])).stdout;
      expect(normalizeTable(withHandles)).toBe(normalizeTable(before));
      await nft.apply("add rule inet ours out udp dport 7003 drop");
      expect(normalizeTable((await nft.listTable("inet", "ours")) ?? "")).not.toBe(normalizeTable(before));
      await nft.apply("delete table inet ours");
    });

    it("hears who changed something, once per transaction", async () => {
      const changes: NftChange[] = [];
      const ends: string[] = [];
      const follower: Follower = nft.monitor(
        followInside,
        (change) => changes.push(change),
        (reason) => ends.push(reason),
      );
      await until(() => isSubscribed(follower.pid), "nft monitor has subscribed");
      await nft.apply("add table ip one\nadd chain ip one c\nadd rule ip one c counter\n");
      await inside("iptables", ["-A", "OUTPUT", "-j", "ACCEPT"]);
      await nft.apply("delete table ip one");
      await until(() => changes.length >= 3, "three transactions are heard of");
      follower.close();
      expect(changes).toEqual([
        { process: "nft", pid: expect.any(Number) },
        { process: expect.stringMatching(/^iptables/), pid: expect.any(Number) },
        { process: "nft", pid: expect.any(Number) },
      ]);
      expect(new Set(changes.map(({ pid }) => pid)).size).toBe(3);
      expect(ends).toEqual([]);
    });

    it("says when it stops hearing", async () => {
      const ends: string[] = [];
      const follower = nft.monitor(
        followInside,
        () => undefined,
        (reason) => ends.push(reason),
      );
      await until(() => isSubscribed(follower.pid), "nft monitor has subscribed");
      process.kill(follower.pid ?? Number.NaN, "SIGTERM");
      expect(await until(() => ends[0], "the end is reported")).toMatch(/SIGTERM|killed/);
    });
  },
);

// iproute2 in a namespace: what is printed and listed again is the same, whatever it is; batches that fail say where.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { follow, type Run, run } from "../../lib/exec/index.ts";
import { BatchError, createNetlink, monitorNetwork } from "../../lib/netlink/index.ts";
import { type Route, type Rule, routeWords, ruleWords } from "../../lib/netlink/pure.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const name = `ea${process.pid}-netlink`;
const within: Run = (command, args, options) => run("ip", ["netns", "exec", name, command, ...args], options);
const netlink = createNetlink(within);
const PROTOCOL = "233";

const setUp = `link set lo up
link add eth0 type veth peer name peer0
link add eth1 type veth peer name peer1
link set eth0 up
link set peer0 up
link set eth1 up
link set peer1 up
address add 172.18.0.11/24 dev eth0
address add 10.10.10.11/24 dev eth1
address add fd00:172:18::11/64 dev eth0 nodad
address add fd00:10:10::11/64 dev eth1 nodad
`;

const why = canRunKernelTests();

describe.skipIf(why !== undefined)(
  `netlink in a namespace${why === undefined ? "" : ` (skipped: ${why})`}`,
  () => {
    beforeAll(async () => {
      await run("ip", ["netns", "add", name]);
      await within("ip", ["-batch", "-"], { input: setUp });
    });
    afterAll(async () => {
      await run("ip", ["netns", "del", name]);
    });

    const ours = async () => {
      const { routes, rules } = await netlink.read();
      return {
        routes: routes.filter(({ protocol }) => protocol === PROTOCOL),
        rules: rules.filter(({ protocol }) => protocol === PROTOCOL),
      };
    };
    const flush = async () => {
      const { routes, rules } = await ours();
      await netlink.batch([
        ...routes.map((route) => `route del ${routeWords(route)}`),
        ...rules.map((rule) => `${rule.family === 6 ? "-6 " : ""}rule del ${ruleWords(rule)}`),
      ]);
    };

    it("lists links, addresses, routes and rules of both families", async () => {
      const { links, addresses, routes, rules } = await netlink.read();
      expect(links.map((link) => link.name)).toEqual(["eth0", "eth1", "lo", "peer0", "peer1"]);
      expect(links.every(({ running }) => running)).toBe(true);
      expect(
        addresses
          .filter(({ scope }) => scope === "global")
          .map(({ address, length }) => `${address}/${length}`),
      ).toEqual(["172.18.0.11/24", "fd00:172:18::11/64", "10.10.10.11/24", "fd00:10:10::11/64"]);
      expect(routes.filter(({ destination }) => destination === "172.18.0.0/24")).toHaveLength(1);
      expect(rules.map(({ family, table }) => `${family} ${table}`)).toEqual([
        "4 local",
        "4 main",
        "4 default",
        "6 local",
        "6 main",
      ]);
    });

    describe("prints a route so that it is listed as the same", () => {
      const link = fc.constantFrom(
        { link: "eth0", 4: "172.18.0.", 6: "fd00:172:18::" },
        { link: "eth1", 4: "10.10.10.", 6: "fd00:10:10::" },
      );
      const route = fc
        .record({
          family: fc.constantFrom(4 as const, 6 as const),
          table: fc.integer({ min: 1001, max: 1004 }),
          destination: fc.constantFrom(
            { 4: "0.0.0.0/0", 6: "::/0" },
            { 4: "192.0.2.0/24", 6: "2001:db8:1::/48" },
            { 4: "198.51.100.7", 6: "2001:db8::7" },
            { 4: "203.0.113.128/25", 6: "2001:db8:2::/63" },
          ),
          metric: fc.constantFrom(1, 100, 1024, 4294967295),
          mtu: fc.constantFrom(0, 1280, 1400),
          type: fc.constantFrom(
            "unicast",
            "unicast",
            "unicast",
            "blackhole",
            "unreachable",
            "prohibit",
            "throw",
          ),
          hops: fc.uniqueArray(
            fc.record({
              via: fc.option(fc.integer({ min: 50, max: 99 }), { nil: undefined }),
              over: link,
              weight: fc.integer({ min: 1, max: 4 }),
              onlink: fc.boolean(),
              six: fc.boolean(),
            }),
            { minLength: 1, maxLength: 2, selector: ({ over }) => over.link },
          ),
        })
        .map(({ family, table, destination, metric, mtu, type, hops }): Route => {
          const many = hops.length > 1;
          const plain = type === "unicast";
          return {
            family,
            table: String(table),
            type,
            destination: destination[family],
            metric,
            protocol: PROTOCOL,
            // Only what leaves has an MTU.
            mtu: plain ? mtu : 0,
            hops: plain
              ? hops.map(({ via, over, weight, onlink, six }) => {
                  const gateway = via === undefined && !many ? "" : `${over[family]}${via ?? 77}`;
                  const mixed = six && family === 4 && gateway !== "";
                  return {
                    gateway: mixed ? `inet6 ${over[6]}${via ?? 77}` : gateway,
                    link: over.link,
                    onlink: onlink && gateway !== "",
                    weight: many ? weight : 1,
                  };
                })
              : [],
          };
        });

      it("for any route of any kind", async () => {
        await fc.assert(
          fc.asyncProperty(route, async (given) => {
            await netlink.batch([`route replace ${routeWords(given)}`]);
            const { routes } = await ours();
            expect(routes).toEqual([given]);
            await netlink.batch([`route del ${routeWords(given)}`]);
            expect((await ours()).routes).toEqual([]);
          }),
          { numRuns: 60 },
        );
      });

      it("for any set of them at once, each replaced by itself without a trace", async () => {
        const slot = ({ family, table, destination, metric }: Route) =>
          `${family} ${table} ${destination} ${metric}`;
        await fc.assert(
          fc.asyncProperty(
            fc.uniqueArray(route, { selector: slot, minLength: 1, maxLength: 12 }),
            async (given) => {
              const lines = given.map((of) => `route replace ${routeWords(of)}`);
              await netlink.batch(lines);
              await netlink.batch(lines);
              const { routes } = await ours();
              expect(new Set(routes.map((of) => `${of.family} ${routeWords(of)}`))).toEqual(
                new Set(given.map((of) => `${of.family} ${routeWords(of)}`)),
              );
              expect(routes).toHaveLength(given.length);
              await flush();
              expect((await ours()).routes).toEqual([]);
            },
          ),
          { numRuns: 12 },
        );
      });
    });

    describe("prints a rule so that it is listed as the same", () => {
      const rule = fc
        .record({
          family: fc.constantFrom(4 as const, 6 as const),
          priority: fc.integer({ min: 5000, max: 5003 }),
          table: fc.integer({ min: 1001, max: 1004 }).map(String),
          from: fc.constantFrom("", "from 10.244.1.3", "from 10.244.0.0/16"),
          mark: fc.constantFrom(
            "",
            "fwmark 0x100000/0x7ff00000",
            "fwmark 0x10000000/0x70000000",
            "fwmark 0x1",
          ),
          more: fc.constantFrom(
            "",
            "iif eth0",
            "oif eth1",
            "uidrange 0-99",
            "dport 53 ipproto udp",
            "suppress_prefixlength 0",
            "tos 0x10",
          ),
          not: fc.constantFrom("", "", "not"),
        })
        .map(({ family, priority, table, from, mark, more, not }): Rule => {
          const source =
            family === 4
              ? from
              : from.replace("10.244.1.3", "fd00:10:244:1::3").replace("10.244.0.0/16", "fd00:10:244::/48");
          const words = [source, mark, more].filter((part) => part !== "");
          const selector = [words.length > 0 ? not : "", ...words].filter((part) => part !== "").join(" ");
          return { family, priority, table, protocol: PROTOCOL, selector };
        });

      it("for any rule, and the words that added it take it away", async () => {
        await fc.assert(
          fc.asyncProperty(rule, async (given) => {
            const lead = given.family === 6 ? "-6 " : "";
            await netlink.batch([`${lead}rule add ${ruleWords(given)}`]);
            expect((await ours()).rules).toEqual([given]);
            await netlink.batch([`${lead}rule del ${ruleWords(given)}`]);
            expect((await ours()).rules).toEqual([]);
          }),
          { numRuns: 60 },
        );
      });

      it("for rules as others write them, and takes exactly the one away that is meant (K-1)", async () => {
        const lines = [
          "pref 6001 goto 7000",
          "pref 7000 nop",
          "pref 6002 from 192.0.2.9 blackhole",
          "pref 6003 fwmark 0x1 prohibit",
          "pref 6004 not fwmark 0xca6c lookup 51820",
          "pref 6005 lookup main suppress_prefixlength 0",
          "pref 6006 sport 100-200 dport 53 ipproto tcp lookup 100",
          "pref 6007 from 10.0.0.1 to 10.0.0.0/24 lookup 100",
          "pref 6007 from 10.0.0.1 to 10.0.0.0/24 lookup 101",
          "pref 1000 l3mdev",
        ];
        await netlink.batch(lines.map((line) => `rule add ${line} protocol ${PROTOCOL}`));
        const { rules } = await ours();
        expect(rules).toHaveLength(lines.length);
        for (const [at, of] of rules.entries()) {
          await netlink.batch([`rule del ${ruleWords(of)}`]);
          expect((await ours()).rules).toEqual(rules.slice(at + 1));
        }
      });
    });

    it("reads tables and protocols that the host has given names to by their numbers", async () => {
      // In a mount namespace of their own: the host's files stay as they are.
      const names = await mkdtemp(join(tmpdir(), "names-"));
      try {
        await writeFile(join(names, "rt_tables"), "254 main\n255 local\n1004 storage\n10 blue\n");
        await writeFile(join(names, "rt_protos"), "2 kernel\n3 boot\n233 custom\n");
        const named: Run = (command, args, options) =>
          run(
            "unshare",
            [
              "--mount",
              "sh",
              "-ec",
              `for of in rt_tables rt_protos; do mount --bind ${names}/$of /etc/iproute2/$of; done; exec "$@"`,
              "sh",
              ...["ip", "netns", "exec", name, command, ...args],
            ],
            options,
          );
        const lines = [
          "route add 192.0.2.0/24 dev eth1 table 1004 proto 233",
          "route add 192.0.2.0/24 dev eth1 table 10",
          "rule add fwmark 0x1 lookup 1004 pref 6000 protocol 233",
        ];
        await netlink.batch(lines);
        expect((await named("ip", ["route", "show", "table", "all"])).stdout).toMatch(
          /table storage proto custom/,
        );
        expect(await createNetlink(named).read()).toEqual(await netlink.read());
        expect(
          (await netlink.read()).routes.filter(({ destination }) => destination === "192.0.2.0/24"),
        ).toMatchObject([
          { table: "10", protocol: "boot" },
          { table: "1004", protocol: PROTOCOL },
        ]);
        await netlink.batch(lines.map((line) => line.replace("add", "del")));
      } finally {
        await rm(names, { recursive: true, force: true });
      }
    });

    it("names every line of a batch that was refused, of both families, and carries the others out", async () => {
      const error: unknown = await netlink
        .batch([
          "address replace 172.18.0.50/32 dev eth0",
          "address replace 172.18.0.51/32 dev gone",
          "-6 rule add fwmark 0x1 lookup 1001 pref 6000 protocol 233",
          "rule add fwmark 0x1 lookup 1001 pref 6000 protocol 233",
          "rule add fwmark 0x1 lookup 1001 pref 6000 protocol 233",
          "-6 rule del fwmark 0x2 lookup 1001 pref 6000 protocol 233",
          "route replace 192.0.2.0/24 via 192.0.2.1 dev eth0",
          "address replace 172.18.0.52/32 dev eth0",
        ])
        .catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(BatchError);
      expect((error as BatchError).failed.map(({ line }) => line)).toEqual([
        "address replace 172.18.0.51/32 dev gone",
        "rule add fwmark 0x1 lookup 1001 pref 6000 protocol 233",
        "route replace 192.0.2.0/24 via 192.0.2.1 dev eth0",
        "rule del fwmark 0x2 lookup 1001 pref 6000 protocol 233",
      ]);
      for (const { why: reason } of (error as BatchError).failed)
        expect(reason).toMatch(/Cannot find|File exists|No such file|Nexthop|invalid/i);
      const { addresses } = await netlink.read();
      expect(addresses.map(({ address }) => address)).toEqual(
        expect.arrayContaining(["172.18.0.50", "172.18.0.52"]),
      );
      expect((await ours()).rules).toHaveLength(2);
      await flush();
      await netlink.batch(["address del 172.18.0.50/32 dev eth0", "address del 172.18.0.52/32 dev eth0"]);
    });

    it.each([
      "addres replace x",
      "address replace 172.18.0.300/32 dev eth0",
      "route replace 192.0.2.0/24 via elsewhere dev eth0",
      "rule add pref many",
    ])("names a line that iproute2 does not understand, and carries the others out: %s", async (bad) => {
      const rule = "rule add fwmark 0x1 lookup 1001 pref 6000 protocol 233";
      const error: unknown = await netlink
        .batch([rule, bad, `-6 ${rule}`, "address replace 172.18.0.50/32 dev eth0"])
        .catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(BatchError);
      expect((error as BatchError).failed.map(({ line }) => line)).toEqual([bad]);
      expect((error as BatchError).failed[0]?.why).not.toBe("");
      expect((await ours()).rules).toHaveLength(2);
      await flush();
      await netlink.batch(["address del 172.18.0.50/32 dev eth0"]);
    });

    it("tells an egress IP on a link from the node's own address, and the node's own outlives it (BL-41, K-4)", async () => {
      const own = async () =>
        (await netlink.read()).addresses
          .filter(({ link, scope }) => link === "eth0" && scope === "global")
          .map(({ address, length, flags }) => [`${address}/${length}`, ...flags].join(" "));
      const before = await own();
      await netlink.batch([
        "address replace 172.18.0.50/32 dev eth0",
        "address replace fd00:172:18::50/128 dev eth0 nodad noprefixroute preferred_lft 0",
      ]);
      expect(await own()).toEqual([
        "172.18.0.11/24",
        "172.18.0.50/32",
        "fd00:172:18::11/64",
        "fd00:172:18::50/128 deprecated",
      ]);
      await netlink.batch([
        "address del 172.18.0.50/32 dev eth0",
        "address del fd00:172:18::50/128 dev eth0",
      ]);
      expect(await own()).toEqual(before);
    });

    it("is woken by links, addresses, routes and rules", async () => {
      const inNamespace: typeof follow = (command, args, on) =>
        follow("ip", ["netns", "exec", name, command, ...args], on);
      let changes = 0;
      const ends: string[] = [];
      const monitor = monitorNetwork(inNamespace, {
        change: () => changes++,
        end: (reason) => ends.push(reason),
      });
      try {
        // When it listens is not told; until then the same change is made again.
        await until(async () => {
          await netlink.batch([
            "address replace 172.18.0.60/32 dev eth0",
            "address del 172.18.0.60/32 dev eth0",
          ]);
          return changes > 0;
        }, "the monitor to listen");
        for (const lines of [
          ["link set eth1 mtu 1400"],
          ["route replace 192.0.2.0/24 dev eth0"],
          ["rule add fwmark 0x1 lookup 1001 pref 6000 protocol 233"],
          ["-6 rule add fwmark 0x1 lookup 1001 pref 6000 protocol 233"],
        ]) {
          const before = changes;
          await netlink.batch(lines);
          await until(() => changes > before, `a word of "${lines[0]}"`);
        }
        expect(ends).toEqual([]);
      } finally {
        monitor.close();
        await flush();
      }
    });
  },
);

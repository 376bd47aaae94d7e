// conntrack over real flows in a namespace: UDP datagrams over lo that iptables marks by destination port.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createConntrack, type Family } from "../../lib/conntrack/index.ts";
import { type Run, run, ToolError } from "../../lib/exec/index.ts";
import { canRunKernelTests } from "../support/privileged.ts";

const NAMESPACE = `ea${process.pid}-conntrack`;
const MASK = 0x7ff00000;
const OURS = 0x100000;
const OTHER = 0x200000;
/** Destination ports by what the flow is: of our mark, of another one, unmarked, ours but in zone 5. */
const [MARKED, MARKED_TOO, OTHER_MARK, UNMARKED, OTHER_ZONE] = [7001, 7002, 7003, 7004, 7005];
const PORTS = [MARKED, MARKED_TOO, OTHER_MARK, UNMARKED, OTHER_ZONE];

const inside: Run = (command, args, options) =>
  run("ip", ["netns", "exec", NAMESPACE, command, ...args], options);
const conntrack = createConntrack(inside);

/** One datagram makes a flow; nobody has to listen. */
async function openFlows(): Promise<void> {
  await inside("conntrack", ["-F"]);
  for (const host of ["127.0.0.1", "127.0.0.2", "::1"]) {
    const script = PORTS.map((port) => `echo > /dev/udp/${host}/${port}`).join("; ");
    await inside("bash", ["-c", script]);
  }
}

async function portsLeft(family: Family): Promise<string[]> {
  return (await conntrack.list(family)).map(({ orig }) => `${orig.dst} ${orig.dport}`).sort();
}

function all(host: string, ports: readonly number[]): string[] {
  return ports.map((port) => `${host} ${port}`);
}

const why = canRunKernelTests();

describe.skipIf(why !== undefined)(
  `conntrack on real flows${why === undefined ? "" : ` (skipped: ${why})`}`,
  () => {
    beforeAll(async () => {
      await run("ip", ["netns", "add", NAMESPACE]);
      await inside("ip", ["link", "set", "lo", "up"]);
      for (const iptables of ["iptables", "ip6tables"]) {
        const rule = (text: string) => inside(iptables, text.split(" "));
        await rule(`-t raw -A OUTPUT -p udp --dport ${OTHER_ZONE} -j CT --zone 5`);
        // A bit that is somebody else's, kube-proxy's here, on every flow.
        await rule("-t mangle -A OUTPUT -j CONNMARK --set-xmark 0x4000/0x4000");
        for (const port of [MARKED, MARKED_TOO, OTHER_ZONE]) {
          await rule(`-t mangle -A OUTPUT -p udp --dport ${port} -j CONNMARK --set-xmark ${OURS}/${MASK}`);
        }
        await rule(
          `-t mangle -A OUTPUT -p udp --dport ${OTHER_MARK} -j CONNMARK --set-xmark ${OTHER}/${MASK}`,
        );
      }
    });

    afterAll(async () => {
      await run("ip", ["netns", "del", NAMESPACE]);
    });

    beforeEach(openFlows);

    it("lists real flows with their marks and zones", async () => {
      const flows = await conntrack.list(6);
      const marks = Object.fromEntries(flows.map(({ orig, mark, zone }) => [orig.dport, [mark, zone]]));
      expect(marks).toEqual({
        [MARKED]: [OURS | 0x4000, 0],
        [MARKED_TOO]: [OURS | 0x4000, 0],
        [OTHER_MARK]: [OTHER | 0x4000, 0],
        [UNMARKED]: [0x4000, 0],
        [OTHER_ZONE]: [OURS | 0x4000, 5],
      });
      for (const { protocol, orig, reply } of flows) {
        expect({ protocol, reply }).toEqual({
          protocol: "udp",
          reply: { src: "::1", dst: "::1", sport: orig.dport, dport: orig.sport },
        });
      }
    });

    it("lists the state of a TCP connection", async () => {
      const connect = `use IO::Socket;
      my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:7100") or die;
      my $there = IO::Socket::INET->new("127.0.0.1:7100") or die;
      my $back = $server->accept or die;`;
      await inside("perl", ["-e", connect]);
      const tcp = (await conntrack.list(4)).filter(({ protocol }) => protocol === "tcp");
      expect(tcp).toMatchObject([
        {
          orig: { src: "127.0.0.1", dport: 7100 },
          state: expect.stringMatching(/^[A-Z_]+$/),
          flags: ["ASSURED"],
        },
      ]);
    });

    it.each([
      [4, ["127.0.0.1", "127.0.0.2"], ["::1"]],
      [6, ["::1"], ["127.0.0.1", "127.0.0.2"]],
    ] as const)("deletes IPv%i flows of one mark, in the host's zone only", async (family, hosts, others) => {
      expect(await conntrack.deleteByMark(family, OURS, MASK)).toBe(2 * hosts.length);
      const left = hosts.flatMap((host) => all(host, [OTHER_MARK, UNMARKED, OTHER_ZONE])).sort();
      expect(await portsLeft(family)).toEqual(left);
      expect(await portsLeft(family === 4 ? 6 : 4)).toEqual(others.flatMap((host) => all(host, PORTS)));
    });

    it("answers 0 when no flow has the mark, and deletes none", async () => {
      expect(await conntrack.deleteByMark(4, 0x300000, MASK)).toBe(0);
      expect(await conntrack.deleteByMark(6, 0x300000, MASK)).toBe(0);
      expect(await portsLeft(6)).toEqual(all("::1", PORTS));
    });

    it("deletes the flows of one source, and of one mark of it", async () => {
      // Over lo the source is the destination.
      expect(await conntrack.deleteBySource(4, "127.0.0.2")).toBe(0);
      expect(await conntrack.deleteBySource(4, "127.0.0.1", OURS, MASK)).toBe(4);
      expect(await conntrack.deleteBySource(4, "127.0.0.1", OTHER | 0x4000)).toBe(2);
      expect(await portsLeft(4)).toEqual(
        ["127.0.0.1", "127.0.0.2"].flatMap((host) => all(host, [UNMARKED, OTHER_ZONE])),
      );
      expect(await conntrack.deleteBySource(6, "::1")).toBe(4);
      expect(await portsLeft(6)).toEqual(all("::1", [OTHER_ZONE]));
    });

    it("marks and ends flows by what they are translated to, in the host's zone only", async () => {
      // Over lo nothing is translated: the reply goes to where the flow came from.
      const translatedTo = "127.0.0.1";
      const both = { mark: 0x300000, mask: MASK };
      const marks = async (family: Family) =>
        (await conntrack.list(family)).map(({ orig, mark }) => `${orig.dst} ${orig.dport} ${mark}`).sort();
      const after = (mark: (port: number) => number, ...hosts: readonly string[]) =>
        hosts.flatMap((host) => PORTS.map((port) => `${host} ${port} ${mark(port) | 0x4000}`)).sort();
      const all4 = ["127.0.0.1", "127.0.0.2"];
      const others = await marks(6);

      expect(await conntrack.changeTranslated([{ family: 4, translatedTo, ...both }])).toBe(8);
      const marked = (port: number) => (port === OTHER_ZONE ? OURS : 0x300000);
      expect(await marks(4)).toEqual(after(marked, ...all4));
      expect(await marks(6)).toEqual(others);
      expect(await conntrack.changeTranslated([{ family: 4, translatedTo, ...both }])).toBe(0);

      const two = [
        { family: 4, translatedTo, mark: 0, mask: MASK },
        { family: 6, translatedTo: "::1", ...both },
      ] as const;
      expect(await conntrack.changeTranslated(two)).toBe(12);
      expect(await marks(4)).toEqual(after((port) => (port === OTHER_ZONE ? OURS : 0), ...all4));
      expect(await marks(6)).toEqual(after(marked, "::1"));

      expect(await conntrack.changeTranslated([{ family: 4, translatedTo: "127.0.0.9", ends: true }])).toBe(
        0,
      );
      expect(await conntrack.changeTranslated([{ family: 4, translatedTo, ends: true }])).toBe(8);
      expect(await portsLeft(4)).toEqual(all4.flatMap((host) => all(host, [OTHER_ZONE])));
      expect(await marks(6)).toEqual(after(marked, "::1"));
    });

    it("marks more flows than one answer of the kernel holds, while others end", async () => {
      await inside("sh", ["-c", "echo 1 >/proc/sys/net/netfilter/nf_conntrack_udp_timeout"]);
      const many = `use Socket; socket(my $s, PF_INET, SOCK_DGRAM, 0);
        send($s, "x", 0, sockaddr_in($_, inet_aton("127.0.0.1"))) for 10000 .. 19999;`;
      await inside("perl", ["-e", many]);
      await inside("sh", ["-c", "echo 30 >/proc/sys/net/netfilter/nf_conntrack_udp_timeout"]);
      await inside("perl", ["-e", many.replace("10000 .. 19999", "20000 .. 29999")]);
      const marked = { family: 4, translatedTo: "127.0.0.1", mark: 0x300000, mask: MASK } as const;
      await conntrack.changeTranslated([marked]);
      const left = (await conntrack.list(4)).filter(({ orig }) => (orig.dport ?? 0) >= 20_000);
      expect(left.length).toBe(10_000);
      expect(left.filter(({ mark }) => (mark & MASK) !== 0x300000)).toEqual([]);
    });

    it("deletes all although flows end while it is at it", async () => {
      const many = `use Socket; socket(my $s, PF_INET, SOCK_DGRAM, 0);
        send($s, "x", 0, sockaddr_in($_, inet_aton("127.0.0.1"))) for 10000 .. 29999;`;
      await inside("perl", ["-e", many]);
      const failed: unknown[] = [];
      const counting: Run = (...call) =>
        inside(...call).catch((error: unknown) => {
          failed.push(error);
          throw error;
        });
      // Each of them meets flows that another one has just deleted.
      const several = Array.from({ length: 4 }, () =>
        createConntrack(counting).deleteBySource(4, "127.0.0.1"),
      );
      await Promise.all(several);
      expect(await portsLeft(4)).toEqual(["127.0.0.1", "127.0.0.2"].flatMap((to) => all(to, [OTHER_ZONE])));
      expect(String(failed[0])).toContain("such conntrack doesn't exist");
    });

    it("fails where nothing could be deleted, which is not the answer 0", async () => {
      const unprivileged: Run = (command, args, options) =>
        inside("setpriv", ["--reuid", "65534", "--clear-groups", command, ...args], options);
      const refused = createConntrack(unprivileged);
      await expect(refused.deleteByMark(4, OURS, MASK)).rejects.toThrow(ToolError);
      const marking = { family: 4, translatedTo: "127.0.0.1", mark: OURS, mask: MASK } as const;
      await expect(refused.changeTranslated([marking])).rejects.toThrow("Operation not permitted");
      await expect(refused.list(4)).rejects.toThrow("CAP_NET_ADMIN");
      await expect(conntrack.deleteBySource(4, "999.1.1.1")).rejects.toThrow(ToolError);
      expect(await portsLeft(6)).toEqual(all("::1", PORTS));
    });
  },
);

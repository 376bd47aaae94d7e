// Announcements over a real link: two namespaces and a veth; what the peer captures, and whom it believes.
import { type ChildProcess, spawn } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Run, run, spawnCounts, ToolError } from "../../lib/exec/index.ts";
import { createSender, SendError } from "../../lib/frames/index.ts";
import { garp, linkLocalFromMac, unsolicitedNa } from "../../lib/frames/pure.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const ANNOUNCER = `ea${process.pid}-announcer`;
const PEER = `ea${process.pid}-peer`;
const MAC = "02:42:ac:12:00:0b";
const FORMER_MAC = "02:42:ac:12:00:0c";
const MAC_OF_NEVER = "02:42:ac:12:00:ff";
const EGRESS4 = "172.18.0.50";
const EGRESS6 = "fd00:172:18::50";

/** Named, or knip takes the command for an npm package that is missing. */
const IP = "ip";

const inside =
  (namespace: string): Run =>
  (command, args, options) =>
    run("ip", ["netns", "exec", namespace, command, ...args], options);
const sender = createSender(inside(ANNOUNCER));
const neighbourhood: readonly [string, () => Uint8Array][] = [
  [EGRESS4, () => garp(MAC, EGRESS4)],
  [EGRESS6, () => unsolicitedNa(MAC, linkLocalFromMac(MAC), EGRESS6)],
];

async function ip(namespace: string, line: string): Promise<string> {
  return (await run("ip", ["-n", namespace, ...line.split(" ")])).stdout;
}

async function ifindex(link: string): Promise<number> {
  const [found] = JSON.parse(await ip(ANNOUNCER, `-json link show ${link}`)) as { ifindex: number }[];
  return found?.ifindex ?? 0;
}

async function neighbourMac(address: string): Promise<string | undefined> {
  const entries = JSON.parse(await ip(PEER, `-json neigh show ${address}`)) as { lladdr?: string }[];
  return entries[0]?.lladdr;
}

function spawned(): number {
  return Object.values(spawnCounts()).reduce((sum, count) => sum + count, 0);
}

/** What tcpdump sees at the peer. It says "listening" once its filter is in place; what comes after is captured. */
async function capture(filter: string): Promise<{ frames(): Uint8Array[]; end(): Promise<void> }> {
  const words = `netns exec ${PEER} tcpdump -i p0 -Q in -U --immediate-mode -w -`.split(" ");
  const child: ChildProcess = spawn(IP, [...words, filter], { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const chunks: Buffer[] = [];
  let said = "";
  child.stdout?.on("data", (chunk: Buffer) => chunks.push(chunk));
  child.stderr?.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  await until(() => said.includes("listening on"), "tcpdump listens");
  return {
    frames: () => pcapFrames(Buffer.concat(chunks)),
    end: () => {
      child.kill("SIGKILL");
      return ended;
    },
  };
}

/** The complete records of a pcap file so far: 24 bytes of header, then 16 bytes with the length at 8 before each. */
function pcapFrames(file: Buffer): Uint8Array[] {
  const frames: Uint8Array[] = [];
  for (let at = 24; at + 16 <= file.length; ) {
    const end = at + 16 + file.readUInt32LE(at + 8);
    if (end > file.length) break;
    frames.push(Uint8Array.from(file.subarray(at + 16, end)));
    at = end;
  }
  return frames;
}

const why = canRunKernelTests();

describe.skipIf(why !== undefined)(
  `frames on a real link${why === undefined ? "" : ` (skipped: ${why})`}`,
  () => {
    beforeAll(async () => {
      for (const namespace of [ANNOUNCER, PEER]) await run("ip", ["netns", "add", namespace]);
      await ip(ANNOUNCER, `link add a0 address ${MAC} type veth peer name p0 netns ${PEER}`);
      await ip(ANNOUNCER, "link add down0 type veth peer name down1");
      await ip(ANNOUNCER, "link set a0 up");
      await ip(PEER, "link set p0 up");
      await ip(PEER, "addr add 172.18.0.12/24 dev p0");
      await ip(PEER, "addr add fd00:172:18::12/64 dev p0 nodad");
      // A link takes frames in only once its peer is up too.
      await until(
        async () => (await ip(ANNOUNCER, "-json link show a0")).includes("LOWER_UP"),
        "a0 has carrier",
      );
    });

    afterAll(async () => {
      for (const namespace of [ANNOUNCER, PEER]) await run("ip", ["netns", "del", namespace]);
    });

    it("arrive as they were made, byte by byte and in order, with one spawn", async () => {
      const index = await ifindex("a0");
      // The kernel's own neighbour traffic comes from the same MAC but is not about these addresses.
      const captured = await capture(`arp or (icmp6 and ip6[40] == 136)`);
      const frames = [
        garp(MAC, EGRESS4),
        unsolicitedNa(MAC, linkLocalFromMac(MAC), EGRESS6),
        ...[51, 52, 53].map((last) => garp(MAC, `172.18.0.${last}`)),
      ];
      const before = spawned();
      await sender.send(frames.map((frame) => ({ ifindex: index, frame })));
      expect(spawned() - before).toBe(1);
      await until(() => captured.frames().length >= frames.length, "the peer captures every frame");
      await captured.end();
      expect(captured.frames()).toEqual(frames);
    });

    it.each(neighbourhood)("make the peer move %s to the new MAC", async (address, frame) => {
      await ip(PEER, `neigh replace ${address} lladdr ${FORMER_MAC} dev p0 nud stale`);
      expect(await neighbourMac(address)).toBe(FORMER_MAC);
      await sender.send([{ ifindex: await ifindex("a0"), frame: frame() }]);
      await until(
        async () => (await neighbourMac(address)) === MAC,
        `the peer believes in ${address} at ${MAC}`,
      );
      expect(await neighbourMac(address)).toBe(MAC);
    });

    it("have the link-local source that the kernel gave the link", async () => {
      const [link] = JSON.parse(await ip(ANNOUNCER, "-json -6 addr show dev a0 scope link")) as {
        addr_info: { local: string }[];
      }[];
      expect(link?.addr_info.map(({ local }) => local)).toEqual([linkLocalFromMac(MAC)]);
    });

    it("leave through every other link when one is down or gone, and name those", async () => {
      const [a0, down0] = [await ifindex("a0"), await ifindex("down0")];
      const gone = 4711;
      const frame = garp(MAC, EGRESS4);
      await ip(PEER, `neigh replace ${EGRESS4} lladdr ${FORMER_MAC} dev p0 nud stale`);
      const order = [down0, gone, down0, a0];
      const error = await sender
        .send(order.map((index) => ({ ifindex: index, frame })))
        .catch((e: unknown) => e);
      expect(error).toBeInstanceOf(SendError);
      expect(error).toHaveProperty("failures", [
        { ifindex: down0, why: "Network is down" },
        { ifindex: gone, why: "No such device or address" },
      ]);
      expect(error).toHaveProperty(
        "message",
        `frames not sent: ifindex ${down0}: Network is down; ifindex ${gone}: No such device or address`,
      );
      expect(error).toHaveProperty("cause", expect.any(ToolError));
      await until(async () => (await neighbourMac(EGRESS4)) === MAC, "the frame behind the failures arrives");
    });

    it("are not sent without the privilege, in words without perl in them", async () => {
      const unprivileged: Run = (command, args, options) =>
        inside(ANNOUNCER)("setpriv", ["--reuid", "65534", "--clear-groups", command, ...args], options);
      const frame = garp(MAC_OF_NEVER, EGRESS4);
      const sent = createSender(unprivileged).send([{ ifindex: await ifindex("a0"), frame }]);
      await expect(sent).rejects.toThrow(
        /^frames not sent: perl: exit status 1: AF_PACKET socket: Operation not permitted$/,
      );
    });

    it("need no spawn when there are none, and an interface index that is one", async () => {
      const refused: Run = () => Promise.reject(new Error("spawned"));
      const frame = garp(MAC_OF_NEVER, EGRESS4);
      await expect(createSender(refused).send([])).resolves.toBeUndefined();
      for (const index of [0, -1, 1.5, Number.NaN, 2 ** 31]) {
        await expect(createSender(refused).send([{ ifindex: index, frame }])).rejects.toThrow(RangeError);
      }
    });
  },
);

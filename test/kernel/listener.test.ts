// Hearing who else says that they have an address, on real links: claims and nothing else, few lines whatever comes, and a
// process only while there is something to listen for. In: two namespaces with a link between them.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Follower, follow, type Run, run } from "../../lib/exec/index.ts";
import { type Answer, createListener, createSender, type Listener } from "../../lib/frames/index.ts";
import { arpProbe, garp, solicitation, unsolicitedNa } from "../../lib/frames/pure.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const HOST = `el${process.pid}-host`;
const PEER = `el${process.pid}-peer`;
const OTHER = "02:00:00:00:00:99";
const E4 = "172.18.0.50";
const E6 = "fd00:172:18::50";

const inside =
  (namespace: string): Run =>
  (command, args, options) =>
    run("ip", ["netns", "exec", namespace, command, ...args], options);
const ip = async (namespace: string, line: string) =>
  (await run("ip", ["-n", namespace, ...line.split(" ")])).stdout;
const indexOf = async (namespace: string, link: string) =>
  (JSON.parse(await ip(namespace, `-json link show ${link}`)) as [{ ifindex: number }])[0].ifindex;
const na = (mac: string, address: string) => unsolicitedNa(mac, "fe80::99", address);

const why = canRunKernelTests();

describe.skipIf(why !== undefined)(`a listener${why === undefined ? "" : ` (skipped: ${why})`}`, () => {
  let here = 0;
  let there = 0;
  let started: Follower[] = [];
  let claims: Answer[] = [];
  let troubles: string[] = [];
  const startInside: typeof follow = (command, args, on, options) => {
    const follower = follow("ip", ["netns", "exec", HOST, command, ...args], on, options);
    started.push(follower);
    return follower;
  };
  const listen = (): Listener =>
    createListener(startInside, {
      claim: (claim) => claims.push(claim),
      failed: ({ ifindex, why: reason }) => troubles.push(`${ifindex}: ${reason}`),
      ended: (reason) => troubles.push(`ended: ${reason}`),
    });
  const watched = (...addresses: readonly string[]) =>
    addresses.map((address) => ({ ifindex: here, address }));
  const send = (namespace: string, ...frames: readonly Uint8Array[]) =>
    createSender(inside(namespace)).send(
      frames.map((frame) => ({ ifindex: namespace === HOST ? here : there, frame })),
    );
  /** Until a claim for this address is heard: then everything sent before is behind us, and the listener is there. */
  const untilHeard = (address: string) =>
    until(
      async () => {
        await send(PEER, address.includes(":") ? na(OTHER, address) : garp(OTHER, address));
        return claims.some((claim) => claim.address === address);
      },
      `a claim for ${address} is heard`,
      10_000,
    );
  const alive = async (pid: number | undefined) =>
    (await run("kill", ["-0", String(pid)], { okExitCodes: [0, 1] })).exitCode === 0;

  beforeAll(async () => {
    for (const namespace of [HOST, PEER]) await run("ip", ["netns", "add", namespace]);
    await ip(HOST, `link add h0 type veth peer name p0 netns ${PEER}`);
    await ip(HOST, "link set h0 up");
    await ip(PEER, "link set p0 up");
    here = await indexOf(HOST, "h0");
    there = await indexOf(PEER, "p0");
    await until(async () => (await ip(HOST, "-json link show h0")).includes("LOWER_UP"), "h0 has carrier");
  });
  beforeEach(() => {
    started = [];
    claims = [];
    troubles = [];
  });
  afterAll(async () => {
    for (const namespace of [HOST, PEER]) await run("ip", ["netns", "del", namespace]);
  });

  it("hears claims for what it watches, and neither questions nor others nor its own host", async () => {
    const listener = listen();
    listener.watch(watched(E4, E6, "172.18.0.99", "fd00:172:18::99"));
    await untilHeard("172.18.0.99");
    await untilHeard("fd00:172:18::99");
    claims = [];
    await send(HOST, garp("02:00:00:00:00:01", E4), na("02:00:00:00:00:01", E6));
    await send(PEER, arpProbe(OTHER, E4), solicitation(OTHER, undefined, E6), garp(OTHER, "172.18.0.51"));
    await send(PEER, na(OTHER, "fd00:172:18:1::50"), garp(OTHER, E4), na(OTHER, E6));
    await until(() => claims.length >= 2, "both claims are heard");
    expect(claims).toHaveLength(2);
    expect(claims).toEqual(
      expect.arrayContaining([E4, E6].map((address) => ({ ifindex: here, address, mac: OTHER }))),
    );
    expect(troubles).toEqual([]);
    listener.close();
  });

  it("runs one process, with whatever there is to watch, and none when there is nothing", async () => {
    const listener = listen();
    listener.watch([]);
    expect(started).toHaveLength(0);
    listener.watch(watched(E4));
    await untilHeard(E4);
    claims = [];
    listener.watch(watched(E6));
    await untilHeard(E6);
    expect(claims.map(({ address }) => address)).not.toContain(E4);
    listener.watch(watched(E6));
    expect(started).toHaveLength(1);
    listener.watch([]);
    await until(async () => !(await alive(started[0]?.pid)), "the process is gone");
    listener.watch(watched(E4));
    claims = [];
    await untilHeard(E4);
    expect(started).toHaveLength(2);
    listener.close();
    await until(async () => !(await alive(started[1]?.pid)), "the process is gone");
    expect(troubles).toEqual([]);
  });

  it("of a storm of claims by one hears a line a second", async () => {
    const listener = listen();
    listener.watch(watched(E4, E6));
    await untilHeard(E6);
    claims = [];
    const from = performance.now();
    await send(PEER, ...Array.from({ length: 10_000 }, () => garp(OTHER, E4)));
    await until(() => claims.length > 0, "the storm is heard");
    const seconds = Math.ceil((performance.now() - from) / 1000);
    expect(claims.filter(({ address }) => address === E4).length).toBeLessThanOrEqual(seconds + 1);
    listener.close();
  });

  it("of a storm by ten thousand hears a hundred a second, and hears the next one afterwards", async () => {
    const listener = listen();
    listener.watch(watched(E4, E6));
    await untilHeard(E6);
    claims = [];
    const mac = (at: number) =>
      `02:00:00:01:${[at >> 8, at & 255].map((byte) => byte.toString(16).padStart(2, "0")).join(":")}`;
    const from = performance.now();
    await send(PEER, ...Array.from({ length: 10_000 }, (_, at) => garp(mac(at), E4)));
    await untilHeard(E6);
    const seconds = Math.ceil((performance.now() - from) / 1000);
    expect(claims.length).toBeGreaterThan(1);
    expect(claims.length).toBeLessThanOrEqual(100 * (seconds + 1));
    expect(troubles).toEqual([]);
    listener.close();
  });

  it("says which link it cannot listen on, listens on the others, and on one that comes back", async () => {
    const listener = listen();
    listener.watch([{ ifindex: 4711, address: E4 }, ...watched(E4)]);
    await untilHeard(E4);
    expect(troubles).toEqual(["4711: No such device"]);
    await ip(HOST, "link set h0 down");
    await until(() => troubles.length > 1, "the link that is down is named");
    expect(troubles.slice(1)).toEqual([`${here}: Network is down`]);
    await ip(HOST, "link set h0 up");
    claims = [];
    await untilHeard(E4);
    listener.close();
  });

  it("is started again when it ended, and watches what it is to watch by then", async () => {
    const listener = listen();
    listener.watch(watched(E4));
    await untilHeard(E4);
    await run("kill", ["-9", String(started[0]?.pid)]);
    await until(() => troubles.length > 0, "the end is told");
    expect(troubles).toEqual([expect.stringMatching(/^ended: .*SIGKILL/)]);
    await until(() => started.length === 2, "it is started again");
    claims = [];
    await untilHeard(E4);
    await run("kill", ["-9", String(started[1]?.pid)]);
    await until(() => troubles.length === 2, "the end is told again");
    listener.watch(watched(E6));
    await untilHeard(E6);
    expect(started).toHaveLength(3);
    listener.close();
  });
});

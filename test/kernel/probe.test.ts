// Asking who has an address, on real links: who answers is named, who does not have it is not, and nobody learns anything
// from the question. In: two namespaces with a link between them, one end of which may be anybody.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Run, run, spawnCounts } from "../../lib/exec/index.ts";
import { createProber, SendError } from "../../lib/frames/index.ts";
import { linkLocalFromMac } from "../../lib/frames/pure.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const ASKER = `ep${process.pid}-asker`;
const PEER = `ep${process.pid}-peer`;
const MAC = "02:42:ac:12:00:0b";
const PEER_MAC = "02:42:ac:12:00:0c";
const HAD4 = "172.18.0.50";
const HAD6 = "fd00:172:18::50";

const inside =
  (namespace: string): Run =>
  (command, args, options) =>
    run("ip", ["netns", "exec", namespace, command, ...args], options);
const prober = createProber(inside(ASKER));
const ip = async (namespace: string, line: string) =>
  (await run("ip", ["-n", namespace, ...line.split(" ")])).stdout;
const spawned = () => Object.values(spawnCounts()).reduce((sum, count) => sum + count, 0);

const why = canRunKernelTests();

describe.skipIf(why !== undefined)(`a probe${why === undefined ? "" : ` (skipped: ${why})`}`, () => {
  const index = { a0: 0, down0: 0 };
  beforeAll(async () => {
    for (const namespace of [ASKER, PEER]) await run("ip", ["netns", "add", namespace]);
    await ip(ASKER, `link add a0 address ${MAC} type veth peer name p0 address ${PEER_MAC} netns ${PEER}`);
    await ip(ASKER, "link add down0 type veth peer name down1");
    await ip(ASKER, "link set a0 up");
    await ip(PEER, "link set p0 up");
    for (const address of [`${HAD4}/24`, `${HAD6}/64 nodad`]) await ip(PEER, `addr add ${address} dev p0`);
    const links = JSON.parse(await ip(ASKER, "-json link show")) as { ifname: string; ifindex: number }[];
    for (const { ifname, ifindex } of links)
      if (ifname === "a0" || ifname === "down0") index[ifname] = ifindex;
    // The peer's link-local address is the last thing it makes: from then on it answers.
    await until(
      async () => (await ip(PEER, "-6 addr show dev p0 scope link -tentative")).includes("fe80::"),
      "the peer is there",
      10_000,
    );
  });
  afterAll(async () => {
    for (const namespace of [ASKER, PEER]) await run("ip", ["netns", "del", namespace]);
  });

  const ask = (addresses: readonly string[], waitMs = 200, source?: string) =>
    prober.probe(
      addresses.map((address) => ({
        ifindex: index.a0,
        mac: MAC,
        address,
        ...(source === undefined ? {} : { source }),
      })),
      waitMs,
    );
  const answer = (address: string) => ({ ifindex: index.a0, address, mac: PEER_MAC });

  it("names who answers and nobody else, for all addresses with one spawn", async () => {
    const before = spawned();
    const found = await ask([HAD4, "172.18.0.51", HAD6, "fd00:172:18::51"]);
    expect(spawned() - before).toBe(1);
    expect(found).toHaveLength(2);
    expect(found).toEqual(expect.arrayContaining([answer(HAD4), answer(HAD6)]));
  });

  it("leaves no trace in the neighbour table of who was asked, but for the question that has a source", async () => {
    await ip(PEER, "neigh flush dev p0");
    await ask([HAD4, HAD6]);
    expect(JSON.parse(await ip(PEER, "-json neigh show"))).toEqual([]);
    expect(await ask([HAD6], 300, linkLocalFromMac(MAC))).toEqual([answer(HAD6)]);
  });

  it("asks a thousand", async () => {
    const many = Array.from({ length: 1000 }, (_, at) => `172.19.${at >> 8}.${at & 255}`);
    expect(await ask([...many, HAD4])).toEqual([answer(HAD4)]);
  });

  it("does not take the own address for an answer, nor what comes back from the own MAC", async () => {
    await ip(ASKER, "addr add 172.18.0.60/32 dev a0");
    expect(await ask(["172.18.0.60"])).toEqual([]);
    await ip(ASKER, "addr del 172.18.0.60/32 dev a0");
    await ip(PEER, `link set p0 address ${MAC}`);
    expect(await ask([HAD4])).toEqual([]);
    await ip(PEER, `link set p0 address ${PEER_MAC}`);
    expect(await ask([HAD4])).toEqual([answer(HAD4)]);
  });

  it("names links that cannot be asked, and has the answers of the others", async () => {
    const targets = [index.down0, 4711, index.a0].map((ifindex) => ({ ifindex, mac: MAC, address: HAD4 }));
    const error = await prober.probe(targets, 100).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(SendError);
    expect(error).toMatchObject({
      failures: expect.arrayContaining([
        { ifindex: 4711, why: "No such device" },
        { ifindex: index.down0, why: "Network is down" },
      ]) as unknown,
      answers: [answer(HAD4)],
    });
  });

  it("needs the privilege, and says so without perl in it", async () => {
    const unprivileged: Run = (command, args, options) =>
      inside(ASKER)("setpriv", ["--reuid", "65534", "--clear-groups", command, ...args], options);
    const asked = createProber(unprivileged).probe([{ ifindex: index.a0, mac: MAC, address: HAD4 }], 10);
    await expect(asked).rejects.toThrow(
      /^frames not sent: perl: exit status 1: AF_PACKET socket: Operation not permitted$/,
    );
  });

  it("needs no spawn for nothing, and an interface index that is one", async () => {
    const idle = createProber(() => Promise.reject(new Error("spawned")));
    await expect(idle.probe([], 1000)).resolves.toEqual([]);
    await expect(idle.probe([{ ifindex: 0, mac: MAC, address: HAD4 }], 1)).rejects.toThrow(RangeError);
  });
});

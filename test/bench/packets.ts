// What a packet costs: round trip and sending rate through four nodes that differ only in their rules. In: worlds. Out: rows.
// The four are measured in turn, several times, so that the machine's mood hits them all.

import { inNode } from "./in-node.ts";
import { egressAddresses, podAddresses } from "./manifests.ts";
import { median } from "./statistics.ts";
import { openTraffic, TARGET, type Traffic } from "./traffic.ts";
import { openWorld, settingsFor, type World } from "./world.ts";

export interface PacketCost {
  readonly name: string;
  /** Microseconds. */
  readonly trip: number;
  /** Packets sent per second. */
  readonly rate: number;
  /** Against the router that only masquerades, measured next to it: medians of the ratios. */
  readonly tripRatio: number;
  readonly rateRatio: number;
}

interface Subject {
  readonly name: string;
  readonly world: World;
  readonly traffic: Traffic;
}

export async function measurePackets(turns: number): Promise<readonly PacketCost[]> {
  const subjects = [
    await subject("masquerade only", async () => {}),
    await subject("agent, 1 pod × 1 egress IP", (world) => withAgent(world, 1, 1)),
    await subject("agent, 5,000 pods × 64 egress IPs", (world) => withAgent(world, 5000, 64)),
    await subject("one rule and one SNAT per pod, 5,000 pods", (world) => onePerPod(world, 5000)),
  ];
  const trips = subjects.map((): number[] => []);
  const rates = subjects.map((): number[] => []);
  for (let turn = 0; turn < turns; turn++) {
    for (const [index, { traffic }] of subjects.entries()) {
      trips[index]?.push(await traffic.trip());
      rates[index]?.push(1e6 / (await traffic.sent()));
    }
  }
  for (const { world, traffic } of subjects) {
    traffic.stop();
    await world.close();
  }
  const ratios = (all: readonly number[][], index: number) =>
    median((all[index] ?? []).map((value, turn) => value / (all[0]?.[turn] as number)));
  return subjects.map(({ name }, index) => ({
    name,
    trip: median(trips[index] ?? []),
    rate: median(rates[index] ?? []),
    tripRatio: ratios(trips, index),
    rateRatio: 1 / ratios(rates, index),
  }));
}

async function subject(name: string, prepare: (world: World) => Promise<void>): Promise<Subject> {
  const world = await openWorld();
  await world.exec(world.node, "ip", ["route", "add", `${TARGET}/32`, "via", "10.10.0.1", "dev", "eth1"]);
  await prepare(world);
  return { name, world, traffic: await openTraffic(world, name, "eth1") };
}

async function withAgent(world: World, pods: number, egressIPs: number): Promise<void> {
  await inNode(world, "establish.ts", settingsFor(world, { pods, egressIPs, dual: false }));
}

/** The reference's shape: for each pod an `ip rule` and an SNAT rule. The measured pod stands in the middle of both lists. */
async function onePerPod(world: World, pods: number): Promise<void> {
  const order = Array.from({ length: pods }, (_, index) => index + 1);
  order.splice(pods / 2, 0, 0);
  const [egress = ""] = egressAddresses(0, false);
  const addressOf = (index: number) => podAddresses(index, false)[0] as string;
  const rules = order.map((index) => `rule add from ${addressOf(index)} lookup 1004 pref 6000`);
  await world.exec(
    world.node,
    "ip",
    ["-batch", "-"],
    `route add default via 10.10.0.1 dev eth1 table 1004\naddress add ${egress}/32 dev eth1\n${rules.join("\n")}\n`,
  );
  const snat = order.map(
    (index) => `-A MULTI-NIC -s ${addressOf(index)} -o eth1 -j SNAT --to-source ${egress}`,
  );
  await world.exec(
    world.node,
    "iptables-nft-restore",
    ["--noflush"],
    `*nat\n:MULTI-NIC - [0:0]\n-I POSTROUTING 1 -j MULTI-NIC\n${snat.join("\n")}\nCOMMIT\n`,
  );
}

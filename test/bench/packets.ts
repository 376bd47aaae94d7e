// What a packet costs: round trip and sending rate through four nodes that differ only in their rules. In: worlds. Out: rows.
// The four are measured in turn, several times, so that the machine's mood hits them all.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { inNode } from "./in-node.ts";
import { egressAddresses, podAddresses } from "./manifests.ts";
import { median } from "./statistics.ts";
import { openWorld, settingsFor, type World } from "./world.ts";

const TRAFFIC = fileURLToPath(new URL("traffic.pl", import.meta.url));
const PORT = "9000";
const TARGET = "198.51.100.80";
/** One port per sort of traffic: nothing answers the blast, or the answers would be measured too. */
const SILENT_PORT = "9001";

export interface PacketCost {
  readonly name: string;
  /** Microseconds. */
  readonly trip: number;
  /** Packets sent per second; all of them arrived. */
  readonly rate: number;
  /** Against the router that only masquerades, measured next to it: medians of the ratios. */
  readonly tripRatio: number;
  readonly rateRatio: number;
}

interface Subject {
  readonly name: string;
  readonly world: World;
  readonly stop: () => void;
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
    for (const [index, { world, name }] of subjects.entries()) {
      trips[index]?.push(Number(await traffic(world, "trip", PORT, "5000")));
      rates[index]?.push(await rate(world, name));
    }
  }
  for (const { world, stop } of subjects) {
    stop();
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
  // Every node masquerades, as local gateway mode does; the agent's rules come on top.
  await world.exec(world.node, "iptables-nft", [
    "-t",
    "nat",
    "-A",
    "POSTROUTING",
    "-s",
    "10.244.0.0/16",
    "!",
    "-d",
    "10.244.0.0/16",
    "-j",
    "MASQUERADE",
  ]);
  await world.exec(world.node, "ip", ["route", "add", `${TARGET}/32`, "via", "10.10.0.1", "dev", "eth1"]);
  await world.exec(world.outside, "iptables-nft", [
    "-A",
    "INPUT",
    "-p",
    "udp",
    "--dport",
    SILENT_PORT,
    "-j",
    "DROP",
  ]);
  await prepare(world);
  const server = spawn("ip", ["netns", "exec", world.outside, "perl", TRAFFIC, "serve", TARGET, PORT], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await new Promise<void>((resolve) => server.stdout.once("data", () => resolve()));
  return { name, world, stop: () => void server.kill("SIGKILL") };
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

function traffic(world: World, what: string, port: string, count: string): Promise<string> {
  return world.exec(world.pod, "perl", [TRAFFIC, what, TARGET, port, count]);
}

async function rate(world: World, name: string): Promise<number> {
  const count = 100_000;
  const before = await received(world);
  const seconds = Number(await traffic(world, "blast", SILENT_PORT, String(count)));
  const arrived = (await received(world)) - before;
  if (arrived < count * 0.99) throw new Error(`${name}: ${count} sent, ${arrived} arrived`);
  return arrived / seconds;
}

async function received(world: World): Promise<number> {
  const [link] = JSON.parse(
    await world.exec(world.outside, "ip", ["-json", "-stats", "link", "show", "dev", "eth1"]),
  ) as [{ stats64: { rx: { packets: number } } }];
  return link.stats64.rx.packets;
}

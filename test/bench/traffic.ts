// What is sent through a world to see what a packet costs there. In: a world, the link that its sender's packets leave by.
// Out: three figures, as often as one likes. Everything that was sent has to arrive, or it says so.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { World } from "./world.ts";

const TRAFFIC = fileURLToPath(new URL("traffic.pl", import.meta.url));
export const TARGET = "198.51.100.80";
const PORT = "9000";
/** Only one port answers: what is sent as fast as it goes is not answered, or the answers would be measured too. */
const SILENT_PORT = "9001";
const MANY_PORTS = "10000";
/** Little at a time and often: what else the machine does then hits all that are compared. */
const TRIPS = 2000;
const PACKETS = 30_000;
/** As many ports, so each is a connection of its own. */
const CONNECTIONS = 10_000;

/** Microseconds each. */
export interface Traffic {
  /** A datagram and its answer. */
  trip(): Promise<number>;
  /** A packet of one connection, one after the other without waiting. */
  sent(): Promise<number>;
  /** The first packet of a new connection, the same way. */
  opened(): Promise<number>;
  stop(): void;
}

export async function openTraffic(world: World, name: string, link: string): Promise<Traffic> {
  // Every node masquerades, as local gateway mode does; the agent's rules stand before it.
  const masquerade = "-t nat -A POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE";
  await world.exec(world.node, "iptables-nft", masquerade.split(" "));
  await world.exec(world.outside, "iptables-nft", `-A INPUT -p udp ! --dport ${PORT} -j DROP`.split(" "));
  const server = spawn("ip", ["netns", "exec", world.outside, "perl", TRAFFIC, "serve", TARGET, PORT], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await new Promise<void>((resolve) => server.stdout.once("data", () => resolve()));
  const send = async (what: string, port: string, count: number) =>
    Number(await world.exec(world.pod, "perl", [TRAFFIC, what, TARGET, port, String(count)]));
  const allArrive = async (what: string, port: string, count: number) => {
    const before = await received(world, link);
    const microseconds = await send(what, port, count);
    const arrived = (await received(world, link)) - before;
    if (arrived < count * 0.99) throw new Error(`${name}: ${count} sent, ${arrived} arrived by ${link}`);
    return microseconds;
  };
  return {
    trip: () => send("trip", PORT, TRIPS),
    sent: () => allArrive("blast", SILENT_PORT, PACKETS),
    opened: async () => {
      // Known ones would not be new, and the table has its limit.
      await world.exec(world.node, "conntrack", ["-F"]);
      return allArrive("open", MANY_PORTS, CONNECTIONS);
    },
    stop: () => void server.kill("SIGKILL"),
  };
}

async function received(world: World, link: string): Promise<number> {
  const [found] = JSON.parse(
    await world.exec(world.outside, "ip", ["-json", "-stats", "link", "show", "dev", link]),
  ) as [{ stats64: { rx: { packets: number } } }];
  return found.stats64.rx.packets;
}

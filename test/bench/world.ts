// The bench's own small world in network namespaces: a pod, a router that is the node, and an outside host. In: a prefix.
// Everything is made inside the namespaces and goes with them.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../../lib/exec/index.ts";
import { manifests, type Size } from "./manifests.ts";

export interface World {
  readonly node: string;
  readonly pod: string;
  readonly outside: string;
  readonly directory: string;
  /** Runs in one of the namespaces. */
  exec(namespace: string, command: string, args: readonly string[], input?: string): Promise<string>;
  /** Puts the node back to what it was: no rules, no sets, no egress addresses. */
  reset(): Promise<void>;
  close(): Promise<void>;
}

const LINKS = `
link set lo up
link set ovn-k8s-mp0 up
link set eth0 up
link set eth1 up
address add 10.244.1.2/24 dev ovn-k8s-mp0
address add fd00:10:244:1::2/64 dev ovn-k8s-mp0 nodad
address add 172.18.0.11/24 dev eth0
address add fd00:172:18::11/64 dev eth0 nodad
address add 10.10.0.11/16 dev eth1
address add fd00:10:10::11/64 dev eth1 nodad
route add 10.244.0.0/16 via 10.244.1.1 dev ovn-k8s-mp0
route add fd00:10:244::/48 via fd00:10:244:1::1 dev ovn-k8s-mp0
route add default via 172.18.0.1
route add default via 10.10.0.1 dev eth1 metric 500
`;

/** The pod that sends is the first of the manifests, behind the management port like all of them. */
const POD = `
link set lo up
link set eth0 up
address add 10.244.1.1/16 dev eth0
address add 10.244.2.2/32 dev eth0
route add default via 10.244.1.2 src 10.244.2.2
`;

const OUTSIDE = `
link set lo up
link set eth0 up
link set eth1 up
address add 172.18.0.1/24 dev eth0
address add 10.10.0.1/16 dev eth1
address add 198.51.100.80/32 dev lo
`;

let worlds = 0;

export async function openWorld(): Promise<World> {
  const prefix = `bench${process.pid}-${worlds++}`;
  const [node, pod, outside] = [`${prefix}-node`, `${prefix}-pod`, `${prefix}-out`] as const;
  const directory = mkdtempSync(join(tmpdir(), "egressip-bench-"));
  const exec = async (namespace: string, command: string, args: readonly string[], input?: string) =>
    (
      await run("ip", ["netns", "exec", namespace, command, ...args], {
        timeoutMs: 300_000,
        ...(input === undefined ? {} : { input }),
      })
    ).stdout;
  for (const namespace of [node, pod, outside]) await run("ip", ["netns", "add", namespace]);
  const veth = (a: string, aName: string, b: string, bName: string) =>
    run("ip", ["link", "add", aName, "netns", a, "type", "veth", "peer", "name", bName, "netns", b]);
  await veth(node, "ovn-k8s-mp0", pod, "eth0");
  await veth(node, "eth0", outside, "eth0");
  await veth(node, "eth1", outside, "eth1");
  for (const [namespace, lines] of [
    [node, LINKS],
    [pod, POD],
    [outside, OUTSIDE],
  ] as const) {
    await run("ip", ["-n", namespace, "-batch", "-"], { input: lines });
  }
  await exec(node, "sysctl", [
    "-qw",
    "net.ipv4.ip_forward=1",
    "net.ipv6.conf.all.forwarding=1",
    "net.ipv4.conf.all.rp_filter=0",
  ]);
  return {
    node,
    pod,
    outside,
    directory,
    exec,
    reset: async () => {
      await exec(node, "nft", ["flush", "ruleset"]);
      await exec(node, "ip", ["rule", "flush", "pref", "6000"]).catch(() => "");
      for (const device of ["eth1", "eth0"]) {
        const listed = JSON.parse(await exec(node, "ip", ["-json", "address", "show", "dev", device])) as {
          addr_info: { local: string; prefixlen: number }[];
        }[];
        const lines = (listed[0]?.addr_info ?? [])
          .filter(({ prefixlen }) => prefixlen === 32 || prefixlen === 128)
          .map(({ local, prefixlen }) => `address del ${local}/${prefixlen} dev ${device}`);
        await exec(node, "ip", ["-force", "-batch", "-"], `${lines.join("\n")}\n`);
      }
      for (const family of ["-4", "-6"]) {
        await exec(node, "ip", [family, "rule", "flush", "protocol", "233"]).catch(() => "");
        await exec(node, "ip", [family, "route", "flush", "table", "all", "proto", "233"]).catch(() => "");
      }
      await exec(node, "ipset", ["destroy"]);
      rmSync(join(directory, "state"), { recursive: true, force: true });
    },
    close: async () => {
      for (const namespace of [node, pod, outside]) await run("ip", ["netns", "del", namespace]);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Writes manifests of this size into a folder of the world and says which settings an agent there needs. */
export function settingsFor(world: World, size: Size): Readonly<Record<string, string>> {
  const folder = mkdtempSync(join(world.directory, "manifests-"));
  for (const [name, text] of manifests(size)) writeFileSync(join(folder, name), text);
  return {
    EGRESSIP_NODE: "node1",
    EGRESSIP_GATEWAY_MODE: "local",
    EGRESSIP_MANIFESTS: folder,
    EGRESSIP_CLUSTER_NETWORKS: "10.244.0.0/16,fd00:10:244::/48",
    EGRESSIP_SERVICE_NETWORKS: "10.96.0.0/16",
    EGRESSIP_STATE_DIR: join(world.directory, "state"),
    EGRESSIP_DEBUG_SOCKET: join(world.directory, "debug.sock"),
    EGRESSIP_LOG_LEVEL: "warn",
  };
}

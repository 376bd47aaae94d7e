// The bench's own small world in network namespaces: a pod, a router that is the node, and an outside host. In: a prefix.
// Everything is made inside the namespaces and goes with them.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../../lib/exec/index.ts";
import { manifests, podAddresses, type Size } from "./manifests.ts";

export interface World {
  readonly node: string;
  readonly pod: string;
  readonly outside: string;
  readonly directory: string;
  /** By which egress IPs can be given: eth1, eth2 and so on. */
  readonly links: readonly string[];
  /** Runs in one of the namespaces. */
  exec(namespace: string, command: string, args: readonly string[], input?: string): Promise<string>;
  /** Puts the node back to what it was: no rules, no sets, no egress addresses. */
  reset(): Promise<void>;
  close(): Promise<void>;
}

export interface WorldOptions {
  /** How many links of the node are in networks of egress IPs. */
  readonly links?: number;
  /** Which of the manifests' pods sends. They are all behind the management port. */
  readonly sender?: number;
}

/** Link n of the node: eth1 in 10.10.0.0/16 and fd00:10:10::/64, eth2 in 10.11.0.0/16 and fd00:10:11::/64, and so on. */
const networkOf = (n: number) => n + 9;

const nodeLines = (links: readonly string[]) => `
link set lo up
link set ovn-k8s-mp0 up
link set eth0 up
address add 10.244.1.2/24 dev ovn-k8s-mp0
address add fd00:10:244:1::2/64 dev ovn-k8s-mp0 nodad
address add 172.18.0.11/24 dev eth0
address add fd00:172:18::11/64 dev eth0 nodad
route add 10.244.0.0/16 via 10.244.1.1 dev ovn-k8s-mp0
route add fd00:10:244::/48 via fd00:10:244:1::1 dev ovn-k8s-mp0
route add default via 172.18.0.1
${links.map((link) => linkLines(link).join("\n")).join("\n")}
`;

/** What somebody who looks after the node's networks does to a link: also when it comes up again. */
export function linkLines(link: string): readonly string[] {
  const n = Number(link.slice("eth".length));
  return [
    `link set ${link} up`,
    `address replace 10.${networkOf(n)}.0.11/16 dev ${link}`,
    `address replace fd00:10:${networkOf(n)}::11/64 dev ${link} nodad`,
    `route replace default via 10.${networkOf(n)}.0.1 dev ${link} metric ${499 + n}`,
    `route replace ::/0 via fd00:10:${networkOf(n)}::1 dev ${link} metric ${499 + n}`,
  ];
}

const podLines = (sender: string) => `
link set lo up
link set eth0 up
address add 10.244.1.1/16 dev eth0
address add ${sender}/32 dev eth0
route add default via 10.244.1.2 src ${sender}
`;

const outsideLines = (links: readonly string[]) => `
link set lo up
link set eth0 up
address add 172.18.0.1/24 dev eth0
address add 198.51.100.80/32 dev lo
${links.flatMap((link, at) => [`link set ${link} up`, `address add 10.${networkOf(at + 1)}.0.1/16 dev ${link}`, `address add fd00:10:${networkOf(at + 1)}::1/64 dev ${link} nodad`]).join("\n")}
`;

let worlds = 0;

export async function openWorld({ links: count = 1, sender = 0 }: WorldOptions = {}): Promise<World> {
  const links = Array.from({ length: count }, (_, at) => `eth${at + 1}`);
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
  for (const link of ["eth0", ...links]) await veth(node, link, outside, link);
  for (const [namespace, lines] of [
    [node, nodeLines(links)],
    [pod, podLines(podAddresses(sender, false)[0] as string)],
    [outside, outsideLines(links)],
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
    links,
    exec,
    reset: async () => {
      await exec(node, "nft", ["flush", "ruleset"]);
      await exec(node, "ip", ["rule", "flush", "pref", "6000"]).catch(() => "");
      for (const device of [...links, "eth0"]) {
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
      for (const namespace of [node, pod, outside]) {
        // What a killed agent had started, or a test that failed, would live on in a namespace without a name.
        const { stdout } = await run("ip", ["netns", "pids", namespace]);
        for (const pid of stdout.split("\n").filter((line) => line !== "")) killed(Number(pid));
        await run("ip", ["netns", "del", namespace]);
      }
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function killed(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error; // it ended by itself
  }
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

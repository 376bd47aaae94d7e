// What ten links with fifty egress IPs each cost, and what a flap of one of them has the agent write. In: worlds. Out: rows.
// Ten links and one are measured in turn, several times, so that the machine's mood hits both.
import type { Step } from "../../agent/sync/round.ts";
import { inNode } from "./in-node.ts";
import { egressAddresses } from "./manifests.ts";
import { median } from "./statistics.ts";
import { openTraffic, type Traffic } from "./traffic.ts";
import { linkLines, openWorld, settingsFor, type World } from "./world.ts";

const LINKS = 10;
const EGRESS_IPS = 500;
const PODS = 5000;
/** The pod of the last egress IP of the last link: its packets pass every rule before their own. */
const LAST = EGRESS_IPS - 1;
const FLAPPING = "eth3";

export interface LinksCost {
  /** By family: routing rules, SNAT rules, entries of the set of pods. */
  readonly counts: readonly (readonly [family: string, rules: number, snat: number, entries: number])[];
  /** Ten links against one: medians of the ratios. */
  readonly trip: number;
  readonly sent: number;
  readonly opened: number;
  /** What a flap has the agent write, by backend. */
  readonly flap: readonly Written[];
}

export interface Written {
  readonly when: string;
  /** `BACKEND lines`. */
  readonly lines: readonly string[];
  /** By backend: lines that name another link, its table or one of its egress IPs. */
  readonly foreign: readonly string[];
}

interface Subject {
  readonly world: World;
  readonly settings: Readonly<Record<string, string>>;
  readonly traffic: Traffic;
}

export async function measureLinks(turns: number): Promise<LinksCost> {
  const one = await subject(1, 0, { pods: 1, egressIPs: 1, dual: true });
  const ten = await subject(LINKS, LAST, { pods: PODS, egressIPs: EGRESS_IPS, dual: true, links: LINKS });
  const ratios = { trip: [] as number[], sent: [] as number[], opened: [] as number[] };
  for (let turn = 0; turn < turns; turn++) {
    for (const what of ["trip", "sent", "opened"] as const) {
      const [few, many] = [await one.traffic[what](), await ten.traffic[what]()];
      ratios[what].push(many / few);
    }
  }
  const counts = await Promise.all((["4", "6"] as const).map((family) => countsOf(ten.world, family)));
  const flap = await flapOf(ten);
  for (const { world, traffic } of [one, ten]) {
    traffic.stop();
    await world.close();
  }
  return {
    counts,
    trip: median(ratios.trip),
    sent: median(ratios.sent),
    opened: median(ratios.opened),
    flap,
  };
}

async function subject(
  links: number,
  sender: number,
  size: Parameters<typeof settingsFor>[1],
): Promise<Subject> {
  const world = await openWorld({ links, sender });
  const settings = settingsFor(world, size);
  await inNode(world, "establish.ts", settings);
  const traffic = await openTraffic(world, `${links} links`, world.links.at(-1) as string);
  return { world, settings, traffic };
}

async function countsOf(world: World, family: "4" | "6"): Promise<LinksCost["counts"][number]> {
  const lines = async (command: string, ...args: readonly string[]) =>
    (await world.exec(world.node, command, args)).split("\n");
  const rules = await lines("ip", `-${family}`, "rule", "show", "pref", "6000");
  const nat = await lines(family === "4" ? "iptables-nft-save" : "ip6tables-nft-save", "-t", "nat");
  const set = await lines("ipset", "save", `egressip${family}`);
  return [
    `IPv${family}`,
    rules.filter((line) => line.includes("fwmark")).length,
    nat.filter((line) => line.includes("-j SNAT")).length,
    set.filter((line) => line.startsWith("add ")).length,
  ];
}

/** As the kernel does it, and where it is told to keep the addresses of a link that goes down. */
async function flapOf({ world, settings }: Subject): Promise<readonly Written[]> {
  const names = await namesOfOthers(world);
  const written: Written[] = [];
  for (const keeps of ["0", "1"]) {
    await world.exec(world.node, "sysctl", ["-qw", `net.ipv6.conf.${FLAPPING}.keep_addr_on_down=${keeps}`]);
    const restore = `${linkLines(FLAPPING).join("\n")}\n`;
    const args = ["flap.ts", settings, FLAPPING, restore] as const;
    const steps = await inNode<Readonly<Record<"down" | "up", readonly Step[]>>>(world, ...args);
    for (const when of ["down", "up"] as const)
      written.push({
        when: `${FLAPPING} ${when}, IPv6 addresses ${keeps === "1" ? "kept" : "lost"}`,
        lines: counted(steps[when], () => true),
        foreign: counted(steps[when], names),
      });
  }
  return written;
}

function counted(steps: readonly Step[], which: (line: string) => boolean): readonly string[] {
  return steps.flatMap(({ backend, phase, lines }) => {
    const count = lines.filter(which).length;
    return count === 0 ? [] : [`${phase === "retire" ? "-" : "+"}${count} ${backend}`];
  });
}

/** Whether a line names another link than the flapping one. */
async function namesOfOthers(world: World): Promise<(line: string) => boolean> {
  const links = JSON.parse(await world.exec(world.node, "ip", ["-json", "link", "show"])) as {
    readonly ifname: string;
    readonly ifindex: number;
  }[];
  const words = new Set<string>();
  for (const [at, name] of world.links.entries()) {
    if (name === FLAPPING) continue;
    words.add(name).add(String(1000 + (links.find(({ ifname }) => ifname === name)?.ifindex ?? 0)));
    for (let index = at; index < EGRESS_IPS; index += LINKS)
      for (const address of egressAddresses(index, true, LINKS)) words.add(address);
  }
  return (line) => line.split(/[\s/"{},]+/).some((word) => words.has(word));
}

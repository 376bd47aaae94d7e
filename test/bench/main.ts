// `npm run bench`: what things cost, as ratios against the physical floor measured in the same run. Nothing is asserted.
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Step } from "../../agent/sync/round.ts";
import { measureAssigning } from "./assigning.ts";
import type { Figures } from "./establish.ts";
import { measureIdle } from "./idle.ts";
import { inNode } from "./in-node.ts";
import { measureKubernetes } from "./kubernetes.ts";
import { measureLinks } from "./links.ts";
import { measureFilling, measureOneMore, measureStarting } from "./northbound.ts";
import { measurePackets } from "./packets.ts";
import { median, percentile } from "./statistics.ts";
import { openWorld, settingsFor, type World } from "./world.ts";

const asked = process.argv.slice(2);
const wanted = (part: string) => asked.length === 0 || asked.includes(part);
const row = (text: string, ...figures: readonly string[]) =>
  console.log(`${text.padEnd(58)}${figures.map((figure) => figure.padStart(12)).join("")}`);
const ms = (value: number) => `${value.toFixed(1)} ms`;
const times = (value: number) => `${value.toFixed(2)}×`;

if (wanted("establish")) await establishing();
if (wanted("one")) await oneMore();
if (wanted("northbound")) await northbound();
if (wanted("kubernetes")) await kubernetes();
if (wanted("packets")) await packets();
if (wanted("links")) await links();
if (wanted("idle")) await idle();
if (wanted("assign")) assigning();

interface Established extends Figures {
  readonly readObjects: number;
}

async function establishing(): Promise<void> {
  console.log(
    "\n5,000 pods × 64 egress IPs, empty kernel to verified, against the same lines fed to the tools (medians of 5)",
  );
  console.log(
    "What the floor has not: working the lines out, asking for 30 ms whether somebody else has the addresses, announcing them,\nwriting intent to disk before, and reading everything back until nothing is left to do.",
  );
  for (const dual of [false, true]) {
    const world = await openWorld();
    const settings = settingsFor(world, { pods: 5000, egressIPs: 64, dual });
    const figures = {
      cold: [] as Established[],
      warm: [] as Established[],
      floor: [] as number[],
      readBack: [] as number[],
    };
    for (let turn = 0; turn < 5; turn++) {
      for (const how of ["cold", "warm"] as const) {
        figures[how].push(await inNode<Established>(world, "establish.ts", settings, how));
        await world.reset();
      }
      figures.floor.push(await feed(world, figures.cold[0]?.steps ?? []));
      figures.readBack.push(await readBack(world));
      await world.reset();
    }
    const floor = median(figures.floor);
    const of = (how: "cold" | "warm", key: Exclude<keyof Established, "steps">) =>
      median(figures[how].map((figure) => figure[key]));
    const spent = (how: "cold" | "warm") =>
      row(
        "  of this",
        ...(["plan", "write", "readBack", "cpu"] as const).map((key) => `${key} ${of(how, key).toFixed(0)}`),
      );
    const name = dual ? "both families" : "IPv4";
    row(`${name}: the same lines straight to the tools (floor)`, ms(floor), times(1));
    // To verify is more than to write: what it takes to have the tools print it all once more, and nobody look at it.
    const readBackToo = floor + median(figures.readBack);
    row(`${name}: and read back by the same shell`, ms(readBackToo), times(readBackToo / floor));
    row(`${name}: agent just started`, ms(of("cold", "toVerified")), times(of("cold", "toVerified") / floor));
    spent("cold");
    row(
      `${name}: agent that has run before`,
      ms(of("warm", "toVerified")),
      times(of("warm", "toVerified") / floor),
    );
    spent("warm");
    row(`${name}: reading 5,000 pods' YAML`, ms(of("cold", "readObjects")));
    row(`${name}: reading the host`, ms(of("cold", "readHost")));
    await world.close();
  }
}

/** The lines of the first round, given to the tools by a shell that does nothing else. */
async function feed(world: World, steps: readonly Step[]): Promise<number> {
  const folder = mkdtempSync(join(world.directory, "feed-"));
  const linesOf = (name: string) =>
    steps
      .filter(({ backend, phase }) => backend === name && phase === "establish")
      .flatMap(({ lines }) => lines);
  const ip = [...linesOf("routing"), ...linesOf("addresses")].map((line) => line.replace(/^ip /, ""));
  const restore = linesOf("iptables");
  const six = restore.indexOf("# ip6tables-restore --noflush");
  const inputs: readonly (readonly [string, readonly string[]])[] = [
    ["ipset restore", linesOf("sets")],
    ["ip -batch -", ip.filter((line) => !line.startsWith("-6 "))],
    ["ip -6 -batch -", ip.filter((line) => line.startsWith("-6 ")).map((line) => line.slice(3))],
    ["nft -f -", linesOf("leak-guard")],
    ["iptables-nft-restore --noflush", restore.slice(1, six < 0 ? undefined : six)],
    ["ip6tables-nft-restore --noflush", six < 0 ? [] : restore.slice(six + 1)],
  ];
  const script = inputs
    .filter(([, lines]) => lines.length > 0)
    .map(([tool, lines], index) => {
      writeFileSync(join(folder, String(index)), `${lines.join("\n")}\n`);
      return `${tool} < ${join(folder, String(index))}`;
    });
  writeFileSync(join(folder, "feed.sh"), `set -e\n${script.join("\n")}\n`);
  const start = performance.now();
  await world.exec(world.node, "sh", [join(folder, "feed.sh")]);
  return performance.now() - start;
}

/** Everything that the agent reads to verify it, printed by the tools for a shell. */
async function readBack(world: World): Promise<number> {
  const tools = [
    "ipset save",
    "iptables-nft-save",
    "ip6tables-nft-save",
    "nft list table inet egressip",
    ...["address show", "route show table all", "-6 route show table all", "rule show", "-6 rule show"].map(
      (words) => `ip -json -details ${words}`,
    ),
  ];
  const script = join(world.directory, "read-back.sh");
  writeFileSync(script, `set -e\n${tools.map((tool) => `${tool} > /dev/null`).join("\n")}\n`);
  const start = performance.now();
  await world.exec(world.node, "sh", [script]);
  return performance.now() - start;
}

async function oneMore(): Promise<void> {
  console.log("\none pod more: from its file to the kernel (medians of 30)");
  let floor: number | undefined;
  for (const pods of [100, 20000]) {
    const world = await openWorld();
    const settings = settingsFor(world, { pods, egressIPs: 64, dual: false });
    const costs = await inNode<{ ms: number; lines: number; spawns: number; cpu: number }[]>(
      world,
      "one-more.ts",
      settings,
      String(pods),
      "64",
      "30",
    );
    const took = median(costs.map((cost) => cost.ms));
    floor ??= took;
    const most = (key: "lines" | "spawns") =>
      `${Math.max(...costs.map((cost) => cost[key]))} ${key === "spawns" ? "ipset" : key}`;
    row(
      `with ${pods.toLocaleString("en")} present`,
      ms(took),
      times(took / floor),
      most("lines"),
      most("spawns"),
      `cpu ${ms(median(costs.map((cost) => cost.cpu)))}`,
    );
    await world.close();
  }
}

async function northbound(): Promise<void> {
  console.log(
    "\nOVN's northbound database, 10,000 pods with a NAT and a policy row each (medians of 5; floors: a client that only sends, or only receives, beside it on the same socket)",
  );
  const filling = await measureFilling(10_000, 5);
  const rows = filling.rows.toLocaleString("en");
  row(`${rows} changes as one prepared transaction (floor)`, ms(filling.floor), times(1));
  row(
    "the same, and told of the rows by the server",
    ms(filling.followed),
    times(filling.followed / filling.floor),
  );
  row("agent, from its objects to having looked at all of it", ms(filling.agent.ms), times(filling.ratio));
  parts("  of this", filling.agent, ["plan", "diff", "commit", "after"]);
  const perRow = filling.perRow * 20_000;
  row(
    `ovn-nbctl for each row, from a sample of ${filling.sample}`,
    `${(perRow / 1000).toFixed(0)} s`,
    times(perRow / filling.floor),
  );
  let few: number | undefined;
  for (const present of [100, 10_000]) {
    const more = await measureOneMore(present, 30);
    few ??= more.ms;
    row(
      `one pod more with ${present.toLocaleString("en")} present`,
      ms(more.ms),
      times(more.ms / few),
      `${more.transactions} transact`,
      `${more.operations} ops`,
      `cpu ${ms(more.cpu)}`,
    );
    row("  the same sent by the bare client (floor)", ms(more.floor), times(more.ratio));
  }
  const starting = await measureStarting(10_000, 5);
  const size = `${(starting.bytes / 1e6).toFixed(1)} MB`;
  row(`contents of a monitor received and parsed, ${size} (floor)`, ms(starting.floor), times(1));
  row("agent, connected to knowing all rows", ms(starting.replica), times(starting.replicaRatio));
  row("agent, connected to nothing to write", ms(starting.agent.ms), times(starting.ratio));
  parts("  of this", starting.agent, ["read", "plan", "diff"]);
}

async function kubernetes(): Promise<void> {
  const [pods, turns] = [50_000, 3];
  const cost = await measureKubernetes({ pods, egressIPs: 64, events: 300, turns });
  const { pages, server, file, first, last, bare } = cost;
  const size = `${((pages[0]?.bytes ?? 0) / 1e6).toFixed(0)} MB`;
  console.log(
    `\n50,000 pods of kube-apiserver ${cost.version}, all selected here, ${size} (medians of ${turns} interleaved turns; put into etcd in ${(cost.filled / 1000).toFixed(0)} s; cpu is user and system, of the client alone)`,
  );
  const of = <T>(figures: readonly T[], get: (figure: T) => number) => median(figures.map(get));
  const floor = of(pages, ({ ms: took }) => took);
  const floorCpu = of(pages, ({ cpu }) => cpu);
  const reading = (name: string, figures: readonly { readonly ms: number; readonly cpu: number }[]) => {
    const [took, cpu] = [of(figures, (figure) => figure.ms), of(figures, (figure) => figure.cpu)];
    row(name, ms(took), times(took / floor), `cpu ${ms(cpu)}`, times(cpu / floorCpu));
  };
  reading("pages of the list, parsed (floor)", pages);
  reading("lines of a watch from revision 0, parsed", server);
  reading("  the same lines from a file", file);
  reading("agent, from its start to its first plan", first);
  row("  of this, until the client is loaded", ms(of(first, ({ loaded }) => loaded)));
  // monitorEventLoopDelay of node:perf_hooks, 1 ms: the most that a turn of the loop came late.
  row("longest stall while the client is loaded", ms(of(first, ({ stallLoading }) => stallLoading)));
  row("  from there to the first plan", ms(of(first, ({ stall }) => stall)));
  row("  writing and reading back the first round", ms(of(first, ({ stallWriting }) => stallWriting)));
  row("  afterwards, with 300 events", ms(last.at(-1)?.stall ?? Number.NaN));
  const memory = (name: string, now: number | undefined, most: number | undefined) =>
    row(name, ...[now, most].map((rss) => `${(rss ?? Number.NaN).toFixed(0)} MiB`));
  memory(
    "memory of the agent at its first plan, and at most until then",
    of(first, ({ rss }) => rss),
    of(first, ({ peak }) => peak),
  );
  row("  at most until all was written", "", `${of(first, ({ peakWriting }) => peakWriting).toFixed(0)} MiB`);
  memory("  at its end, and the most there ever was", last.at(-1)?.rss, last.at(-1)?.peak);
  for (const [name, figures] of [
    ["an `ipset add` (floor): p50, p99", bare],
    ["a pod that gets its address, request sent to kernel", cost.fromSent],
    ["  from the server's answer to that request", cost.fromAnswer],
  ] as const)
    row(name, ...[0.5, 0.99].map((part) => ms(percentile(figures, part))));
}

function parts(name: string, of: Readonly<Record<string, number>>, keys: readonly string[]): void {
  row(name, ...keys.map((key) => `${key} ${(of[key] ?? 0).toFixed(0)}`));
}

async function packets(): Promise<void> {
  console.log("\nwhat a packet costs (medians of 15 turns; ratios against the router that only masquerades)");
  const costs = await measurePackets(15);
  for (const { name, trip, rate, tripRatio, rateRatio } of costs) {
    row(name, `${trip.toFixed(1)} µs`, times(tripRatio), `${Math.round(rate / 1000)} kpps`, times(rateRatio));
  }
  const [, one, many] = costs;
  if (one !== undefined && many !== undefined) {
    row(
      "5,000 × 64 against 1 × 1",
      "",
      times(many.tripRatio / one.tripRatio),
      "",
      times(many.rateRatio / one.rateRatio),
    );
  }
}

async function links(): Promise<void> {
  console.log(
    "\nten links × 50 egress IPs × 5,000 pods, both families (medians of 25 turns; ratios against one link with one egress IP and pod)",
  );
  const costs = await measureLinks(25);
  for (const [family, rules, snat, entries] of costs.counts)
    row(`${family}: ip rules, SNAT rules, entries of the set`, `${rules}`, `${snat}`, `${entries}`);
  row("a packet, round trip", times(costs.trip));
  row("time a packet, as fast as they go", times(costs.sent));
  row("time a new connection, as fast as they go", times(costs.opened));
  for (const { when, lines, foreign } of costs.flap) {
    console.log(`${when}: ${lines.join(", ") || "nothing written"}`);
    if (foreign.length > 0) console.log(`  of these name another link too: ${foreign.join(", ")}`);
  }
}

function assigning(): void {
  console.log("\n10,000 egress IPs over 500 nodes (medians of 5; floor: a sort of the addresses)");
  const { floor, first, again, lost } = measureAssigning(10_000, 500, 5);
  row("addresses sorted (floor)", ms(floor), times(1));
  for (const [name, figures] of [
    ["assigned for the first time", first],
    ["once more, nothing to change", again],
    ["one node lost", lost],
  ] as const) {
    const { took, compared, moved } = figures;
    row(name, ms(took), times(took / floor), ` ${compared} looks`, `${moved} moved`);
  }
}

async function idle(): Promise<void> {
  console.log("\nthe daemon at rest, 5,000 pods × 64 egress IPs, slow tick 60 s");
  const { cpuPercent, seconds, rss, rssAll } = await measureIdle("../../dist/egressip-agent.js", 65);
  row(`CPU over ${seconds} s, tools included`, `${cpuPercent.toFixed(2)} %`);
  row("memory of the agent", `${rss.toFixed(0)} MiB`);
  row("memory with monitors and the process that starts tools", `${rssAll.toFixed(0)} MiB`);
}

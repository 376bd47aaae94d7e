// `npm run ovn-lab -- up|down|exec|probe|nb|sb|vs|of|trace|manifests`: the OVN lab by hand.
import { spawnSync } from "node:child_process";
import { Command, Option } from "commander";
import { type Family, families, type Protocol } from "../lab/topology.ts";
import type { OvnSuite } from "../support/ovn-programs.ts";
import { takeDown } from "./down.ts";
import { defaultPrefix, OvnLab } from "./lab.ts";
import type { Tool } from "./plan.ts";
import { type Cluster, type OvnNode, ovnNodes } from "./topology.ts";

const program: Command = new Command("ovn-lab")
  .description(
    "Nodes with real OVN, their pods and two networks outside, in network namespaces. See README.md.",
  )
  .option("--prefix <text>", "start of the namespaces' names", defaultPrefix)
  .enablePositionalOptions()
  .showHelpAfterError("(--help lists the commands and what they take)");

const prefix = () => program.opts<{ readonly prefix: string }>().prefix;

interface UpFlags {
  readonly nodes: string;
  readonly central: boolean;
  readonly gateway: Cluster["gateway"];
  readonly suite: OvnSuite;
  readonly families: string;
  readonly snatPerPod: boolean;
  readonly backend: "nft" | "legacy";
  readonly rpFilter: string;
  readonly force: boolean;
}

const choice = (flags: string, says: string, ...of: readonly [string, ...string[]]) =>
  new Option(flags, says).choices(of).default(of[0]);

program
  .command("up")
  .description("make the lab")
  .addOption(choice("--nodes <n>", "how many", "2", "3"))
  .option("--central", "one zone for all nodes instead of one for each", false)
  .addOption(choice("--gateway <mode>", "where pods leave", "shared", "local"))
  .addOption(choice("--suite <name>", "Debian's release whose OVN it is", "trixie", "bookworm", "sid"))
  .addOption(choice("--families <list>", "of pods and routers", "4,6", "4", "6"))
  .option("--snat-per-pod", "a NAT row for each pod, as with disable-snat-multiple-gws", false)
  .addOption(choice("--backend <name>", "whose rules the nodes have", "nft", "legacy"))
  .addOption(choice("--rp-filter <n>", "reverse path filter of the nodes", "0", "1", "2"))
  .option("--force", "take down a lab of that prefix first", false)
  .action(async (flags: UpFlags) => {
    const started = performance.now();
    const wanted = families.filter((family) => flags.families.split(",").includes(String(family)));
    await OvnLab.up({
      prefix: prefix(),
      nodes: Number(flags.nodes) as 2 | 3,
      interconnect: !flags.central,
      gateway: flags.gateway,
      suite: flags.suite,
      families: wanted,
      disableSnatMultipleGws: flags.snatPerPod,
      backend: flags.backend,
      rpFilter: Number(flags.rpFilter) as 0 | 1 | 2,
      force: flags.force,
    });
    console.log(`lab "${prefix()}" is up, ${Math.round(performance.now() - started)} ms`);
  });

program
  .command("down")
  .description("end what runs in the lab's namespaces and remove them")
  .action(async () => {
    const removed = await takeDown(prefix());
    console.log(removed.length === 0 ? `there is no lab "${prefix()}"` : `removed ${removed.join(" ")}`);
  });

/** Becomes that command, as far as one can see. */
function become(words: readonly string[]): void {
  const [command = "", ...args] = words;
  process.exitCode = spawnSync(command, args, { stdio: "inherit" }).status ?? 1;
}

function nodeNamed(name: string): OvnNode {
  const node = ovnNodes.find((known) => known === name);
  return node ?? program.error(`no such node: ${name}`);
}

program
  .command("exec")
  .description("run a command in a namespace: a node's, a pod's, ext or sec")
  .argument("<place>")
  .argument("<command...>")
  .passThroughOptions()
  .action(async (place: string, words: string[]) => {
    const lab = await OvnLab.attach(prefix());
    const command = words[0] === "--" ? words.slice(1) : words;
    become(["ip", "netns", "exec", lab.namespace(place), ...command]);
  });

program
  .command("probe")
  .description("ask a destination from pods, over TCP and UDP")
  .argument("[from...]", "places that ask, all pods by default")
  .option("--to <names>", "pods, nodes, ext, sec, internet, by comma", "internet")
  .action(async (from: string[], { to }: { to: string }) => {
    const lab = await OvnLab.attach(prefix());
    const all = lab.pods.map(({ name }) => name);
    for (const line of await lab.view(from.length > 0 ? from : all, to.split(","))) console.log(line);
    lab.detach();
  });

const tools: readonly (readonly [word: string, tool: Tool, without: readonly string[]])[] = [
  ["nb", "ovn-nbctl", ["show"]],
  ["sb", "ovn-sbctl", ["show"]],
  ["vs", "ovs-vsctl", ["show"]],
  ["of", "ovs-ofctl", ["dump-flows", "br-ex"]],
  ["app", "ovs-appctl", ["dpctl/dump-conntrack"]],
];
for (const [word, tool, without] of tools)
  program
    .command(word)
    .description(`${tool} of a node; without words: ${without.join(" ")}`)
    .argument("<node>")
    .argument("[words...]")
    .passThroughOptions()
    .action(async (node: string, words: string[]) => {
      const lab = await OvnLab.attach(prefix());
      become([...lab.toolWords(nodeNamed(node), tool), ...(words.length > 0 ? words : without)]);
    });

program
  .command("trace")
  .description("what OVN does with a pod's first packet to a destination (ovn-trace)")
  .argument("<pod>")
  .argument("<to>", "a name as of probe")
  .addOption(choice("--protocol <name>", "of the packet", "tcp", "udp"))
  .addOption(choice("--family <n>", "of the packet", "4", "6"))
  .action(async (pod: string, to: string, { protocol, family }: { protocol: Protocol; family: string }) => {
    const lab = await OvnLab.attach(prefix());
    become(lab.traceWords(pod, to, protocol, Number(family) as Family));
  });

program
  .command("manifests")
  .description("write what Kubernetes would say of the lab: Nodes, Namespaces and Pods as YAML")
  .argument("<folder>")
  .action(async (folder: string) => {
    await (await OvnLab.attach(prefix())).writeManifests(folder);
  });

await program.parseAsync().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});

// `npm run lab -- up|down|exec|probe`: the lab by hand.
import { spawnSync } from "node:child_process";
import { Command, Option } from "commander";
import { takeDown } from "./down.ts";
import { defaultPrefix, Lab } from "./lab.ts";
import {
  type Backend,
  type DestinationName,
  destinations,
  namespaceOf,
  type Place,
  places,
  podNames,
} from "./topology.ts";

interface Settings {
  readonly prefix: string;
}

const program: Command = new Command("lab")
  .description("Two nodes, their pods and two networks outside, in network namespaces. See README.md.")
  .option("--prefix <text>", "start of the namespaces' names", defaultPrefix)
  .enablePositionalOptions()
  .showHelpAfterError("(--help lists the commands and what they take)");

const prefix = () => program.opts<Settings>().prefix;

program
  .command("up")
  .description("make the lab")
  .addOption(
    new Option("--backend <name>", "whose rules the nodes have").choices(["nft", "legacy"]).default("nft"),
  )
  .addOption(
    new Option("--rp-filter <n>", "reverse path filter of the nodes").choices(["0", "1", "2"]).default("0"),
  )
  .option("--force", "take down a lab of that prefix first", false)
  .action(async (options: { backend: Backend; rpFilter: string; force: boolean }) => {
    const started = performance.now();
    const rpFilter = Number(options.rpFilter) as 0 | 1 | 2;
    await Lab.up({ prefix: prefix(), backend: options.backend, rpFilter, force: options.force });
    console.log(`lab "${prefix()}" is up, ${Math.round(performance.now() - started)} ms`);
  });

program
  .command("down")
  .description("end what runs in the lab's namespaces and remove them")
  .action(async () => {
    const removed = await takeDown(prefix());
    console.log(removed.length === 0 ? `there is no lab "${prefix()}"` : `removed ${removed.join(" ")}`);
  });

program
  .command("exec")
  .description(`run a command in a namespace: ${places.join(" ")}`)
  .argument("<place>")
  .argument("<command...>")
  .passThroughOptions()
  .action((place: string, words: string[]) => {
    const [command = "", ...args] = words[0] === "--" ? words.slice(1) : words;
    if (!places.includes(place as Place)) program.error(`no such place: ${place}`);
    const all = ["netns", "exec", namespaceOf(prefix(), place as Place), command, ...args];
    process.exitCode = spawnSync("ip", all, { stdio: "inherit" }).status ?? 1;
  });

program
  .command("probe")
  .description("ask a destination from pods, over TCP and UDP, IPv4 and IPv6")
  .argument("[from...]", "places that ask", podNames)
  .option("--to <names>", `of ${Object.keys(destinations).join(",")}`, "internet")
  .action(async (from: string[], options: { to: string }) => {
    const to = options.to.split(",");
    for (const place of from) if (!places.includes(place as Place)) program.error(`no such place: ${place}`);
    for (const name of to) if (!(name in destinations)) program.error(`no such destination: ${name}`);
    const lab = await Lab.attach(prefix());
    for (const line of await lab.view(from as Place[], to as DestinationName[])) console.log(line);
    lab.detach();
  });

program
  .command("dump")
  .description("print everything of a node that an agent may touch")
  .argument("<node>")
  .action(async (node: string) => {
    if (node !== "node1" && node !== "node2") program.error(`no such node: ${node}`);
    const lab = await Lab.attach(prefix());
    console.log(await lab.dump(node));
  });

await program.parseAsync().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});

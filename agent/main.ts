#!/usr/bin/env -S MALLOC_ARENA_MAX=1 node --max-semi-space-size=2
// Memory that would be held for good: the flag keeps 30 MiB of room for new objects from that, the variable the 15 MiB that glibc
// keeps for Node's other threads after the first reading. What starts node by itself has to give both too.
// The command line. In: argv and environment. Out: a command's exit status; 78 for a wrong setting, 1 for any other error.
import { Command, Option } from "commander";
import { ask, drain, type Output } from "./commands/ask.ts";
import { printAssignments } from "./commands/assign.ts";
import { runDisabled } from "./commands/disabled.ts";
import { explanationText } from "./commands/explained.ts";
import { facts, plan } from "./commands/plan.ts";
import { recordObjects } from "./commands/record.ts";
import { runDaemon, runOnce } from "./commands/run.ts";
import { removeOurs, uninstall } from "./commands/uninstall.ts";
import { type Config, ConfigError, gather, OPTIONS, parseConfig, type Texts, variableOf } from "./config.ts";
import { LONGEST_DRAIN_S } from "./telemetry/draining.ts";
import type { Explanation } from "./telemetry/explain/account.ts";
import { parseQuestion, pathOf, QuestionError, type Words } from "./telemetry/explain/question.ts";

const EX_CONFIG = 78;

const print = (text: string): void => void process.stdout.write(text);

type Flags = Readonly<Record<string, unknown>>;

/** Commander camel-cases flags; settings are looked up by the flag as it is typed. */
function textsOf(flags: Flags): Texts {
  return Object.fromEntries(
    Object.entries(flags)
      .filter(([, value]) => typeof value === "string")
      .map(([key, value]) => [
        key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
        value as string,
      ]),
  );
}

function withSettings(command: Command, wanted: (flag: string) => boolean = () => true): Command {
  for (const { flag, value, fallback, otherwise, help } of OPTIONS) {
    if (!wanted(flag)) continue;
    const unsaid = fallback ?? otherwise;
    const shown = `${help} (${variableOf(flag)}${unsaid === undefined ? "" : `; default ${unsaid}`})`;
    command.addOption(new Option(`--${flag} <${value}>`, shown));
  }
  return command.addOption(
    new Option("--config <FILE>", "YAML file with any of these settings (EGRESSIP_CONFIG)"),
  );
}

const HOST_ONLY = new Set([
  ...["state-dir", "iptables-backend", "debug-socket", "node"],
  ...["ovn-nb", "ovn-nb-ca", "ovn-nb-certificate", "ovn-nb-key", "ovn-owner", "disable-snat-multiple-gws"],
]);

const SOURCE = new Set(["source", "manifests", "kubeconfig", "kubernetes-server"]);

/**
 * uninstall, facts and what asks the daemon need nothing but where things are: the rest is filled in where neither flags nor
 * environment nor file say it, so that one parser serves.
 */
function hostConfigFrom(flags: Flags): Config {
  const said = gather(textsOf(flags), process.env);
  const any = {
    node: NO_NODE,
    "gateway-mode": "local",
    "cluster-networks": "10.0.0.0/8",
    "service-networks": "10.0.0.0/8",
  };
  const filledIn = Object.entries(any).map(([flag, text]) => [flag, said[flag] ?? text]);
  return parseConfig({ ...said, ...Object.fromEntries(filledIn) });
}

/** Fits where a node's name is asked for and does not matter, and no node has it. */
const NO_NODE = "no.node.was.given";

/** Rows of the northbound database are a node's, so there its name does matter. */
function withNode(config: Config): Config {
  if (config.northbound === undefined || config.settings.node !== NO_NODE) return config;
  throw new ConfigError(`--node (${variableOf("node")}): is required with --ovn-nb`);
}

function secondsOf(text: string): number {
  if (/^[1-9][0-9]{0,2}$/.test(text) && Number(text) <= LONGEST_DRAIN_S) return Number(text);
  throw new ConfigError(
    `--timeout: must be whole seconds, 1 to ${LONGEST_DRAIN_S}, not ${JSON.stringify(text)}`,
  );
}

const configFrom = (texts: Texts) => parseConfig(gather(texts, process.env));

function program(): Command {
  const root = new Command("egressip-agent")
    .description("Makes this node give the egress IPs that are assigned to it.")
    .showHelpAfterError()
    .exitOverride();
  const finish = (status: number) => {
    process.exitCode = status;
  };
  withSettings(root.command("run").description("the daemon: keep this host as the objects say"))
    .option("--once", "one round and its verification, then exit")
    .action(async (flags: Flags) => {
      const config = configFrom(textsOf(flags));
      const isOnce = flags["once"] === true;
      if (config.enabled) finish(isOnce ? await runOnce(config, print) : await runDaemon(config));
      else finish(isOnce ? await removeOurs(config, { handBack: false }, print) : await runDisabled(config));
    });
  withSettings(root.command("plan").description("print what run would change; exit 0 nothing, 2 changes"))
    .option("--host-facts <FILE>", "recorded facts instead of this host: no root, nothing touched")
    .addOption(new Option("-o, --output <FORMAT>", "format").choices(["text", "json"]).default("text"))
    .action(async (flags: Flags) => {
      const hostFacts = flags["hostFacts"] as string | undefined;
      const output = flags["output"] as "text" | "json";
      const options = hostFacts === undefined ? { output } : { output, hostFacts };
      finish(await plan(configFrom(textsOf(flags)), options, print));
    });
  withSettings(
    root.command("facts").description("print the facts of this host, for --host-facts"),
    (flag) => HOST_ONLY.has(flag) || SOURCE.has(flag),
  )
    .option(
      "--output-dir <DIR>",
      "write the objects that the agent of --node goes by into DIR instead, for --manifests",
    )
    .action(async (flags: Flags) => {
      const config = hostConfigFrom(flags);
      const directory = flags["outputDir"] as string | undefined;
      if (directory === undefined) return finish(await facts(withNode(config), print));
      if (config.settings.node === NO_NODE)
        throw new ConfigError(`--node (${variableOf("node")}): is required with --output-dir`);
      finish(await recordObjects(config, directory, print));
    });
  withSettings(
    root.command("uninstall").description("retire everything that is ours"),
    (flag) => HOST_ONLY.has(flag) || flag === "kubeconfig" || flag === "kubernetes-server",
  )
    .option(
      "--hand-back",
      "leave the northbound rows, and what OVN-Kubernetes has programmed again goes on with, as its own",
    )
    .action(async (flags: Flags) => {
      const config = withNode(hostConfigFrom(flags));
      finish(await uninstall(config, { handBack: flags["handBack"] === true }, print));
    });
  withSettings(
    root.command("drain").description("the node leaves: have the running agent give nothing until it ends"),
    (flag) => flag === "debug-socket",
  )
    .addOption(
      new Option("--timeout <SECONDS>", "how long to wait until nothing is answered for").default("10"),
    )
    .action(async (flags: Flags) => {
      const seconds = secondsOf(String(flags["timeout"]));
      finish(await drain(hostConfigFrom(flags).debugSocket, seconds, print));
    });
  root
    .command("assign")
    .description("print which node would get which egress IP; exit 0 nothing to write, 2 changes")
    .requiredOption("--manifests <DIR>", "folder of Kubernetes YAML")
    .action(async (flags: Flags) => finish(await printAssignments(String(flags["manifests"]), print)));
  addAsking(root, "status", "how the running agent is", "/status", finish);
  addAsking(root, "list", "egress IPs of this node", "/list", finish);
  addAsking(root, "counters", "packets held back and connections per egress IP", "/counters", finish);
  addAsking(root, "changes", "what the last rounds changed, as text", "/changes", finish);
  addExplain(root, finish);
  return root;
}

function addAsking(
  root: Command,
  usage: string,
  help: string,
  path: string,
  finish: (status: number) => void,
): void {
  withAsking(root.command(usage).description(help)).action(async (flags: Flags) => {
    const { debugSocket } = hostConfigFrom(flags);
    finish(await ask(debugSocket, path, flags["output"] as Output, print));
  });
}

function withAsking(command: Command): Command {
  return withSettings(command, (flag) => flag === "debug-socket").addOption(
    new Option("-o, --output <FORMAT>", "format").choices(["table", "json", "yaml"]).default("table"),
  );
}

/** With a word that says of what kind the name is, or without one. Where to ask and how to print is said once, for all of them. */
function addExplain(root: Command, finish: (status: number) => void): void {
  const command = withAsking(
    root
      .command("explain")
      .description("why packets go as they do, step by step, by what is programmed now")
      .argument("<POD|IP>", "NAMESPACE/NAME, an egress IP, a pod's address"),
  ).configureHelp({ showGlobalOptions: true });
  const answer = async (words: Words, flags: Flags) => {
    // A wrong word is wrong whether or not anybody is there to be asked.
    parseQuestion(words);
    const { debugSocket } = hostConfigFrom(flags);
    const output = flags["output"] as Output;
    finish(
      await ask(debugSocket, pathOf(words), output, print, (said) => explanationText(said as Explanation)),
    );
  };
  const said = (flags: Flags, key: string) => flags[key] as string | undefined;
  command.action((name: string, flags: Flags) => answer({ name }, flags));
  command
    .command("pod <NAMESPACE/NAME>")
    .description("who selects a pod and why not, and the way of its packets")
    .option("--to <IP[:PORT]>", "where they go; somewhere outside if it is not said")
    .option("--protocol <NAME>", "tcp or udp", "tcp")
    .action((name: string, _: Flags, sub: Command) => {
      const flags = sub.optsWithGlobals<Flags>();
      return answer({ kind: "pod", name, to: said(flags, "to"), protocol: said(flags, "protocol") }, flags);
    });
  command
    .command("ip <ADDRESS>")
    .description("an egress IP: who has it and why, and all of it that is here; or a pod's address")
    .action((name: string, _: Flags, sub: Command) =>
      answer({ kind: "ip", name }, sub.optsWithGlobals<Flags>()),
    );
  command
    .command("packet")
    .description("the way of one packet")
    .requiredOption("--from <POD|IP>", "NAMESPACE/NAME or an address")
    .requiredOption("--to <IP[:PORT]>", "where it goes")
    .option("--protocol <NAME>", "tcp or udp", "tcp")
    .action((_: Flags, sub: Command) => {
      const flags = sub.optsWithGlobals<Flags>();
      const [from, to, protocol] = ["from", "to", "protocol"].map((key) => said(flags, key));
      return answer({ kind: "packet", from, to, protocol }, flags);
    });
}

try {
  await program().parseAsync();
} catch (error) {
  const { code, exitCode } = error as { code?: unknown; exitCode?: unknown };
  if (typeof code === "string" && code.startsWith("commander.")) {
    process.exitCode = exitCode === 0 ? 0 : EX_CONFIG;
  } else {
    process.stderr.write(`egressip-agent: ${(error as Error).message}\n`);
    process.exitCode = error instanceof ConfigError || error instanceof QuestionError ? EX_CONFIG : 1;
  }
}

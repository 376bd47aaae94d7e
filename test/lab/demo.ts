// The story of `npm run demo`: the agent on both nodes of a lab, and what servers outside see before it runs, while it runs and after an
// egress IP has moved. Nothing in; a text out that says what was seen. Exit status 1 when something else was expected.
// Longer than most files because it is one story, told and checked step by step.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { stringify } from "yaml";
import { asTable } from "../../agent/commands/table.ts";
import { type Agent, Home } from "../support/agent.ts";
import { Manifests } from "../support/agent-manifests.ts";
import { heading, type Story, Unexpected } from "../support/story.ts";
import { until } from "../support/until.ts";
import { Lab } from "./lab.ts";
import { matrix } from "./probe.ts";
import { type NodeName, nodeNames, nodes, podNetworks, serviceNetworks } from "./topology.ts";

const main = fileURLToPath(new URL("../../agent/main.ts", import.meta.url));

/** Who asks. What each is labelled, and so which EgressIP selects it, is in packaging/examples. */
const askers = ["a1", "a2", "a3", "b1", "b2"] as const;
type Asker = (typeof askers)[number];
const podOf: Readonly<Record<Asker, string>> = {
  a1: "shop/a1",
  a2: "shop/a2",
  a3: "play/a3",
  b1: "shop/b1",
  b2: "play/b2",
};

/** `SERVER ADDRESS` for each family, as the server on that network reports it. */
interface Seen {
  readonly 4: string;
  readonly 6: string;
}
type View = Readonly<Record<Asker, Seen>>;

const prod: Seen = { 4: "sec 10.10.10.50", 6: "sec fd00:10:10::50" };
const billing: Seen = { 4: "ext 172.18.0.60", 6: "ext fd00:172:18::60" };
const own = (node: NodeName): Seen => ({ 4: `ext ${nodes[node].eth0[4]}`, 6: `ext ${nodes[node].eth0[6]}` });

const withoutAgent: View = {
  a1: own("node1"),
  a2: own("node1"),
  a3: own("node1"),
  b1: own("node2"),
  b2: own("node2"),
};
const withAgent: View = { ...withoutAgent, a1: prod, a2: billing, b1: prod };
const selectedBy: Readonly<Record<Asker, string>> = {
  a1: "prod",
  a2: "billing",
  a3: "-",
  b1: "prod",
  b2: "-",
};

/** Everything that has to be taken away again. */
class Stage {
  readonly #raising: Promise<Lab> = Lab.up({ prefix: `demo${process.pid}` });
  readonly #homes = new Map<NodeName, Home>();
  readonly #agents = new Map<NodeName, Agent>();
  #manifests: Manifests | undefined;
  #closed: boolean = false; // widened: close() sets it while start() waits

  get lab(): Promise<Lab> {
    return this.#raising;
  }

  /** The examples in a folder of their own, and for each node a state folder and a file of settings. */
  async furnish(): Promise<void> {
    this.#manifests = await Manifests.ofExamples();
    for (const node of nodeNames) {
      const home = await Home.of(await this.lab, node);
      this.#homes.set(node, home);
      const settings = {
        node,
        "gateway-mode": "local",
        manifests: this.#manifests.directory,
        "cluster-networks": [podNetworks[4], podNetworks[6]],
        "service-networks": [serviceNetworks[4], serviceNetworks[6]],
        "state-dir": home.stateDirectory,
        "debug-socket": home.debugSocket,
      };
      await writeFile(this.configOf(node), stringify(settings));
    }
  }

  get manifests(): Manifests {
    if (this.#manifests === undefined) throw new Error("not furnished yet");
    return this.#manifests;
  }

  configOf(node: NodeName): string {
    return join(this.#homeOf(node).directory, `${node}.yaml`);
  }

  async start(node: NodeName): Promise<Agent> {
    const home = this.#homeOf(node);
    if (this.#closed) throw new Error("the demo is over");
    const agent = await home.start(this.manifests.directory);
    this.#agents.set(node, agent);
    return agent;
  }

  async stopAgents(): Promise<void> {
    await Promise.all([...this.#agents.values()].map((agent) => (agent.ended ? undefined : agent.stop())));
  }

  /** Last lines of the agents' logs. */
  get said(): readonly string[] {
    return [...this.#agents].map(([node, { said }]) => {
      const lines = said.trim().split("\n").slice(-15);
      return `last lines of the agent on ${node}:\n${lines.map((line) => line.slice(0, 200)).join("\n")}\n`;
    });
  }

  /** Agents that are only just starting end with their namespace. */
  async close(): Promise<void> {
    this.#closed = true;
    const [raised] = await Promise.allSettled([this.#raising]); // half a lab cannot be taken down
    await this.stopAgents();
    // A signal to the whole process group also ended what starts tools for us (lib/exec); asked again, it is started anew.
    if (raised.status === "fulfilled") await raised.value.down().catch(() => raised.value.down());
    for (const home of this.#homes.values()) await home.remove();
    await this.#manifests?.remove();
  }

  #homeOf(node: NodeName): Home {
    const home = this.#homes.get(node);
    if (home === undefined) throw new Error("not furnished yet");
    return home;
  }
}

/** Runs the command line on a node, shown as it would be typed there. Resolves to what it printed. */
async function command(stage: Stage, node: NodeName, words: string, okExitCode = 0): Promise<string> {
  console.log(`${node}# egressip-agent ${words} --config ${node}.yaml`);
  const lab = await stage.lab;
  const all = [main, ...words.split(" "), "--config", stage.configOf(node)];
  const { stdout } = await lab.nodeExec(node, process.execPath, all, { okExitCodes: [okExitCode] });
  return stdout.trim();
}

/** Asks the "internet" from each pod over TCP and UDP, prints the table, throws Unexpected for any other source. */
async function look(lab: Lab, expected: View): Promise<void> {
  const probes = matrix(askers, ["internet"]);
  const outcomes = await lab.probeAll(probes);
  const seen = (pod: Asker, family: 4 | 6): string => {
    const answers = probes.flatMap(({ from, family: of, protocol }, at) => {
      const outcome = outcomes[at];
      if (from !== pod || of !== family || outcome === undefined) return [];
      return [
        { protocol, text: "failed" in outcome ? outcome.failed : `${outcome.server} ${outcome.source}` },
      ];
    });
    const different = new Set(answers.map(({ text }) => text));
    return different.size === 1
      ? [...different].join()
      : answers.map(({ protocol, text }) => `${protocol}: ${text}`).join(", ");
  };
  const rows = askers.map((pod) => ({
    pod: podOf[pod],
    node: pod.startsWith("a") ? "node1" : "node2",
    "selected by": selectedBy[pod],
    "tcp, udp ipv4: server saw": seen(pod, 4),
    "tcp, udp ipv6: server saw": seen(pod, 6),
  }));
  console.log(asTable(rows));
  const wrong = askers.flatMap((pod) =>
    ([4, 6] as const)
      .filter((family) => seen(pod, family) !== expected[pod][family])
      .map(
        (family) => `${podOf[pod]} IPv${family}: expected ${expected[pod][family]}, got ${seen(pod, family)}`,
      ),
  );
  if (wrong.length > 0) throw new Unexpected(wrong.join("\n"));
}

/** Which node the server on the second network sends packets for prod's addresses to: its neighbour table knows. */
async function hasProd(lab: Lab, node: NodeName): Promise<void> {
  const mac = (await lab.exec(node, "cat", ["/sys/class/net/eth1/address"])).stdout.trim();
  const neighbours = async () => (await lab.exec("sec", "ip", ["neighbour", "show", "dev", "lan"])).stdout;
  for (const address of ["10.10.10.50", "fd00:10:10::50"]) {
    const isThere = async () =>
      (await neighbours())
        .split("\n")
        .some((line) => line.startsWith(`${address} `) && line.includes(` ${mac} `));
    await until(isThere, `the neighbours of ${address} send to ${node}, ${mac}`);
  }
  console.log(`Neighbours on the second network send packets for prod's addresses to ${node} (${mac}).`);
}

/** What the control plane would do: status.items names another node, and OVN sends the pods there. */
async function move(stage: Stage, agents: Readonly<Record<NodeName, Agent>>): Promise<void> {
  await stage.manifests.edit("egressips.yaml", "prod", (egressIP) => {
    const { items } = egressIP["status"] as { items: { node: string }[] };
    for (const item of items) item.node = "node2";
  });
  await agents.node2.serves("10.10.10.50", "fd00:10:10::50");
  const lab = await stage.lab;
  for (const pod of ["a1", "b1"] as const) await lab.steer(pod, "node2");
  await agents.node1.serves("172.18.0.60", "fd00:172:18::60");
}

async function show(stage: Stage): Promise<void> {
  const lab = await stage.lab;
  await stage.furnish();
  const dumps = async () => [await lab.dump("node1"), await lab.dump("node2")];
  heading("Two nodes, their pods and two networks outside are up; no agent yet");
  await look(lab, withoutAgent);
  const untouched = await dumps();
  for (const node of nodeNames) {
    const text = await command(stage, node, "plan", 2);
    const blocks = text.split(/^== /m).slice(1);
    console.log(`${text.split("\n").length} lines: ${blocks.map(summary).join(", ")}`);
  }

  heading("The agent runs on both nodes; EgressIP prod and billing are node1's");
  const [node1, node2] = await Promise.all([stage.start("node1"), stage.start("node2")]);
  // Selected pods leave through the node that has their egress IP: OVN's part, which the lab plays.
  await lab.steer("b1", "node1");
  await look(lab, withAgent);
  await hasProd(lab, "node1");
  console.log();
  console.log(`${await command(stage, "node1", "list")}\n`);
  console.log(`${await command(stage, "node1", "explain shop/a1")}\n`);
  // A plan of a node that is right has nothing in it and ends with status 0.
  console.log(await command(stage, "node1", "plan"));

  heading("prod moves to node2, while shop/a1 opens 500 connections a second");
  const sender = lab.sender("a1", { rate: 500, fresh: true });
  await sender.answers(100);
  await move(stage, { node1, node2 });
  await sender.answers(100);
  const { sent, answered, bySource } = await sender.stop();
  const sources = [...bySource.keys()].map((source) => source.replace("/", " "));
  console.log(
    `${sent} opened, ${sent - answered} without an answer; seen by servers: ${sources.join(", ")}\n`,
  );
  if (!isDeepStrictEqual(sources, [prod[4]])) throw new Unexpected(`a connection left with another address`);
  await look(lab, withAgent);
  await hasProd(lab, "node2");
  console.log();
  console.log(await command(stage, "node2", "list"));

  heading("The agents stop, and everything of theirs is removed");
  await stage.stopAgents();
  for (const node of nodeNames) {
    const text = await command(stage, node, "uninstall");
    console.log(`${text.split("\n").length} lines`);
  }
  if (!isDeepStrictEqual(await dumps(), untouched)) throw new Unexpected("uninstall left something behind");
  console.log("Rules, sets, routes, addresses and sysctls of both nodes are what they were at the start.");
}

/** `establish sets\nadd …\nadd …\n` as `sets 2`. */
function summary(block: string): string {
  const [title = "", ...lines] = block.trim().split("\n");
  return `${title.replace(/^(establish|retire) /, "")} ${lines.length}`;
}

/** The whole of it; see ../support/story.ts for how it is told. */
export function localDemo(): Story {
  const stage = new Stage();
  return { show: () => show(stage), said: () => stage.said, close: () => stage.close() };
}

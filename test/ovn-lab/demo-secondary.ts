// The story of `npm run demo -- secondary`: real OVN in shared gateway mode, an egress IP on the nodes' second network and one on
// the primary. Which server saw whom by which NIC; rules of the kernel that stay as they are when 100 pods more come; a move.
// Longer than most files because it is one story, told and checked step by step.
import { isDeepStrictEqual } from "node:util";
import { asTable } from "../../agent/commands/table.ts";
import { dump } from "../lab/dump.ts";
import { type Family, families } from "../lab/topology.ts";
import { pod, writeFolder } from "../support/agent-manifests.ts";
import type { OvnStage } from "../support/ovn-stage.ts";
import { heading, type Story, Unexpected } from "../support/story.ts";
import { storyOf } from "./story.ts";
import { type OvnNode, ovnNodePlans } from "./topology.ts";

type Pair = Readonly<Record<Family, string>>;

const prod: Pair = { 4: "10.10.10.50", 6: "fd00:10:10::50" };
const billing: Pair = { 4: "172.18.0.60", 6: "fd00:172:18::60" };

/** The selected pods are those that the examples label `app: web` and `app: billing`. */
const assigned = (node: OvnNode) => ({
  prod: { addresses: [prod[4], prod[6]], app: "web", node },
  billing: { addresses: [billing[4], billing[6]], app: "billing" },
});

/** By which NIC of a node a server is reached: who answers tells which way a packet went. */
const nics: Readonly<Record<string, string>> = { ext: "br-ex", sec: "eth1" };
const destinations = ["sec", "internet"] as const;
const NOTHING = "no answer";

/** What servers saw of one pod: `ADDRESS by NIC`, in each family. */
type Seen = Readonly<Record<(typeof destinations)[number], Pair>>;
type View = Readonly<Record<string, Seen>>;

const by = (source: Pair, nic: string): Pair => ({
  4: `${source[4]} by ${nic}`,
  6: `${source[6]} by ${nic}`,
});
const nothing: Pair = { 4: NOTHING, 6: NOTHING };
/** The gateway router has one way out, and that is br-ex. */
const byGateway = (source: Pair): Seen => ({ sec: nothing, internet: by(source, "br-ex") });
const own = (node: OvnNode): Seen => byGateway(ovnNodePlans[node]["br-ex"]);
const bySecond: Seen = { sec: by(prod, "eth1"), internet: by(prod, "eth1") };

const withoutAgent: View = {
  a1: own("node1"),
  a2: own("node1"),
  a3: own("node1"),
  b1: own("node2"),
  b2: own("node2"),
};
const withAgent: View = { ...withoutAgent, a1: bySecond, b1: bySecond, a2: byGateway(billing) };
/** Two of the hundred pods more are real ones. */
const withMore: View = { ...withAgent, a9: bySecond, b9: bySecond };

function selectedBy(seen: Seen | undefined): string {
  if (seen === bySecond) return "prod";
  return seen?.internet[4]?.startsWith(billing[4]) === true ? "billing" : "-";
}

/** Asks both from each pod, prints the table, throws Unexpected for anything else than expected. */
async function look({ lab }: OvnStage, expected: View): Promise<void> {
  const seen = async (from: string, to: (typeof destinations)[number], family: Family) => {
    const texts = await Promise.all(
      (["tcp", "udp"] as const).map(async (protocol) => {
        const outcome = await lab.probe(from, to, protocol, family);
        return "failed" in outcome ? NOTHING : `${outcome.source} by ${nics[outcome.server]}`;
      }),
    );
    return [...new Set(texts)].join(", ");
  };
  const asked = destinations.flatMap((to) => families.map((family) => ({ to, family })));
  const wrong: string[] = [];
  // All at once: where nobody answers, that is known after a second.
  const rows = await Promise.all(
    Object.entries(expected).map(async ([name, of]) => {
      const saw = asked.map(async ({ to, family }) => {
        const [got, want] = [await seen(name, to, family), of[to][family]];
        if (got !== want) wrong.push(`${name} to ${to} IPv${family}: expected ${want}, got ${got}`);
        return [`${to === "sec" ? "second network" : to}, ipv${family}`, got] as const;
      });
      return {
        pod: name,
        node: name.startsWith("a") ? "node1" : "node2",
        "selected by": selectedBy(of),
        ...Object.fromEntries(await Promise.all(saw)),
      };
    }),
  );
  console.log(asTable(rows));
  if (wrong.length > 0) throw new Unexpected(wrong.join("\n"));
}

/** Who answers on the second network for prod's addresses, asked by ARP and NDP. */
async function answers({ lab }: OvnStage, node: OvnNode): Promise<void> {
  const mac = (await lab.nodeExec(node, "cat", ["/sys/class/net/eth1/address"])).stdout.trim();
  for (const family of families) {
    const found = await lab.whoHas(prod[family], "sec");
    if (!isDeepStrictEqual(found, [mac]))
      throw new Unexpected(`${prod[family]}: answered by ${found.join(" and ")}, not by ${node} (${mac})`);
  }
  console.log(
    `Asked by ARP and NDP on the second network, eth1 of ${node} answers (${mac}), and nobody else.\n`,
  );
}

/** What the kernel walks for packets of one family: text that must not grow with pods. */
async function rulesOf({ lab }: OvnStage, node: OvnNode, family: Family): Promise<readonly string[]> {
  const lines = async (command: string, ...args: readonly string[]) =>
    (await lab.nodeExec(node, command, args)).stdout.split("\n").filter((line) => line !== "");
  const rules = await lines("ip", `-${family}`, "rule", "show", "pref", "6000");
  const saved = await lines(family === 4 ? "iptables-save" : "ip6tables-save");
  return [...rules, ...saved.filter((line) => /^-A.*EGRESSIP/.test(line))];
}

async function bothRulesOf(stage: OvnStage, node: OvnNode): Promise<readonly string[]> {
  return (await Promise.all(families.map((family) => rulesOf(stage, node, family)))).flat();
}

async function countsOf(
  stage: OvnStage,
  node: OvnNode,
  when: string,
): Promise<Readonly<Record<string, unknown>>> {
  const rules = await bothRulesOf(stage, node);
  const { stdout } = await stage.lab.nodeExec(node, "ipset", ["save"]);
  const entries = (family: Family) =>
    stdout.split("\n").filter((line) => line.startsWith(`add egressip${family} `));
  return {
    when,
    "ip rules": rules.filter((line) => line.startsWith("6000:")).length,
    "iptables rules": rules.filter((line) => line.startsWith("-A")).length,
    "SNAT rules": rules.filter((line) => line.includes("--to-source")).length,
    "set entries, ipv4": entries(4).length,
    "set entries, ipv6": entries(6).length,
  };
}

/** A hundred pods of app web, half of them on either node; the first of each node really runs. */
async function hundredMore(stage: OvnStage): Promise<void> {
  await stage.lab.addPod("a9", "node1", 9);
  await stage.lab.addPod("b9", "node2", 9);
  await stage.lab.writeManifests(stage.manifests);
  const others = Array.from({ length: 98 }, (_, n) => {
    const [number, host] = [1 + (n % 2), 100 + (n >> 1)];
    const addresses = [`10.244.${number}.${host}`, `fd00:10:244:${number}::${host.toString(16)}`];
    return pod({ name: `more-${n}`, app: "web", node: `node${number}`, addresses });
  });
  await writeFolder(stage.manifests, "more.yaml", others);
  await Promise.all([...stage.agents.values()].map((agent) => agent.lookAgain()));
  await stage.settled();
}

async function moves(stage: OvnStage): Promise<void> {
  const sender = stage.lab.sender("b1", { rate: 200, fresh: true });
  await sender.answers(100);
  await stage.assign(assigned("node2"));
  await sender.answers(100);
  const { sent, answered, bySource } = await sender.stop();
  const sources = [...bySource.keys()].map((source) => source.replace("/", " "));
  console.log(
    `${sent} opened, ${sent - answered} without an answer; seen by servers: ${sources.join(", ")}\n`,
  );
  if (!isDeepStrictEqual(sources, [`sec ${prod[4]}`]))
    throw new Unexpected("a connection left with another address");
}

async function stateOf({ lab, zones }: OvnStage): Promise<readonly string[]> {
  const kernels = lab.nodes.map((node) => dump(lab.runOn(node)));
  const databases = zones.map(async (node) =>
    (await lab.northbound(node))
      .split("\n")
      // Empty ones of another feature are made where they are missing, and stay.
      .filter((line) => !line.includes("EgressService"))
      .join("\n"),
  );
  return await Promise.all([...kernels, ...databases]);
}

async function show(stage: OvnStage): Promise<void> {
  const { lab } = stage;
  heading(
    "Two nodes of real OVN with two NICs each, br-ex and eth1, and a network outside of either; no agent yet",
  );
  await look(stage, withoutAgent);
  const untouched = await stateOf(stage);

  await stage.start();
  await stage.assign(assigned("node1"));
  heading(
    "An agent runs on both nodes; node1 gives prod on its second network, and billing on the primary one",
  );
  await look(stage, withAgent);
  await answers(stage, "node1");

  heading("What node1's kernel walks for them, and after 100 pods more of prod's");
  const before = await bothRulesOf(stage, "node1");
  console.log(
    `${(await rulesOf(stage, "node1", 4)).join("\n")}\n\nFor IPv6 the same, with its own addresses.\n`,
  );
  const few = await countsOf(stage, "node1", "before");
  await hundredMore(stage);
  const after = await bothRulesOf(stage, "node1");
  const many = await countsOf(stage, "node1", "100 pods more");
  console.log(asTable([few, many]));
  if (!isDeepStrictEqual(after, before)) throw new Unexpected(`rules have changed:\n${after.join("\n")}`);
  for (const family of families) {
    const key = `set entries, ipv${family}`;
    if (Number(many[key]) !== Number(few[key]) + 100) throw new Unexpected(`${key}: not 100 more`);
  }
  console.log(
    "Every rule is letter for letter what it was. Two of the new pods really run, one on each node:\n",
  );
  await look(stage, withMore);

  heading("prod moves to node2, while b1 opens 200 connections a second");
  await moves(stage);
  await look(stage, withMore);
  await answers(stage, "node2");

  heading("The agents stop, and everything of theirs is removed");
  for (const [node, home] of stage.homes) {
    await stage.agent(node).stop();
    const { stdout } = await home.uninstall(...stage.leaveFlags(node));
    console.log(`${node}: ${stdout.trim().split("\n").length} lines`);
  }
  await lab.syncHv();
  await look(stage, { ...withoutAgent, a9: own("node1"), b9: own("node2") });
  for (const name of ["a9", "b9"]) await lab.removePod(name);
  if (!isDeepStrictEqual(await stateOf(stage), untouched))
    throw new Unexpected("uninstall left something behind");
  console.log("Kernels and databases of both nodes are what they were at the start.");
}

export function secondaryDemo(): Story {
  return storyOf({ gateway: "shared" }, show);
}

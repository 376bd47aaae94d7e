// The story of `npm run demo -- shared`: two nodes of real OVN, each with its own northbound database and an agent. What a server
// outside sees before and after, the rows that make it so, an address that moves, a second start that writes none.
import { isDeepStrictEqual } from "node:util";
import { asTable } from "../../agent/commands/table.ts";
import { type Family, families } from "../lab/topology.ts";
import type { OvnStage } from "../support/ovn-stage.ts";
import { heading, type Story, Unexpected } from "../support/story.ts";
import type { OvnLab } from "./lab.ts";
import { storyOf } from "./story.ts";
import { type OvnNode, ovnNodePlans } from "./topology.ts";

const prod = { 4: "172.18.0.50", 6: "fd00:172:18::50" };

/** a1 and b1 are selected, one on each node; a2 and b2 are not. */
const askers = ["a1", "a2", "b1", "b2"] as const;
type Asker = (typeof askers)[number];
type View = Readonly<Record<Asker, Readonly<Record<Family, string>>>>;

const nodeOf = (pod: Asker): OvnNode => (pod.startsWith("a") ? "node1" : "node2");
const own = (pod: Asker) => ovnNodePlans[nodeOf(pod)]["br-ex"];
const withoutAgent: View = { a1: own("a1"), a2: own("a2"), b1: own("b1"), b2: own("b2") };
const withAgent: View = { ...withoutAgent, a1: prod, b1: prod };

/** The selected pods are those that the examples label `app: web`. */
const assigned = (node: OvnNode) => ({ prod: { addresses: [prod[4], prod[6]], app: "web", node } });

/** Asks the "internet" from each pod, prints the table, throws Unexpected for any other source. */
async function look(lab: OvnLab, expected: View): Promise<void> {
  const seen = async (pod: Asker, family: Family) => {
    const outcomes = await Promise.all(
      (["tcp", "udp"] as const).map((protocol) => lab.probe(pod, "internet", protocol, family)),
    );
    const texts = outcomes.map((outcome) => ("failed" in outcome ? outcome.failed : outcome.source));
    return [...new Set(texts)].join(", ");
  };
  const rows = await Promise.all(
    askers.map(async (pod) => ({
      pod,
      node: nodeOf(pod),
      "selected by": expected[pod] === prod ? "prod" : "-",
      "tcp, udp ipv4: server saw": await seen(pod, 4),
      "tcp, udp ipv6: server saw": await seen(pod, 6),
    })),
  );
  console.log(asTable(rows));
  for (const [at, pod] of askers.entries())
    for (const family of families) {
      const saw = rows[at]?.[`tcp, udp ipv${family}: server saw`];
      if (saw !== expected[pod][family])
        throw new Unexpected(`${pod} IPv${family}: expected ${expected[pod][family]}, got ${saw}`);
    }
}

async function answers(lab: OvnLab, node: OvnNode): Promise<void> {
  const { bridgeMac } = ovnNodePlans[node];
  for (const family of families) {
    const found = await lab.whoHas(prod[family]);
    if (!isDeepStrictEqual(found, [bridgeMac]))
      throw new Unexpected(
        `${prod[family]}: answered by ${found.join(" and ")}, not by ${node} (${bridgeMac})`,
      );
  }
  console.log(
    `Asked by ARP and NDP for prod's addresses, ${node} answers (${bridgeMac}), and nobody else.\n`,
  );
}

/** What an agent has written to its database since it started, as it printed it. */
async function written(stage: OvnStage, node: OvnNode): Promise<readonly string[]> {
  const changes = (await stage.agent(node).changes()).join("\n").split(/^== /m);
  return changes
    .filter((block) => /^(establish|retire) northbound\n/.test(block))
    .flatMap((block) => block.trim().split("\n").slice(1));
}

async function showRows(stage: OvnStage, before: ReadonlyMap<OvnNode, number>): Promise<void> {
  for (const node of stage.lab.nodes) {
    const lines = await written(stage, node);
    console.log(`${node} wrote to its northbound database:`);
    for (const line of lines.slice(before.get(node) ?? 0)) console.log(`  ${line.replace(/ {2}#.*/, "")}`);
    console.log();
  }
}

async function counted(stage: OvnStage): Promise<ReadonlyMap<OvnNode, number>> {
  const counts = new Map<OvnNode, number>();
  for (const node of stage.lab.nodes) counts.set(node, (await written(stage, node)).length);
  return counts;
}

async function rowsOf(stage: OvnStage): Promise<readonly string[]> {
  return Promise.all(stage.zones.map((node) => stage.lab.northbound(node, { uuids: true })));
}

async function show(stage: OvnStage): Promise<void> {
  const { lab } = stage;
  heading("Two nodes of real OVN, each a zone of its own, and a network outside are up; no agent yet");
  await look(lab, withoutAgent);
  const untouched = await Promise.all(stage.zones.map((node) => lab.northbound(node)));

  await stage.start();
  heading("An agent runs on both nodes: what keeps pods and nodes out of it is there before any egress IP");
  const prepared = await counted(stage);
  for (const [node, lines] of prepared) console.log(`${node}: ${lines} rows`);

  await stage.assign(assigned("node1"));
  heading("EgressIP prod is assigned to node1: a1 is a pod there, b1 one on node2");
  await showRows(stage, prepared);
  await look(lab, withAgent);
  await answers(lab, "node1");

  const before = await counted(stage);
  await stage.assign(assigned("node2"));
  heading("prod's status names node2, as it would after a failure of node1");
  await showRows(stage, before);
  await look(lab, withAgent);
  await answers(lab, "node2");

  const rows = await rowsOf(stage);
  await Promise.all([...stage.agents.values()].map((agent) => agent.stop()));
  await stage.start();
  heading("The agents are started again");
  for (const [node, lines] of await counted(stage)) {
    console.log(`${node} wrote ${lines} rows`);
    if (lines > 0) throw new Unexpected(`${node} wrote again what was there`);
  }
  if (!isDeepStrictEqual(await rowsOf(stage), rows)) throw new Unexpected("a row is another one");
  console.log("Every row of both databases has the uuid it had.");

  heading("The agents stop, and everything of theirs is removed");
  for (const [node, home] of stage.homes) {
    await stage.agent(node).stop();
    const { stdout } = await home.uninstall(...stage.leaveFlags(node));
    console.log(
      `${node}: ${stdout.split("\n").filter((line) => line.startsWith("delete ")).length} rows deleted`,
    );
  }
  await lab.syncHv();
  await look(lab, withoutAgent);
  const left = await Promise.all(stage.zones.map((node) => lab.northbound(node)));
  const others = left.map((text) =>
    text
      .split("\n")
      .filter((line) => !line.includes("EgressService"))
      .join("\n"),
  );
  if (!isDeepStrictEqual(others, untouched)) throw new Unexpected("uninstall left something behind");
  console.log("Both databases are what they were, but for another feature's empty address sets, which stay.");
}

export function sharedDemo(): Story {
  return storyOf({ gateway: "shared" }, show);
}

// The story of `npm run demo -- kubernetes`: a real API server, three nodes of real OVN, an agent on each that reads it as the packaged
// account. An EgressIP is applied and moved as in a cluster; what servers saw, and what the agents said to the API server.
import { asTable } from "../../agent/commands/table.ts";
import { type Family, families } from "../lab/topology.ts";
import { DEMO, storyOn } from "../ovn-lab/story.ts";
import { type OvnNode, ovnNodePlans } from "../ovn-lab/topology.ts";
import { ClusterStage } from "../support/cluster-stage.ts";
import { heading, type Story, Unexpected } from "../support/story.ts";
import { until } from "../support/until.ts";

type Pair = Readonly<Record<Family, string>>;
const primary: Pair = { 4: "172.18.0.50", 6: "fd00:172:18::50" };
const second: Pair = { 4: "10.10.10.50", 6: "fd00:10:10::50" };

/** Selected are a1, b1 and c1, one on each node. */
const nodeOf: Readonly<Record<string, OvnNode>> = { a1: "node1", a2: "node1", b1: "node2", c1: "node3" };
const SELECTED: ReadonlySet<string> = new Set(["a1", "b1", "c1"]);

/** Objects reach agents a moment later, and flows follow rows: waits until it is so, and prints it. */
async function look(
  { ovn: { lab } }: ClusterStage,
  egress: Pair | undefined,
  ...pods: string[]
): Promise<void> {
  const sourceOf = (pod: string): Pair =>
    egress !== undefined && SELECTED.has(pod) ? egress : ovnNodePlans[nodeOf[pod] as OvnNode]["br-ex"];
  const saw = async (pod: string, family: Family) => {
    const outcomes = await Promise.all(
      (["tcp", "udp"] as const).map((protocol) => lab.probe(pod, "internet", protocol, family)),
    );
    return [...new Set(outcomes.map((of) => ("failed" in of ? of.failed : of.source)))].join(", ");
  };
  let rows: readonly { readonly [column: string]: string }[] = [];
  const isSo = async () => {
    rows = await Promise.all(
      pods.map(async (pod) => ({
        pod,
        node: nodeOf[pod] ?? "",
        "selected by": SELECTED.has(pod) && egress !== undefined ? "prod" : "-",
        "tcp, udp ipv4: server saw": await saw(pod, 4),
        "tcp, udp ipv6: server saw": await saw(pod, 6),
      })),
    );
    return pods.every((pod, at) =>
      families.every((family) => rows[at]?.[`tcp, udp ipv${family}: server saw`] === sourceOf(pod)[family]),
    );
  };
  const found = await until(isSo, "the sources", 20_000).then(
    () => true,
    () => false,
  );
  console.log(asTable(rows));
  if (!found) throw new Unexpected("not the sources that were to be seen");
}

async function says(stage: ClusterStage, ...starts: readonly string[]): Promise<void> {
  let events: readonly string[] = [];
  await until(
    async () => {
      events = await stage.events("prod");
      return starts.every((start) => events.some((line) => line.startsWith(start)));
    },
    `events ${starts.join(", ")}`,
    20_000,
  );
  console.log(`Events on EgressIP prod:\n${events.map((line) => `  ${line}`).join("\n")}\n`);
}

/** Sources do not tell which node gives them. */
async function answers({ ovn: { lab } }: ClusterStage, node: OvnNode): Promise<void> {
  const { bridgeMac } = ovnNodePlans[node];
  const isSo = async () => {
    const found = await Promise.all(families.map((family) => lab.whoHas(primary[family])));
    return found.every((macs) => macs.join() === bridgeMac);
  };
  await until(isSo, `${node} alone answers for prod's addresses`, 20_000);
  console.log(
    `Asked by ARP and NDP for prod's addresses, ${node} answers (${bridgeMac}), and nobody else.\n`,
  );
}

async function show(stage: ClusterStage): Promise<void> {
  heading(
    `kube-apiserver ${stage.api.version}, three nodes of real OVN and a network outside are up; no agent yet`,
  );
  await stage.pods("a1", "a2", "b1");
  await stage.start();
  heading("An agent runs on each node, as the account of packaging/kubernetes");
  await look(stage, undefined, "a1", "a2", "b1");

  await stage.assign("prod", { addresses: [primary[4], primary[6]], app: "web", node: "node1" });
  heading("EgressIP prod is applied, its status names node1");
  await look(stage, primary, "a1", "a2", "b1");
  console.log(`kubectl get egressips:\n${asTable(await stage.table())}`);
  await says(stage, "node1 AddressProgrammed");
  await answers(stage, "node1");

  await stage.pods("c1");
  heading("Pod c1 appears on node3");
  await look(stage, primary, "c1");

  await stage.assign("prod", { addresses: [primary[4], primary[6]], app: "web", node: "node2" });
  heading("prod's status names node2, as it would after a failure of node1");
  await says(stage, "node2 AddressProgrammed", "node1 AddressMovedAway");
  await answers(stage, "node2");
  await look(stage, primary, "a1", "a2", "b1", "c1");

  await stage.assign("prod", { addresses: [second[4], second[6]], app: "web", node: "node2" });
  heading("prod asks for addresses of the second network");
  await look(stage, second, "a1", "a2", "b1", "c1");
  const annotation = JSON.stringify([second[4], second[6]]);
  await until(async () => (await stage.annotation("node2")) === annotation, "the annotation", 20_000);
  console.log(`Node node2, k8s.ovn.org/secondary-host-egress-ips: ${annotation}\n`);

  await stage.api.objects.remove({
    apiVersion: "k8s.ovn.org/v1",
    kind: "EgressIP",
    metadata: { name: "prod" },
  });
  heading("prod is deleted");
  await look(stage, undefined, "a1", "a2", "b1", "c1");
}

export function kubernetesDemo(): Story {
  return storyOn(ClusterStage.up({ ...DEMO, gateway: "shared", nodes: 3 }), show);
}

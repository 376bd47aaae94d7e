// The whole path: objects of a real API server, three nodes of real OVN, packets outside. What an EgressIP asks for and its status
// gives is what servers see; what the agents did is what `kubectl get` and `describe` show.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { byCodeUnit } from "../../agent/model/names.ts";
import { type Family, families } from "../lab/topology.ts";
import { type OvnNode, ovnNodePlans } from "../ovn-lab/topology.ts";
import { ClusterStage } from "../support/cluster-stage.ts";
import { noKubePrograms } from "../support/kube-programs.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { until } from "../support/until.ts";

const reason = noKubePrograms() ?? canRunKernelTests() ?? noOvn();

type Pair = Readonly<Record<Family, string>>;
const primary: Pair = { 4: "172.18.0.50", 6: "fd00:172:18::50" };
const second: Pair = { 4: "10.10.10.50", 6: "fd00:10:10::50" };
const own = (node: OvnNode): Pair => ovnNodePlans[node]["br-ex"];
const asked = ({ 4: ipv4, 6: ipv6 }: Pair) => [ipv4, ipv6];

describe.skipIf(reason !== undefined)(`the whole path${reason === undefined ? "" : `: ${reason}`}`, () => {
  let stage: ClusterStage;
  let before: readonly string[];

  const rows = () => Promise.all(stage.ovn.zones.map((node) => stage.ovn.lab.northbound(node)));

  beforeAll(async () => {
    stage = await ClusterStage.up({ prefix: `whole${process.pid}`, gateway: "shared", nodes: 3 });
    await stage.start();
    before = await rows();
  });
  afterAll(() => stage?.down());

  /** What the "internet" saw of each pod, by TCP and UDP. */
  const seen = async (pods: readonly string[]) => {
    const lines = await stage.ovn.lab.view(pods, ["internet"]);
    return lines.map((line) => line.replace(/ internet (tcp|udp) ([46]): \S+ saw /, " ")).sort(byCodeUnit);
  };
  const expected = (sources: Readonly<Record<string, Pair>>) =>
    Object.entries(sources)
      .flatMap(([pod, source]) => families.flatMap((family) => Array(2).fill(`${pod} ${source[family]}`)))
      .sort(byCodeUnit);
  const leave = async (sources: Readonly<Record<string, Pair>>) => {
    const wanted = expected(sources);
    const pods = Object.keys(sources);
    const isSo = async () => (await seen(pods)).join() === wanted.join();
    // What is still not so is shown by what is expected next.
    await until(isSo, "sources", 30_000).catch(() => undefined);
    expect(await seen(pods)).toEqual(wanted);
  };
  /** Of the primary network: whose gateway router answers for it. */
  const answers = (address: Pair) =>
    Promise.all(families.map((family) => stage.ovn.lab.whoHas(address[family])));
  const answeredBy = (node: OvnNode) => families.map(() => [ovnNodePlans[node].bridgeMac]);
  const says = (name: string, text: string) =>
    until(async () => (await stage.events(name)).some((line) => line.startsWith(text)), text, 20_000);

  it("gives selected pods of every node the egress IP that status gives to one", async () => {
    await stage.pods("a1", "a2", "b1");
    await leave({ a1: own("node1"), a2: own("node1"), b1: own("node2") });
    await stage.assign("prod", { addresses: asked(primary), app: "web", node: "node1" });
    await leave({ a1: primary, a2: own("node1"), b1: primary });
    expect(await answers(primary)).toEqual(answeredBy("node1"));
    await says("prod", "node1 AddressProgrammed: ");
    expect(await stage.table()).toEqual([
      {
        Name: "prod",
        EgressIPs: JSON.stringify(asked(primary)),
        "Assigned EgressIPs": JSON.stringify(
          asked(primary).map((address) => ({ egressIP: address, node: "node1" })),
        ),
        Age: expect.stringMatching(/^\d/),
      },
    ]);
  });

  it("serves a pod that appears later, on a third node", async () => {
    await stage.pods("c1");
    await leave({ c1: primary });
  });

  it("follows a status that names another node", async () => {
    await stage.assign("prod", { addresses: asked(primary), app: "web", node: "node2" });
    await until(
      async () => (await answers(primary)).join() === answeredBy("node2").join(),
      "node2 answers for it",
      20_000,
    );
    await leave({ a1: primary, a2: own("node1"), b1: primary, c1: primary });
    await says("prod", "node2 AddressProgrammed: ");
    await says("prod", "node1 AddressMovedAway: ");
  });

  it("gives one of the second network by that NIC, and says so on the Node", async () => {
    await stage.assign("prod", { addresses: asked(second), app: "web", node: "node2" });
    await leave({ a1: second, a2: own("node1"), b1: second, c1: second });
    await until(
      async () => (await stage.annotation("node2")) === JSON.stringify(asked(second)),
      "the annotation lists both",
      20_000,
    );
    expect(await stage.annotation("node1")).toBeUndefined();
  });

  it("leaves no trace of one that is deleted", async () => {
    await stage.api.objects.remove({
      apiVersion: "k8s.ovn.org/v1",
      kind: "EgressIP",
      metadata: { name: "prod" },
    });
    await leave({ a1: own("node1"), a2: own("node1"), b1: own("node2"), c1: own("node3") });
    await until(async () => (await rows()).join() === before.join(), "the databases are as before", 20_000);
    await until(
      async () => ((await stage.annotation("node2")) ?? "[]") === "[]",
      "the annotation lists none",
      20_000,
    );
  });
});

// The agent itself on a node of the lab, with a real API server as its source: a start while that is away, what it finds out when it
// is back (known-faults BL-39, BL-95), an incident as a folder, and a cluster that does not want the feature.
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { FaultProxy } from "../cluster-lab/fault-proxy.ts";
import type { KubeObject } from "../cluster-lab/objects.ts";
import { Lab } from "../lab/lab.ts";
import { nodes, outside } from "../lab/topology.ts";
import { type Agent, type AgentStatus, Home } from "../support/agent.ts";
import { egressIP, pod } from "../support/agent-manifests.ts";
import { agentKubeconfig, egressIPDefinition } from "../support/cluster-source.ts";
import { noKubePrograms } from "../support/kube-programs.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { egress } from "../support/second-network.ts";
import { until } from "../support/until.ts";

const reason = noKubePrograms() ?? canRunKernelTests();
const common = join(import.meta.dirname, "../scenarios/common");

interface Followed extends AgentStatus {
  readonly kubernetes: {
    readonly ready: boolean;
    readonly unconfirmed?: { readonly why: string };
    readonly lastGood: string | null;
  } | null;
  readonly enabled?: boolean;
}

describe.skipIf(reason !== undefined)(
  `an agent that reads from the API server${reason === undefined ? "" : `: ${reason}`}`,
  () => {
    let lab: Lab;
    let api: ApiServer;
    let proxy: FaultProxy;
    let url: string;
    let kubeconfig: string;
    let untouched: string;
    let home: Home;

    const prod = (node: string) =>
      egressIP("prod", { addresses: [egress[4], egress[6]], app: "web", node }) as KubeObject;
    const pods = [
      pod({ name: "a1", app: "web", addresses: ["10.244.1.3", "fd00:10:244:1::3"] }),
      pod({ name: "b1", app: "web", node: "node2", addresses: ["10.244.2.3", "fd00:10:244:2::3"] }),
    ] as readonly KubeObject[];

    beforeAll(async () => {
      lab = await Lab.up({ prefix: `k8s${process.pid}` });
      await lab.steer("b1", "node1");
      untouched = await lab.dump("node1");
      api = await ApiServer.up();
      proxy = await FaultProxy.open(api);
      // The lab's own server has the usual port.
      url = await proxy.listenIn(lab.namespace("ext"), outside.ext.server[4], 7443);
      const documents = await Promise.all(
        ["namespaces.yaml", "nodes.yaml"].map((file) => readFile(join(common, file), "utf8")),
      );
      await api.objects.apply(
        egressIPDefinition,
        ...documents.flatMap((text) => parseAllDocuments(text).map((one) => one.toJS() as KubeObject)),
        ...pods,
      );
      // By an address that nodes do not reach: what is asked is what --kubernetes-server says.
      kubeconfig = await agentKubeconfig(api);
    });
    beforeEach(async () => {
      home = await Home.of(lab);
      await api.objects.apply(prod("node1"));
    });
    afterEach(async () => {
      await accept();
      await home.uninstall();
      expect(await readdir(home.stateDirectory).catch(() => [])).toEqual([]);
      await home.remove();
      expect(await lab.dump("node1")).toBe(untouched);
    });
    afterAll(async () => {
      await proxy?.close();
      await api?.close();
      await lab?.down();
    });

    let refuses = false;
    const refuse = async () => {
      await proxy.lines.refuse();
      refuses = true;
    };
    const accept = async () => {
      if (refuses) await proxy.lines.accept();
      refuses = false;
    };
    const flags = () => ({ source: "kubernetes", kubeconfig, "kubernetes-server": url });
    const start = () => home.start("none", flags());
    const status = async (agent: Agent) => (await agent.status()) as Followed;
    const when = (agent: Agent, isSo: (status: Followed) => unknown, what: string) =>
      agent.when((of) => Boolean(isSo(of as Followed)), what, 20_000);
    const seen = () => lab.probe("a1", "internet", "udp", 4);
    const given = { server: "sec", source: egress[4] };

    /** Serves, has written down what it knows, and is gone; so is the server. */
    const killedWhileAway = async (): Promise<Agent> => {
      const agent = await start();
      await agent.serves(egress[4], egress[6]);
      expect(await seen()).toEqual(given);
      await agent.stop();
      await refuse();
      const next = await home.spawn("none", flags());
      await when(
        next,
        ({ kubernetes, rounds }) => rounds > 0 && kubernetes?.unconfirmed,
        "a round without the server",
      );
      return next;
    };

    it("serves what the API server says, and follows it", async () => {
      const agent = await start();
      await agent.serves(egress[4], egress[6]);
      expect(await seen()).toEqual(given);
      await api.objects.apply(prod("node2"));
      await agent.serves();
      await api.objects.apply(prod("node1"));
      await agent.serves(egress[4], egress[6]);
      expect(await seen()).toEqual(given);
    });

    it("reports what it does to the API server, and after a restart nothing that was said", async () => {
      const events = async (name: string) =>
        (await api.objects.list("v1", "Event", "default")).filter(
          ({ involvedObject }) => (involvedObject as { readonly name: string }).name === name,
        );
      const says = (name: string, reason: string) =>
        until(
          async () => (await events(name)).some((of) => of["reason"] === reason),
          `${name}: ${reason}`,
          20_000,
        );
      const agent = await start();
      await agent.serves(egress[4], egress[6]);
      await says("prod", "AddressProgrammed");
      await lists(JSON.stringify([egress[4], egress[6]]));
      await agent.stop();
      const versions = async () => (await events("prod")).map(({ metadata }) => metadata["resourceVersion"]);
      const before = await versions();
      const next = await start();
      await next.serves(egress[4], egress[6]);
      // It is later in the order: by then nothing is left to be said of the other.
      const late = egressIP("web", { addresses: ["192.0.2.9"], app: "web", node: "node1" }) as KubeObject;
      await api.objects.apply(late);
      await says("web", "AddressUnservable");
      expect(await versions()).toEqual(before);
      await api.objects.remove(late);
      await api.objects.apply(prod("node2"));
      await next.serves();
      await says("prod", "AddressMovedAway");
      await lists(undefined);
      expect(next.said).not.toContain("reportsFailing");
      await next.stop();
    });

    it("starts without it on what was known, says so, writes nothing, and nothing when that turns out right", async () => {
      const agent = await killedWhileAway();
      const { ready, problems, kubernetes } = await status(agent);
      expect([ready, kubernetes?.ready]).toEqual([false, false]);
      expect(kubernetes?.lastGood).toMatch(/^20/);
      expect(problems.map(({ object, text }) => `${object}: ${text}`).join("\n")).toMatch(
        /^kubernetes: https:.*egressips: not listed since the agent started.*nothing is taken away/,
      );
      expect(agent.said).toContain("kindDoubtful");
      expect(await seen()).toEqual(given);
      await accept();
      await when(agent, (of) => of.ready && !of.kubernetes?.unconfirmed, "confirmed");
      await agent.lookAgain();
      expect(await agent.changes()).toEqual([]);
      expect(await seen()).toEqual(given);
    });

    it("withdraws first what turns out to be another node's, and announced nothing of it", async () => {
      const agent = await killedWhileAway();
      await api.objects.apply(prod("node2"));
      await accept();
      await when(agent, (of) => of.ready && !of.kubernetes?.unconfirmed, "confirmed");
      await agent.serves();
      const [first = ""] = await agent.changes();
      expect(first.split("\n").slice(0, 4).join("\n")).toMatch(
        /^== withdraw announce\nstop .*\nstop .*\n\n?/,
      );
      expect((await agent.changes()).join("\n")).not.toMatch(/^announce /m);
    });

    it("waits for a server that was never there, with the process alive and the host as it was (BL-95)", async () => {
      await refuse();
      const agent = await home.spawn("none", flags());
      const waiting = await when(
        agent,
        ({ error }) => /egressips not listed/.test(error ?? ""),
        "it says what it waits for",
      );
      expect([waiting.ready, waiting.rounds]).toEqual([false, 0]);
      expect(await lab.dump("node1")).toBe(untouched);
      await accept();
      await agent.serves(egress[4], egress[6]);
    });

    it("plans the same from a folder that facts wrote of it", async () => {
      const folder = await mkdtemp(join(home.directory, "objects-"));
      const words = home
        .words("plan", "none", flags())
        .slice(2)
        .filter((_, at, all) => {
          const flag = at % 2 === 0 ? all[at] : all[at - 1];
          return ["--node", "--source", "--kubeconfig", "--kubernetes-server"].includes(flag ?? "");
        });
      const [program = ""] = home.words("plan", "none");
      const facts = await lab.nodeExec("node1", process.execPath, [
        program,
        "facts",
        ...words,
        "--output-dir",
        folder,
      ]);
      expect(facts.stdout.split("\n").filter(Boolean)).toHaveLength(4);
      const here = await home.plan("none", flags());
      expect(here.exitCode).toBe(2);
      expect((await home.plan(folder)).stdout).toBe(here.stdout);
      await rm(folder, { recursive: true });
    });

    const ownNode = { apiVersion: "v1", kind: "Node", metadata: { name: "node1" } };
    const annotation = async () => {
      const { annotations } = (await api.objects.get(ownNode)).metadata;
      return (annotations as Partial<Record<string, string>>)["k8s.ovn.org/secondary-host-egress-ips"];
    };
    const lists = (text: string | undefined) =>
      until(async () => (await annotation()) === text, `the annotation is ${text}`, 20_000);

    it("takes its entries out of the annotation when it is uninstalled, and no others; says so where it cannot", async () => {
      const agent = await start();
      await agent.serves(egress[4], egress[6]);
      await lists(JSON.stringify([egress[4], egress[6]]));
      await agent.stop();
      const others = JSON.stringify([egress[4], "10.10.10.99", egress[6]]);
      const key = "k8s.ovn.org/secondary-host-egress-ips";
      await api.objects.patch(ownNode, { metadata: { annotations: { [key]: others } } });
      const reach = ["--kubeconfig", kubeconfig, "--kubernetes-server", url];
      await refuse();
      const [program = ""] = home.words("plan", "none");
      const words = [program, "uninstall", "--state-dir", home.stateDirectory, "--node", "node1", ...reach];
      const { exitCode, stdout } = await lab.nodeExec("node1", process.execPath, words, { okExitCodes: [1] });
      expect([exitCode, stdout]).toEqual([
        1,
        expect.stringMatching(/^! annotation: Node node1 may list .*: /m),
      ]);
      await accept();
      expect(await annotation()).toBe(others);
      expect((await home.uninstall("--node", "node1", ...reach)).stdout).toContain(
        `annotation: Node node1 does not list ${egress[4]}, ${egress[6]} any more\n`,
      );
      expect(await annotation()).toBe('["10.10.10.99"]');
      await api.objects.patch(ownNode, { metadata: { annotations: { [key]: null } } });
    });

    it("takes everything away once and asks for nothing more where the feature is off", async () => {
      const agent = await start();
      await agent.serves(egress[4], egress[6]);
      await lists(JSON.stringify([egress[4], egress[6]]));
      await agent.kill();
      const before = proxy.count();
      const off = await home.spawn("none", { ...flags(), "enable-egress-ip": "false" });
      await when(off, ({ ready, enabled }) => ready && enabled === false, "everything is removed");
      expect(await annotation()).toBeUndefined();
      // The Node, and what it does not list any more.
      expect(proxy.count()).toBe(before + 2);
      const asked = proxy.count();
      expect(await lab.dump("node1")).toBe(untouched);
      expect(await seen()).toEqual({ server: "ext", source: nodes.node1.eth0[4] });
      expect(proxy.count()).toBe(asked);
      expect(await off.stop()).toBe(0);
      const plan = await home.plan("none", { ...flags(), "enable-egress-ip": "false" });
      expect(plan.stdout).toBe("nothing to do\n");
      expect(proxy.count()).toBe(asked);
    });
  },
);

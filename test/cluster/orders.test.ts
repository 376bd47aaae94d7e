// What happens to pods, namespaces, nodes and EgressIPs, in each order in which it can: the kernel of an agent that follows a real API
// server ends the same (known-faults groups A and D). Each order begins from the same state, and ends when the agent has been told
// of everything.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { byCodeUnit } from "../../agent/model/names.ts";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { FaultProxy } from "../cluster-lab/fault-proxy.ts";
import type { KubeObject } from "../cluster-lab/objects.ts";
import { Lab } from "../lab/lab.ts";
import { outside } from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { egressIP, pod } from "../support/agent-manifests.ts";
import { agentKubeconfig, egressIPDefinition } from "../support/cluster-source.ts";
import { noKubePrograms } from "../support/kube-programs.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import { egress } from "../support/second-network.ts";
import { until } from "../support/until.ts";

const reason = noKubePrograms() ?? canRunKernelTests();
const common = join(import.meta.dirname, "../scenarios/common");

type Steps = Readonly<Record<string, () => Promise<unknown>>>;

/** All orders of these in which each comes after those that it needs. */
function orders(
  names: readonly string[],
  needs: Readonly<Record<string, string>> = {},
): readonly (readonly string[])[] {
  if (names.length < 2) return [names];
  return names.flatMap((last) => {
    const before = names.filter((name) => name !== last);
    if (before.some((name) => needs[name] === last)) return [];
    return orders(before, needs).map((order) => [...order, last]);
  });
}

const webPod = (
  name: string,
  address: string,
  more: { readonly app?: string; readonly namespace?: string } = {},
) => pod({ name, app: "web", addresses: [address], ...more }) as KubeObject;
const prod = (node: string) => egressIP("prod", { addresses: [egress[4]], app: "web", node }) as KubeObject;
const namespace = (name: string, labels: Readonly<Record<string, string>>) =>
  ({ apiVersion: "v1", kind: "Namespace", metadata: { name, labels } }) as KubeObject;

describe.skipIf(reason !== undefined)(`in every order${reason === undefined ? "" : `: ${reason}`}`, () => {
  let lab: Lab;
  let api: ApiServer;
  let proxy: FaultProxy;
  let home: Home;
  let agent: Agent;
  let flags: Readonly<Record<string, string>>;
  let marks = 0;

  /** One of each kind that is in nobody's way: told of last, all that was before it has been told of. */
  const marked = [
    { apiVersion: "v1", kind: "Node", metadata: { name: "node2" } },
    { apiVersion: "v1", kind: "Namespace", metadata: { name: "play" } },
    { apiVersion: "v1", kind: "Pod", metadata: { name: "mark", namespace: "play" } },
    { apiVersion: "k8s.ovn.org/v1", kind: "EgressIP", metadata: { name: "mark" } },
  ] as const;
  const told = async () => {
    const annotations = { "example.org/mark": `${marks++}` };
    const wanted = new Map<string, bigint>();
    for (const object of marked) {
      const { metadata } = await api.objects.patch(object, { metadata: { annotations } });
      wanted.set(object.kind, BigInt(String(metadata["resourceVersion"])));
    }
    await agent.when(
      (status) => {
        const { kinds } = (
          status as unknown as { kubernetes: { kinds: { kind: string; resourceVersion: string }[] } }
        ).kubernetes;
        return kinds.every(
          ({ kind, resourceVersion }) => BigInt(resourceVersion) >= (wanted.get(kind) ?? 0n),
        );
      },
      "it was told of everything",
      20_000,
    );
    await agent.ready();
  };
  const served = async () => {
    const { stdout } = await lab.nodeExec("node1", "ipset", ["save"]);
    const members = [...stdout.matchAll(/^add egressip4 (\S+) skbmark /gm)].map(([, member = ""]) => member);
    return members.sort(byCodeUnit).join(" ");
  };
  const serves = async (addresses: string, what: string) => {
    await until(
      async () => (await served()) === addresses,
      `${what}: served are "${addresses}"`,
      20_000,
    ).catch(async (cause: Error) => {
      throw new Error(`${cause.message}, but "${await served()}"`, { cause });
    });
  };
  const without = async (object: KubeObject) => {
    if (await api.objects.isThere(object)) await api.objects.remove(object);
  };
  /** Each from `base`, which serves `before`, to what serves `after`. */
  const allEnd = async (
    steps: Steps,
    base: () => Promise<unknown>,
    [before, after]: readonly [string, string],
    needs: Readonly<Record<string, string>> = {},
  ) => {
    const all = orders(Object.keys(steps), needs);
    for (const order of all) {
      await base();
      await told();
      await serves(before, "at first");
      for (const name of order) await steps[name]?.();
      await told();
      await serves(after, order.join(", "));
    }
    // Problems may stand before it.
    expect((await home.plan("none", flags)).stdout).toMatch(/^nothing to do$/m);
    return all.length;
  };

  beforeAll(async () => {
    lab = await Lab.up({ prefix: `ord${process.pid}` });
    api = await ApiServer.up();
    proxy = await FaultProxy.open(api);
    const url = await proxy.listenIn(lab.namespace("ext"), outside.ext.server[4], 7443);
    const documents = await Promise.all(
      ["namespaces.yaml", "nodes.yaml"].map((file) => readFile(join(common, file), "utf8")),
    );
    await api.objects.apply(
      egressIPDefinition,
      ...documents.flatMap((text) => parseAllDocuments(text).map((one) => one.toJS() as KubeObject)),
      webPod("mark", "10.244.1.99", { app: "mark", namespace: "play" }),
      egressIP("mark", { addresses: ["10.10.10.99"], app: "mark", node: "node2" }) as KubeObject,
      prod("node1"),
    );
    flags = { source: "kubernetes", kubeconfig: await agentKubeconfig(api), "kubernetes-server": url };
    home = await Home.of(lab);
    agent = await home.start("none", flags);
  });
  afterAll(async () => {
    await home?.uninstall();
    await home?.remove();
    await proxy?.close();
    await api?.close();
    await lab?.down();
  });

  it("a pod made again under its name, its address given to another; one that completes, its address given on (A, BL-02, BL-03)", async () => {
    const [old, anew] = [webPod("a", "10.244.1.3"), webPod("a", "10.244.1.7")];
    const heir = webPod("c", "10.244.1.3", { app: "other" });
    const [job, next] = [webPod("job", "10.244.1.4"), webPod("next", "10.244.1.4")];
    const done = webPod("done", "10.244.1.5");
    const count = await allEnd(
      {
        gone: () => api.objects.remove(old),
        again: () => api.objects.apply(anew),
        heir: () => api.objects.apply(heir),
        completed: async () => {
          for (const object of [job, done]) await api.objects.patchStatus(object, { phase: "Succeeded" });
        },
        next: () => api.objects.apply(next),
      },
      async () => {
        for (const object of [anew, heir, job, next, done]) await without(object);
        await api.objects.apply(old, job, done);
      },
      ["10.244.1.3 10.244.1.4 10.244.1.5", "10.244.1.4 10.244.1.7"],
      { again: "gone" },
    );
    expect(count).toBe(60);
    for (const object of [anew, heir, job, next, done]) await without(object);
  });

  it("labels of a namespace and a pod, an assignment, and a node that comes back (D)", async () => {
    const node = { apiVersion: "v1", kind: "Node", metadata: { name: "node1" } } as const;
    const leaving = (value: string | null) =>
      api.objects.patch(node, { metadata: { labels: { "egressip-agent.io/leaving": value } } });
    const gain = {
      namespace: () => api.objects.apply(namespace("shop", { env: "prod" })),
      pod: () => api.objects.apply(webPod("a", "10.244.1.3")),
      assignment: () => api.objects.apply(prod("node1")),
      node: () => leaving(null),
    };
    const lose = {
      namespace: () => api.objects.apply(namespace("shop", { env: "test" })),
      pod: () => api.objects.apply(webPod("a", "10.244.1.3", { app: "other" })),
      assignment: () => api.objects.apply(prod("node2")),
      node: () => leaving("true"),
    };
    const all = (steps: Steps) => async () => {
      for (const step of Object.values(steps)) await step();
    };
    expect(await allEnd(gain, all(lose), ["", "10.244.1.3"])).toBe(24);
    expect(await allEnd(lose, all(gain), ["10.244.1.3", ""])).toBe(24);
    await all(gain)();
    await without(webPod("a", "10.244.1.3"));
  });

  it("a namespace that is deleted with its pods, and is there again with others (A)", async () => {
    const late = namespace("late", { env: "prod" });
    const inIt = webPod("x", "10.244.1.20", { namespace: "late" });
    const other = webPod("y", "10.244.1.21");
    const count = await allEnd(
      {
        gone: () => api.objects.remove(late),
        again: () => api.objects.apply(late),
        others: () => api.objects.apply(webPod("x", "10.244.1.22", { namespace: "late" })),
        elsewhere: () => api.objects.remove(other),
        nobody: () => api.objects.apply(webPod("z", "10.244.1.20", { app: "other" })),
      },
      async () => {
        await without(webPod("z", "10.244.1.20"));
        if (await api.objects.isThere(late)) await api.objects.remove(late);
        await api.objects.apply(late, inIt, other);
      },
      ["10.244.1.20 10.244.1.21", "10.244.1.22"],
      { again: "gone", others: "again" },
    );
    expect(count).toBe(20);
  });
});

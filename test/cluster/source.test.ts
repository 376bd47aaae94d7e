// A real API server as the source of objects: what is served follows it, in whatever order things happen; what it does not say, or
// cannot, takes nothing away (known-faults A, D, J).
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { FaultProxy } from "../cluster-lab/fault-proxy.ts";
import type { KubeObject } from "../cluster-lab/objects.ts";
import { ClusterSource, egressIPDefinition, object } from "../support/cluster-source.ts";
import { noKubePrograms } from "../support/kube-programs.ts";

const missing = noKubePrograms();

const own = object.pod("a", "10.244.1.3");
const remote = object.pod("b", "10.244.2.3", { node: "node2" });
const web = object.egressIP("web", { "172.18.0.50": "node1" });
const shop = object.namespace("shop", { tier: "web" });
const both = ["10.244.1.3 a", "10.244.2.3 b"];

describe.skipIf(missing !== undefined)(
  `the API server as a source${missing === undefined ? "" : `: ${missing}`}`,
  () => {
    let api: ApiServer;
    let proxy: FaultProxy;

    beforeAll(async () => {
      api = await ApiServer.up();
      proxy = await FaultProxy.open(api);
      await api.objects.apply(
        egressIPDefinition,
        object.node("node1", "172.18.0.11"),
        object.node("node2", "172.18.0.12"),
        shop,
      );
    });
    afterAll(async () => {
      await proxy.close();
      await api.close();
    });
    const removeAll = async (apiVersion: string, kind: string, namespace?: string) => {
      for (const one of await api.objects.list(apiVersion, kind, namespace))
        await api.objects.remove({ ...one, apiVersion, kind });
    };
    beforeEach(async () => {
      proxy.fault = () => undefined;
      await removeAll("k8s.ovn.org/v1", "EgressIP");
      await removeAll("v1", "Pod", "shop");
      await api.objects.apply(shop);
    });
    const source = () => ClusterSource.of(api, proxy.url);
    const apply = (...objects: readonly KubeObject[]) => api.objects.apply(...objects);

    it("serves what is applied, and no longer what is deleted", async () => {
      await using agent = await source();
      await agent.begin();
      await agent.claim();
      await apply(web, own, remote);
      await agent.claim(...both);
      await api.objects.remove(own);
      await agent.claim("10.244.2.3 b");
      await api.objects.remove(web);
      await agent.claim();
      expect((await agent.read()).unconfirmed).toBeUndefined();
    });

    describe("ends the same whatever the order", () => {
      const unlabelled = object.namespace("shop", {});
      const steps: Readonly<Record<string, () => Promise<unknown>>> = {
        namespace: () => apply(shop),
        pod: () => apply(own, remote),
        "EgressIP's node": () => apply(web),
        node: () => api.objects.patch(object.node("node2", ""), { metadata: { labels: { rack: "2" } } }),
      };
      const orders = (names: readonly string[]): readonly (readonly string[])[] =>
        names.length < 2
          ? [names]
          : names.flatMap((name) =>
              orders(names.filter((other) => other !== name)).map((rest) => [name, ...rest]),
            );

      it("of labels of namespaces and pods, assignments and nodes", async () => {
        const asked = orders(Object.keys(steps));
        expect(asked).toHaveLength(24);
        await using agent = await source();
        await agent.begin();
        for (const order of asked) {
          await apply(
            unlabelled,
            object.egressIP("web", { "172.18.0.50": "node2" }),
            object.pod("a", "10.244.1.3", { labels: { app: "other" } }),
            object.pod("b", "10.244.2.3", { node: "node2", labels: { app: "other" } }),
          );
          await agent.claim();
          for (const name of order) await steps[name]?.();
          await agent.claim(...both);
        }
      });
    });

    it("gives a pod that is made again under its name its new address, and the old one nothing (BL-03)", async () => {
      await using agent = await source();
      await apply(web, own);
      await agent.begin();
      await agent.claim("10.244.1.3 a");
      await api.objects.remove(own);
      await apply(object.pod("a", "10.244.1.7"));
      await agent.claim("10.244.1.7 a");
    });

    it("finds out about that by a list, too, where the watch told of nothing and history was forgotten", async () => {
      await using agent = await source();
      await apply(web, own, remote);
      await agent.begin();
      await agent.claim(...both);
      await proxy.lines.refuse();
      await api.objects.remove(own);
      await api.objects.remove(remote);
      await apply(object.pod("a", "10.244.1.7"));
      await api.compact();
      await api.restart();
      await proxy.lines.accept();
      await agent.claim("10.244.1.7 a");
      expect((await agent.read()).unconfirmed).toBeUndefined();
    });

    it("serves a pod that has completed no longer, nor one that waits to be deleted and has (BL-02)", async () => {
      await using agent = await source();
      await apply(web, own, remote);
      await agent.begin();
      await agent.claim(...both);
      await api.objects.patchStatus(own, { phase: "Succeeded" });
      await agent.claim("10.244.2.3 b");
      await apply(object.pod("c", "10.244.1.3", { labels: { app: "other" } }));
      await agent.end();
      await agent.begin();
      await agent.claim("10.244.2.3 b");
    });

    it("keeps the address of a running pod that its status does not have for a moment (BL-15)", async () => {
      await using agent = await source();
      await apply(web, own);
      await agent.begin();
      await agent.claim("10.244.1.3 a");
      const { metadata } = await api.objects.patchStatus(own, { podIP: null, podIPs: null });
      await agent.when(
        () => BigInt(agent.input.versions()?.Pod ?? 0) >= BigInt(String(metadata["resourceVersion"])),
        "the pod without an address was told of",
      );
      await agent.claim("10.244.1.3 a");
      await api.objects.patchStatus(own, { podIP: "10.244.1.8", podIPs: [{ ip: "10.244.1.8" }] });
      await agent.claim("10.244.1.8 a");
    });

    it("serves nothing of a namespace that is deleted", async () => {
      await using agent = await source();
      await apply(web, own, remote);
      await agent.begin();
      await agent.claim(...both);
      await api.objects.remove(shop);
      await agent.claim();
      await apply(shop, own, remote);
      await agent.claim(...both);
    });

    it("goes on with the last good state while the server is away, and with the server when it is back", async () => {
      await using agent = await source();
      await apply(web, own, remote);
      await agent.begin();
      await agent.claim(...both);
      await agent.end();
      await proxy.lines.refuse();
      await agent.begin({ firstWaitMs: 100 });
      await agent.claim(...both);
      const { unconfirmed, problems } = await agent.read();
      expect(unconfirmed).toMatchObject({ assignments: false });
      expect(problems[0]?.text).toMatch(/ECONNREFUSED|not listed/);
      expect(agent.input.told().ready).toBe(false);
      await apply(object.egressIP("web", { "172.18.0.50": "node2" }));
      await proxy.lines.accept();
      const objects = await agent.when((now) => now.unconfirmed === undefined, "confirmed");
      expect([...objects.egressIPs.values()][0]?.assignments[0]?.node).toBe("node2");
      expect(agent.input.told().ready).toBe(true);
    });

    it("cannot be read at a start without pods, and leaves the last good ones where there are any (BL-91 ii)", async () => {
      await apply(web, own, remote);
      proxy.fault = ({ resource }) => (resource === "pods" ? { status: 403 } : undefined);
      await using agent = await source();
      await agent.begin({ firstWaitMs: 100 });
      await expect(agent.read()).rejects.toThrow(/pods not listed.*403|pods not listed/);
      proxy.fault = () => undefined;
      await agent.claim(...both);
      await agent.end();
      proxy.fault = ({ resource }) => (resource === "pods" ? { status: 403 } : undefined);
      await agent.begin({ firstWaitMs: 100 });
      await agent.claim(...both);
      const { unconfirmed } = await agent.when(
        (now) => now.unconfirmed?.assignments === true,
        "all but pods",
      );
      expect(unconfirmed?.why).toMatch(/^pods: not listed since the agent started: .*(403|refuses)/);
    });

    it("takes nothing for gone that an empty answer leaves out, before a second one does too (BL-91 iv)", async () => {
      await using agent = await source();
      await apply(web, own, remote);
      await agent.begin();
      await agent.claim(...both);
      await agent.end();
      proxy.fault = ({ verb }) => (verb === "list" ? "empty" : undefined);
      await agent.begin({ firstWaitMs: 0, confirmMs: 5_000 });
      await agent.when(
        ({ unconfirmed }) => /egressips: the list is empty/.test(unconfirmed?.why ?? ""),
        "doubt",
      );
      await agent.claim(...both);
      proxy.fault = () => undefined;
      const objects = await agent.when((now) => now.unconfirmed === undefined, "confirmed");
      expect(objects.egressIPs.size).toBe(1);
      await agent.claim(...both);
    });

    it("believes a server that went back to older data, after it said so twice", async () => {
      await using agent = await source();
      await apply(web, own, remote);
      const saved = await api.saveData();
      await agent.begin({ confirmMs: 1_000 });
      await agent.claim(...both);
      await apply(object.egressIP("web", { "172.18.0.50": "node2" }));
      // A server that starts writes a little of its own: it must not have come as far again by then.
      for (let times = 0; times < 300; times++)
        await api.objects.patch(web, { metadata: { labels: { times: String(times) } } });
      await agent.when(
        ({ egressIPs }) => egressIPs.get("web")?.assignments[0]?.node === "node2",
        "moved to node2",
      );
      await api.restoreData(saved);
      const doubted = await agent.when(({ unconfirmed }) => unconfirmed !== undefined, "doubt");
      expect(doubted.unconfirmed?.why).toMatch(/older data/);
      expect(doubted.egressIPs.get("web")?.assignments[0]?.node).toBe("node2");
      await agent.when(
        ({ egressIPs, unconfirmed }) =>
          unconfirmed === undefined && egressIPs.get("web")?.assignments[0]?.node === "node1",
        "as it was saved",
      );
    });

    it("asks for all pods only where an egress IP is held: in one list and watch, as for its own", async () => {
      await using agent = await source();
      await apply(object.egressIP("web", { "172.18.0.50": "node2" }), own, remote);
      const asked = () => {
        const all = proxy.calls
          .splice(0)
          .filter(({ resource, query }) => resource === "pods" && query.get("limit") !== "1");
        return all.map(({ verb, query }) => `${verb} ${query.get("fieldSelector") ?? "all"}`);
      };
      asked();
      await agent.begin();
      await agent.when(({ unconfirmed }) => unconfirmed === undefined, "read");
      await agent.when(() => proxy.count("watch", "pods") > 0, "watched");
      // A server that knows WatchList is asked for nothing but that.
      const narrow = asked();
      expect([...new Set(narrow.map((call) => call.split(" ")[1]))]).toEqual(["spec.nodeName=node1"]);
      expect(narrow.length).toBeLessThanOrEqual(3);
      await apply(web);
      await agent.claim(...both);
      await agent.when(() => proxy.count("watch", "pods") > 0, "watched");
      const wide = asked();
      expect(wide.every((call) => call.endsWith(" all"))).toBe(true);
      expect(wide.length).toBeLessThanOrEqual(3);
    });

    it("is asked little for a kind that it does not know, which is followed when its CRD is there", async () => {
      await using agent = await source();
      await apply(web, own, remote);
      await api.objects.remove(egressIPDefinition);
      await agent.begin();
      const objects = await agent.when(({ egressIPs }) => egressIPs.size === 0, "read without the kind");
      expect(objects.unconfirmed?.why).toMatch(/^egressips: the server does not know this kind/);
      expect(agent.input.told().ready).toBe(true);
      await apply(egressIPDefinition, web);
      await agent.claim(...both);
      await agent.when(({ unconfirmed }) => unconfirmed === undefined, "confirmed");
    });
  },
);

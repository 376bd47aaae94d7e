// Which EgressIP counts for a pod: one total order, whatever the order of arrival, and work only for what changed.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type EgressIP, type KubernetesObject, keyOf, type Pod } from "../../../agent/model/objects.ts";
import { addressesOf, inOrder, selectFor } from "../../../agent/model/selection.ts";
import { entriesOf, getFrom, withEntries } from "../../../agent/model/shards.ts";
import { cidr, egressIP, namespace, node, objects, pod } from "../make.ts";

function selected(of: string, ...all: readonly KubernetesObject[]) {
  const { egressIPs, namespaces, nodes, pods } = objects(...all);
  const select = selectFor("node1", [...egressIPs.values()], namespaces, nodes);
  const found = getFrom(select(pods), `Pod/${of}`);
  return found === undefined ? "none" : [found.by, ...found.others].map(({ name }) => name).join(" > ");
}

const shop = namespace("shop", { team: "web" });
const at = { "172.18.0.50": "node1" };
const web = pod("shop/web", ["10.244.1.3"], { labels: { app: "web" } });

describe("selection", () => {
  it.each<[string, Partial<EgressIP>, Partial<Pod>, string]>([
    ["everything selected by empty selectors", {}, {}, "a"],
    [
      "a namespace's label",
      { namespaceSelector: [{ key: "team", operator: "In", values: ["web"] }] },
      {},
      "a",
    ],
    [
      "another label of the namespace",
      { namespaceSelector: [{ key: "team", operator: "In", values: ["db"] }] },
      {},
      "none",
    ],
    [
      "an expression without values (BL-09)",
      { namespaceSelector: [{ key: "tier", operator: "Exists" }] },
      {},
      "none",
    ],
    ["a pod's label", { podSelector: [{ key: "app", operator: "In", values: ["web"] }] }, {}, "a"],
    ["the lack of a label (BL-08)", { podSelector: [{ key: "app", operator: "DoesNotExist" }] }, {}, "none"],
    ["a pod on the host's network (BL-17)", {}, { hostNetwork: true }, "none"],
    ["a pod that has ended (BL-02)", {}, { finished: true }, "none"],
    ["a pod without an address", {}, { addresses: [] }, "none"],
    ["a pod elsewhere whose egress IP is here", {}, { node: "node2" }, "a"],
    ["a pod elsewhere whose egress IP is elsewhere", { assignments: [] }, { node: "node2" }, "none"],
    ["a pod here whose egress IP is elsewhere", { assignments: [] }, {}, "a"],
    ["a pod of a namespace that is not known", {}, { namespace: "gone" }, "none"],
    ["a pod with a node's address (BL-17)", {}, { addresses: ["172.18.0.12"] }, "none"],
  ])("%s", (_, of, ofPod, expected) => {
    const changed = pod("shop/web", ["10.244.1.3"], { labels: { app: "web" }, ...ofPod });
    const other = node("node2", { internalAddresses: ["172.18.0.12"], hostCidrs: [cidr("10.10.10.12/24")] });
    expect(selected(`${changed.namespace}/web`, egressIP("a", { at, ...of }), shop, changed, other)).toBe(
      expected,
    );
  });

  it.each([
    ["the older", { created: "2026-01-02T00:00:00Z" }, { created: "2026-01-01T00:00:00Z" }, "b > a"],
    ["of one age the lower UID", { uid: "2" }, { uid: "1" }, "b > a"],
    ["of one UID the lower name", { uid: "1" }, { uid: "1" }, "a > b"],
    ["one whose age is unknown", { created: "2020-01-01T00:00:00Z" }, { created: "" }, "b > a"],
  ])("counts %s, whatever the order they come in (BL-29)", (_, a, b, expected) => {
    const [first, second] = [egressIP("a", { at, ...a }), egressIP("b", { at, ...b })];
    expect(selected("shop/web", first, second, shop, web)).toBe(expected);
    expect(selected("shop/web", second, first, shop, web)).toBe(expected);
  });

  const anyEgressIP = fc
    .record({
      name: fc.constantFrom("a", "b", "c", "d"),
      uid: fc.constantFrom("", "1", "2"),
      created: fc.constantFrom("", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
    })
    .map(({ name, ...of }) => egressIP(name, of));

  it("has a total order: no two tie, and no three go round", () => {
    fc.assert(
      fc.property(anyEgressIP, anyEgressIP, anyEgressIP, (a, b, c) => {
        expect(inOrder(a, b)).toBe(-inOrder(b, a) + 0);
        if (inOrder(a, b) === 0) expect(a.name).toBe(b.name);
        if (inOrder(a, b) < 0 && inOrder(b, c) < 0) expect(inOrder(a, c)).toBeLessThan(0);
      }),
    );
  });

  it("lets the next one take over when the first is gone, and nobody else moves", () => {
    const first = egressIP("a", { at, created: "2026-01-01T00:00:00Z" });
    const second = egressIP("b", { at, created: "2026-01-02T00:00:00Z" });
    expect(selected("shop/web", first, second, shop, web)).toBe("a > b");
    expect(selected("shop/web", second, shop, web)).toBe("b");
  });
});

describe("the memory of a selection", () => {
  const many = Array.from({ length: 2000 }, (_, n) => pod(`shop/web-${n}`, [`10.244.${n >> 8}.${n & 255}`]));
  const { egressIPs, namespaces, nodes, pods } = objects(egressIP("a", { at }), shop, ...many);

  /** A pod that counts how often somebody asks for its namespace: the first thing a selection needs to know. */
  function watched(of: Pod, asked: { times: number }): Pod {
    return Object.defineProperty({ ...of }, "namespace", {
      enumerable: true,
      get: () => {
        asked.times++;
        return of.namespace;
      },
    });
  }

  it("looks at one shard only when one pod changed", () => {
    const asked = { times: 0 };
    const watchedPods = withEntries(
      pods,
      many.map((of) => [keyOf(of), watched(of, asked)] as const),
    );
    const select = selectFor("node1", [...egressIPs.values()], namespaces, nodes);
    const first = select(watchedPods);
    expect(asked.times).toBe(2000);
    asked.times = 0;
    expect(select(watchedPods)).toBe(first);
    expect(asked.times).toBe(0);
    const added = watched(pod("shop/new", ["10.244.9.9"]), asked);
    const second = select(withEntries(watchedPods, [["Pod/shop/new", added]]));
    expect(asked.times).toBeLessThan(12); // the shard's pods: about two, and the new one
    expect(second.shards.filter((shard, index) => shard !== first.shards[index])).toHaveLength(1);
    expect(getFrom(second, "Pod/shop/new")?.by.name).toBe("a");
  });

  it("never changes what is selected", () => {
    const key = fc.constantFrom(...many.slice(0, 30).map(keyOf));
    const step = fc.array(fc.tuple(key, fc.constantFrom("gone", "ended", "there")), { maxLength: 5 });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 6 }), (history) => {
        const remembering = selectFor("node1", [...egressIPs.values()], namespaces, nodes);
        let current = pods;
        for (const changes of history) {
          const entries = changes.map(([of, what]) => {
            const before = getFrom(pods, of) as Pod;
            return [of, what === "gone" ? undefined : { ...before, finished: what === "ended" }] as const;
          });
          current = withEntries(current, entries);
          const fresh = selectFor("node1", [...egressIPs.values()], namespaces, nodes);
          expect(new Map(entriesOf(remembering(current)))).toEqual(new Map(entriesOf(fresh(current))));
        }
      }),
      { numRuns: 20 },
    );
  });
});

describe("addressesOf", () => {
  it.each([
    [["172.18.0.50"], ["10.244.1.3"]],
    [["fd00::50"], ["fd00:10:244:1::3"]],
    [
      ["172.18.0.50", "fd00::50"],
      ["10.244.1.3", "fd00:10:244:1::3"],
    ],
    [[], []],
  ])("of an EgressIP that asks for %j are %j", (requested, expected) => {
    const both = pod("shop/web", ["10.244.1.3", "fd00:10:244:1::3"]);
    expect(addressesOf({ pod: both, by: egressIP("a", { requested }), others: [] })).toEqual(expected);
  });
});

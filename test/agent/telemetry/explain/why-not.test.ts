// Why a pod has no egress IP: every reason that `explain` knows comes of the objects that it is for, names the object that is to be put
// right, and says what to do; a pod that has its egress IP has none. In: objects and predicted facts. No host.
import { describe, expect, it } from "vitest";
import type { Objects } from "../../../../agent/model/build.ts";
import type { HostFacts } from "../../../../agent/model/facts.ts";
import {
  EXPLANATION_VERSION,
  type Explanation,
  type Reason,
  type WhyNot,
} from "../../../../agent/telemetry/explain/account.ts";
import { explain } from "../../../../agent/telemetry/explain/explain.ts";
import { parseQuestion, type Words } from "../../../../agent/telemetry/explain/question.ts";
import { hostFacts, loadScenarios } from "../../../support/scenario.ts";
import { createPlayer } from "../../../support/scenario-run.ts";
import { egressIP, namespace, node, node1, node2, objects, pod, settings } from "../../make.ts";

const [plain] = loadScenarios().filter(({ hostScript }) => hostScript === undefined);
if (plain === undefined) throw new Error("no scenario is of the lab as it is");
const labHost = hostFacts(plain);
const app = (value: string) => [{ key: "app", operator: "In", values: [value] }] as const;
const given = { "10.10.10.50": "node1" };
const web = egressIP("web", { at: given });
const shop = namespace("shop", { env: "prod" });
const a = pod("shop/a", ["10.244.1.3"], { labels: { app: "web" } });
const doubt = { since: "2026-01-01T00:00:00Z", why: "nobody answers", assignments: false };
const cluster = [node1, node2, shop];

/** Asks once all that can be done for these objects is done. */
async function asked(
  all: Objects,
  words: Words = { name: "shop/a" },
  from: HostFacts = labHost,
): Promise<Explanation> {
  const player = createPlayer(settings);
  let round = await player(all, from);
  for (let more = 0; more < 2; more++) round = await player(all, round.outcome.facts);
  return explain(parseQuestion(words), {
    node: settings.node,
    round,
    look: () => Promise.resolve({ facts: round.outcome.facts, neighbours: [], foreign: [] }),
    others: () => Promise.resolve(undefined),
  });
}

interface Case {
  readonly all: Objects;
  readonly object: string;
  readonly says: RegExp;
  readonly remedy: RegExp;
  /** How a packet of the pod ends all the same; missing where it has none. */
  readonly ends?: string;
}

/** One for each Reason: a new one does not compile before it is here. */
const cases: Readonly<Record<Reason, Case>> = {
  "unknown pod": {
    all: objects(...cluster, web),
    object: "Pod/shop/a",
    says: /no pod of this name/,
    remedy: /NAMESPACE\/NAME/,
  },
  "host network": {
    all: objects(...cluster, web, { ...a, addresses: ["172.18.0.11"], hostNetwork: true }),
    object: "Pod/shop/a",
    says: /host's network/,
    remedy: /hostNetwork/,
    ends: "leaves",
  },
  finished: {
    all: objects(...cluster, web, { ...a, finished: true }),
    object: "Pod/shop/a",
    says: /has ended/,
    remedy: /a pod that runs/,
    ends: "leaves",
  },
  "no address": {
    all: objects(...cluster, web, { ...a, addresses: [], running: false, node: "" }),
    object: "Pod/shop/a",
    says: /no address yet, and no node/,
    remedy: /kubectl get pod -n shop a /,
  },
  "node's address": {
    all: objects(...cluster, web, { ...a, addresses: ["172.18.0.12"] }),
    object: "Pod/shop/a",
    says: /172\.18\.0\.12 is also an address of node node2/,
    remedy: /given twice/,
    ends: "leaves",
  },
  "namespace unknown": {
    all: objects(node1, node2, web, a),
    object: "Namespace/shop",
    says: /no Namespace shop/,
    remedy: /Namespace of shop\/a/,
    ends: "leaves",
  },
  "namespace not selected": {
    all: objects(
      ...cluster,
      egressIP("web", { at: given, namespaceSelector: [{ key: "env", operator: "In", values: ["test"] }] }),
      a,
    ),
    object: "EgressIP/web",
    says: /namespaces with env=test, shop has env=prod/,
    remedy: /kubectl label namespace shop env=test/,
    ends: "leaves",
  },
  "pod not selected": {
    all: objects(
      ...cluster,
      // Further away by a namespace that is not meant: not the one to be named.
      egressIP("other", {
        at: { "10.10.10.51": "node1" },
        namespaceSelector: [{ key: "env", operator: "In", values: ["test"] }],
      }),
      egressIP("web", { at: given, podSelector: app("billing") }),
      a,
    ),
    object: "EgressIP/web",
    says: /nearest is web: it asks for pods with app=billing, this one has app=web/,
    remedy: /kubectl label pod -n shop a app=billing/,
    ends: "leaves",
  },
  "no EgressIP": {
    all: objects(...cluster, a),
    object: "Pod/shop/a",
    says: /no EgressIP at all/,
    remedy: /kubectl get egressips/,
    ends: "leaves",
  },
  "refused object": {
    all: {
      ...objects(...cluster, a),
      problems: [{ object: "EgressIP/bad", path: "spec.egressIPs[0]", text: "is no address" }],
    },
    object: "EgressIP/bad",
    says: /bad was left out, whatever it selects: spec\.egressIPs\[0\] is no address/,
    remedy: /kubectl edit egressip bad/,
    ends: "leaves",
  },
  "address claimed twice": {
    all: objects(...cluster, web, a, pod("shop/0", a.addresses)),
    object: "Pod/shop/a",
    says: /10\.244\.1\.3 is also the address of pod shop\/0, which counts/,
    remedy: /given twice/,
    ends: "leaves",
  },
  "no address of this family": {
    all: objects(...cluster, egressIP("web", { at: { "fd00:10:10::50": "node1" } }), a),
    object: "EgressIP/web",
    says: /web has no IPv4 address/,
    remedy: /spec\.egressIPs of web/,
    ends: "leaves",
  },
  "not assigned": {
    all: objects(...cluster, egressIP("web", { requested: ["10.10.10.50"] }), a),
    object: "EgressIP/web",
    says: /no node has an IPv4 address of web/,
    remedy: /kubectl describe egressip web/,
    ends: "held back",
  },
  "assigned elsewhere": {
    all: objects(...cluster, egressIP("web", { at: { "10.10.10.50": "node2" } }), a),
    object: "EgressIP/web",
    says: /10\.10\.10\.50 is for node2 to give; this is node1/,
    remedy: /on node2/,
    ends: "held back",
  },
  "cannot be given": {
    all: objects(...cluster, egressIP("web", { at: { "192.0.2.50": "node1" } }), a),
    object: "EgressIP/web",
    says: /192\.0\.2\.50 cannot be given here: ./,
    remedy: /put right what that says/,
    ends: "held back",
  },
  "node leaves": {
    all: objects(node("node1", { ...node1, leaving: "taint" }), node2, shop, web, a),
    object: "Node/node1",
    says: /gives nothing: node node1 is leaving \(taint\)/,
    remedy: /take the sign back/,
    ends: "held back",
  },
  unconfirmed: {
    all: {
      ...objects(...cluster, web, a),
      unconfirmed: doubt,
    },
    object: "Pod/shop/a",
    // It was never given: rules and entries are made, the address is not taken.
    says: /since 2026-01-01T00:00:00Z nobody confirms the objects \(nobody answers\)/,
    remedy: /kubernetes in status/,
    ends: "leaves",
  },
};

describe("a pod that has no egress IP is told why", () => {
  it.each(Object.entries(cases) as [Reason, Case][])(
    "%s",
    async (reason, { all, object, says, remedy, ends }) => {
      const { whyNot, accounts } = await asked(all);
      const found: WhyNot | undefined = whyNot.find((each) => each.reason === reason);
      expect(whyNot.map((each) => each.reason)).toContain(reason);
      expect(found).toMatchObject({
        object,
        text: expect.stringMatching(says),
        remedy: expect.stringMatching(remedy),
      });
      expect(accounts[0]?.verdict.outcome).toBe(ends);
    },
  );
});

describe("a pod that has its egress IP", () => {
  it("is told that, and no reason; of labels it is told who loses", async () => {
    const late = egressIP("late", { at: { "10.10.10.51": "node1" }, created: "2026-02-01T00:00:00Z" });
    const { whyNot, accounts, version, node: by, asked: as } = await asked(objects(...cluster, web, late, a));
    expect([version, by, as]).toEqual([EXPLANATION_VERSION, "node1", "pod shop/a"]);
    expect(whyNot).toEqual([]);
    const [account] = accounts;
    expect(account?.verdict).toMatchObject({ outcome: "leaves", source: "10.10.10.50", egressIP: "web" });
    expect(account?.steps.map(({ step }) => step)).toEqual([
      ...["selector", "selector", "assignment", "set", "rule", "route", "guard"],
      ...["snat", "leak-guard", "link", "neighbour"],
    ]);
    expect(account?.steps[1]?.verdict).toMatch(/loses: web is older/);
  });

  it("has it also while nobody confirms that it is to", async () => {
    const all = { ...objects(...cluster, web, a), unconfirmed: doubt };
    const given = await createPlayer(settings)(objects(...cluster, web, a), labHost);
    const { whyNot, notes, accounts } = await asked(all, undefined, given.outcome.facts);
    expect([whyNot, accounts[0]?.verdict.egressIP, accounts[0]?.verdict.at]).toEqual([[], "web", undefined]);
    expect(notes).toContainEqual(expect.stringMatching(/nobody confirms the objects/));
    const fresh = await asked(all);
    expect(fresh.accounts[0]?.verdict).toMatchObject({
      at: "address",
      remedy: expect.stringMatching(/kubernetes/),
    });
  });

  it("is not said to have one where it leaves as the node, whose address an EgressIP asks for", async () => {
    const own = egressIP("own", { at: { "172.18.0.11": "node1" }, podSelector: app("billing") });
    const [account] = (await asked(objects(...cluster, own, a))).accounts;
    expect(account?.verdict).toMatchObject({ outcome: "leaves", source: "172.18.0.11" });
    expect(account?.verdict.egressIP).toBeUndefined();
  });

  it("is found by its address, and by where a packet comes from", async () => {
    const all = objects(...cluster, web, a);
    const whole = await asked(all);
    for (const words of [
      { name: "10.244.1.3" },
      { kind: "packet", from: "shop/a", to: "198.51.100.80" },
      { kind: "packet", from: "10.244.1.3", to: "198.51.100.80" },
    ])
      expect((await asked(all, words)).accounts).toEqual(whole.accounts);
  });
});

it("nothing is known before the first round, and that is what is said", async () => {
  const { summary, accounts } = await explain(parseQuestion({ name: "shop/a" }), {
    node: "node1",
    round: undefined,
    look: () => Promise.reject(new Error("nobody is to look")),
    others: () => Promise.resolve(undefined),
  });
  expect([summary, accounts]).toEqual(["no round has been completed yet: ask again in a moment", []]);
});

it("a host that cannot be looked at is told as the last round found it, with a note", async () => {
  const round = await createPlayer(settings)(objects(...cluster, web, a), labHost);
  const { notes, accounts } = await explain(parseQuestion({ name: "shop/a" }), {
    node: "node1",
    round,
    look: () => Promise.reject(new Error("ip: not there")),
    others: () => Promise.resolve(undefined),
  });
  expect(notes[0]).toMatch(/could not be looked at \(ip: not there\)/);
  expect(accounts[0]?.verdict).toMatchObject({ source: "10.10.10.50" });
});

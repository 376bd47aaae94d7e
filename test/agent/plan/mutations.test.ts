// Any damage to valid manifests: a plan is made all the same, what is wrong is said on one line, and the others are served.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { readDocuments } from "../../../agent/inputs/documents.ts";
import { parseFacts, printFacts } from "../../../agent/inputs/facts-text.ts";
import { createBuild } from "../../../agent/model/build.ts";
import type { HostFacts } from "../../../agent/model/facts.ts";
import type { Problem } from "../../../agent/model/objects.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { createBackends } from "../../../agent/sync/backends.ts";
import { carryOut } from "../../../agent/sync/round.ts";
import { bareHost, objects, settings } from "../make.ts";
import { recordingTools } from "../tools.ts";

const good = [
  {
    apiVersion: "k8s.ovn.org/v1",
    kind: "EgressIP",
    metadata: { name: "good", uid: "g", creationTimestamp: "2025-01-01T00:00:00Z" },
    spec: { egressIPs: ["172.18.0.50"], namespaceSelector: { matchLabels: { team: "good" } } },
    status: { items: [{ node: "node1", egressIP: "172.18.0.50" }] },
  },
  { apiVersion: "v1", kind: "Namespace", metadata: { name: "good", uid: "n", labels: { team: "good" } } },
  {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "good", namespace: "good", uid: "p" },
    spec: { nodeName: "node1" },
    status: { phase: "Running", podIPs: [{ ip: "10.244.1.3" }] },
  },
  {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name: "node1",
      uid: "k",
      annotations: {
        "k8s.ovn.org/node-primary-ifaddr": '{"ipv4":"172.18.0.11/24"}',
        "k8s.ovn.org/host-cidrs": '["172.18.0.11/24","10.10.10.11/24"]',
      },
    },
    status: { addresses: [{ type: "InternalIP", address: "172.18.0.11" }] },
  },
];

/** Objects that may be damaged: younger than the good one, of other names, pods and addresses. */
const others = [
  {
    apiVersion: "k8s.ovn.org/v1",
    kind: "EgressIP",
    metadata: { name: "other", uid: "o", creationTimestamp: "2026-01-01T00:00:00Z", labels: { a: "b" } },
    spec: {
      egressIPs: ["10.10.10.60", "fd00:10:10::60"],
      namespaceSelector: { matchExpressions: [{ key: "team", operator: "In", values: ["x", "y"] }] },
      podSelector: { matchLabels: { app: "web" } },
    },
    status: {
      items: [
        { node: "node1", egressIP: "10.10.10.60" },
        { node: "node2", egressIP: "fd00:10:10::60" },
      ],
    },
  },
  { apiVersion: "v1", kind: "Namespace", metadata: { name: "other", uid: "on", labels: { team: "x" } } },
  {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: "web",
      namespace: "other",
      uid: "op",
      labels: { app: "web" },
      annotations: { "k8s.ovn.org/pod-networks": '{"default":{"ip_addresses":["10.244.1.9/24"]}}' },
    },
    spec: { nodeName: "node1", hostNetwork: false },
    status: {
      phase: "Running",
      podIP: "10.244.1.9",
      podIPs: [{ ip: "10.244.1.9" }, { ip: "fd00:10:244:1::9" }],
    },
  },
  {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name: "node2",
      uid: "ok",
      annotations: {
        "k8s.ovn.org/host-cidrs": '["172.18.0.12/24"]',
        "cloud.network.openshift.io/egress-ipconfig":
          '[{"interface":"eth0","ifaddr":{"ipv4":"172.18.0.0/24"}}]',
      },
    },
    status: { addresses: [{ type: "InternalIP", address: "172.18.0.12" }] },
  },
];

type Json = unknown;

/** Every place in a value, as the keys that lead to it. */
function places(value: Json, lead: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== "object" || value === null) return [lead];
  return [lead, ...Object.entries(value).flatMap(([key, of]) => places(of, [...lead, key]))];
}

function withAt(value: Json, [key, ...rest]: readonly string[], make: (of: Json) => Json): Json {
  if (key === undefined) return make(value);
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string, Json>;
  copy[key] = withAt(copy[key], rest, make);
  if (copy[key] === undefined) delete copy[key];
  return Array.isArray(copy) ? (copy as Json[]).filter(() => true) : copy;
}

const hostile = fc.constantFrom<Json>(
  ...[
    "",
    " ",
    "a".repeat(254),
    "x\ny",
    "'; drop",
    '"',
    "$(reboot)",
    "--help",
    "-j ACCEPT",
    "../..",
    "__proto__",
    "\u202e",
    "\0",
  ],
  ...[null, true, 0, -1, 1e308, [], {}, [[]], [null], { a: { b: [] } }],
  ...[
    "0.0.0.0",
    "255.255.255.255",
    "::",
    "::ffff:1.2.3.4",
    "fe80::1",
    "172.18.0.11",
    "172.18.0.12",
    "10.10.10.60/32",
    "010.10.10.60",
  ],
  ...["node1", "node2", "In", "NotIn", "Exists", "Running", "Failed", "EgressIP", "Node", "v1", "List"],
  ...["{", "[]", '{"default":null}', "[null]", "2026-13-01", "not-a-time"],
);
const damage = fc.oneof(
  { weight: 4, arbitrary: hostile.map((value) => () => value) },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }).map((value) => () => value) },
  { weight: 1, arbitrary: fc.constant((): Json => undefined) },
  { weight: 1, arbitrary: fc.constant((of: Json): Json => [of, of]) },
  { weight: 1, arbitrary: fc.constant((of: Json): Json => ({ x: of })) },
);

/** One to four damages anywhere in the other objects. */
const damaged: fc.Arbitrary<readonly Json[]> = fc
  .array(fc.tuple(fc.nat({ max: others.length - 1 }), fc.nat(), damage), { minLength: 1, maxLength: 4 })
  .map((damages) =>
    damages.reduce<readonly Json[]>((all, [which, where, make]) => {
      const found = places(all[which]);
      return all.with(which, withAt(all[which], found[where % found.length] ?? [], make));
    }, others),
  );

async function planOf(
  ...files: readonly string[]
): Promise<{ readonly problems: readonly Problem[]; readonly lines: readonly string[] }> {
  const placed = await Promise.all(
    files.map((text, at) =>
      readDocuments(
        `${at}.yaml`,
        Buffer.from(text),
        () => undefined,
        async () => {},
      ),
    ),
  );
  const documents = placed.flat().map(({ document }) => document);
  const byKey = new Map(
    documents.flatMap(({ entries }) => entries.map(({ key, object }) => [key, object] as const)).reverse(),
  );
  const faults = documents.flatMap(({ fault }) =>
    fault === undefined ? [] : [{ object: "file:x", path: "", text: fault.text }],
  );
  const all = {
    ...objects(...byKey.values()),
    problems: [...documents.flatMap(({ problems }) => problems), ...faults],
  };
  const snapshot = createBuild()(settings, all, bareHost);
  const plan = createMode("local").plan(snapshot);
  const outcome = await carryOut(createBackends(recordingTools()), plan, bareHost, {
    write: true,
    held: () => false,
  });
  expect(outcome.failures).toEqual([]);
  return { problems: snapshot.problems, lines: outcome.steps.flatMap(({ lines }) => lines) };
}

const text = (documents: readonly Json[]) => documents.map((document) => stringify(document)).join("---\n");

/** What the good objects get, whatever became of the others. */
function expectGoodServed(lines: readonly string[]): void {
  expect(lines).toContain("ip address replace 172.18.0.50/32 dev eth0");
  expect(lines.some((line) => line.endsWith("-j SNAT --to-source 172.18.0.50"))).toBe(true);
  expect(lines.some((line) => line.startsWith("add egressip4 10.244.1.3 skbmark "))).toBe(true);
}

function expectPlainText(problems: readonly Problem[], lines: readonly string[]): void {
  for (const { object, path, text: of } of problems) {
    expect(object).not.toBe("");
    expect(`${object} ${path}: ${of}`).toMatch(/^[\x20-\x7e]{5,}$/);
  }
  // Nothing of what came in is more than a word of what goes out.
  for (const line of lines) expect(line).toMatch(/^[\x20-\x7e]+$/);
}

function outranks(of: Json): boolean {
  const { metadata, spec } = (of ?? {}) as {
    metadata?: { creationTimestamp?: Json };
    spec?: { namespaceSelector?: Json };
  };
  const kept = JSON.stringify(spec?.namespaceSelector) === JSON.stringify(others[0]?.spec?.namespaceSelector);
  return !kept && metadata?.creationTimestamp !== others[0]?.metadata.creationTimestamp;
}

describe("damaged manifests", () => {
  it("are served in full before they are damaged", async () => {
    const { problems, lines } = await planOf(text(good), text(others));
    expect(problems.map(({ object }) => object)).toEqual([]);
    expectGoodServed(lines);
    expect(lines).toContain("ip address replace 10.10.10.60/32 dev eth1");
    expect(lines.some((line) => line.startsWith("add egressip4 10.244.1.9 skbmark "))).toBe(true);
  });

  it("never keep a plan from being made, nor the others from being served", async () => {
    await fc.assert(
      fc.asyncProperty(damaged, async (documents) => {
        const { problems, lines } = await planOf(text(good), text(documents));
        expectPlainText(problems, lines);
        // It may have become one of the good ones by name or address, or an older one that selects their pods as well.
        const words = JSON.stringify(documents)
          .replace('"nodeName":"node1"', "")
          .replace('"node":"node1"', "");
        const clash = /good|10\.244\.1\.3|172\.18\.0\.50|node1/.test(words) || outranks(documents[0]);
        if (!clash) expectGoodServed(lines);
      }),
      { numRuns: 400 },
    );
  });

  it("may be no YAML at all, at any byte", async () => {
    const whole = text(others);
    const edit = fc.record({
      at: fc.nat({ max: whole.length }),
      cut: fc.nat({ max: 20 }),
      put: fc.oneof(
        fc.constantFrom(
          "{",
          "}",
          "[",
          ":",
          "- ",
          "\t",
          "&a",
          "*a",
          "!!binary ",
          "|",
          ">",
          "---\n",
          "%YAML 9\n",
          "\0",
          "\ufeff",
          "'",
          '"',
          "? ",
        ),
        fc.string(),
      ),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(edit, { minLength: 1, maxLength: 3 }), async (edits) => {
        const broken = edits.reduce(
          (of, { at, cut, put }) => of.slice(0, at) + put + of.slice(at + cut),
          whole,
        );
        const { problems, lines } = await planOf(text(good), broken);
        expectPlainText(problems, lines);
        expectGoodServed(lines);
      }),
      { numRuns: 400 },
    );
  });
});

describe("host facts as text", () => {
  it("are read back as they were printed", () => {
    const facts: HostFacts = bareHost;
    expect(parseFacts(printFacts(facts))).toEqual(facts);
  });
});

// Objects written as a folder are read back as they were decoded, wrong ones included, without anything that is nobody's business.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openFiles } from "../../../../agent/inputs/files.ts";
import type { Kind } from "../../../../agent/inputs/kubernetes/kinds.ts";
import { cutDown, filesOf } from "../../../../agent/inputs/kubernetes/recorded.ts";
import { decode } from "../../../../agent/model/decode.ts";
import { keyOf } from "../../../../agent/model/objects.ts";
import { loadScenarios } from "../../../support/scenario.ts";

type Raw = Readonly<Record<string, unknown>>;

function grouped(all: readonly Raw[]): Map<Kind, Map<string, Raw>> {
  const groups = new Map<Kind, Map<string, Raw>>(
    (["EgressIP", "Node", "Namespace", "Pod"] as const).map((kind) => [kind, new Map()]),
  );
  for (const raw of all) {
    const kind = raw["kind"] as Kind;
    const { namespace = "", name } = raw["metadata"] as {
      readonly namespace?: string;
      readonly name: string;
    };
    groups.get(kind)?.set(`${namespace}/${name}`, cutDown(kind, raw));
  }
  return groups;
}

async function readBack(files: ReadonlyMap<string, string>) {
  const folder = await mkdtemp(join(tmpdir(), "egressip-recorded-"));
  try {
    for (const [name, text] of files) await writeFile(join(folder, name), text);
    const source = openFiles(folder, { onChange: () => {} });
    const { objects, problems } = await source.read();
    source.close();
    return { objects: new Map(objects), problems };
  } finally {
    await rm(folder, { recursive: true });
  }
}

it("reads back what every scenario has, with its problems", async () => {
  for (const scenario of loadScenarios())
    for (const { manifests } of scenario.steps) {
      const raws = [...manifests.values()] as readonly Raw[];
      const decoded = raws.map((raw) => decode(raw));
      const { objects, problems } = await readBack(filesOf(grouped(raws)));
      expect(objects).toEqual(
        new Map(decoded.flatMap(({ object }) => (object === undefined ? [] : [[keyOf(object), object]]))),
      );
      const texts = (all: readonly { readonly object: string; readonly text: string }[]) =>
        all.map(({ object, text }) => `${object} ${text}`).sort();
      expect(texts(problems)).toEqual(texts(decoded.flatMap((of) => of.problems)));
    }
});

it("keeps what is wrong as it is, and text that looks like something else", async () => {
  const node = {
    kind: "Node",
    metadata: {
      name: "node1",
      labels: { a: "yes", b: "0x10", c: "2026-01-01", d: "null", e: "1e3", f: "" },
      annotations: { "k8s.ovn.org/host-cidrs": '["not an address"', "k8s.ovn.org/zone-name": "on" },
    },
    status: { addresses: [{ type: "InternalIP", address: "172.18.0.11" }] },
  };
  const pod = {
    kind: "Pod",
    metadata: { name: "a", namespace: "shop", labels: { app: "no", "x/y": "1.0" } },
    spec: { nodeName: "node1", hostNetwork: "true" },
    status: { phase: "Running", podIPs: [{ ip: "10.244.1.3" }] },
  };
  const other = {
    ...pod,
    metadata: { name: "b", namespace: "shop" },
    spec: { nodeName: "Node 1" },
    status: { phase: "Running", podIPs: [{ ip: "10.244.1.300" }, { ip: 7 }] },
  };
  const raws = [node, pod, other].map((raw) => ({ apiVersion: "v1", ...raw }));
  const { objects, problems } = await readBack(filesOf(grouped(raws)));
  const decoded = raws.map((raw) => decode(raw));
  expect([...objects.values()]).toEqual(decoded.map(({ object }) => object));
  expect(problems).toHaveLength(decoded.flatMap((of) => of.problems).length);
  expect(problems.length).toBeGreaterThan(3);
});

it("has none of the secrets that objects carry, and is as kubectl prints it, whatever the order", () => {
  const pod = (name: string) => ({
    kind: "Pod",
    apiVersion: "v1",
    metadata: {
      name,
      namespace: "shop",
      uid: `uid-${name}`,
      annotations: { token: "SECRET", "kubectl.kubernetes.io/last-applied-configuration": "SECRET" },
      managedFields: [{ manager: "SECRET" }],
      ownerReferences: [{ name: "SECRET" }],
      labels: { app: "web" },
      creationTimestamp: "2026-01-02T03:04:05Z",
    },
    spec: {
      nodeName: "node1",
      containers: [{ env: [{ name: "PASSWORD", value: "SECRET" }] }],
      volumes: ["SECRET"],
    },
    status: { phase: "Running", podIPs: [{ ip: "10.244.1.3" }], message: "SECRET" },
  });
  const files = filesOf(grouped([pod("b"), pod("a")]));
  expect(files).toEqual(filesOf(grouped([pod("a"), pod("b")])));
  expect([...files.keys()]).toEqual(["egressips.yaml", "nodes.yaml", "namespaces.yaml", "pods.yaml"]);
  const text = files.get("pods.yaml") ?? "";
  expect(text).not.toContain("SECRET");
  expect(text.split("- apiVersion")[1]).toBe(`: v1
  kind: Pod
  metadata:
    creationTimestamp: "2026-01-02T03:04:05Z"
    labels:
      app: web
    name: a
    namespace: shop
    uid: uid-a
  spec:
    nodeName: node1
  status:
    phase: Running
    podIPs:
    - ip: 10.244.1.3
`);
  expect(files.get("egressips.yaml")).toBe(
    'apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: ""\n',
  );
});

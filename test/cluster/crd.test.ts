// The kind EgressIP as packaging/kubernetes defines it, on a real API server: what it takes, what it refuses, and how it reads.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiServer } from "../cluster-lab/api-server.ts";
import { type KubeObject, Refusal, readManifests } from "../cluster-lab/objects.ts";
import { noKubePrograms } from "../support/kube-programs.ts";

const missing = noKubePrograms();
const packaging = join(import.meta.dirname, "../../packaging");

interface Table {
  readonly columnDefinitions: readonly { readonly name: string }[];
  readonly rows: readonly { readonly cells: readonly unknown[] }[];
}

describe.skipIf(missing !== undefined)(`EgressIP${missing === undefined ? "" : `: ${missing}`}`, () => {
  let api: ApiServer;
  beforeAll(async () => {
    api = await ApiServer.up();
    await api.objects.apply(...readManifests(join(packaging, "kubernetes/crd-egressip.yaml")));
  });
  afterAll(() => api.close());

  const egressIP = (spec: object, status?: object): KubeObject => ({
    apiVersion: "k8s.ovn.org/v1",
    kind: "EgressIP",
    metadata: { name: "tried" },
    spec: { egressIPs: ["10.10.10.50"], namespaceSelector: { matchLabels: { env: "prod" } }, ...spec },
    ...(status === undefined ? {} : { status }),
  });

  it("is what the examples are, status included", async () => {
    const examples = readManifests(join(packaging, "examples/egressips.yaml"));
    const applied = await api.objects.apply(...examples);
    expect(applied).toHaveLength(2);
    for (const [index, { spec, status }] of applied.entries())
      expect({ spec, status }).toEqual({
        spec: examples[index]?.["spec"],
        status: examples[index]?.["status"],
      });
  });

  it("has no status apart, as OVN-Kubernetes': who changes it makes a new generation", async () => {
    const [before] = await api.objects.apply(egressIP({}, { items: [] }));
    const status = { items: [{ node: "node1", egressIP: "10.10.10.50" }] };
    await expect(api.objects.patchStatus(egressIP({}), status)).rejects.toMatchObject({ status: 404 });
    const after = await api.objects.patch(egressIP({}), { status });
    expect(after["status"]).toEqual(status);
    expect(after.metadata["generation"]).toBe(Number(before?.metadata["generation"]) + 1);
    await api.objects.remove(egressIP({}));
  });

  const expression = (operator: string, values?: readonly string[]) => ({
    podSelector: {
      matchExpressions: [{ key: "app", operator, ...(values === undefined ? {} : { values }) }],
    },
  });

  it.each<[string, object]>([
    ["both families", { egressIPs: ["10.10.10.50", "fd00:10:10::50"] }],
    ["no address yet", { egressIPs: [] }],
    ["every namespace", { namespaceSelector: {} }],
    ["In", expression("In", ["web"])],
    ["NotIn", expression("NotIn", ["web", "api"])],
    ["Exists", expression("Exists")],
    ["DoesNotExist with an empty list", expression("DoesNotExist", [])],
    ["newer OVN-Kubernetes' selector of traffic", { trafficSelector: { matchLabels: { to: "internet" } } }],
  ])("takes %s, and keeps it", async (_, spec) => {
    const [applied] = await api.objects.apply(egressIP(spec));
    expect(applied?.["spec"]).toEqual(egressIP(spec)["spec"]);
    await api.objects.remove(egressIP({}));
  });

  it.each<[string, object, object | undefined, RegExp]>([
    ["no addresses", { egressIPs: undefined }, undefined, /spec\.egressIPs.*required/i],
    ["no namespaces", { namespaceSelector: undefined }, undefined, /spec\.namespaceSelector.*required/i],
    [
      "an address with a prefix length",
      { egressIPs: ["10.10.10.50/24"] },
      undefined,
      /spec\.egressIPs.*"10\.10\.10\.50\/24"/,
    ],
    ["a name", { egressIPs: ["10.10.10.50", "gateway"] }, undefined, /spec\.egressIPs.*"gateway"/],
    ["a number", { egressIPs: [5] }, undefined, /spec\.egressIPs/],
    ["one address that is no list", { egressIPs: "10.10.10.50" }, undefined, /spec\.egressIPs/],
    ["In without values", expression("In"), undefined, /podSelector\.matchExpressions/],
    ["In with an empty list", expression("In", []), undefined, /podSelector\.matchExpressions/],
    ["Exists with values", expression("Exists", ["web"]), undefined, /podSelector\.matchExpressions/],
    ["an unknown operator", expression("Like", ["web"]), undefined, /podSelector\.matchExpressions/],
    [
      "a label that is none",
      { namespaceSelector: { matchLabels: { env: "a b" } } },
      undefined,
      /matchLabels/,
    ],
    ["a status without items", {}, {}, /status\.items/],
    ["an assignment to nobody", {}, { items: [{ egressIP: "10.10.10.50" }] }, /node/],
    ["an assignment of nothing", {}, { items: [{ node: "node1", egressIP: "" }] }, /egressIP/],
  ])("refuses %s, and says where", async (_, spec, status, where) => {
    const refused = await api.objects.apply(egressIP(spec, status)).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Refusal);
    expect(refused).toMatchObject({ message: expect.stringMatching(where) as string });
    expect(await api.objects.isThere(egressIP({}))).toBe(false);
  });

  it("reads well: all addresses, and all nodes with theirs", async () => {
    await api.objects.apply(...readManifests(join(packaging, "examples/egressips.yaml")));
    const path = "/apis/k8s.ovn.org/v1/egressips";
    const accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const table = (await api.objects.request("GET", path, { accept })) as Table;
    expect(table.columnDefinitions.map(({ name }) => name)).toEqual([
      ...["Name", "EgressIPs", "Assigned EgressIPs", "Age"],
    ]);
    expect(table.rows.map(({ cells }) => cells.slice(0, 3))).toEqual([
      [
        "billing",
        '["172.18.0.60","fd00:172:18::60"]',
        '[{"egressIP":"172.18.0.60","node":"node1"},{"egressIP":"fd00:172:18::60","node":"node1"}]',
      ],
      [
        "prod",
        '["10.10.10.50","fd00:10:10::50"]',
        '[{"egressIP":"10.10.10.50","node":"node1"},{"egressIP":"fd00:10:10::50","node":"node1"}]',
      ],
    ]);
  });

  it("is found by kubectl under its short name, where there is a kubectl", async ({ skip }) => {
    const kubeconfig = await api.kubeconfig("admin");
    const exec = promisify(execFile);
    const asked = exec("kubectl", [
      "--kubeconfig",
      kubeconfig,
      `--cache-dir=${api.folder}/cache`,
      "get",
      "eip",
      "prod",
    ]);
    const { stdout } = await asked.catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") skip("there is no kubectl");
      throw error;
    });
    expect(readFileSync(kubeconfig, "utf8")).toContain(api.url);
    expect(stdout).toMatch(
      /^NAME +EGRESSIPS +ASSIGNED EGRESSIPS +AGE\nprod +\["10\.10\.10\.50","fd00:10:10::50"\] +\[\{/,
    );
  });
});

// The settings in packaging/ are settings that the agent takes, and the folders it names are the ones it uses.
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { type Config, gather, OPTIONS, parseConfig, variableOf } from "../agent/config.ts";

const packaging = path.join(import.meta.dirname, "..", "packaging");
const read = (name: string) => readFileSync(path.join(packaging, name), "utf8");

/** What the agent makes of this text as its --config file. */
async function configOf(text: string, environment: Readonly<Record<string, string>> = {}): Promise<Config> {
  const folder = await mkdtemp(path.join(tmpdir(), "egressip-packaging-"));
  try {
    await writeFile(path.join(folder, "config.yaml"), text);
    return parseConfig(gather({ config: path.join(folder, "config.yaml") }, environment));
  } finally {
    await rm(folder, { recursive: true });
  }
}

interface Mount {
  readonly name: string;
  readonly mountPath: string;
}

interface Workload {
  readonly kind: string;
  readonly data: Readonly<Record<string, string>>;
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly env: readonly { readonly name: string }[];
          readonly volumeMounts: readonly Mount[];
        }[];
        readonly volumes: readonly { readonly name: string }[];
      };
    };
  };
}

describe("the DaemonSet", () => {
  const documents = parseAllDocuments(read("kubernetes/daemonset.yaml")).map((one) => one.toJS() as Workload);
  const settings = documents.find(({ kind }) => kind === "ConfigMap")?.data["config.yaml"] ?? "";
  const pod = documents.find(({ kind }) => kind === "DaemonSet")?.spec.template.spec;
  const [container] = pod?.containers ?? [];

  test("sets only variables that there are", () => {
    const names = container?.env.map(({ name }) => name) ?? [];
    expect(names).toContain("EGRESSIP_NODE");
    const known = OPTIONS.map(({ flag }) => variableOf(flag));
    expect(names.filter((name) => !known.includes(name))).toEqual([]);
  });

  test("mounts where its settings have the agent look", async () => {
    const config = await configOf(settings, { EGRESSIP_NODE: "node1" });
    const mounts = container?.volumeMounts.map(({ mountPath }) => mountPath);
    expect(mounts).toContain(config.manifests);
    expect(mounts).toContain(config.stateDirectory);
    expect(mounts).toContain(path.dirname(config.debugSocket));
  });

  test("has a volume for each mount", () => {
    const volumes = pod?.volumes.map(({ name }) => name);
    expect(container?.volumeMounts.map(({ name }) => name).sort()).toEqual(volumes?.sort());
  });
});

describe("the systemd unit", () => {
  test("has settings that the agent takes, in the folders that the unit makes", async () => {
    const config = await configOf(read("systemd/config.yaml"));
    const unit = read("systemd/egressip-agent.service");
    expect(`/var/lib/${/^StateDirectory=(.+)$/m.exec(unit)?.[1]}`).toBe(config.stateDirectory);
    expect(`/run/${/^RuntimeDirectory=(.+)$/m.exec(unit)?.[1]}`).toBe(path.dirname(config.debugSocket));
  });
});

test("the examples are YAML without an empty document", () => {
  for (const name of ["egressips", "namespaces", "nodes", "pods"]) {
    const documents = read(`examples/${name}.yaml`).split(/^---$/m);
    expect(documents.map((text) => typeof parse(text))).toEqual(documents.map(() => "object"));
  }
});

// The settings in packaging/ are settings that the agent takes, and the folders it names are the ones it uses.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { type Config, gather, OPTIONS, parseConfig, variableOf } from "../agent/config.ts";
import { flags, variables } from "./support/first-line.ts";

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

interface NamedObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly unknown[];
}

interface ConfigMap {
  readonly data: { readonly "config.yaml": string };
}

interface Workload {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly env: readonly { readonly name: string }[];
          readonly volumeMounts: readonly Mount[];
          readonly lifecycle: {
            readonly preStop: { readonly exec: { readonly command: readonly string[] } };
          };
        }[];
        readonly volumes: readonly {
          readonly name: string;
          readonly configMap?: { readonly name: string };
        }[];
        readonly serviceAccountName: string;
      };
    };
  };
}

/**
 * What a command line does where these programs say that: each is a script, and nothing else is found but what sh needs. The
 * words with which the agent was called, or none.
 */
async function drained(script: string, programs: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "egressip-packaging-"));
  try {
    const stubs = { ...programs, node: 'echo "$@"' };
    for (const [name, text] of Object.entries(stubs))
      await writeFile(path.join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    await symlink(
      spawnSync("sh", ["-c", "command -v grep"], { encoding: "utf8" }).stdout.trim(),
      path.join(folder, "grep"),
    );
    const { stdout, stderr, status } = spawnSync("/bin/sh", ["-c", script], {
      encoding: "utf8",
      env: { PATH: folder },
    });
    expect([stderr, status]).toEqual(["", 0]);
    return stdout.trim();
  } finally {
    await rm(folder, { recursive: true });
  }
}

describe("the DaemonSet", () => {
  const settings = (parse(read("kubernetes/config.yaml")) as ConfigMap).data["config.yaml"];
  const pod = (parse(read("kubernetes/daemonset.yaml")) as Workload).spec.template.spec;
  const [container] = pod.containers;

  test("sets only variables that there are", () => {
    const names = container?.env.map(({ name }) => name) ?? [];
    expect(names).toContain("EGRESSIP_NODE");
    const known = OPTIONS.map(({ flag }) => variableOf(flag));
    expect(names.filter((name) => !known.includes(name))).toEqual([]);
  });

  test("mounts where its settings have the agent look", async () => {
    const config = await configOf(settings, { EGRESSIP_NODE: "node1" });
    const mounts = container?.volumeMounts.map(({ mountPath }) => mountPath);
    expect(config.source.kind).toBe("kubernetes");
    expect(mounts).toContain(config.stateDirectory);
    expect(mounts).toContain(path.dirname(config.debugSocket));
  });

  test("has a volume for each mount", () => {
    const volumes = pod.volumes.map(({ name }) => name);
    expect(container?.volumeMounts.map(({ name }) => name).sort()).toEqual(volumes?.sort());
  });
});

describe("the kustomization", () => {
  const folder = path.join(packaging, "kubernetes");
  const { resources } = parse(read("kubernetes/kustomization.yaml")) as { readonly resources: string[] };
  const objects = resources.flatMap((name) =>
    parseAllDocuments(read(`kubernetes/${name}`)).map((one) => one.toJS() as NamedObject),
  );
  const one = (kind: string) =>
    objects.filter((object) => object.kind === kind).map(({ metadata }) => metadata.name);

  test("has every file but the kind, which most clusters have from OVN-Kubernetes", () => {
    const files = readdirSync(folder).filter((name) => name !== "kustomization.yaml");
    expect(new Set([...resources, "crd-egressip.yaml"])).toEqual(new Set(files));
  });

  test("has whom and what the DaemonSet names, in the same namespace", () => {
    const [daemonSet] = objects.filter(({ kind }) => kind === "DaemonSet") as unknown as Workload[];
    const pod = daemonSet?.spec.template.spec;
    expect(one("ServiceAccount")).toEqual([pod?.serviceAccountName]);
    expect(one("ConfigMap")).toEqual([pod?.volumes.find(({ name }) => name === "config")?.configMap?.name]);
    const inside = ["ServiceAccount", "ConfigMap", "DaemonSet"];
    for (const { kind, metadata } of objects)
      if (inside.includes(kind)) expect([metadata.namespace]).toEqual(one("Namespace"));
  });

  test("binds each role to the account, and each role is there", () => {
    const bindings = objects.filter(({ kind }) => kind.endsWith("RoleBinding"));
    expect(bindings).toHaveLength(2);
    for (const { subjects, roleRef, metadata } of bindings) {
      const account = { kind: "ServiceAccount", namespace: "egressip-agent", name: "egressip-agent" };
      expect(subjects).toEqual([account]);
      const role = objects.find(
        ({ kind, metadata: { name } }) => kind === roleRef?.kind && name === roleRef.name,
      );
      expect(role?.metadata.namespace).toBe(metadata.namespace);
    }
  });
});

describe("what is drained when something ends (BL-38)", () => {
  const { containers } = (parse(read("kubernetes/daemonset.yaml")) as Workload).spec.template.spec;
  const [, , script = ""] = containers[0]?.lifecycle.preStop.exec.command ?? [];
  const unit = read("systemd/egressip-agent.service");
  const [, stop = ""] = /^ExecStop=\/bin\/sh -c '(.+)'$/m.exec(unit) ?? [];
  const logind = (value: string) => ({
    // As dbus-send prints it.
    "dbus-send": `case "$*" in *login1*PreparingForShutdown) echo "method return time=1.2 sender=:1.2 -> destination=:1.4 serial=3 reply_serial=2"; echo "   variant       boolean ${value}";; esac`,
  });
  const systemd = (state: string, status: number) => ({
    systemctl: `[ "$*" = is-system-running ] && echo ${state}; exit ${status}`,
  });

  test("preStop: only while the machine prepares for its shutdown", async () => {
    expect(await drained(script, logind("true"))).toMatch(/^\/app\/egressip-agent\.js drain --timeout 10$/);
    expect(await drained(script, logind("false"))).toBe("");
    expect(await drained(script, { "dbus-send": "exit 1" })).toBe("");
  });

  test("ExecStop: only while systemd is stopping everything", async () => {
    const here = stop.replace("exec /usr/bin/node", "exec node");
    expect(here).not.toBe(stop);
    expect(await drained(here, systemd("stopping", 1))).toMatch(
      / \/usr\/lib\/egressip-agent\/egressip-agent\.js drain --timeout 10 --config \/etc\/egressip-agent\/config\.yaml$/,
    );
    for (const state of ["running", "degraded", "starting", "maintenance"])
      expect(await drained(here, systemd(state, state === "running" ? 0 : 1))).toBe("");
  });

  test("there is time for it", () => {
    const seconds = (text: string) => Number(/drain --timeout ([0-9]+)/.exec(text)?.[1]);
    expect(Number(/^TimeoutStopSec=([0-9]+)$/m.exec(unit)?.[1])).toBeGreaterThan(seconds(stop));
    const grace = /terminationGracePeriodSeconds: ([0-9]+)/.exec(read("kubernetes/daemonset.yaml"))?.[1];
    expect(Number(grace)).toBeGreaterThan(seconds(script) + 10);
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

test("whatever starts node gives it what the bundle's first line does", () => {
  expect([variables.length, flags.length]).toEqual([1, 1]);
  const [, entry = ""] = /^ENTRYPOINT (.+)$/m.exec(read("../Dockerfile")) ?? [];
  expect(JSON.parse(entry)).toEqual(expect.arrayContaining([...flags]));
  const [, start = ""] = /^ExecStart=(.+)$/m.exec(read("systemd/egressip-agent.service")) ?? [];
  expect(start.split(" ")).toEqual(expect.arrayContaining([...flags]));
  for (const variable of variables) {
    expect(read("../Dockerfile").split("\n")).toContain(`ENV ${variable}`);
    expect(read("systemd/egressip-agent.service").split("\n")).toContain(`Environment=${variable}`);
  }
});

test("the examples are YAML without an empty document", () => {
  for (const name of ["egressips", "namespaces", "nodes", "pods"]) {
    const documents = read(`examples/${name}.yaml`).split(/^---$/m);
    expect(documents.map((text) => typeof parse(text))).toEqual(documents.map(() => "object"));
  }
});

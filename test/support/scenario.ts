// Scenario folders of test/scenarios as values: the objects of each step, settings, packets, golden texts. In: a folder. Out: Scenario.
// A step holds what is added or replaced since the step before; a document `delete: [Kind/name]` takes objects away.
// The objects of common/ are there before the first step: the lab's nodes, namespaces and pods.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, parseAllDocuments } from "yaml";
import { gather, parseConfig, type Texts } from "../../agent/config.ts";
import { parseFacts } from "../../agent/inputs/facts-text.ts";
import { createObjectStore } from "../../agent/inputs/objects.ts";
import type { Objects } from "../../agent/model/build.ts";
import { decode, expand } from "../../agent/model/decode.ts";
import type { HostFacts } from "../../agent/model/facts.ts";
import { byCodeUnit } from "../../agent/model/names.ts";
import { type KubernetesObject, keyOf, type Problem } from "../../agent/model/objects.ts";
import { atOnce } from "../../agent/model/pieces.ts";
import type { GatewayMode, Settings } from "../../agent/model/settings.ts";
import type { LinkKind } from "./privileged.ts";
import { type Expectation, parsePackets } from "./scenario-packets.ts";

const folder = fileURLToPath(new URL("../scenarios/", import.meta.url));

export const modes: readonly GatewayMode[] = ["local", "shared"];

/** A manifest as it was written, by `keyOf` of what it decodes to; in the order of first appearance. */
export type Manifests = ReadonlyMap<string, unknown>;

export interface ScenarioStep {
  /** File name without extension: `1-start`. */
  readonly name: string;
  /** All manifests of the moment. */
  readonly manifests: Manifests;
  readonly packets: readonly Expectation[];
}

export interface Scenario {
  readonly name: string;
  /** Flags of settings.yaml on top of those of the lab's cluster. */
  readonly flags: Texts;
  /** Facts of node1 before the first step, as `egressip-agent facts` printed them: of the lab, or with host.sh run on it. */
  readonly hostFactsPath: string;
  /** A script for node1 that makes it another host than the lab's; undefined for none. */
  readonly hostScript: string | undefined;
  /** A kind of link that the script makes and not every kernel has, by its line `# needs: KIND`. */
  readonly needs: LinkKind | undefined;
  readonly steps: readonly ScenarioStep[];
}

/** What is said once for all scenarios: the lab's cluster. */
const labFlags: Texts = {
  node: "node1",
  manifests: "/nowhere",
  "cluster-networks": "10.244.0.0/16,fd00:10:244::/48",
  "service-networks": "10.96.0.0/16,fd00:10:96::/112",
};

export function flagsOf({ flags }: Scenario, mode: GatewayMode): Texts {
  return { ...labFlags, ...flags, "gateway-mode": mode };
}

export function settingsOf(scenario: Scenario, mode: GatewayMode): Settings {
  return parseConfig(gather(flagsOf(scenario, mode), {})).settings;
}

export function hostFacts({ hostFactsPath }: Scenario): HostFacts {
  return parseFacts(readFileSync(hostFactsPath, "utf8"));
}

export function goldenPath(scenario: Scenario, mode: GatewayMode): string {
  return join(folder, scenario.name, `${mode}-gateway.txt`);
}

export function loadScenarios(): readonly Scenario[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== "common")
    .map(({ name }) => loadScenario(name))
    .sort((a, b) => byCodeUnit(a.name, b.name));
}

function loadScenario(name: string): Scenario {
  const path = join(folder, name);
  const files = readdirSync(path).sort(byCodeUnit);
  const allowed =
    /^(\d+-[a-z0-9-]+(\.yaml)?|(packets|settings)\.yaml|host\.(sh|json)|(local|shared)-gateway\.txt)$/;
  for (const file of files) if (!allowed.test(file)) throw new Error(`${name}/${file}: what is this?`);
  const packets = parsePackets(readFileSync(join(path, "packets.yaml"), "utf8"), name);
  const flags = files.includes("settings.yaml")
    ? (parse(readFileSync(join(path, "settings.yaml"), "utf8"), { schema: "failsafe" }) as Texts)
    : {};
  const hasScript = files.includes("host.sh");
  const hostScript = hasScript ? readFileSync(join(path, "host.sh"), "utf8") : undefined;
  let manifests = addDocuments(new Map(), join(folder, "common"));
  const steps = files
    .filter((file) => /^\d/.test(file))
    .map((file): ScenarioStep => {
      const step = file.replace(/\.yaml$/, "");
      manifests = addDocuments(manifests, join(path, file));
      const expected = packets.get(step);
      if (expected === undefined) throw new Error(`${name}/packets.yaml says nothing of step ${step}`);
      return { name: step, manifests, packets: expected };
    });
  for (const step of packets.keys())
    if (!steps.some((known) => known.name === step)) throw new Error(`${name}/packets.yaml: no step ${step}`);
  return {
    name,
    flags,
    hostFactsPath: join(folder, hasScript ? `${name}/host.json` : "host.json"),
    hostScript,
    needs: /^# needs: (\S+)$/m.exec(hostScript ?? "")?.[1] as LinkKind | undefined,
    steps,
  };
}

/** A file's documents, or those of all YAML files of a folder, on top of what was there. */
function addDocuments(before: Manifests, path: string): Manifests {
  const files = statSync(path).isDirectory()
    ? readdirSync(path)
        .filter((file) => file.endsWith(".yaml"))
        .sort(byCodeUnit)
        .map((file) => join(path, file))
    : [path];
  const after = new Map(before);
  for (const file of files) {
    for (const document of parseAllDocuments(readFileSync(file, "utf8"), { schema: "core" })) {
      if (document.errors.length > 0) throw new Error(`${file}: ${document.errors[0]?.message}`);
      const value: unknown = document.toJS();
      if (value === null) continue;
      const gone = (value as { delete?: unknown }).delete;
      if (Array.isArray(gone)) {
        for (const key of gone.map(String))
          if (!after.delete(key)) throw new Error(`${file}: ${key} is not there to be deleted`);
      } else for (const item of expand(value)) after.set(nameOf(item), item);
    }
  }
  return after;
}

function nameOf(raw: unknown): string {
  const { kind, metadata } = raw as { kind: string; metadata: { name: string; namespace?: string } };
  return [kind, metadata.namespace, metadata.name].filter((part) => part !== undefined).join("/");
}

/** Decoded as the agent decodes files; the store keeps what one moment alone would not tell (a pod's last address). */
export type Read = (manifests: Manifests) => Objects;

export function createReader(): Read {
  const store = createObjectStore();
  let before: ReadonlyMap<string, KubernetesObject> = new Map();
  return (manifests) => {
    const problems: Problem[] = [];
    const objects = new Map<string, KubernetesObject>();
    for (const raw of manifests.values()) {
      const decoded = decode(raw);
      problems.push(...decoded.problems);
      if (decoded.object !== undefined) objects.set(keyOf(decoded.object), decoded.object);
    }
    const changed = [...new Set([...before.keys(), ...objects.keys()])]
      .filter((key) => JSON.stringify(before.get(key)) !== JSON.stringify(objects.get(key)))
      .sort(byCodeUnit);
    before = objects;
    return atOnce(store({ objects, problems: problems.sort(byText), changed }));
  };
}

function byText(a: Problem, b: Problem): number {
  const text = ({ object, path, text: words }: Problem) => `${object} ${path} ${words}`;
  return byCodeUnit(text(a), text(b));
}

// The examples as a folder that tests may change: every change is a rename, as an editor or kubelet makes it.
// In: packaging/examples. Out: a directory for --manifests, and objects as the API server would give them.
import { cp, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";

const examples = fileURLToPath(new URL("../../packaging/examples", import.meta.url));

/** An object of Kubernetes as far as tests change it. */
export interface KubernetesManifest {
  readonly apiVersion?: string;
  readonly kind?: string;
  metadata: { namespace?: string; name: string; labels?: Record<string, string>; [more: string]: unknown };
  [more: string]: unknown;
}

/** Replaces a file of a folder whole. JSON is YAML. */
export async function writeFolder(
  directory: string,
  file: string,
  objects: readonly unknown[],
): Promise<void> {
  const text = objects.map((object) => `---\n${JSON.stringify(object)}\n`).join("");
  await writeFile(join(directory, `.${file}.new`), `# ${objects.length} objects\n${text}`);
  await rename(join(directory, `.${file}.new`), join(directory, file));
}

export class Manifests {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async ofExamples(): Promise<Manifests> {
    const directory = await mkdtemp(join(tmpdir(), "egressip-manifests-"));
    await cp(examples, directory, { recursive: true });
    return new Manifests(directory);
  }

  remove(): Promise<void> {
    return rm(this.directory, { recursive: true, force: true });
  }

  write(file: string, objects: readonly unknown[]): Promise<void> {
    return writeFolder(this.directory, file, objects);
  }

  async delete(file: string): Promise<void> {
    await rm(join(this.directory, file));
  }

  async read(file: string): Promise<KubernetesManifest[]> {
    const documents = parseAllDocuments(await readFile(join(this.directory, file), "utf8"));
    return documents.map((document) => document.toJS() as KubernetesManifest);
  }

  /** Changes the objects of this name in place. */
  async edit(file: string, name: string, change: (object: KubernetesManifest) => void): Promise<void> {
    const objects = await this.read(file);
    for (const object of objects) if (object.metadata.name === name) change(object);
    await this.write(file, objects);
  }

  /** Pods of these names get the label that the examples' egress IPs select by. */
  async label(app: string, ...pods: readonly string[]): Promise<void> {
    const objects = await this.read("pods.yaml");
    for (const { metadata } of objects) if (pods.includes(metadata.name)) metadata.labels = { app };
    await this.write("pods.yaml", objects);
  }
}

export interface EgressIPOptions {
  readonly addresses: readonly string[];
  readonly app: string;
  /** Where the addresses are assigned, node1 by default; or the node of each. */
  readonly node?: string | readonly string[];
  readonly env?: string;
}

export function egressIP(
  name: string,
  { addresses, app, node = "node1", env = "prod" }: EgressIPOptions,
): object {
  return {
    apiVersion: "k8s.ovn.org/v1",
    kind: "EgressIP",
    metadata: { name, uid: `uid-of-${name}`, creationTimestamp: "2026-11-01T10:00:00Z" },
    spec: {
      egressIPs: addresses,
      namespaceSelector: { matchLabels: { env } },
      podSelector: { matchLabels: { app } },
    },
    status: {
      items: addresses.map((address, at) => ({
        node: typeof node === "string" ? node : node[at],
        egressIP: address,
      })),
    },
  };
}

export interface PodOptions {
  readonly name: string;
  readonly namespace?: string;
  readonly app: string;
  readonly node?: string;
  readonly addresses: readonly string[];
}

export function pod({ name, namespace = "shop", app, node = "node1", addresses }: PodOptions): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name, uid: `uid-of-${namespace}-${name}`, labels: { app } },
    spec: { nodeName: node, containers: [{ name: "main", image: "registry.example/main:1" }] },
    status: { phase: "Running", podIP: addresses[0], podIPs: addresses.map((ip) => ({ ip })) },
  };
}

// What tests do with the objects of an API server, as its administrator and by its own protocol: no kubectl needed. In: objects as in
// manifests. Out: the server's answers; an answer that is not a success is thrown as a Refusal.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Agent, request } from "undici";
import { parse, parseAllDocuments } from "yaml";
import { until } from "../support/until.ts";

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Readonly<Record<string, unknown>> & { readonly name: string };
  readonly [more: string]: unknown;
}

/** What names an object; of one that was read, that object. */
export interface Named {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: unknown };
}

export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: number;
  /** `Forbidden`, `Invalid`, … */
  readonly reason: string;

  constructor(what: string, status: number, body: string) {
    let said: { readonly message?: string; readonly reason?: string } = {};
    try {
      said = JSON.parse(body) as typeof said;
    } catch {
      // Not of the API's: the text is all there is.
    }
    super(`${what}: ${status} ${said.message ?? body}`);
    this.status = status;
    this.reason = said.reason ?? "";
  }
}

interface Options {
  readonly body?: unknown;
  readonly contentType?: string;
  readonly accept?: string;
  /** Asks as this one, not as the administrator. */
  readonly token?: string;
}

const MERGE = "application/merge-patch+json";
/** Of whom the server says in managedFields that it wrote. */
const WRITER = "fieldManager=lab&force=true";

export class Objects {
  readonly #url: string;
  readonly #asAdmin: Agent;
  readonly #asToken: Agent;

  constructor(url: string, file: (name: string) => string) {
    this.#url = url;
    const ca = readFileSync(file("ca.crt"));
    const [cert, key] = [readFileSync(file("admin.crt")), readFileSync(file("admin.key"))];
    this.#asAdmin = new Agent({ connect: { ca, cert, key } });
    this.#asToken = new Agent({ connect: { ca } });
  }

  async close(): Promise<void> {
    await Promise.all([this.#asAdmin.destroy(), this.#asToken.destroy()]);
  }

  async request(method: string, path: string, options: Options = {}): Promise<unknown> {
    const { body, token, contentType = "application/json", accept = "application/json" } = options;
    const response = await request(`${this.#url}${path}`, {
      method,
      dispatcher: token === undefined ? this.#asAdmin : this.#asToken,
      headers: {
        accept,
        ...(body === undefined ? {} : { "content-type": contentType }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.body.text();
    if (response.statusCode >= 300) throw new Refusal(`${method} ${path}`, response.statusCode, text);
    return JSON.parse(text);
  }

  // ---- reading -------------------------------------------------------------------------------------

  async get(object: Named): Promise<KubeObject> {
    return (await this.request("GET", pathOf(object))) as KubeObject;
  }

  async isThere(object: Named): Promise<boolean> {
    return await this.get(object).then(
      () => true,
      (error: unknown) => {
        if (error instanceof Refusal && error.status === 404) return false;
        throw error;
      },
    );
  }

  /** All of a kind, in a namespace or everywhere. */
  async list(apiVersion: string, kind: string, namespace?: string): Promise<readonly KubeObject[]> {
    const path = collectionOf({ apiVersion, kind, metadata: { name: "", namespace } });
    return ((await this.request("GET", path)) as { readonly items: readonly KubeObject[] }).items;
  }

  // ---- writing -------------------------------------------------------------------------------------

  /**
   * As `kubectl apply`, one after the other: what an object had and has no more goes, status included. Returns the last answer of
   * each. What only a server can give (uid, times, versions) is left out of what is sent.
   */
  async apply(...objects: readonly KubeObject[]): Promise<readonly KubeObject[]> {
    const applied: KubeObject[] = [];
    for (const object of objects) {
      const { status, ...rest } = bare(object);
      const apart = STATUS_APART.has(object.kind);
      const body = apart || status === undefined ? rest : { ...rest, status };
      const contentType = "application/apply-patch+yaml";
      let answer = await this.request("PATCH", `${pathOf(object)}?${WRITER}`, { body, contentType });
      if (apart && status !== undefined) answer = await this.patchStatus(object, status);
      if (object.kind === "CustomResourceDefinition") await this.#served(object);
      applied.push(answer as KubeObject);
    }
    return applied;
  }

  /** Quicker than `apply` for many: sixteen at once. Those with a status of its own have it a moment later. */
  async create(...objects: readonly KubeObject[]): Promise<void> {
    const rest = objects.values();
    const worker = async () => {
      for (const object of rest) {
        await this.request("POST", collectionOf(object), { body: bare(object) });
        if (STATUS_APART.has(object.kind) && object["status"] !== undefined)
          await this.patchStatus(object, object["status"]);
      }
    };
    await Promise.all(Array.from({ length: 16 }, worker));
  }

  /** A JSON merge patch: null takes a key away. */
  async patch(object: Named, body: unknown): Promise<KubeObject> {
    return (await this.request("PATCH", pathOf(object), { body, contentType: MERGE })) as KubeObject;
  }

  /** Of kinds that have it apart, as the kubelet writes it for pods and nodes. */
  async patchStatus(object: Named, status: unknown): Promise<KubeObject> {
    const path = `${pathOf(object)}/status`;
    return (await this.request("PATCH", path, { body: { status }, contentType: MERGE })) as KubeObject;
  }

  /**
   * Gone when this returns. A pod goes at once, as when its kubelet has said that it ended; with a namespace goes what is in it, which
   * in a cluster is a controller's work.
   */
  async remove(object: Named): Promise<void> {
    await this.request("DELETE", `${pathOf(object)}?gracePeriodSeconds=0`);
    if (object.kind === "Namespace") await this.#finalize(object);
    await until(async () => !(await this.isThere(object)), `${object.kind} ${object.metadata.name} is gone`);
  }

  /** As `kubectl delete pod` leaves it until its kubelet has ended it: there, with a deletionTimestamp. */
  async startRemoving(object: Named): Promise<void> {
    await this.request("DELETE", pathOf(object));
  }

  async #finalize(namespace: Named): Promise<void> {
    const { name } = namespace.metadata;
    for (const resource of ["pods", "events", "serviceaccounts", "configmaps"])
      await this.request("DELETE", `/api/v1/namespaces/${name}/${resource}?gracePeriodSeconds=0`);
    const body = { apiVersion: "v1", kind: "Namespace", metadata: { name }, spec: { finalizers: [] } };
    await this.request("PUT", `/api/v1/namespaces/${name}/finalize`, { body });
  }

  async #served(definition: KubeObject): Promise<void> {
    const isServed = async () => {
      const { status } = (await this.get(definition)) as { readonly status?: Conditions };
      return status?.conditions?.some(({ type, status }) => type === "Established" && status === "True");
    };
    await until(isServed, `${definition.metadata.name} is served`, 20_000);
  }
}

interface Conditions {
  readonly conditions?: readonly { readonly type: string; readonly status: string }[];
}

const STATUS_APART: ReadonlySet<string> = new Set(["Pod", "Node", "DaemonSet"]);

function bare({ metadata, ...rest }: KubeObject): Omit<KubeObject, "metadata"> {
  const { uid: _, creationTimestamp: __, resourceVersion: ___, managedFields: ____, ...kept } = metadata;
  return { ...rest, metadata: kept };
}

function pathOf(object: Named): string {
  return `${collectionOf(object)}/${object.metadata.name}`;
}

function collectionOf({ apiVersion, kind, metadata: { namespace } }: Named): string {
  const root = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const inside = namespace === undefined ? "" : `/namespaces/${String(namespace)}`;
  const plural = kind.toLowerCase().replace(/y$/, "ie").replace(/s$/, "se");
  return `${root}${inside}/${plural}s`;
}

/** The objects of a folder with a kustomization, in its order: for `apply`. Of a kustomization no more than resources. */
export function readKustomization(folder: string): readonly KubeObject[] {
  const { resources } = parse(readFileSync(join(folder, "kustomization.yaml"), "utf8")) as {
    readonly resources: readonly string[];
  };
  return resources.flatMap((name) => readManifests(join(folder, name)));
}

export function readManifests(file: string): readonly KubeObject[] {
  return parseAllDocuments(readFileSync(file, "utf8")).map((one) => one.toJS() as KubeObject);
}

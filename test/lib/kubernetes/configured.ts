// A cluster that a test asks: kubeconfig in a folder of its own, client with short times.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Cluster, type ClusterParts, openCluster } from "../../../lib/kubernetes/index.ts";
import type { ScriptedServer } from "./scripted-server.ts";

export interface Folder extends AsyncDisposable {
  readonly path: string;
  write(name: string, text: string): Promise<string>;
}

export async function folder(): Promise<Folder> {
  const made = await mkdtemp(path.join(tmpdir(), "kubernetes-"));
  return {
    path: made,
    write: async (name, text) => {
      const file = path.join(made, name);
      await writeFile(file, text);
      return file;
    },
    [Symbol.asyncDispose]: () => rm(made, { recursive: true, force: true }),
  };
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** A kubeconfig for it, as text; `user` is what its user has. */
export const kubeconfig = (server: { readonly url: string }, ca: string, user: object): string =>
  JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "test",
    clusters: [{ name: "c", cluster: { server: server.url, "certificate-authority-data": base64(ca) } }],
    contexts: [{ name: "test", context: { cluster: "c", user: "u" } }],
    users: [{ name: "u", user }],
  });

/** Short enough for a test, long enough to be told apart. */
export const quick: ClusterParts = { backoff: { least: 5, most: 40 }, absentMs: 5, idleMs: 20_000 };

export async function clusterOf(
  server: ScriptedServer,
  parts: ClusterParts = {},
  options: { readonly timeoutMs?: number; readonly connections?: number } = {},
): Promise<Cluster & AsyncDisposable> {
  await using place = await folder();
  const file = await place.write("config", kubeconfig(server, server.ca.cert, { token: "secret" }));
  // Read at the start only: a minute is longer than a test.
  const cluster = await openCluster({ kubeconfig: file, ...options }, { ...quick, ...parts });
  return Object.assign(cluster, { [Symbol.asyncDispose]: () => cluster.close() });
}

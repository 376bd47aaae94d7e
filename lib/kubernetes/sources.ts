// Where the configuration is: a kubeconfig, or the service account of the pod we are in. In: options and environment. Out: a
// loaded KubeConfig with the context that is meant, or ConfigurationError. Order as kubectl's, but for the last step: where
// nothing is configured there is no server, not one on localhost.
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import type { KubeConfig } from "@kubernetes/client-node/dist/config.js";
import { parse } from "yaml";
import { nextTurn } from "../turns/index.ts";
import { ConfigurationError } from "./errors.ts";
import type { OpenOptions } from "./types.ts";

const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

export interface Loaded {
  readonly config: KubeConfig;
  /** Of the files that were read: another one is another configuration. */
  readonly text: string;
}

export async function loadConfig(options: OpenOptions, environment = process.env): Promise<Loaded> {
  // A second and 80 MB where not bundled, of which the models of all APIs are most; its index takes twice that.
  const { KubeConfig } = await import("@kubernetes/client-node/dist/config.js");
  await nextTurn();
  const config = new KubeConfig();
  const files = kubeconfigs(options, environment);
  const texts = files.map((file) => {
    try {
      return readFileSync(file, "utf8");
    } catch (cause) {
      throw new ConfigurationError(`kubeconfig ${file}: ${(cause as Error).message}`, cause);
    }
  });
  if (files.length === 0) inCluster(config, options, environment);
  for (const [at, file] of files.entries()) {
    try {
      const one = at === 0 ? config : new KubeConfig();
      one.loadFromFile(file);
      takeTokenFiles(one, texts[at] as string, path.dirname(file));
      if (at > 0) config.mergeConfig(one, true);
    } catch (cause) {
      throw new ConfigurationError(`kubeconfig ${file}: ${(cause as Error).message}`, cause);
    }
  }
  choose(config, options, files);
  return { config, text: texts.join("\0") };
}

function kubeconfigs(
  { kubeconfig }: OpenOptions,
  { KUBECONFIG }: Readonly<Record<string, string | undefined>>,
): readonly string[] {
  if (kubeconfig !== undefined) return [kubeconfig];
  const named = (KUBECONFIG ?? "").split(path.delimiter).filter((file) => file !== "");
  if (named.length > 0) {
    // As kubectl: of several those that are there.
    const there = named.filter((file) => existsSync(file));
    return there.length > 0 ? there : named;
  }
  const home = path.join(homedir(), ".kube", "config");
  return existsSync(home) ? [home] : [];
}

function inCluster(
  config: KubeConfig,
  { server, root = "" }: OpenOptions,
  environment: Readonly<Record<string, string | undefined>>,
): void {
  if (!existsSync(`${root}${SERVICE_ACCOUNT}/token`))
    throw new ConfigurationError(
      `no cluster is configured: no kubeconfig given, none in $KUBECONFIG or ~/.kube/config, and no service account in ${SERVICE_ACCOUNT}`,
    );
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = environment;
  if (server === undefined && (!host || !port))
    throw new ConfigurationError(
      "there is a service account, and no KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: say which server to ask",
    );
  config.loadFromCluster(root);
}

/** client-node 2.0.1 knows `token-file`, which nobody writes, and not `tokenFile`, which is what kubectl knows. */
function takeTokenFiles(config: KubeConfig, text: string, directory: string): void {
  const { users } = parse(text) as {
    users?: readonly { name: string; user?: { tokenFile?: string } }[];
  };
  config.users = config.users.map((user) => {
    const tokenFile = users?.find(({ name }) => name === user.name)?.user?.tokenFile;
    if (tokenFile === undefined) return user;
    const { token, ...rest } = user;
    const config = { tokenFile: path.resolve(directory, tokenFile) };
    return { ...rest, authProvider: { name: "tokenFile", config } };
  });
}

function choose(config: KubeConfig, { context, server }: OpenOptions, files: readonly string[]): void {
  const where = files.length === 0 ? "service account" : `kubeconfig ${files.join(", ")}`;
  if (context !== undefined && files.length > 0) config.setCurrentContext(context);
  const wanted = config.getCurrentContext();
  const found = config.getContextObject(wanted);
  if (found === null) {
    const names = config.getContexts().map(({ name }) => name);
    const which = wanted ? `no context ${wanted}` : "no current context";
    throw new ConfigurationError(`${where}: ${which}; there is ${names.sort().join(", ") || "none"}`);
  }
  const cluster = config.getCluster(found.cluster);
  if (cluster === null) throw new ConfigurationError(`${where}: no cluster ${found.cluster}`);
  if (config.getUser(found.user) === null) throw new ConfigurationError(`${where}: no user ${found.user}`);
  if (server === undefined) return;
  config.clusters = config.clusters.map((one) => (one.name === cluster.name ? { ...one, server } : one));
}

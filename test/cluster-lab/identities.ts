// Who asks an API server: tokens of service accounts and kubeconfigs. In: an account that is there. Out: text and files.
import { createPrivateKey, sign } from "node:crypto";
import { mkdtemp, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { stringify } from "yaml";
import type { Objects } from "./objects.ts";

export interface AccountName {
  readonly namespace: string;
  readonly name: string;
}

export interface AccountToken {
  /** An hour where left out. The server takes a token for a minute longer than it says. */
  readonly seconds?: number;
}

/** By TokenRequest, which gives none for less than ten minutes: those are signed here, with the server's own key and claims. */
export async function tokenOf(
  objects: Objects,
  keyFile: string,
  { namespace, name }: AccountName,
  { seconds = 3_600 }: AccountToken = {},
): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}`;
  if (seconds >= 600) {
    const body = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: seconds },
    };
    const answer = (await objects.request("POST", `${path}/token`, { body })) as {
      readonly status: { readonly token: string };
    };
    return answer.status.token;
  }
  const account = (await objects.request("GET", path)) as { readonly metadata: { readonly uid: string } };
  const now = Math.floor(Date.now() / 1000);
  const issuer = "https://kubernetes.default.svc";
  const claims = {
    ...{ iss: issuer, aud: [issuer], iat: now - 600, nbf: now - 600, exp: now + seconds },
    sub: `system:serviceaccount:${namespace}:${name}`,
    "kubernetes.io": { namespace, serviceaccount: { name, uid: account.metadata.uid } },
  };
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${encode({ alg: "RS256" })}.${encode(claims)}`;
  const signature = sign("RSA-SHA256", Buffer.from(text), createPrivateKey(await readFile(keyFile)));
  return `${text}.${signature.toString("base64url")}`;
}

/** The certificates to trust are named by their file, as the kubelet does for pods: they may be replaced. */
export async function writeKubeconfig(
  folder: string,
  server: string,
  who: { readonly token: string } | { readonly tokenFile: string } | "admin",
): Promise<string> {
  const user =
    who === "admin"
      ? { "client-certificate": join(folder, "admin.crt"), "client-key": join(folder, "admin.key") }
      : who;
  const file = join(await mkdtemp(join(folder, "kubeconfig-")), "config");
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "lab",
    clusters: [{ name: "lab", cluster: { server, "certificate-authority": join(folder, "ca.crt") } }],
    contexts: [{ name: "lab", context: { cluster: "lab", user: "lab" } }],
    users: [{ name: "lab", user }],
  };
  await writeFile(file, stringify(config));
  return file;
}

/**
 * What the kubelet mounts into a pod, replaced as the kubelet does it: `token`, `ca.crt` and `namespace` are links through `..data`,
 * which is a link to a folder of its own for each time.
 */
export async function mountAccount(
  mount: string,
  files: { readonly token: string; readonly "ca.crt": string; readonly namespace: string },
): Promise<void> {
  const fresh = await mkdtemp(join(mount, "..now-"));
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(fresh, name), text);
    await symlink(join("..data", name), join(mount, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
  await symlink(basename(fresh), join(mount, "..data.new"));
  await rename(join(mount, "..data.new"), join(mount, "..data"));
}

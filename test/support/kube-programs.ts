// A real kube-apiserver and etcd for tests. In: nothing. Out: where they are and which version, after they were made if they had to
// be (get-kube-apiserver.sh, four minutes, once for each machine). A newer pair goes first where there is one: in the folder that
// KUBEBUILDER_ASSETS names, or on PATH.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

export interface KubePrograms {
  readonly kubeApiserver: string;
  readonly etcd: string;
  /** `v1.20.2` */
  readonly version: string;
  /** Of that version: 20. */
  readonly minor: number;
}

export const getKubeApiserver = fileURLToPath(new URL("get-kube-apiserver.sh", import.meta.url));

export function kubeCache(): string {
  const { EGRESSIP_CACHE, XDG_CACHE_HOME } = process.env;
  const cache = EGRESSIP_CACHE || join(XDG_CACHE_HOME || join(homedir(), ".cache"), "egressip-agent");
  return join(cache, "kube-apiserver");
}

function programsIn(folder: string): KubePrograms | undefined {
  const [kubeApiserver, etcd] = [join(folder, "kube-apiserver"), join(folder, "etcd")];
  if (!existsSync(kubeApiserver) || !existsSync(etcd)) return undefined;
  const said = execFileSync(kubeApiserver, ["--version"], { encoding: "utf8" });
  const [, version, minor] = /^Kubernetes (v1\.(\d+)\.\S+)/.exec(said) ?? [];
  if (version === undefined) throw new Error(`${kubeApiserver} --version says ${said.trim()}`);
  return { kubeApiserver, etcd, version, minor: Number(minor) };
}

/** Those that are there already. */
export function presentKubePrograms(): KubePrograms | undefined {
  const { KUBEBUILDER_ASSETS, PATH = "" } = process.env;
  for (const folder of [KUBEBUILDER_ASSETS ?? "", ...PATH.split(delimiter), kubeCache()]) {
    const found = folder === "" ? undefined : programsIn(folder);
    if (found !== undefined) return found;
  }
  return undefined;
}

let programs: KubePrograms | undefined;
let reason: string | undefined;

function look(): void {
  if (programs !== undefined || reason !== undefined) return;
  programs = presentKubePrograms();
  if (programs !== undefined) return;
  // Waits for a run that was started before; and must not go on as the next one when nobody waits any more.
  const words = ["--pdeathsig", "TERM", "nice", "sh", getKubeApiserver, kubeCache()];
  const { status, stderr, error } = spawnSync("setpriv", words, { encoding: "utf8", maxBuffer: 1 << 26 });
  programs = presentKubePrograms();
  const said = stderr
    ?.trim()
    .split("\n")
    .at(-1)
    ?.replace(/^get-kube-apiserver: /, "");
  if (programs === undefined)
    reason = `no kube-apiserver: ${error?.message ?? (said || `exit status ${status}`)}`;
}

/**
 * Why there is no API server on this machine; undefined when there is. For a file that skips itself by name, which has to know
 * before its tests are collected: hence it waits.
 */
export function noKubePrograms(): string | undefined {
  look();
  return reason;
}

/** Throws the reason when they cannot be had. */
export function kubePrograms(): KubePrograms {
  look();
  if (programs === undefined) throw new Error(reason);
  return programs;
}

// Runs inside the node's namespace: a real API server on its loopback with many pods, the floors, and an agent over it. In: how many
// pods, egress IPs, events and turns. Prints figures.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { parseAllDocuments } from "yaml";
import { run } from "../../lib/exec/index.ts";
import { ApiServer } from "../cluster-lab/api-server.ts";
import type { KubeObject } from "../cluster-lab/objects.ts";
import { agentKubeconfig, egressIPDefinition } from "../support/cluster-source.ts";
import { flags, variables } from "../support/first-line.ts";
import { clusterPod } from "./cluster-pods.ts";
import { manifests, podAddresses } from "./manifests.ts";

export interface Reading {
  readonly ms: number;
  readonly cpu: number;
  readonly bytes: number;
}

export interface First {
  readonly ms: number;
  readonly cpu: number;
  /** Of `ms`: until the client was loaded. */
  readonly loaded: number;
  readonly stallLoading: number;
  readonly stall: number;
  readonly stallWriting: number;
  readonly rss: number;
  /** The most that it had been until then. */
  readonly peak: number;
  readonly peakWriting: number;
  readonly rounds: number;
  readonly took: Readonly<Record<string, number>>;
}

export interface KubernetesCost {
  readonly version: string;
  readonly filled: number;
  readonly pages: readonly Reading[];
  readonly server: readonly Reading[];
  readonly file: readonly Reading[];
  readonly first: readonly First[];
  readonly last: readonly { readonly stall: number; readonly rss: number; readonly peak: number }[];
  /** Milliseconds from before the request was sent, and from its answer, to a rule that is in the kernel. */
  readonly fromSent: readonly number[];
  readonly fromAnswer: readonly number[];
  readonly bare: readonly number[];
}

const [count = 0, egressIPs = 0, events = 0, turns = 0] = process.argv.slice(2).map(Number);
const script = (name: string) => fileURLToPath(new URL(name, import.meta.url));

await using api = await ApiServer.up();
const [cluster = ""] = manifests({ pods: 0, egressIPs, dual: false }).values();
await api.objects.apply(
  egressIPDefinition,
  ...parseAllDocuments(cluster).map((one) => one.toJS() as KubeObject),
);
const kubeconfig = await agentKubeconfig(api);
const begun = performance.now();
await api.store(
  Array.from({ length: count }, (_, index) => {
    const pod = clusterPod(index, egressIPs);
    return [`pods/${pod.metadata.namespace}/${pod.metadata.name}`, pod] as const;
  }),
);
const filled = performance.now() - begun;
// What it keeps in memory would else be told of them one by one for a while, and ends a watch that cannot follow.
await api.restart();

/** As it is installed: what is loaded, and how long that takes, is the bundle's. */
const bundled = join(api.folder, "bundle");
const bundle = await rolldown({ input: script("kubernetes-agent.ts"), platform: "node" });
await bundle.write({ dir: bundled, format: "esm" });
await bundle.close();

const lines = join(api.folder, "pods.jsonl");
async function floor(how: "keep" | "pages" | "server" | "file"): Promise<Reading> {
  const files = ["ca.crt", "admin.crt", "admin.key"].map((name) => api.file(name));
  const words = [script("kubernetes-floor.ts"), api.url, ...files, String(count), how, lines];
  const options = { timeoutMs: 300_000 };
  return JSON.parse((await run(process.execPath, words, options)).stdout) as Reading;
}

interface Told {
  readonly at: bigint;
  readonly lines: string;
}

async function agent(measure: (next: (address: string) => Promise<bigint>) => Promise<void>) {
  const state = process.env["EGRESSIP_STATE_DIR"] ?? "";
  rmSync(state, { recursive: true, force: true });
  const child = spawn(
    "env",
    [...variables, process.execPath, ...flags, join(bundled, "kubernetes-agent.js"), String(count)],
    {
      env: { ...process.env, EGRESSIP_SOURCE: "kubernetes", EGRESSIP_KUBECONFIG: kubeconfig },
      stdio: ["pipe", "pipe", "inherit"],
    },
  );
  const ended = once(child, "exit");
  const said = createInterface(child.stdout)[Symbol.asyncIterator]();
  const next = async (): Promise<unknown> => {
    const { value, done } = await said.next();
    if (done) throw new Error("the agent has ended");
    return JSON.parse(value as string);
  };
  const first = (await next()) as First;
  await measure(async (address) => {
    for (;;) {
      const { at, lines: written } = (await next()) as { readonly at: string; readonly lines: string[] };
      const told: Told = { at: BigInt(at), lines: written.join("\n") };
      if (told.lines.includes(address)) return told.at;
    }
  });
  child.stdin.end();
  const last = (await next()) as { readonly stall: number; readonly rss: number; readonly peak: number };
  await ended;
  return { first, last };
}

const fromSent: number[] = [];
const fromAnswer: number[] = [];
const milliseconds = (from: bigint, to: bigint) => Number(to - from) / 1e6;

/** Pods that appear without an address, as in a cluster, and then get it: the second is what is measured. */
async function manyEvents(next: (address: string) => Promise<bigint>): Promise<void> {
  for (let index = count; index < count + events; index++) {
    const { status, ...created } = clusterPod(index, egressIPs);
    const object = created as unknown as KubeObject;
    await api.objects.create(object);
    const [address = ""] = podAddresses(index, false);
    const sent = process.hrtime.bigint();
    await api.objects.patchStatus(object, status);
    const answered = process.hrtime.bigint();
    const there = await next(address);
    fromSent.push(milliseconds(sent, there));
    fromAnswer.push(milliseconds(answered, there));
  }
}

await floor("keep");
const pages: Reading[] = [];
const server: Reading[] = [];
const file: Reading[] = [];
const first: First[] = [];
const last: KubernetesCost["last"][number][] = [];
for (let turn = 0; turn < turns; turn++) {
  pages.push(await floor("pages"));
  server.push(await floor("server"));
  file.push(await floor("file"));
  const took = await agent(turn === turns - 1 ? manyEvents : async () => {});
  first.push(took.first);
  last.push(took.last);
}

const bare: number[] = [];
await run("ipset", ["create", "floor", "hash:ip"]);
for (let at = 0; at < events; at++) {
  const start = performance.now();
  await run("ipset", ["add", "floor", podAddresses(at, false)[0] ?? ""]);
  bare.push(performance.now() - start);
}
await run("ipset", ["destroy", "floor"]);
const cost: KubernetesCost = {
  version: api.version,
  filled,
  pages,
  server,
  file,
  first,
  last,
  fromSent,
  fromAnswer,
  bare,
};
process.stdout.write(JSON.stringify(cost));

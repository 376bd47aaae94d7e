// The API server as the source of objects, connected: the client, the last good state on disk, and the clock. In: settings. Out: an
// ObjectInput. Imported only where that is the source, since the client and what it needs are dear.
import { ConfigurationError, openCluster, systemClock } from "../lib/kubernetes/index.ts";
import { nextTurn } from "../lib/turns/index.ts";
import { type Config, ConfigError } from "./config.ts";
import { KINDS, type Kind, RESOURCES } from "./inputs/kubernetes/kinds.ts";
import { type LastGood, type LastGoodFile, lastGoodIn } from "./inputs/kubernetes/last-good.ts";
import { cutDown, filesOf } from "./inputs/kubernetes/recorded.ts";
import type { KubernetesTold } from "./inputs/kubernetes/told.ts";
import { openKubernetes } from "./inputs/kubernetes.ts";
import type { ObjectInput } from "./inputs/objects.ts";
import { decode } from "./model/decode.ts";
import type { Address } from "./model/ip.ts";
import type { Raw } from "./model/raw.ts";
import {
  annotationChange,
  annotationPatches,
  entriesOf,
  SECONDARY_KEY,
} from "./telemetry/reports/annotation.ts";
import { patchFirst } from "./telemetry/reports/patch-first.ts";
import { statusOf } from "./telemetry/reports/writer.ts";

export type { KubernetesTold };

export interface KubernetesOptions {
  /** Goes on with the last good state, and keeps it: a daemon does. What is to be done once waits for the server. */
  readonly lasting: boolean;
  onChange(): void;
  /** Of the last good state, which an agent can do without. */
  onFailure(error: Error): void;
}

/** A server that answers at all has listed everything by then, but for the largest clusters. */
const FIRST_WAIT_MS = 5_000;
const ONCE_WAIT_MS = 60_000;
/** How long what is hard to believe waits for a second list. */
const CONFIRM_MS = 30_000;

export async function connectKubernetes(
  config: Pick<Config, "source" | "settings" | "stateDirectory">,
  { lasting, onChange, onFailure }: KubernetesOptions,
): Promise<ObjectInput> {
  const { node } = config.settings;
  const file = lastGoodIn({
    stateDirectory: config.stateDirectory,
    node,
    now: () => new Date(),
    after,
    firstMs: 1_000,
    everyMs: 30_000,
    onFailure,
  });
  const lastGood = lasting ? await readOrNot(file, onFailure) : undefined;
  // This file and what it needs were loaded in this turn, and the client is as dear.
  await nextTurn();
  const cluster = await openAs(config.source);
  const input = openKubernetes({
    cluster,
    node,
    lastGood,
    onChange,
    clock: systemClock.now,
    now: () => new Date(),
    after,
    firstWaitMs: lasting ? FIRST_WAIT_MS : ONCE_WAIT_MS,
    confirmMs: CONFIRM_MS,
  });
  return {
    read: () => input.read(),
    told: () => input.told(),
    request: (...of) => cluster.request(...of),
    keep: ({ objects, snapshot }) => {
      const versions = objects.unconfirmed === undefined ? input.versions() : undefined;
      if (lasting && versions !== undefined)
        file.offer({ objects, selected: snapshot.served.selected, versions });
    },
    close: async () => {
      await file.flush().catch(onFailure);
      await input.close();
    },
  };
}

/** Everything once, as files by name. Rejects with an Error that names the kind that could not be listed in time. */
export async function recordKubernetes(
  config: Pick<Config, "source" | "settings">,
): Promise<ReadonlyMap<string, string>> {
  const { node } = config.settings;
  const cluster = await openAs(config.source);
  const recorded = new Map<Kind, ReadonlyMap<string, Raw>>();
  try {
    for (const kind of KINDS) {
      const isOwn = kind === "Pod" && ![...(recorded.get("EgressIP")?.values() ?? [])].some(isGivenBy(node));
      recorded.set(kind, await listed(cluster, kind, isOwn ? `spec.nodeName=${node}` : undefined));
    }
  } finally {
    await cluster.close();
  }
  return filesOf(recorded);
}

/**
 * Takes these out of what the own Node says is on its secondary links. Resolves to those that were there. Rejects with what the client
 * throws, also where somebody else has written the annotation at the same moment, twice.
 */
export async function withdrawSecondary(
  config: Pick<Config, "source" | "settings">,
  addresses: readonly Address[],
): Promise<readonly Address[]> {
  const { node } = config.settings;
  const cluster = await openAs(config.source);
  const leaving = new Set(addresses);
  try {
    for (let attempt = 1; ; attempt++) {
      // A list, since no object is ever asked for by its name (packaging/kubernetes/rbac.yaml).
      const { items } = (await cluster.request(
        "GET",
        `/api/v1/nodes?fieldSelector=metadata.name%3D${node}`,
      )) as {
        readonly items: readonly Raw[];
      };
      const [own] = items.map((raw) => decode({ ...raw, apiVersion: "v1", kind: "Node" } as Raw).object);
      const text = own?.kind === "Node" ? own.secondaryEgressIPsText : undefined;
      const there = entriesOf(text) ?? [];
      const rest = there.filter((address) => !leaving.has(address));
      const change = rest.length === there.length ? undefined : annotationChange(text, rest, true);
      if (change === undefined) return [];
      try {
        await patchFirst(cluster.request, `/api/v1/nodes/${node}`, annotationPatches(SECONDARY_KEY, change));
        return there.filter((address) => leaving.has(address));
      } catch (error) {
        if (attempt > 1 || statusOf(error as Error).code !== 422) throw error;
      }
    }
  } finally {
    await cluster.close();
  }
}

function isGivenBy(node: string): (raw: Raw) => boolean {
  return (raw) => {
    const { object } = decode(raw);
    return object?.kind === "EgressIP" && object.assignments.some((assignment) => assignment.node === node);
  };
}

function listed(
  cluster: Awaited<ReturnType<typeof openAs>>,
  kind: Kind,
  fieldSelector: string | undefined,
): Promise<ReadonlyMap<string, Raw>> {
  return new Promise((resolve, reject) => {
    const callOff = after(ONCE_WAIT_MS, () => {
      const why = reflection.state.failure?.message ?? "no answer";
      reflection.close();
      reject(new Error(`${cluster.server}: ${RESOURCES[kind].plural} not listed in time: ${why}`));
    });
    const reflection = cluster.reflect({
      resource: RESOURCES[kind],
      ...(fieldSelector === undefined ? {} : { fieldSelector }),
      project: (raw) => cutDown(kind, raw),
      onChange: () => {
        const { synced, absent } = reflection.state;
        if (!synced && !absent) return;
        callOff();
        reflection.close();
        resolve(reflection.objects);
      },
    });
  });
}

async function openAs(source: Config["source"]) {
  const { kubeconfig, server } = source.kind === "kubernetes" ? source : {};
  try {
    return await openCluster({
      userAgent: "egressip-agent",
      ...(kubeconfig === undefined ? {} : { kubeconfig }),
      ...(server === undefined ? {} : { server }),
    });
  } catch (error) {
    if (error instanceof ConfigurationError) throw new ConfigError(`--source kubernetes: ${error.message}`);
    throw error;
  }
}

/** What cannot be read is no last good state, and the server says all of it anyhow. */
async function readOrNot(
  file: LastGoodFile,
  onFailure: (error: Error) => void,
): Promise<LastGood | undefined> {
  try {
    return await file.read();
  } catch (error) {
    onFailure(error instanceof Error ? error : new Error(String(error)));
    return undefined;
  }
}

/** Keeps the process alive: who waits for a server that is away has nothing else to wait for. */
function after(ms: number, act: () => void): () => void {
  const timer = setTimeout(act, ms);
  return () => clearTimeout(timer);
}

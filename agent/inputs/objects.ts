// Decoded objects as the model wants them: one map a kind, new only when that kind changed. In: decoded objects that changed. Out: Objects.
// A pod whose address is unknown for a moment (kubelet restarted) keeps the one it had (known-faults BL-15).
import type { Cluster } from "../../lib/kubernetes/index.ts";
import type { Objects } from "../model/build.ts";
import type {
  EgressIP,
  KubernetesObject,
  Namespace,
  Node,
  Pod,
  Problem,
  Unconfirmed,
} from "../model/objects.ts";
import type { SelectedPod } from "../model/selection.ts";
import { changing, emptyShards, getFrom, type Shards } from "../model/shards.ts";
import type { KubernetesTold } from "./kubernetes/told.ts";

/** Where objects come from. */
export interface ObjectInput {
  /** Throws an Error when they cannot be said: never says "empty" for "unknown". */
  read(all: boolean): Promise<Objects>;
  /** How that is followed, where there is more to say than that it could be read. */
  told(): KubernetesTold | undefined;
  /** A round was made of these. */
  keep(round: {
    readonly objects: Objects;
    readonly snapshot: { readonly served: { readonly selected: Shards<SelectedPod> } };
  }): void;
  /** To tell something to the server that they are read from; undefined where there is none. */
  readonly request: Cluster["request"] | undefined;
  close(): Promise<void>;
}

export interface ObjectFacts {
  readonly objects: Pick<ReadonlyMap<string, KubernetesObject>, "get">;
  readonly problems: readonly Problem[];
  /** Keys that were added, changed or removed since the last time. */
  readonly changed: Iterable<string>;
  readonly unconfirmed?: Unconfirmed | undefined;
}

/** Pods at a time: a few milliseconds. */
const PIECE = 2048;

/** Objects from one change to the next. Pieces of the work are interrupted only if nothing else is given to it meanwhile. */
export function createObjectStore(): (facts: ObjectFacts) => Generator<undefined, Objects> {
  let egressIPs: ReadonlyMap<string, EgressIP> = new Map();
  let nodes: ReadonlyMap<string, Node> = new Map();
  let namespaces: ReadonlyMap<string, Namespace> = new Map();
  let pods: Shards<Pod> = emptyShards();
  return function* ({ objects, problems, changed, unconfirmed }) {
    const podsAfter = changing(pods);
    let looked = 0;
    const others = { EgressIP: new Map(egressIPs), Node: new Map(nodes), Namespace: new Map(namespaces) };
    const touched = new Set<string>();
    for (const key of changed) {
      const object = objects.get(key);
      const kind = key.slice(0, key.indexOf("/"));
      if (kind === "Pod") {
        podsAfter.set(key, object?.kind === "Pod" ? keepAddresses(getFrom(pods, key), object) : undefined);
        if (++looked % PIECE === 0) yield;
        continue;
      }
      touched.add(kind);
      const name = key.slice(kind.length + 1);
      const map = others[kind as keyof typeof others] as Map<string, KubernetesObject> | undefined;
      if (object === undefined) map?.delete(name);
      else map?.set(name, object);
    }
    if (touched.has("EgressIP")) egressIPs = others.EgressIP;
    if (touched.has("Node")) nodes = others.Node;
    if (touched.has("Namespace")) namespaces = others.Namespace;
    pods = podsAfter.end();
    return Object.freeze({ egressIPs, nodes, namespaces, pods, problems, unconfirmed });
  };
}

/** Unknown is not gone: only another pod (UID), an end, or a new address takes the old one away. */
function keepAddresses(before: Pod | undefined, now: Pod): Pod {
  const unknown = now.addresses.length === 0 && !now.finished && !now.hostNetwork;
  if (!unknown || before === undefined || before.uid !== now.uid || before.addresses.length === 0) return now;
  return Object.freeze({ ...now, addresses: before.addresses });
}

// The objects as an API server has them: kept current by watches, and believed when every kind was listed once. In: a Cluster, and
// the last good state. Out: Objects, which say so while they are not confirmed; how each kind is.
// Pods of all nodes are followed while this node has an egress IP to give, else its own alone. What it is to gain waits until all
// pods are known: packets of one that is not in the set would leave with the node's address.
import type { Cluster } from "../../lib/kubernetes/index.ts";
import type { Objects } from "../model/build.ts";
import { byCodeUnit } from "../model/names.ts";
import type { EgressIP, KubernetesObject, Problem, Unconfirmed } from "../model/objects.ts";
import { entriesOf, getFrom, sizeOf } from "../model/shards.ts";
import { Feed, type Scope } from "./kubernetes/feed.ts";
import { silentFor } from "./kubernetes/freshness.ts";
import { KINDS, type Kind, keptAs, objectOf, problemsOf, RESOURCES } from "./kubernetes/kinds.ts";
import type { LastGood } from "./kubernetes/last-good.ts";
import { type KubernetesTold, stateOf } from "./kubernetes/told.ts";
import { createObjectStore } from "./objects.ts";

export interface KubernetesParts {
  readonly cluster: Pick<Cluster, "server" | "reflect" | "close">;
  readonly node: string;
  /** What was last confirmed, by an earlier process; undefined for nothing. */
  readonly lastGood: LastGood | undefined;
  onChange(): void;
  readonly clock: () => number;
  readonly now: () => Date;
  after(ms: number, act: () => void): () => void;
  /** How long the first readings wait for the server, before they go on with the last good state or fail. */
  readonly firstWaitMs: number;
  readonly confirmMs: number;
}

export interface KubernetesInput {
  /** Throws an Error that names the kinds, as long as one of them was never listed and is in no last good state. */
  read(): Promise<Objects>;
  told(): KubernetesTold;
  /** As far as the server has come, by kind; undefined while what was read is not confirmed. */
  versions(): Readonly<Partial<Record<Kind, string>>> | undefined;
  close(): Promise<void>;
}

/** How long all pods are followed on when nothing is held any more: an egress IP that comes back would have them listed again. */
const NARROW_MS = 300_000;

export function openKubernetes(parts: KubernetesParts): KubernetesInput {
  const { cluster, node, lastGood, clock } = parts;
  const opened = clock();
  const store = createObjectStore();
  const problems = new Map<string, readonly Problem[]>();
  /** EgressIPs of which this node does not gain yet what it is to. */
  const deferred = new Set<string>();
  let objects: Objects = store(lastGood ?? { objects: new Map(), problems: [], changed: [] });
  let told: readonly Problem[] = [];
  let doubtedSince: string | undefined;
  let heldAt = Number.NEGATIVE_INFINITY;
  /** This node has an egress IP to give; undefined while that is to be looked up. */
  let holds: boolean | undefined;
  let waiting: (() => void)[] = [];

  const noticed = () => {
    for (const resume of waiting.splice(0)) resume();
    if (feeds.every((feed) => feed.isReady || lastGood !== undefined)) parts.onChange();
  };
  const feeds = KINDS.map(
    (kind) =>
      new Feed({
        kind,
        open: (scope, onChange) =>
          cluster.reflect({
            resource: RESOURCES[kind],
            ...(scope === "own" ? { fieldSelector: `spec.nodeName=${node}` } : {}),
            project: keptAs(kind),
            onChange,
          }),
        ...(kind === "Node" ? { own: node } : {}),
        known: () => knownOf(kind),
        knownVersion: lastGood?.versions[kind],
        clock,
        after: parts.after,
        confirmMs: parts.confirmMs,
        onChange: noticed,
      }),
  );
  const [egressIPFeed, nodeFeed, , podFeed] = feeds as unknown as readonly [Feed, Feed, Feed, Feed];

  const knownOf = (kind: Kind) => {
    const { pods, ...others } = objects;
    const map = { EgressIP: others.egressIPs, Node: others.nodes, Namespace: others.namespaces };
    if (kind === "Pod")
      return {
        objects: sizeOf(pods),
        has: (key: string) => getFrom(pods, `Pod/${key}`) !== undefined,
        keys: () => keysOf(pods),
      };
    const isKnown = lastGood !== undefined || nodeFeed.scope !== undefined;
    return {
      objects: map[kind].size,
      hasOwn: kind === "Node" && isKnown ? map.Node.has(node) : undefined,
      has: (key: string) => map[kind].has(key),
      keys: () => map[kind].keys(),
    };
  };

  /** Which pods are needed, as far as the server says it or the last good state; undefined while neither does. */
  const scopeWanted = (): Scope | undefined => {
    const isFollowed = egressIPFeed.scope !== undefined && !(egressIPFeed.state?.absent ?? false);
    if (!isFollowed && egressIPFeed.scope === undefined && lastGood === undefined) return undefined;
    holds ??= (isFollowed ? [...egressIPFeed.kept] : [...objects.egressIPs.values()]).some((kept) => {
      const object = objectOf(kept);
      return object?.kind === "EgressIP" && isGivenBy(node, object);
    });
    if (holds) heldAt = clock();
    return holds || (podFeed.scope === "all" && clock() - heldAt < NARROW_MS) ? "all" : "own";
  };

  /** Takes over what the server has told, and says which keys of the store that concerns. */
  const changes = (): readonly string[] => {
    const keys: string[] = [];
    for (const feed of feeds) {
      if (feed !== podFeed) feed.want("all");
      else {
        const scope = scopeWanted();
        if (scope !== undefined) feed.want(scope);
      }
      const before = keys.length;
      for (const key of feed.take()) keys.push(`${feed.kind}/${key}`);
      if (feed === egressIPFeed && keys.length > before) holds = undefined;
    }
    if (podFeed.scope === "all") {
      keys.push(...deferred);
      deferred.clear();
    }
    return keys;
  };

  const get = (key: string): KubernetesObject | undefined => {
    const slash = key.indexOf("/");
    const feed = feeds.find(({ kind }) => kind === key.slice(0, slash));
    const kept = feed?.get(key.slice(slash + 1));
    const found = problemsOf(kept);
    if (found.length > 0) problems.set(key, found);
    else problems.delete(key);
    const object = objectOf(kept);
    if (object?.kind !== "EgressIP" || podFeed.scope === "all" || !isGivenBy(node, object)) return object;
    deferred.add(key);
    return withoutGains(node, object, objects.egressIPs.get(object.name));
  };

  const doubts = (): ReadonlyMap<Kind, string> =>
    new Map(
      feeds.flatMap((feed) => {
        const why = feed.doubt();
        return why === undefined ? [] : [[feed.kind, why] as const];
      }),
    );

  const unconfirmed = (): Unconfirmed | undefined => {
    const doubted = doubts();
    if (doubted.size === 0) {
      doubtedSince = undefined;
      return undefined;
    }
    doubtedSince ??= parts.now().toISOString();
    return Object.freeze({
      since: doubtedSince,
      why: [...doubted].map(([kind, why]) => `${RESOURCES[kind].plural}: ${why}`).join("; "),
      assignments: !doubted.has("EgressIP") && !doubted.has("Node"),
    });
  };

  const isComplete = () => feeds.every((feed) => feed.scope !== undefined);

  const update = (): void => {
    const changed = changes();
    const before = problems.size;
    const doubt = unconfirmed();
    const fresh = new Map(changed.map((key) => [key, get(key)]));
    if (before > 0 || problems.size > 0 || doubt !== undefined || told.length > 0)
      told = Object.freeze([...inOrder(problems), ...problemOf(doubt, cluster.server, lastGood)]);
    objects = store({
      objects: fresh as ReadonlyMap<string, KubernetesObject>,
      problems: told,
      changed,
      unconfirmed: doubt,
    });
  };

  /** The first readings wait, so that a start does not begin with a failure, or with what was true some time ago. */
  const settle = async (): Promise<void> => {
    for (;;) {
      update();
      const left = opened + parts.firstWaitMs - clock();
      if (isComplete() || left <= 0) return;
      let callOff = () => {};
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
        callOff = parts.after(left, resolve);
      });
      callOff();
    }
  };

  update();
  return {
    read: async () => {
      await settle();
      if (!isComplete() && lastGood === undefined) {
        const missing = [...doubts()].map(([kind, why]) => `${RESOURCES[kind].plural} ${why}`);
        throw new Error(
          `${cluster.server}: ${missing.join("; ")}; nothing is changed before every kind was listed`,
        );
      }
      return objects;
    },
    told: () => ({
      source: "kubernetes",
      server: cluster.server,
      ready: feeds.every((feed) => feed.doubt() === undefined || feed.isUnknown),
      kinds: feeds.map((feed) => stateOf(feed, silentFor(feed.state ?? NEVER, clock()))),
      ...(objects.unconfirmed === undefined ? {} : { unconfirmed: objects.unconfirmed }),
      lastGood: lastGood?.written ?? null,
    }),
    versions: () =>
      objects.unconfirmed === undefined
        ? Object.fromEntries(
            feeds.flatMap(({ kind, version }) => (version === undefined ? [] : [[kind, version]])),
          )
        : undefined,
    close: async () => {
      waiting = [];
      for (const feed of feeds) feed.close();
      await cluster.close();
    },
  };
}

const NEVER = { lastContact: undefined };

function* keysOf(pods: Objects["pods"]): Generator<string> {
  for (const [key] of entriesOf(pods)) yield key.slice("Pod/".length);
}

function isGivenBy(node: string, { assignments }: EgressIP): boolean {
  return assignments.some((assignment) => assignment.node === node);
}

/** As it is, but for addresses that this node is to give and did not before. */
function withoutGains(node: string, object: EgressIP, before: EgressIP | undefined): EgressIP {
  const had = new Set(
    before?.assignments.flatMap((assignment) => (assignment.node === node ? [assignment.address] : [])),
  );
  const kept = object.assignments.filter(
    (assignment) => assignment.node !== node || had.has(assignment.address),
  );
  return kept.length === object.assignments.length
    ? object
    : Object.freeze({ ...object, assignments: Object.freeze(kept) });
}

function inOrder(problems: ReadonlyMap<string, readonly Problem[]>): readonly Problem[] {
  return [...problems].sort(([a], [b]) => byCodeUnit(a, b)).flatMap(([, of]) => of);
}

function problemOf(
  doubt: Unconfirmed | undefined,
  server: string,
  lastGood: LastGood | undefined,
): readonly Problem[] {
  if (doubt === undefined) return [];
  const known = lastGood === undefined ? "what was last known" : `the state of ${lastGood.written}`;
  const text = `${server}, ${doubt.why}; goes on with ${known}, and nothing is taken away, gained or announced until it is confirmed`;
  return [{ object: "kubernetes", path: "", text }];
}

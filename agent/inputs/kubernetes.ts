// The objects as an API server has them: kept current by watches, and believed when every kind was listed once. In: a Cluster, and
// the last good state. Out: Objects, which say so while they are not confirmed; how each kind is.
// Pods of all nodes are followed while this node has an egress IP to give, else its own alone. What it is to gain waits until all
// pods are known: packets of one that is not in the set would leave with the node's address.
import type { Cluster } from "../../lib/kubernetes/index.ts";
import { createRest, inTurns } from "../../lib/turns/index.ts";
import type { Objects } from "../model/build.ts";
import { byCodeUnit } from "../model/names.ts";
import type { EgressIP, KubernetesObject, Problem, Unconfirmed } from "../model/objects.ts";
import { atOnce } from "../model/pieces.ts";
import { entriesOf, getFrom, sizeOf } from "../model/shards.ts";
import { Feed, type Scope } from "./kubernetes/feed.ts";
import { silentFor } from "./kubernetes/freshness.ts";
import { type Kept, KINDS, type Kind, keptAs, objectOf, problemsOf, RESOURCES } from "./kubernetes/kinds.ts";
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

/** Objects at a time: a few milliseconds. */
const PIECE = 2048;

export function openKubernetes(parts: KubernetesParts): KubernetesInput {
  const { cluster, node, lastGood, clock } = parts;
  const opened = clock();
  const store = createObjectStore();
  const problems = new Map<string, readonly Problem[]>();
  /** EgressIPs of which this node does not gain yet what it is to. */
  const deferred = new Set<string>();
  let objects: Objects = atOnce(store(lastGood ?? { objects: new Map(), problems: [], changed: [] }));
  let said: readonly Problem[] = [];
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

  /** What the server has told since, all of one moment; whether that is believed is of the same. */
  const told = (): readonly (readonly [Feed, ReturnType<Feed["take"]>])[] => {
    const news = feeds.map((feed) => {
      const scope = feed === podFeed ? scopeWanted() : "all";
      if (scope !== undefined) feed.want(scope);
      const taken = feed.take();
      if (feed === egressIPFeed && taken.size > 0) holds = undefined;
      return [feed, taken] as const;
    });
    if (podFeed.scope !== "all" || deferred.size === 0) return news;
    const waited = new Map([...deferred].map((name) => [name, egressIPFeed.get(name)]));
    deferred.clear();
    return [...news, [egressIPFeed, waited]];
  };

  /** The object of a key in the store, and what is wrong with it. */
  const read = (key: string, kept: Kept | undefined): KubernetesObject | undefined => {
    const found = problemsOf(kept);
    if (found.length > 0) problems.set(key, found);
    else problems.delete(key);
    const object = objectOf(kept);
    if (object?.kind !== "EgressIP" || podFeed.scope === "all" || !isGivenBy(node, object)) return object;
    deferred.add(object.name);
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

  const taking = function* (): Generator<undefined, Objects> {
    const news = told();
    const doubt = unconfirmed();
    const before = problems.size;
    const changed = new Map<string, KubernetesObject | undefined>();
    for (const [{ kind }, taken] of news)
      for (const [name, kept] of taken) {
        const key = `${kind}/${name}`;
        changed.set(key, read(key, kept));
        if (changed.size % PIECE === 0) yield;
      }
    if (before > 0 || problems.size > 0 || doubt !== undefined || said.length > 0)
      said = Object.freeze([...inOrder(problems), ...problemOf(doubt, cluster.server, lastGood)]);
    return yield* store({
      objects: changed as ReadonlyMap<string, KubernetesObject>,
      problems: said,
      changed: changed.keys(),
      unconfirmed: doubt,
    });
  };
  /** Not again before it has ended: the loop reads one time after the other. */
  const update = async (): Promise<void> => {
    objects = await inTurns(taking());
  };

  /** The first readings wait, so that a start does not begin with a failure, or with what was true some time ago. */
  const settle = async (): Promise<void> => {
    const rest = createRest();
    for (;;) {
      await update();
      const left = opened + parts.firstWaitMs - clock();
      if (isComplete() || left <= 0) return;
      let callOff = () => {};
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
        callOff = parts.after(left, resolve);
      });
      callOff();
      // Who has listed something has worked on it in this turn.
      await rest();
    }
  };

  const opening = update();
  return {
    read: async () => {
      await opening;
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

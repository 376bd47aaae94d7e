// What this node reports to Kubernetes: events on EgressIP objects, and annotations of its own Node. In: Rounds. Out: writes.
// Beside the round and not a backend in it: a round must not wait for the API server, nor fail with it, and a backend that fails
// keeps everything from being retired. What makes it safe is the record in the state file, which has these addresses before they
// appear (known-faults BL-43); the annotation tells others of it as early as can be without waiting: it is sent when the plan is
// there, while the round begins, and an address leaves it only when the round has taken it off its link.
import type { Cluster } from "../../../lib/kubernetes/index.ts";
import type { Address } from "../../model/ip.ts";
import { lastOf } from "../../model/memo.ts";
import type { Node } from "../../model/objects.ts";
import type { Logger } from "../log.ts";
import { annotationChange, annotationPatches, SECONDARY_KEY } from "./annotation.ts";
import { EVENTS, eventBody, eventName, eventPatch } from "./event-object.ts";
import { eventsOf, type Reason, type Said, settled } from "./events.ts";
import { patchFirst } from "./patch-first.ts";
import { found, type Looked, type Standing, type Standings, standingsOf } from "./standing.ts";
import { type Clock, createWriter, statusOf, type Write } from "./writer.ts";
import { createWritten } from "./written.ts";

export interface ReportParts {
  readonly request: Cluster["request"];
  readonly log: Pick<Logger, "info" | "warn">;
  readonly clock?: Clock;
  readonly chance?: () => number;
  readonly date?: () => Date;
}

export interface Reports {
  /** Before a plan is carried out. Returns at once. */
  planned(planned: Planned): void;
  /** Of the round that carried it out. Returns at once. */
  took(looked: Looked): void;
  /** Writes nothing any more, and waits for nothing. */
  close(): void;
}

type Planned = Pick<Looked, "objects" | "snapshot" | "plan">;

/** Of who has which egress IP nothing is told that may not be so any more. */
const isConfirmed = ({ objects: { unconfirmed } }: Planned): boolean => unconfirmed?.assignments !== false;

/** An annotation of the own Node that lists addresses. */
interface ListAnnotation {
  readonly key: string;
  /** What the Node says. */
  readonly says: (node: Node) => string | undefined;
  /** What the plan has it say, others' entries included, and which of these are ours. */
  readonly listed: (plan: Looked["plan"]) => readonly Address[];
  readonly held: (snapshot: Looked["snapshot"]) => ReadonlySet<Address>;
  /** The round has brought the host to what is listed. */
  readonly isDone: (looked: Looked) => boolean;
}

const ANNOTATIONS: readonly ListAnnotation[] = [
  {
    key: SECONDARY_KEY,
    says: ({ secondaryEgressIPsText }) => secondaryEgressIPsText,
    listed: ({ annotation }) => annotation.listed,
    held: ({ held }) => new Set(held.filter(({ primary }) => !primary).map(({ address }) => address)),
    isDone: ({ plan, outcome }) =>
      (outcome.facts.record.secondaryHostEgressIPs ?? []).join() === plan.annotation.listed.join(),
  },
];

/** Rounds come in bursts: what became of the last one is looked at this long after it. */
const LOOK_MS = 200;

const systemClock: Clock = {
  now: () => performance.now(),
  after: (ms, call) => {
    const timer = setTimeout(call, ms).unref();
    return () => clearTimeout(timer);
  },
};

export function createReports({
  request,
  log,
  clock = systemClock,
  chance = Math.random,
  date = () => new Date(),
}: ReportParts): Reports {
  let planned: Planned | undefined;
  /** The last that was carried out: where it is not what is planned, it is being carried out. */
  let took: Looked | undefined;
  const annotations = () =>
    planned === undefined ? [] : nodeWrites(planned, planned === took ? took : undefined);
  const nodeWrites = annotationWrites(clock);
  const events = egressIPEvents(date);
  const writer = createWriter({
    request,
    clock,
    chance,
    wanted: function* () {
      yield* annotations();
      if (took !== undefined) yield* events.wanted(took);
    },
    onRefused: (subject, error) => {
      if (error === undefined) log.info({ subject }, "reportsRecovered");
      else log.warn({ subject, error: error.message }, "reportsFailing");
    },
  });
  let cancel: (() => void) | undefined;
  let isClosed = false;
  return {
    planned: (now) => {
      if (isClosed || !isConfirmed(now)) return;
      planned = now;
      for (const _ of annotations()) writer.look();
    },
    took: (looked) => {
      if (isClosed) return;
      events.begin(looked);
      if (!isConfirmed(looked)) return;
      planned = looked;
      took = looked;
      cancel ??= clock.after(LOOK_MS, () => {
        cancel = undefined;
        writer.look();
      });
    },
    close: () => {
      isClosed = true;
      cancel?.();
      writer.close();
    },
  };
}

type Wanted<T extends readonly unknown[]> = (...of: T) => Iterable<Write>;

function annotationWrites(clock: Clock): Wanted<[Planned, Looked | undefined]> {
  const writes = ANNOTATIONS.map((annotation) => oneAnnotation(annotation, clock));
  return function* (...of) {
    for (const write of writes) yield* write(...of);
  };
}

function oneAnnotation(
  { key, says: saysOf, listed: listedOf, held: heldOf, isDone }: ListAnnotation,
  clock: Clock,
): Wanted<[Planned, Looked | undefined]> {
  const changeOf = lastOf(annotationChange);
  const written = createWritten(clock);
  return function* ({ snapshot, plan }, took) {
    const { node: name } = snapshot.settings;
    const node = snapshot.nodes.get(name);
    if (node === undefined) return;
    const told = { says: saysOf(node), listed: listedOf(plan) };
    const { says, listed } = written.beside(told, heldOf(snapshot));
    const change = changeOf(says, listed, took !== undefined && isDone(took));
    if (change === undefined) return;
    yield {
      object: `Node/${name}`,
      kind: "nodes",
      send: async (request) => {
        await patchFirst(request, `/api/v1/nodes/${name}`, annotationPatches(key, change));
        written.wrote(told.says, change);
      },
    };
  };
}

/** What was said of an EgressIP, and how often by which event. */
interface Told {
  said: Standing | undefined;
  readonly counts: Map<Reason, number>;
}

interface EgressIPEvents {
  /** With the first round, and at once: the next one finds what this one has written, and would take it for what was there before. */
  begin(looked: Looked): void;
  readonly wanted: Wanted<[Looked]>;
}

function egressIPEvents(date: () => Date): EgressIPEvents {
  const told = new Map<string, Told>();
  let standings: Standings | undefined;
  let of: Looked | undefined;
  const begin = (looked: Looked) => {
    if (standings !== undefined) return;
    standings = found(looked);
    for (const [key, said] of standings) told.set(key, { said, counts: new Map() });
  };
  const look = (looked: Looked): Standings => {
    if (looked === of && standings !== undefined) return standings;
    of = looked;
    const now = standingsOf(looked, standings ?? new Map());
    for (const key of told.keys()) if (!now.has(key)) told.delete(key);
    standings = now;
    return now;
  };
  const wanted = function* (looked: Looked) {
    const { node } = looked.snapshot.settings;
    for (const [key, now] of look(looked)) {
      const entry = told.get(key) ?? { said: undefined, counts: new Map() };
      told.set(key, entry);
      entry.said = settled(entry.said, now);
      for (const event of eventsOf(entry.said, now, node)) yield eventWrite(entry, now, event, node, date);
    }
  };
  return { begin, wanted };
}

function eventWrite(entry: Told, now: Standing, event: Said, node: string, date: () => Date): Write {
  const { egressIP } = now;
  const name = eventName(egressIP, node, event.reason);
  const merge = (request: Cluster["request"], body: object) =>
    request("PATCH", `${EVENTS}/${name}`, { body, contentType: "application/merge-patch+json" });
  const write = async (request: Cluster["request"]): Promise<number> => {
    const known = entry.counts.get(event.reason);
    if (known !== undefined) {
      const patched = await merge(request, eventPatch(event, known + 1, date())).then(
        () => true,
        unless(404),
      );
      if (patched) return known + 1;
      // It was old enough to be taken away.
    }
    const created = await request("POST", EVENTS, { body: eventBody(egressIP, node, event, date()) }).then(
      () => true,
      unless(409),
    );
    if (created) return 1;
    // Of a process before this one. A patch of nothing changes nothing, and is answered with what is there.
    const { count, message } = (await merge(request, {})) as {
      readonly count?: unknown;
      readonly message?: unknown;
    };
    const before = typeof count === "number" ? count : 1;
    if (event.maybeSaid && message === event.text) return before;
    await merge(request, eventPatch(event, before + 1, date()));
    return before + 1;
  };
  return {
    object: `Event/${name}`,
    kind: "events",
    send: async (request) => {
      entry.counts.set(event.reason, await write(request));
      if (entry.said !== undefined) entry.said = { ...entry.said, ...event.says };
    },
  };
}

/** False for a refusal with this code; anything else is thrown on. */
function unless(code: number): (error: Error) => false {
  return (error) => {
    if (statusOf(error).code === code) return false;
    throw error;
  };
}

// One kind of object as it is believed: the reflection that counts, and the one that is to take its place when it is complete, for
// another scope or to confirm what is hard to believe. In: reflections. Out: objects to take over, and what is wrong.
// Make before break: the one that counts is closed when its successor was listed as a whole and is believed.
import type { Reflection } from "../../../lib/kubernetes/index.ts";
import { byCodeUnit } from "../../model/names.ts";
import { isStale } from "./freshness.ts";
import type { Kept, Kind } from "./kinds.ts";
import { doubtIn, type Known } from "./valve.ts";

/** Whether all objects of the kind are followed, or this node's own. */
export type Scope = "all" | "own";

export interface FeedParts {
  readonly kind: Kind;
  open(scope: Scope, onChange: () => void): Reflection<Kept>;
  /** Key of this agent's own object, of nodes. */
  readonly own?: string;
  /** What is known of the kind so far, from wherever. */
  known(): Pick<Known, "objects" | "hasOwn"> & { has(key: string): boolean; keys(): Iterable<string> };
  /** As far as the server had come when what is known was written down. */
  readonly knownVersion: string | undefined;
  readonly clock: () => number;
  /** Calls back once, later; gives what calls it off. */
  after(ms: number, act: () => void): () => void;
  /** How long what is hard to believe waits for a second list. */
  readonly confirmMs: number;
  onChange(): void;
}

/** A kind that is not there cannot say that its objects were deleted: they may be back with it (known-faults BL-91 iii). */
const ABSENT = "the server does not know this kind (is its CRD installed?)";

type Taken = ReadonlyMap<string, Kept | undefined>;
const NOTHING: Taken = new Map();

interface Opened {
  readonly scope: Scope;
  readonly reflection: Reflection<Kept>;
  /** Whatever it says is believed. */
  readonly confirms: boolean;
}

export class Feed {
  readonly #parts: FeedParts;
  #current: Opened | undefined;
  #next: Opened | undefined;
  #doubt: string | undefined;
  #callOff: (() => void) | undefined;
  /** Keys of which the news is held back. */
  readonly #held = new Set<string>();
  #listed = 0;
  /** As its count was when it was last looked at. */
  #behind = 0;
  /** A kind that was not there is, or may be: nothing of it was taken over yet. */
  #takesAll: boolean = false;
  #version: string | undefined;
  #closed: boolean = false;

  constructor(parts: FeedParts) {
    this.#parts = parts;
    this.#version = parts.knownVersion;
  }

  get kind(): Kind {
    return this.#parts.kind;
  }

  /** Of what counts; undefined before the first list that was believed. */
  get scope(): Scope | undefined {
    return this.#current?.scope;
  }

  get(key: string): Kept | undefined {
    return this.#current?.reflection.objects.get(key);
  }

  /** Of what counts; nothing before there is such. */
  get kept(): Iterable<Kept> {
    return this.#current?.reflection.objects.values() ?? [];
  }

  get state(): Reflection<Kept>["state"] | undefined {
    return (this.#current ?? this.#next)?.reflection.state;
  }

  get version(): string | undefined {
    return this.#version;
  }

  /** Why what is known may not be so: in words, as the end of a sentence about the kind. */
  doubt(): string | undefined {
    const { state } = this;
    if (this.#current !== undefined && state?.absent === true) return ABSENT;
    if (this.#doubt !== undefined) return this.#doubt;
    const why = state?.failure === undefined ? "" : `: ${state.failure.message}`;
    if (this.#current === undefined) return `not listed since the agent started${why}`;
    return state !== undefined && isStale(state, this.#parts.clock())
      ? `nothing was heard for too long${why}`
      : undefined;
  }

  /** Nothing is known of the kind, and the server does not know it either: no cause for alarm. */
  get isUnknown(): boolean {
    return this.#current?.reflection.state.absent === true && this.#parts.known().objects === 0;
  }

  /** From now on these are wanted. What counts stays until they are there. */
  want(scope: Scope): void {
    if ((this.#next ?? this.#current)?.scope === scope || this.#closed) return;
    // A second list of what is hard to believe is on its way, or has its time.
    if (this.#callOff !== undefined || this.#next?.confirms === true) return;
    if (this.#current?.scope === scope) {
      this.#replaceNext(undefined);
      return;
    }
    this.#openNext(scope, false);
  }

  /** Whether what is wanted can be taken over. */
  get isReady(): boolean {
    return isAnswered(this.#next) || this.#current !== undefined;
  }

  /** What is to be taken over, as it is at this moment; undefined for what is not there any more. */
  take(): Taken {
    const taken = isAnswered(this.#next) ? this.#takeNext(this.#next as Opened) : undefined;
    return taken ?? this.#takeCurrent();
  }

  close(): void {
    this.#closed = true;
    this.#callOff?.();
    this.#replaceNext(undefined);
    this.#current?.reflection.close();
  }

  #takeNext(next: Opened): Taken | undefined {
    const { absent } = next.reflection.state;
    const why = next.confirms || absent ? undefined : this.#doubtIn(next);
    if (why !== undefined) {
      this.#replaceNext(undefined);
      this.#suspect(why, next.scope);
      return undefined;
    }
    this.#current?.reflection.close();
    this.#current = next;
    this.#next = undefined;
    this.#trust();
    const { reflection } = next;
    reflection.takeChanged();
    this.#listed = reflection.state.counts.listed;
    this.#behind = reflection.state.counts.behind;
    this.#takesAll = absent;
    return absent ? NOTHING : this.#all(next);
  }

  #takeCurrent(): Taken {
    const current = this.#current;
    if (current === undefined) return NOTHING;
    const { state } = current.reflection;
    const changed = [...current.reflection.takeChanged()].sort(byCodeUnit);
    if (state.absent) {
      for (const key of changed) this.#held.add(key);
      return NOTHING;
    }
    if (state.counts.listed !== this.#listed) {
      this.#listed = state.counts.listed;
      const why = this.#doubtIn(current, state.counts.behind > this.#behind);
      this.#behind = state.counts.behind;
      if (why !== undefined) this.#suspect(why, current.scope);
      else if (this.#doubt !== undefined) {
        this.#replaceNext(undefined);
        this.#trust();
      }
    }
    if (this.#doubt === undefined) {
      if (this.#takesAll) return this.#all(current);
      this.#version = state.resourceVersion ?? this.#version;
      const all = [...this.#held, ...changed];
      this.#held.clear();
      return this.#get(all);
    }
    const known = this.#parts.known();
    const news: string[] = [];
    for (const key of changed)
      if (known.has(key)) this.#held.add(key);
      else news.push(key);
    return this.#get(news);
  }

  #get(keys: readonly string[]): Taken {
    return new Map(keys.map((key) => [key, this.get(key)]));
  }

  /** What was known from elsewhere goes with what is followed now. */
  #all({ reflection: { objects, state } }: Opened): Taken {
    this.#takesAll = false;
    this.#held.clear();
    this.#version = state.resourceVersion ?? this.#version;
    const all = new Map<string, Kept | undefined>();
    for (const key of this.#parts.known().keys()) all.set(key, undefined);
    for (const [key, kept] of objects) all.set(key, kept);
    return all;
  }

  #doubtIn({ scope, reflection: { objects, state } }: Opened, isBehind = false): string | undefined {
    const { own, known } = this.#parts;
    const { objects: count, hasOwn } = known();
    return doubtIn(
      { objects: count, hasOwn, resourceVersion: this.#version },
      {
        objects: objects.size,
        resourceVersion: state.listedVersion,
        isBehind,
        isNarrower: scope === "own" && this.#current?.scope === "all",
        ...(own === undefined ? {} : { hasOwn: objects.has(own) }),
      },
    );
  }

  #suspect(why: string, scope: Scope): void {
    this.#doubt = why;
    if (this.#callOff !== undefined || this.#next?.confirms === true) return;
    this.#callOff = this.#parts.after(this.#parts.confirmMs, () => {
      this.#callOff = undefined;
      this.#openNext(scope, true);
    });
  }

  #trust(): void {
    this.#doubt = undefined;
    this.#callOff?.();
    this.#callOff = undefined;
  }

  #openNext(scope: Scope, confirms: boolean): void {
    const { open, onChange } = this.#parts;
    // A list that is on its way is of no use to anybody yet.
    let opened: Opened | undefined;
    const reflection = open(scope, () => {
      if (isAnswered(opened)) onChange();
    });
    opened = { scope, reflection, confirms };
    this.#replaceNext(opened);
  }

  #replaceNext(next: Opened | undefined): void {
    this.#next?.reflection.close();
    this.#next = next;
  }
}

/** Listed as a whole, or there is no such kind. */
function isAnswered(opened: Opened | undefined): boolean {
  const { synced = false, absent = false } = opened?.reflection.state ?? {};
  return synced || absent;
}

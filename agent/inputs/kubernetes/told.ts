// How the API server is followed, for `status`. In: feeds. Out: plain objects. Pure.
import type { Unconfirmed } from "../../model/objects.ts";
import type { Feed } from "./feed.ts";
import type { Kind } from "./kinds.ts";

export interface KubernetesTold {
  readonly source: "kubernetes";
  readonly server: string;
  /** Every kind was listed, and what is known of it counts. */
  readonly ready: boolean;
  readonly kinds: readonly KindTold[];
  readonly unconfirmed?: Unconfirmed;
  /** When the state was written that this process began with, or null. */
  readonly lastGood: string | null;
}

interface KindTold {
  readonly kind: Kind;
  /** Doubtful: followed, but not believed, or silent for too long. */
  readonly state: "unsynced" | "absent" | "current" | "doubtful";
  readonly why: string | null;
  /** Which of them are followed. */
  readonly scope: "all" | "own" | null;
  /** Up to which state of the server it is followed; null while that is not known. */
  readonly resourceVersion: string | null;
  /** Seconds since a byte came; null before the first. */
  readonly silentSeconds: number | null;
  readonly failure: string | null;
  readonly counts: unknown;
}

export function stateOf(feed: Feed, silentMs: number | undefined): KindTold {
  const { kind, state, scope } = feed;
  const why = feed.doubt();
  const followed = why !== undefined ? "doubtful" : state?.absent === true ? "absent" : "current";
  return {
    kind,
    state: scope === undefined ? "unsynced" : followed,
    why: why ?? null,
    scope: scope ?? null,
    resourceVersion: state?.resourceVersion ?? null,
    silentSeconds: silentMs === undefined ? null : Math.round(silentMs / 1000),
    failure: state?.failure?.message ?? null,
    counts: state?.counts ?? null,
  };
}

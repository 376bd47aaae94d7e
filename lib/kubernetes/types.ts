// What the client of a Kubernetes API server gives and is given. Pure types.
// A Cluster is one pool of connections with one identity; a Reflection is a kept-current copy of one kind of object.

/** A kind of object as the API addresses it: group "" is the core group. */
export interface Resource {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
}

export interface RequestOptions {
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Of the body; `application/json` where left out. Says which patch it is. */
  readonly contentType?: string;
  readonly signal?: AbortSignal;
}

export interface Cluster {
  /** Where it is asked: `https://host:port`. */
  readonly server: string;
  /**
   * One request, one parsed JSON answer. Throws StatusError when the server says no (its code, reason, Retry-After),
   * UnreachableError when there was no answer at all or none in time, ParseError for one that is no JSON, and the signal's
   * reason where that ended it. Never tries twice: who asks knows what may be repeated.
   */
  request(method: string, path: string, options?: RequestOptions): Promise<unknown>;
  /** Lists and watches until closed. Never throws; how it is going stands in `state`. */
  reflect<T>(parts: ReflectionParts<T>): Reflection<T>;
  close(): Promise<void>;
}

export interface ReflectionParts<T> {
  readonly resource: Resource;
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Cuts an object down as its line arrives; undefined leaves it out. Its throwing leaves the object out and is counted. */
  project(raw: Readonly<Record<string, unknown>>): T | undefined;
  /** An object or the state is another. Comes in bursts; nothing is read from here. */
  onChange(): void;
}

export interface Reflection<T> {
  /** By `namespace/name`, or `name` where the kind has no namespaces. One live map; objects that did not change stay the same. */
  readonly objects: ReadonlyMap<string, T>;
  readonly state: ReflectionState;
  /** Keys added, changed, replaced or removed since the last call; in no order. */
  takeChanged(): readonly string[];
  close(): void;
}

export interface ReflectionState {
  /** Listed completely at least once since it was opened; stays so while the server is away. */
  readonly synced: boolean;
  /** The server does not know this kind (404): its CRD is not there, or not yet. Counts as an answer, and as empty. */
  readonly absent: boolean;
  /** What is wrong now; undefined while it is listing or watching well. */
  readonly failure: Error | undefined;
  /** Of performance.now(), when a byte last came; undefined before the first one. */
  readonly lastContact: number | undefined;
  /**
   * The same, when the copy was last known to be right: listed, moved on by a watch, or a watch taken from where it is. Answers that
   * are errors, and events that never come whole, are contact and no more.
   */
  readonly lastRight: number | undefined;
  /** The state of the server up to which the copy is right; undefined while that is not known. */
  readonly resourceVersion: string | undefined;
  /** Of the list that last replaced the copy: lower than what was known before, where the server's store was restored. */
  readonly listedVersion: string | undefined;
  readonly counts: ReflectionCounts;
}

/** Since it was opened. */
export interface ReflectionCounts {
  readonly lists: number;
  /** Lists that came to their end, and replaced the copy. */
  readonly listed: number;
  readonly watches: number;
  readonly events: number;
  /** 410: what happened meanwhile was not told, and is known from the new list only. */
  readonly gaps: number;
  /** Times that the server had an older state than the copy, of the whole or of an object: it was restored. It is listed then. */
  readonly behind: number;
  /** Objects of the same name with another UID. */
  readonly replaced: number;
  /** Lines or objects that could not be read. */
  readonly unread: number;
}

export interface OpenOptions {
  /** Path; where left out $KUBECONFIG, ~/.kube/config, or the service account of the pod we are in. */
  readonly kubeconfig?: string;
  /** Of the kubeconfig; its current one where left out. */
  readonly context?: string;
  /** Asked instead of the configured server: `https://host:port`. Its certificate has to be for that host. */
  readonly server?: string;
  readonly userAgent?: string;
  /** At most so many connections. 16. */
  readonly connections?: number;
  /** Milliseconds for the first byte of an answer, and for the whole answer of `request`. 30 000. */
  readonly timeoutMs?: number;
  /** For tests: before the path of the service account. */
  readonly root?: string;
}

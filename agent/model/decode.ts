// Kubernetes objects as `kubectl get -o yaml` prints them, cut down to the few fields the agent needs.
// In: parsed JSON or YAML of any shape. Out: a frozen object of objects.ts, and Problems for what is wrong.
// Never throws: one object someone got wrong must not take everybody else's egress IPs down. Pure.
import { decodeEgressIP } from "./kinds/egressip.ts";
import { type Meta, type MetaKind, metaOf } from "./kinds/meta.ts";
import { decodeNode } from "./kinds/node.ts";
import { decodeNamespace, decodePod } from "./kinds/pod.ts";
import type { KubernetesObject, Problem } from "./objects.ts";
import { describe, isObject, quote, type Raw, type Report, refuse } from "./raw.ts";

export interface Decoded<T = KubernetesObject> {
  readonly object?: T;
  readonly problems: readonly Problem[];
  /** A kind the agent does not read. Not a problem: folders and lists may hold anything. */
  readonly ignored?: true;
}

/** A kind that somebody reads: in which version, and how. */
export interface KnownKind<T> {
  readonly kind: MetaKind;
  readonly version: string;
  readonly decoder: (raw: Raw, meta: Meta, report: Report) => T | undefined;
}

type Kinds<T> = ReadonlyMap<string, KnownKind<T>>;

const kinds: Kinds<KubernetesObject> = new Map<string, KnownKind<KubernetesObject>>([
  ["EgressIP", { kind: "EgressIP", version: "k8s.ovn.org/v1", decoder: decodeEgressIP }],
  ["Node", { kind: "Node", version: "v1", decoder: decodeNode }],
  ["Namespace", { kind: "Namespace", version: "v1", decoder: decodeNamespace }],
  ["Pod", { kind: "Pod", version: "v1", decoder: decodePod }],
]);

const noProblems: readonly Problem[] = Object.freeze([]);
const ignored: Decoded<never> = Object.freeze({ problems: noProblems, ignored: true });

/**
 * The objects in what may be a list: `kind: List` as kubectl prints it, or `PodList` and the like as the API
 * answers, whose items carry no kind of their own and are given it here. Anything else is the only one of its
 * list. Never throws.
 */
export function expand(raw: unknown): readonly unknown[] {
  if (!isObject(raw)) return [raw];
  const { kind, apiVersion, items } = raw;
  if (typeof kind !== "string" || !kind.endsWith("List")) return [raw];
  // Go writes a nil slice as null
  if (items === null) return [];
  if (!Array.isArray(items)) return [raw];
  if (kind === "List") return items;
  const itemKind = kind.slice(0, -"List".length);
  return items.map((item: unknown) => (isObject(item) ? { apiVersion, kind: itemKind, ...item } : item));
}

/**
 * One object; lists go through `expand` first. `origin` is what problems call an object that has no usable
 * name. Never throws.
 */
export function decode(raw: unknown, origin = "unknown"): Decoded {
  return decodeAs(kinds, raw, origin);
}

/** The same of other kinds. */
export function decodeAs<T extends object>(of: Kinds<T>, raw: unknown, origin: string): Decoded<T> {
  const problems: Problem[] = [];
  let subject = origin;
  const report: Report = (path, text) => problems.push(Object.freeze({ object: subject, path, text }));
  const kind = kindOf(of, raw, report);
  if (kind === "ignored") return ignored;
  let object: T | undefined;
  if (kind !== undefined && isObject(raw)) {
    const { metadata } = raw;
    const meta = metaOf(metadata, kind.kind, report);
    if (meta !== undefined) {
      subject =
        meta.namespace === "" ? `${kind.kind}/${meta.name}` : `${kind.kind}/${meta.namespace}/${meta.name}`;
      object = kind.decoder(raw, meta, report);
    }
  }
  const found = problems.length === 0 ? noProblems : Object.freeze(problems);
  return Object.freeze(
    object === undefined ? { problems: found } : { object: Object.freeze(object), problems: found },
  );
}

function kindOf<T>(of: Kinds<T>, raw: unknown, report: Report) {
  if (!isObject(raw)) return refuse(report, "", `must be an object, not ${describe(raw)}`);
  const { kind, apiVersion } = raw;
  if (typeof kind !== "string") return refuse(report, "kind", `must be text, not ${describe(kind)}`);
  if (typeof apiVersion !== "string")
    return refuse(report, "apiVersion", `must be text, not ${describe(apiVersion)}`);
  if (kind === "List" || (kind.endsWith("List") && of.has(kind.slice(0, -"List".length))))
    return refuse(report, "items", "must be a list, and lists do not nest");
  const known = of.get(kind);
  // Another group's Node is another kind; another version of ours is one this agent is too old or too new
  // for.
  if (known === undefined || groupOf(apiVersion) !== groupOf(known.version)) return "ignored";
  if (apiVersion === known.version) return known;
  return refuse(report, "apiVersion", `must be ${known.version} for ${kind}, not ${quote(apiVersion)}`);
}

function groupOf(apiVersion: string): string {
  return apiVersion.slice(0, Math.max(0, apiVersion.indexOf("/")));
}

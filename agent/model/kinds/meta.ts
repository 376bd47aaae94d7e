// `metadata` of any kind: the names by which an object is known, checked; the rest handed on as it is.
// In: the raw metadata. Out: Meta, or a report and nothing when the object cannot be named. Pure.
import { isDnsLabel, isSubdomain } from "../names.ts";
import type { KubernetesObject } from "../objects.ts";
import { describe, isObject, quote, type Report, refuse } from "../raw.ts";

export interface Meta {
  readonly name: string;
  /** Empty but for pods. */
  readonly namespace: string;
  readonly uid: unknown;
  readonly created: unknown;
  /** deletionTimestamp. */
  readonly deletion: unknown;
  readonly labels: unknown;
  readonly annotations: unknown;
}

/** Kinds of the agent of a node, and of who assigns. */
export type MetaKind = KubernetesObject["kind"] | "EgressIPAM";

export function metaOf(metadata: unknown, kind: MetaKind, report: Report): Meta | undefined {
  const { name, namespace, uid, creationTimestamp, deletionTimestamp, labels, annotations } = isObject(
    metadata,
  )
    ? metadata
    : {};
  if (typeof name !== "string" || !(kind === "Namespace" ? isDnsLabel(name) : isSubdomain(name)))
    return refuse(report, "metadata.name", `${kind} must have a DNS name, not ${describe(name)}`);
  if (kind === "Pod" && !(typeof namespace === "string" && isDnsLabel(namespace)))
    return refuse(
      report,
      "metadata.namespace",
      `${kind} ${quote(name)} must have a DNS label, not ${describe(namespace)}`,
    );
  return {
    name,
    namespace: kind === "Pod" ? String(namespace) : "",
    uid,
    created: creationTimestamp,
    deletion: deletionTimestamp,
    labels,
    annotations,
  };
}

/** Empty when unknown. Kubernetes writes UUIDs but promises only that they differ. */
export function uidAt(raw: unknown, report: Report): string {
  if (raw === undefined || raw === null) return "";
  if (typeof raw === "string" && /^[\x21-\x7e]{0,128}$/.test(raw)) return raw;
  report("metadata.uid", `must be short printable text, not ${describe(raw)}`);
  return "";
}

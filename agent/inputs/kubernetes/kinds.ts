// The kinds that the agent reads from an API server, and what it keeps of each object as its line arrives. In: raw objects.
// Out: frozen decoded ones, with their problems where there are any; never the raw JSON.
import type { Resource } from "../../../lib/kubernetes/index.ts";
import { type Decoded, decode } from "../../model/decode.ts";
import type { KubernetesObject, Problem } from "../../model/objects.ts";
import type { Raw } from "../../model/raw.ts";

export type Kind = KubernetesObject["kind"];

/** Which node has which egress IP first: it decides what else has to be known. */
export const KINDS = ["EgressIP", "Node", "Namespace", "Pod"] as const satisfies readonly Kind[];

export const RESOURCES: Readonly<Record<Kind, Resource>> = {
  EgressIP: { group: "k8s.ovn.org", version: "v1", plural: "egressips" },
  Node: { group: "", version: "v1", plural: "nodes" },
  Namespace: { group: "", version: "v1", plural: "namespaces" },
  Pod: { group: "", version: "v1", plural: "pods" },
};

/** The object itself where nothing is wrong with it, as with nearly all: one thing less for each of many thousand pods. */
export type Kept = KubernetesObject | Decoded;

export function keptAs(kind: Kind): (raw: Raw) => Kept {
  return (raw) => {
    const decoded = decode(named(kind, raw), kind);
    return decoded.object !== undefined && decoded.problems.length === 0 ? decoded.object : decoded;
  };
}

/** What a list's items leave out, since the list says it. */
export function named(kind: Kind, raw: Raw): Raw {
  const { group, version } = RESOURCES[kind];
  return { ...raw, apiVersion: group === "" ? version : `${group}/${version}`, kind };
}

export function objectOf(kept: Kept | undefined): KubernetesObject | undefined {
  return kept === undefined || "problems" in kept ? kept?.object : kept;
}

export function problemsOf(kept: Kept | undefined): readonly Problem[] {
  return kept !== undefined && "problems" in kept ? kept.problems : NONE;
}

const NONE: readonly Problem[] = Object.freeze([]);

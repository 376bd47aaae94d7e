// Where the API has a kind of object, and how a request is written down. Pure.
import type { Resource } from "./types.ts";

/** `/api/v1/pods`, `/apis/k8s.ovn.org/v1/egressips`, `/api/v1/namespaces/shop/pods`. */
export function pathOf({ group, version, plural }: Resource, namespace?: string): string {
  const root = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  return `${root}${namespace === undefined ? "" : `/namespaces/${encodeURIComponent(namespace)}`}/${plural}`;
}

/** `pods`, `egressips.k8s.ovn.org`: as kubectl and RBAC write it. */
export const nameOf = ({ group, plural }: Resource): string => (group === "" ? plural : `${plural}.${group}`);

export function withQuery(path: string, query: Readonly<Record<string, string>> | undefined): string {
  const text = new URLSearchParams(query).toString();
  return text === "" ? path : `${path}?${text}`;
}

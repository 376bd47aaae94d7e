// EgressIPs of namespaces that opted in: as they are to be written, and as demands once they are. Pure.
// In: what ipam() wants, the EgressIPs there are. Out: manifests; demands.
import { sortedAddresses } from "../model/ip.ts";
import type { IpamResult, Wanted } from "./ipam.ts";
import { MADE_BY_KEY, MADE_FOR_KEY } from "./kinds/egressip.ts";
import type { Demand } from "./objects.ts";

export function manifestOf(name: string, { ipam, namespace, addresses }: Wanted) {
  return {
    apiVersion: "k8s.ovn.org/v1",
    kind: "EgressIP",
    metadata: { name, annotations: { [MADE_BY_KEY]: ipam, [MADE_FOR_KEY]: namespace } },
    spec: {
      egressIPs: addresses,
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
    },
  };
}

/** Whether the object asks for what it is to ask for, in any order. */
export function isAsWanted({ requested, madeFor }: Demand, { addresses, ipam }: Wanted): boolean {
  return (
    madeFor?.ipam === ipam &&
    requested.length === addresses.length &&
    requested.every((address) => addresses.includes(address))
  );
}

/** The EgressIPs as they are when all of it was written. */
export function demandsAfter(
  demands: readonly Demand[],
  { wanted, unwanted }: IpamResult,
): readonly Demand[] {
  const gone = new Set(unwanted);
  const left = new Map(demands.filter(({ name }) => !gone.has(name)).map((demand) => [demand.name, demand]));
  for (const [name, { ipam, namespace, addresses }] of wanted) {
    const madeFor = { ipam, namespace };
    left.set(name, { ...(left.get(name) ?? unborn(name)), madeFor, requested: sortedAddresses(addresses) });
  }
  return [...left.values()];
}

/** Younger than all that are there. */
function unborn(name: string): Demand {
  return {
    kind: "EgressIP",
    name,
    uid: "",
    version: "",
    created: "9999-01-01T00:00:00Z",
    requested: [],
    unreadable: [],
    items: [],
    hasAnnotations: true,
    mark: undefined,
    madeFor: undefined,
  };
}

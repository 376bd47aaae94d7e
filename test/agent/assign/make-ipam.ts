// EgressIPAMs and namespaces for tests, and what is there after everything wanted was written.
import { type IpamInput, ipam } from "../../../agent/assign/ipam.ts";
import type { Ipam, Pool } from "../../../agent/assign/kinds/egressipam.ts";
import type { Demand, Space } from "../../../agent/assign/objects.ts";
import { demandsAfter } from "../../../agent/assign/wanted.ts";
import { cidr } from "../make.ts";

interface Of {
  readonly value?: string;
  readonly reserved?: readonly string[];
}

export function pool(text: string, { value = "", reserved = [] }: Of = {}): Pool {
  return { cidr: cidr(text), labelValue: value, reserved: new Set(reserved) };
}

export function pools(name: string, ...all: readonly Pool[]): Ipam {
  return {
    kind: "EgressIPAM",
    name,
    created: "2026-01-01T00:00:00Z",
    deleting: false,
    topologyLabel: "zone",
    nodeSelector: [],
    pools: all,
    faults: [],
  };
}

export function space(name: string, optIn: string | undefined = "p", egressIPs?: string): Space {
  return { kind: "Namespace", name, created: "2026-01-01T00:00:00Z", optIn, egressIPs };
}

export interface World extends IpamInput {
  readonly ipams: readonly Ipam[];
  readonly namespaces: readonly Space[];
  readonly egressIPs: readonly Demand[];
}

export function world(of: Partial<World>): World {
  return { ipams: [], namespaces: [], nodes: [], egressIPs: [], ...of };
}

/** The same when everything that it comes to was written, with `change` on top. */
export function later(before: World, change: Partial<World> = {}): World {
  const result = ipam(before);
  const namespaces = before.namespaces.map((one) =>
    result.annotations.has(one.name) ? { ...one, egressIPs: result.annotations.get(one.name) } : one,
  );
  const egressIPs = demandsAfter(before.egressIPs, result);
  return { ...before, namespaces, egressIPs, ...change };
}

/** By namespace: what its annotation is when everything was written. */
export function annotations(of: World): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(later(of).namespaces.map(({ name, egressIPs }) => [name, egressIPs]));
}

/** Names of namespaces that something is said about. */
export function said(of: World): readonly string[] {
  return ipam(of).findings.map(({ object }) => object);
}

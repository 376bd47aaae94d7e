// How rows of egress IPs are named in the northbound database: the reference's scheme (sections B.1, B.2), with an owner. Pure.
import type { Family } from "./ip.ts";

export const OWNER_KEY = "k8s.ovn.org/owner-controller";
export const TYPE_KEY = "k8s.ovn.org/owner-type";
export const NAME_KEY = "k8s.ovn.org/name";
export const ID_KEY = "k8s.ovn.org/id";
/** Whose agent wrote the row: with one database for all nodes nobody takes away what is another node's. */
export const NODE_KEY = "egressip-agent/node";

/** The owner under which OVN-Kubernetes itself writes these rows, those of user-defined networks too. */
export const REFERENCE_OWNER = "default-network-controller";
export const OWNER_TYPE = "EgressIP";
const NETWORK = "default";

export type IpFamily = "ip4" | "ip6" | "ip";

export interface Ids {
  readonly owner: string;
  /** None for what all nodes of a zone share: whoever leads then, it stays the same row. */
  readonly node?: string;
}

/**
 * Ids of a policy or QoS row: the latter are built as if they were policies (quirk of the reference, part of the contract).
 * Keys in order, as they are read: there is one such object for each row.
 */
export function policyIds(
  { owner, node }: Ids,
  priority: number,
  name: string,
  family: IpFamily,
): Readonly<Record<string, string>> {
  const ids: Record<string, string> = node === undefined ? {} : { [NODE_KEY]: node };
  ids["ip-family"] = family;
  ids[ID_KEY] = `${owner}:${OWNER_TYPE}:${priority}:${name}:${family}:${NETWORK}`;
  ids[NAME_KEY] = name;
  ids[OWNER_KEY] = owner;
  ids[TYPE_KEY] = OWNER_TYPE;
  ids["network"] = NETWORK;
  ids["priority"] = String(priority);
  return ids;
}

/** NAT rows carry no network. */
export function natIds(
  { owner, node }: Ids,
  name: string,
  family: IpFamily,
): Readonly<Record<string, string>> {
  const ids: Record<string, string> = node === undefined ? {} : { [NODE_KEY]: node };
  ids["ip-family"] = family;
  ids[ID_KEY] = `${owner}:${OWNER_TYPE}:${name}:${family}`;
  ids[NAME_KEY] = name;
  ids[OWNER_KEY] = owner;
  ids[TYPE_KEY] = OWNER_TYPE;
  return ids;
}

/** A route carries no ids in the reference; ours does, since nothing else would tell uninstall whose it is. */
export function routeIds({ owner, node }: Ids): Readonly<Record<string, string>> {
  return { ...(node === undefined ? {} : { [NODE_KEY]: node }), [OWNER_KEY]: owner, [TYPE_KEY]: OWNER_TYPE };
}

export interface AddressSetName {
  readonly name: string;
  readonly ids: Readonly<Record<string, string>>;
}

/** Not the reference's: pods of other nodes that are given an egress IP by a node's gateway router. Each node has its own. */
export const ARRIVING_PODS = "egressip-arriving-pods";
const SERVED_PODS = "egressip-served-pods";
/** Addresses of all nodes. */
export const NODE_IPS = "node-ips";
const SETS = [NODE_IPS, SERVED_PODS] as const;
/** Sets whose members come and go with pods. */
export type PodSet = typeof SERVED_PODS | typeof ARRIVING_PODS;

export function addressSet(owner: string, set: (typeof SETS)[number], family: Family): AddressSetName {
  return named(owner, OWNER_TYPE, [set, `v${family}`, NETWORK], {
    [NAME_KEY]: set,
    "ip-family": `v${family}`,
    network: NETWORK,
  });
}

export function podSet({ owner, node }: Required<Ids>, set: PodSet, family: Family): AddressSetName {
  if (set === SERVED_PODS) return addressSet(owner, set, family);
  const { name, ids } = named(owner, OWNER_TYPE, [`${set}_${node}`, `v${family}`, NETWORK], {
    [NAME_KEY]: set,
    "ip-family": `v${family}`,
    network: NETWORK,
  });
  return { name, ids: { ...ids, [NODE_KEY]: node } };
}

/**
 * Sets that an owner's rows name, by name, with what they are for: no two may have one name, so what is called so is it. With those
 * that are a node's own.
 */
export function setsByName(owner: string, node?: string): ReadonlyMap<string, string> {
  return new Map(
    ([4, 6] as const).flatMap((family) => [
      ...SETS.map((set) => [addressSet(owner, set, family).name, `${set} v${family}`] as const),
      ...(node === undefined
        ? []
        : [[podSet({ owner, node }, ARRIVING_PODS, family).name, `${ARRIVING_PODS} v${family}`] as const]),
      [egressServiceSet(family).name, `services v${family}`] as const,
    ]),
  );
}

/** Another feature's set, which the exemptions name as well: its rows are only made to exist. */
export function egressServiceSet(family: Family): AddressSetName {
  const set = "egresssvc-served-pods";
  return named(REFERENCE_OWNER, "EgressService", [set, `v${family}`], {
    [NAME_KEY]: set,
    "ip-family": `v${family}`,
  });
}

function named(
  owner: string,
  type: string,
  keys: readonly string[],
  ids: Readonly<Record<string, string>>,
): AddressSetName {
  const id = [owner, type, ...keys].join(":");
  return {
    name: `a${fnv1a64(id)}`,
    ids: { ...ids, [ID_KEY]: id, [OWNER_KEY]: owner, [TYPE_KEY]: type },
  };
}

/** FNV-1a over the id, which is ASCII, 64 bits, in decimal: what a set is called where matches refer to it. */
function fnv1a64(text: string): bigint {
  let hash = 0xcbf29ce484222325n;
  for (let at = 0; at < text.length; at++)
    hash = ((hash ^ BigInt(text.charCodeAt(at))) * 0x100000001b3n) & 0xffffffffffffffffn;
  return hash;
}

/** `egressip-prod_shop/web-0`; names of objects cannot hold the divider. */
export function podRowName(
  egressIP: string,
  pod: { readonly namespace: string; readonly name: string },
): string {
  return `${egressIP}_${pod.namespace}/${pod.name}`;
}
